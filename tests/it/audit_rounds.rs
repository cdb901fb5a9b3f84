//! What reported rounds show: a decoder accepts as much as its rule predicts, less or more.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::audit::{
    AuditReader, AuditedDraft, AuditedSequence, DraftedOdds, ReportedCounts, ReportedRound,
    RoundAudit, RoundShape, RoundVerdict,
};
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::error::Error;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::SamplingParams;
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::model::zoo;
use specdec::tapes::tape::{AcceptanceRule, TapeSequence, Teacher, TokenOdds};

use crate::tape_support::sequence_of;

const K: usize = 4;
const TOKENS: usize = 40;
const PROMPT: [u32; 2] = [0, 1];

/// The accepted tokens of each round.
#[derive(Default)]
pub(super) struct Counts(pub(super) Vec<usize>);

impl Observer for Counts {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0.push(event.verdict.path.len());
        Ok(())
    }
}

/// Sequences of the decoder with the verifier of this rule, and their counts.
fn decoded(rule: AcceptanceRule, sequences: u32) -> Vec<(TapeSequence, Vec<usize>)> {
    let pair = zoo::toy("mixed").unwrap();
    let (target, draft) = (pair.target("target").unwrap(), pair.draft("draft").unwrap());
    let spec = MethodSpec {
        verifier: rule.verifier().to_owned(),
        num_speculative_tokens: K,
        ..MethodSpec::default()
    };
    let sequence = |repeat| {
        let method = spec.build(Some(&draft)).unwrap();
        let stop = StopRules::max_tokens(TOKENS);
        let mut generation = Generation::new(&target, method, &PROMPT, stop, None).unwrap();
        let mut chance = Seeded::new(Request { seed: 5, prompt: "rounds", repeat });
        let (clock, mut counts) = (RealClock::default(), Counts::default());
        generate(&mut generation, &target, &mut chance, &clock, &mut counts).unwrap();
        (sequence_of(&PROMPT, generation.new_tokens().to_vec(), TOKENS), counts.0)
    };
    (0..sequences).map(sequence).collect()
}

/// The verdict of an audit by a rule and a draft model with this temperature.
fn audited(
    sequences: &[(TapeSequence, Vec<usize>)],
    rule: AcceptanceRule,
    temperature: f64,
) -> RoundVerdict {
    let pair = zoo::toy("mixed").unwrap();
    let (target, draft) = (pair.target("target").unwrap(), pair.draft("draft").unwrap());
    let sampling = SamplingParams { temperature, ..SamplingParams::NEUTRAL };
    let draft = AuditedDraft { teacher: Teacher::new(&draft).unwrap(), sampling };
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, SamplingParams::NEUTRAL, Some(draft), &[K]).unwrap();
    reader.rounds = Some(RoundAudit::new(rule, Some(K)));
    let counts = |(sequence, accepted): &'_ (TapeSequence, Vec<usize>)| {
        (sequence.tokens.len(), accepted.clone())
    };
    let counts = sequences.iter().map(counts).collect::<Vec<_>>();
    let reported = counts.iter().map(|(tokens, accepted)| ReportedCounts {
        accepted,
        drafted: None,
        tokens: *tokens,
    });
    let shape = RoundShape::of(reported.clone(), Some(K)).unwrap();
    assert_eq!(shape, RoundShape { prompt_gives_one: false, bonus: true });
    for ((sequence, _), counts) in sequences.iter().zip(reported) {
        let rounds = shape.rounds(counts, Some(K));
        reader.read(AuditedSequence { sequence, rounds: Some(&rounds), seed: None }).unwrap();
    }
    reader.rounds.unwrap().verdict().unwrap()
}

/// Whether rounds differ: the e-value of the verdict reaches 1/level.
fn differs(found: &RoundVerdict) -> bool {
    found.log10_e >= 3.0
}

/// Catches: the odds of a drafted token include those of the tokens before it; the token that a
/// round rejects is not looked at.
#[test]
fn the_decoder_accepts_what_its_rules_do() {
    for rule in AcceptanceRule::ALL {
        let sequences = decoded(rule, 150);
        let own = audited(&sequences, rule, 1.0);
        assert!(!differs(&own) && own.rounds > 500, "{own:?}");
        for at in &own.positions {
            // Counts of Bernoulli draws, whose variance is at most reached/4.
            let error = (at.reached as f64 / 4.0).sqrt();
            assert!((at.accepted as f64 - at.expected).abs() < 5.0 * error, "{own:?}");
        }
        let cold = audited(&sequences, rule, 0.25);
        assert!(
            differs(&cold),
            "{rule:?}: another temperature of the draft is not found: {cold:?}"
        );
    }
}

/// If the decoder has another rule, the audit shows whether it accepts more or less.
#[test]
fn another_rule_is_detected() {
    let block = audited(&decoded(AcceptanceRule::Block, 600), AcceptanceRule::Token, 1.0);
    assert!(differs(&block) && block.log10_e_more > block.log10_e_fewer, "{block:?}");
    let matched = audited(&decoded(AcceptanceRule::Match, 100), AcceptanceRule::Token, 1.0);
    assert!(differs(&matched) && matched.log10_e_fewer > matched.log10_e_more, "{matched:?}");
}

/// Rounds of four positions with these odds, in which acceptance is `shift` more probable.
fn drawn(odds: &[f64], shift: f64, rounds: usize, seed: u64) -> RoundVerdict {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut audit = RoundAudit::new(AcceptanceRule::Token, Some(odds.len()));
    let all = odds.iter().map(|&ratio| TokenOdds { q: 0.1, ratio, race: None });
    // After the round comes one more token, at which no round may begin.
    let all = all.chain([TokenOdds { q: 0.1, ratio: 1.0, race: None }]).collect::<Vec<_>>();
    let all = DraftedOdds::ByToken(all);
    for _ in 0..rounds {
        let kept = |&&odds: &&f64| rng.random::<f64>() < odds + shift;
        let accepted = odds.iter().take_while(kept).count();
        audit.read(&all, &[ReportedRound { tokens: accepted + 1, accepted, drafted: None }]);
    }
    audit.verdict().unwrap()
}

/// In audits of exact rounds at level 0.01, no more than 1 % differ. Where acceptance is certain,
/// rounding makes no difference.
/// Catches: a rejection wins more than its odds allow.
#[test]
fn exact_rounds_seldom_differ() {
    for odds in [[0.5, 0.8, 0.3, 0.9], [1.0, 0.9995, 1.0, 0.7], [1.0, 1.0, 1.0, 1.0]] {
        let found = (0..500).filter(|&seed| drawn(&odds, 0.0, 200, seed).log10_e >= 2.0).count();
        // Of 500 with probability 0.01, more than 16 occur with probability 2e-5.
        assert!(found <= 16, "{odds:?}: {found}");
    }
}

#[test]
fn few_rounds_show_a_difference() {
    let odds = [0.5, 0.8, 0.3, 0.9];
    for (shift, more) in [(0.1, true), (-0.1, false)] {
        let found = drawn(&odds, shift, 1000, 3);
        assert!(differs(&found) && (found.log10_e_more > found.log10_e_fewer) == more, "{found:?}");
    }
}

/// A drafted token with q = p.
const CERTAIN: TokenOdds = TokenOdds { q: 0.5, ratio: 1.0, race: None };

/// A round is audited if all tokens that it drafts are part of the completion. Near the end a
/// decoder may draft fewer tokens than assumed.
/// Catches: a round counts although the end of the completion may have shortened its draft.
#[test]
fn rounds_at_the_end_are_left_out() {
    let audited = |tokens: usize| {
        let mut audit = RoundAudit::new(AcceptanceRule::Token, Some(K));
        let odds = vec![CERTAIN; tokens];
        let round = |tokens, accepted| ReportedRound { tokens, accepted, drafted: None };
        audit.read(&DraftedOdds::ByToken(odds.clone()), &[round(2, 1), round(K, K - 1)]);
        audit.verdict().unwrap().rounds
    };
    assert_eq!((audited(2 + K), audited(3 + K)), (1, 2));
}

/// Certain acceptances are no evidence, however often they occur.
/// Catches: each certain acceptance wins a little.
#[test]
fn certain_acceptances_win_nothing() {
    let odds = vec![CERTAIN; 50_001];
    let mut audit = RoundAudit::new(AcceptanceRule::Token, Some(K));
    let round = ReportedRound { tokens: K + 1, accepted: K, drafted: None };
    audit.read(&DraftedOdds::ByToken(odds.clone()), &vec![round; 10_000]);
    let verdict = audit.verdict().unwrap();
    assert_eq!((verdict.rounds, verdict.log10_e_more), (10_000, 0.0));
}

fn shape(sequences: &[(&[usize], usize)], k: Option<usize>) -> Option<[bool; 2]> {
    let counts = |&(accepted, tokens)| ReportedCounts { accepted, drafted: None, tokens };
    let shape = RoundShape::of(sequences.iter().map(counts), k);
    shape.map(|shape| [shape.prompt_gives_one, shape.bonus])
}

/// Catches: every round is taken to have a bonus token.
#[test]
fn counts_of_several_completions_show_the_shape_of_rounds() {
    assert_eq!(shape(&[(&[2, 0, 4], 9)], Some(4)), None, "the last token may be the prompt's");
    assert_eq!(shape(&[(&[2, 0, 4], 10)], Some(4)), Some([true, true]));
    // Without the prompt's token, rounds of 3, 1 and 1 tokens give these five.
    assert_eq!(shape(&[(&[2, 0, 4], 9), (&[2, 0, 0], 5)], Some(4)), Some([false, true]));
    assert_eq!(shape(&[(&[2, 4, 4, 0], 12)], Some(4)), Some([false, false]));
    assert_eq!(shape(&[(&[2, 4, 4, 0], 12)], None), None);
    assert_eq!(shape(&[(&[2, 4, 4, 1], 20)], Some(4)), None, "too few tokens are reported");
}

/// Catches: the last round keeps a token behind the end.
#[test]
fn the_end_of_a_completion_cuts_its_last_round() {
    let shape = RoundShape { prompt_gives_one: true, bonus: true };
    let counts = ReportedCounts { accepted: &[1, 4], drafted: Some(&[4, 4]), tokens: 5 };
    let tokens = shape.rounds(counts, None).into_iter().map(|round| round.tokens);
    assert_eq!(tokens.collect::<Vec<_>>(), [1, 2, 2]);
}

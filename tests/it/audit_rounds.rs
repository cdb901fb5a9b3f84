//! What told rounds tell: that a decoder accepts what its rule does, fewer or more.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::audit::{
    AuditReader, AuditedDraft, AuditedText, RoundAudit, RoundShape, RoundVerdict, ToldCounts,
    ToldRound,
};
use specdec::chance::{Request, Seeded};
use specdec::clock::RealClock;
use specdec::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::error::Error;
use specdec::model::zoo;
use specdec::round::RoundEvent;
use specdec::sampling::SamplingParams;
use specdec::tape::{ChainLaw, TapeText, Teacher, TokenOdds};

use crate::tape_support::text_of;

const K: usize = 4;
const TOKENS: usize = 40;
const PROMPT: [u32; 2] = [0, 1];

/// The accepted tokens of each round.
#[derive(Default)]
struct Counts(Vec<usize>);

impl Observer for Counts {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0.push(event.verdict.path.len());
        Ok(())
    }
}

/// Texts of the decoder with the verifier that has this rule, and their counts.
fn decoded(law: ChainLaw, texts: u32) -> Vec<(TapeText, Vec<usize>)> {
    let pair = zoo::toy("mixed").unwrap();
    let (target, draft) = (pair.target("target").unwrap(), pair.draft("draft").unwrap());
    let spec = MethodSpec {
        verifier: law.verifier().to_owned(),
        num_speculative_tokens: K,
        ..MethodSpec::default()
    };
    let text = |repeat| {
        let method = spec.build(Some(&draft)).unwrap();
        let stop = StopRules::max_tokens(TOKENS);
        let mut generation = Generation::new(&target, method, &PROMPT, stop, None).unwrap();
        let mut chance = Seeded::new(Request { seed: 5, prompt: "rounds", repeat });
        let (clock, mut counts) = (RealClock::default(), Counts::default());
        generate(&mut generation, &target, &mut chance, &clock, &mut counts).unwrap();
        (text_of(&PROMPT, generation.new_tokens().to_vec(), TOKENS), counts.0)
    };
    (0..texts).map(text).collect()
}

/// What an audit by a rule and a draft model with this temperature finds.
fn audited(texts: &[(TapeText, Vec<usize>)], law: ChainLaw, temperature: f64) -> RoundVerdict {
    let pair = zoo::toy("mixed").unwrap();
    let (target, draft) = (pair.target("target").unwrap(), pair.draft("draft").unwrap());
    let sampling = SamplingParams { temperature, ..SamplingParams::NEUTRAL };
    let draft = AuditedDraft { teacher: Teacher::new(&draft).unwrap(), sampling };
    let teacher = Teacher::new(&target).unwrap();
    let mut reader = AuditReader::new(teacher, SamplingParams::NEUTRAL, Some(draft), &[K]).unwrap();
    reader.rounds = Some(RoundAudit::new(law, Some(K)));
    let counts =
        |(text, accepted): &'_ (TapeText, Vec<usize>)| (text.tokens.len(), accepted.clone());
    let counts = texts.iter().map(counts).collect::<Vec<_>>();
    let told = counts.iter().map(|(tokens, accepted)| ToldCounts {
        accepted,
        drafted: None,
        tokens: *tokens,
    });
    let shape = RoundShape::of(told.clone(), Some(K)).unwrap();
    assert_eq!(shape, RoundShape { prompt_gives_one: false, bonus: true });
    for ((text, _), counts) in texts.iter().zip(told) {
        let rounds = shape.rounds(counts, Some(K));
        reader.read(AuditedText { text, rounds: Some(&rounds) }).unwrap();
    }
    reader.rounds.unwrap().verdict().unwrap()
}

/// A verdict's e-value reaches 1/level if rounds differ.
fn differs(found: &RoundVerdict) -> bool {
    found.log10_e >= 3.0
}

/// Catches: the odds of a drafted token include those of the tokens before it; the token that a
/// round rejects is not looked at.
#[test]
fn the_decoder_accepts_what_its_rules_do() {
    for law in ChainLaw::ALL {
        let texts = decoded(law, 150);
        let own = audited(&texts, law, 1.0);
        assert!(!differs(&own) && own.rounds > 500, "{own:?}");
        for at in &own.positions {
            // Counts of Bernoulli draws, whose variance is at most reached/4.
            let error = (at.reached as f64 / 4.0).sqrt();
            assert!((at.accepted as f64 - at.expected).abs() < 5.0 * error, "{own:?}");
        }
        let cold = audited(&texts, law, 0.25);
        assert!(differs(&cold), "{law:?}: the draft is not drawn at another temperature: {cold:?}");
    }
}

/// Of two rules, the one that accepts more is seen to.
#[test]
fn another_rule_is_noticed() {
    let block = audited(&decoded(ChainLaw::Block, 600), ChainLaw::Token, 1.0);
    assert!(differs(&block) && block.log10_e_more > block.log10_e_fewer, "{block:?}");
    let matched = audited(&decoded(ChainLaw::Match, 100), ChainLaw::Token, 1.0);
    assert!(differs(&matched) && matched.log10_e_fewer > matched.log10_e_more, "{matched:?}");
}

/// Rounds of four places whose odds are these, with accepted tokens that are `shift` more
/// probable.
fn drawn(odds: &[f64], shift: f64, rounds: usize, seed: u64) -> RoundVerdict {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut audit = RoundAudit::new(ChainLaw::Token, Some(odds.len()));
    let all = odds.iter().map(|&ratio| TokenOdds { q: 0.1, ratio, race: None });
    // Behind the round comes one token more, at which none may begin.
    let all = all.chain([TokenOdds { q: 0.1, ratio: 1.0, race: None }]).collect::<Vec<_>>();
    for _ in 0..rounds {
        let kept = |&&odds: &&f64| rng.random::<f64>() < odds + shift;
        let accepted = odds.iter().take_while(kept).count();
        audit.read(&all, &[ToldRound { tokens: accepted + 1, accepted, drafted: None }]);
    }
    audit.verdict().unwrap()
}

/// Audits at level 0.01 of rounds that accept what they should: no more than 1 % differ, and
/// where acceptance is certain, arithmetic does not make a difference.
/// Catches: a rejection wins more than its odds allow.
#[test]
fn exact_rounds_seldom_differ() {
    for odds in [[0.5, 0.8, 0.3, 0.9], [1.0, 0.9995, 1.0, 0.7], [1.0, 1.0, 1.0, 1.0]] {
        let found = (0..500).filter(|&seed| drawn(&odds, 0.0, 200, seed).log10_e >= 2.0).count();
        // Of 500 with probability 0.01, more than 16 come with probability 2e-5.
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

/// A round is looked at if all that it drafts is part of the text: near the end a decoder may
/// draft less than is taken to be.
/// Catches: a round counts although the end of the completion may have shortened its draft.
#[test]
fn rounds_at_the_end_are_left_out() {
    let looked_at = |tokens: usize| {
        let mut audit = RoundAudit::new(ChainLaw::Token, Some(K));
        let odds = vec![CERTAIN; tokens];
        let round = |tokens, accepted| ToldRound { tokens, accepted, drafted: None };
        audit.read(&odds, &[round(2, 1), round(K, K - 1)]);
        audit.verdict().unwrap().rounds
    };
    assert_eq!((looked_at(2 + K), looked_at(3 + K)), (1, 2));
}

/// What is certain tells nothing, however often it happens.
/// Catches: each certain acceptance wins a little.
#[test]
fn certain_acceptances_win_nothing() {
    let odds = vec![CERTAIN; 50_001];
    let mut audit = RoundAudit::new(ChainLaw::Token, Some(K));
    let round = ToldRound { tokens: K + 1, accepted: K, drafted: None };
    audit.read(&odds, &vec![round; 10_000]);
    let verdict = audit.verdict().unwrap();
    assert_eq!((verdict.rounds, verdict.log10_e_more), (10_000, 0.0));
}

fn shape(texts: &[(&[usize], usize)], k: Option<usize>) -> Option<[bool; 2]> {
    let counts = |&(accepted, tokens)| ToldCounts { accepted, drafted: None, tokens };
    let shape = RoundShape::of(texts.iter().map(counts), k);
    shape.map(|shape| [shape.prompt_gives_one, shape.bonus])
}

/// Catches: every round is taken to have a bonus token.
#[test]
fn counts_of_several_texts_tell_how_rounds_give_tokens() {
    assert_eq!(shape(&[(&[2, 0, 4], 9)], Some(4)), None, "the last token may be the prompt's");
    assert_eq!(shape(&[(&[2, 0, 4], 10)], Some(4)), Some([true, true]));
    // Without the prompt's token, rounds of 3, 1 and 1 give these five.
    assert_eq!(shape(&[(&[2, 0, 4], 9), (&[2, 0, 0], 5)], Some(4)), Some([false, true]));
    assert_eq!(shape(&[(&[2, 4, 4, 0], 12)], Some(4)), Some([false, false]));
    assert_eq!(shape(&[(&[2, 4, 4, 0], 12)], None), None);
    assert_eq!(shape(&[(&[2, 4, 4, 1], 20)], Some(4)), None, "too few tokens are told");
}

/// Catches: the last round keeps a token behind the end.
#[test]
fn the_end_of_a_text_cuts_its_last_round() {
    let shape = RoundShape { prompt_gives_one: true, bonus: true };
    let counts = ToldCounts { accepted: &[1, 4], drafted: Some(&[4, 4]), tokens: 5 };
    let tokens = shape.rounds(counts, None).into_iter().map(|round| round.tokens);
    assert_eq!(tokens.collect::<Vec<_>>(), [1, 2, 2]);
}

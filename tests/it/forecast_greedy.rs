//! Drawn and greedy drafts: what a tape holds about them, against the enumeration of the production
//! code, and what `specdec forecast` makes of it.

use specdec::core::params::{Params, Value};
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::model::{ToyPair, zoo};
use specdec::proof::{Probe, enumerate, target_distribution};
use specdec::tapes::forecasting::{GreedyForecast, greedy_forecasts};
use specdec::tapes::tape::{
    DRAWS, DraftStart, LevelScores, MAX_SIBLINGS, SiblingKind, SiblingScores, Tape, TapeDrafter,
    TapeLine, TapeScore, TapeSequence, Teacher, draft_starts, log_probs, score_sequence,
};

use crate::fixtures::near;
use crate::forecast_by_hand::{prompt_of, tape_of};
use crate::tape_support::{reader, sequence_of};

/// Sums of some thousand products in f64, taken in another order.
const ROUNDING: f64 = 1e-12;

/// Accepted tokens.
#[derive(Debug, Default)]
struct Accepted(f64);

impl Probe for Accepted {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        self.0 += weight * event.verdict.path.len() as f64;
    }
}

/// What the production rounds accept at the first position, by enumeration. A completion has two
/// tokens: the round after a rejection has no room for a draft.
fn enumerated(
    (pair, sampling): (&ToyPair, SamplingParams),
    (drafter, verifier): (&str, &str),
    params: &[(&str, Value)],
) -> f64 {
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let params = params.iter();
    let spec = MethodSpec {
        drafter: drafter.to_owned(),
        verifier: verifier.to_owned(),
        num_speculative_tokens: 1,
        sampling,
        params: params.fold(Params::default(), |all, (key, value)| all.with(key, value.clone())),
        ..MethodSpec::default()
    };
    let method = spec.build(Some(&draft)).unwrap();
    let stop = StopRules::max_tokens(2);
    let generation = Generation::new(&target, method, &pair.prompt, stop, None).unwrap();
    let mut accepted = Accepted::default();
    enumerate(&target, generation, &mut [&mut accepted]).unwrap();
    accepted.0
}

/// All completions of two tokens with their probabilities and scores.
fn scored(
    pair: &ToyPair,
    sampling: SamplingParams,
) -> Vec<(f64, TapeSequence, TapeScore, TapeScore)> {
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let sampler = Sampler::new(sampling.clone()).unwrap();
    let samplers = std::slice::from_ref(&sampler);
    let [mut p, mut q] = [&target, &draft].map(|model| Teacher::new(model).unwrap());
    let all = target_distribution(&target, &sampler, &pair.prompt, 2).unwrap();
    let scored = all.into_iter().map(|(tokens, mass)| {
        let mut sequence = sequence_of(&pair.prompt, tokens, 2);
        sequence.log_p = Some(log_probs(&mut p, &sampler, &sequence).unwrap());
        let target = reader(&mut p, &sampler);
        let at_once = score_sequence(&mut q, samplers, Some(target), &sequence).unwrap();
        let spec = MethodSpec {
            num_speculative_tokens: 2,
            sampling: sampling.clone(),
            ..MethodSpec::default()
        };
        let method = spec.build(Some(&draft)).unwrap();
        let target = reader(&mut p, &sampler);
        let from = (pair.vocab, &[][..]);
        let from = draft_starts(method, None, from, &sequence, 2, Some(target)).unwrap();
        (mass, sequence, at_once.into_iter().next().unwrap(), from)
    });
    scored.collect()
}

/// Catches: greedy tokens are the most probable ones of p; the ceiling of draws is that of another
/// number or kind; the scores of drafts from every token on are those of another position.
#[test]
fn a_level_accepts_what_production_rounds_accept() {
    let neutral = SamplingParams::default();
    let cooler = SamplingParams { temperature: 0.5, top_p: 0.9, ..neutral.clone() };
    let mut decided = [0, 0];
    let mut cases =
        ["mixed", "close", "gaps"].map(|name| (name.to_owned(), neutral.clone())).to_vec();
    cases.extend(["mixed", "apart"].map(|name| (name.to_owned(), cooler.clone())));
    cases.extend((0..8).map(|number| (format!("random-{number}"), neutral.clone())));
    for (name, sampling) in cases {
        let pair = zoo::toy(&name).unwrap();
        let case = (&pair, sampling.clone());
        let all = scored(&pair, sampling);
        let (_, _, score, from) = &all[0];
        let (overlap, level) = (score.overlap.as_ref().unwrap(), score.level.as_ref().unwrap());
        assert_eq!(from.overlap.as_ref().unwrap()[0].to_bits(), overlap[0].to_bits());
        assert_eq!(from.level.as_ref().unwrap().drawn[0], level.drawn[0]);
        assert_eq!(from.level.as_ref().unwrap().greedy[0], level.greedy[0]);
        let same = |what: &str, found: f64, expected: f64| {
            assert!((found - expected).abs() < ROUNDING, "{name}, {what}: {found}, {expected}");
        };
        same("drawn", overlap[0], enumerated(case.clone(), ("model", "rejection"), &[]));
        let cold = [("draft_temperature", Value::Number(0.0))];
        let greedy = enumerated(case.clone(), ("model", "rejection"), &cold);
        same("greedy", level.greedy[0][0], greedy);
        decided[usize::from(greedy > overlap[0])] += 1;
        for count in 1..=3 {
            let tree = |kind: &str| {
                let text = |text: String| Value::Text(text);
                [("siblings", text(kind.to_owned())), ("tree", text(count.to_string()))]
            };
            let listed = enumerated(case.clone(), ("model_tree", "rejection"), &tree("top_k"));
            same("listed", level.greedy[0][count - 1], listed);
            // The token of a completion that was drawn from p is one of them as often.
            let ranked = all.iter().map(|(mass, _, score, _)| {
                let siblings = score.siblings.as_ref().unwrap();
                mass * siblings.accepted(SiblingKind::TopK, count, 0).unwrap()
            });
            same("ranked", ranked.sum(), listed);
            let Some(place) = DRAWS.iter().position(|(_, drawn)| *drawn == count) else { continue };
            let rules = [("independent", "rejection"), ("independent", "k_seq")];
            for (kind, rule) in rules.into_iter().chain([("distinct", "rejection")]) {
                let place = place + 2 * usize::from(kind == "distinct");
                let found = enumerated(case.clone(), ("model_tree", rule), &tree(kind));
                let most = level.drawn[0][place];
                assert!(found <= most + ROUNDING, "{name}, {kind}, {rule}: {found} above {most}");
            }
        }
    }
    // Neither kind of draft is better in all cases.
    assert!(decided.iter().all(|cases| *cases > 1), "{decided:?}");
}

fn drafter(params: Params) -> TapeLine {
    let drafter = "model".to_owned();
    TapeLine::Drafter(TapeDrafter { drafter, params, ..TapeDrafter::default() })
}

fn cold() -> Params {
    Params::default().with("draft_temperature", Value::Number(0.0))
}

/// Two prompts of three tokens, and a drafter with q/p = 1/2 at the first token and 2 at the second.
fn tape(score: &TapeScore) -> Tape {
    let mut tape = tape_of(Default::default(), SamplingParams::default());
    tape.add(drafter(Params::default())).unwrap();
    for (number, prompt) in ["a", "b"].into_iter().enumerate() {
        let sequence = sequence_of(&prompt_of(prompt, 2), vec![1; 3], 3);
        let log_p = Some(vec![0.4_f64.ln(); 3]);
        let sequence = TapeSequence { prompt: prompt.to_owned(), log_p, ..sequence };
        tape.add(TapeLine::Sequence(sequence)).unwrap();
        let log_q = Some([0.2_f64, 0.8, 0.1].map(f64::ln).to_vec());
        tape.add(TapeLine::Score(TapeScore { sequence: number, log_q, ..score.clone() })).unwrap();
    }
    tape
}

fn only(tape: &Tape) -> GreedyForecast {
    let found = greedy_forecasts(tape);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

/// The acceptance of one token, drawn and greedy, and the share of positions.
fn one(found: &GreedyForecast) -> (f64, f64, Option<f64>) {
    let level = &found.levels[0];
    assert_eq!((level.tokens, level.positions, level.prompts), (1, 4, 2));
    (level.drawn.unwrap().value, level.greedy.value, level.greedy_better)
}

/// Catches: the last token of a completion, which no draft has, counts; a tape without an exact
/// acceptance states a share; what a tape lacks is left out or named where it is there.
#[test]
fn what_a_tape_holds_decides_what_is_compared() {
    let nothing = TapeScore::default();
    let found = only(&tape(&nothing));
    assert_eq!((found.levels.len(), found.chains.len(), found.lacks.len()), (0, 0, 1));
    assert!(found.lacks[0].contains("--overlap, or once more with --draft-temperature 0"));

    // The same drafter's greedy drafts have the first token alone.
    let mut both = tape(&nothing);
    both.add(drafter(cold())).unwrap();
    let log_q = Some(vec![0.0, f64::NEG_INFINITY, 0.0]);
    for sequence in 0..2 {
        let score = TapeScore { drafter: 1, sequence, log_q: log_q.clone(), ..nothing.clone() };
        both.add(TapeLine::Score(score)).unwrap();
    }
    let found = only(&both);
    assert_eq!(one(&found), (0.75, 0.5, None));
    assert_eq!(found.lacks.len(), 1, "{:?}", found.lacks);
    // K = 2: drawn drafts keep one token with probability 1/2, and then the second; a round from
    // the second token on keeps it. Greedy ones keep the first of two, then there is no room.
    let chain = found.chains.iter().find(|chain| chain.num_speculative_tokens == 2).unwrap();
    near(chain.rejection.value, 1.0 + (1.0 + 0.5) / 1.5);
    near(chain.greedy.value, 1.0 + 1.0 / 2.0);
    near(chain.ratio.value, 1.5 / 2.0);
    // Block verification makes up for the first ratio by the second.
    near(chain.traversal.value, 1.0 + (0.5 + 0.5 + 0.5) / 1.5);

    // Ranks give the same, and trees.
    let siblings = SiblingScores {
        independent: vec![[0.3, 0.1, 0.1, 0.0]; 3],
        distinct: vec![0.2; 3],
        rank: vec![0, 1, 0],
    };
    let ranked = TapeScore { siblings: Some(siblings), ..nothing };
    let found = only(&tape(&ranked));
    assert_eq!(one(&found), (0.75, 0.5, None));
    near(found.chains[1].greedy.value, 1.5);
    let two = &found.levels[1];
    assert_eq!((two.tokens, two.draws, two.drawn), (2, "independent", None));
    near(two.rejection.unwrap().value, 0.4);
    near(two.greedy.value, 1.0);
    near(two.ratio.unwrap().value, 2.5);
    near(found.levels[2].rejection.unwrap().value, 0.5);

    // Both distributions give all of it at every position.
    let greedy = [0.3, 0.7, 0.9].map(|first| [first, 0.95, 0.95, 0.95]).to_vec();
    let level = LevelScores { greedy, drawn: vec![[0.9, 0.96, 0.92]; 3] };
    let exact = TapeScore { level: Some(level), overlap: Some(vec![0.6; 3]), ..ranked };
    let found = only(&tape(&exact));
    assert_eq!(one(&found), (0.6, 0.5, Some(0.5)));
    let shares = found.levels.iter().map(|level| level.greedy_better).collect::<Vec<_>>();
    assert_eq!(shares, [Some(0.5), Some(1.0), Some(1.0), Some(0.0)]);
    near(found.levels[2].drawn.unwrap().value, 0.92);
    assert!(found.lacks.is_empty(), "{:?}", found.lacks);
}

/// Catches: drafters whose tokens are certain, or a target at temperature 0, are compared with
/// themselves; heads need the distributions of all positions.
#[test]
fn certain_drafts_have_one_side_and_drafts_from_every_token_two() {
    let mut tape = tape_of(Default::default(), SamplingParams::default());
    let starts = |first: f64| {
        let start = |log_q: Vec<f64>| DraftStart { drafted: 2, log_q };
        Some(vec![start(vec![first.ln(); 2]), start(vec![]), start(vec![])])
    };
    let log_p = Some(vec![0.4_f64.ln(); 3]);
    let sequence = TapeSequence { log_p, ..sequence_of(&[0], vec![1; 3], 3) };
    tape.add(TapeLine::Sequence(sequence)).unwrap();
    for (number, (params, first)) in
        [(Params::default(), 0.1), (cold(), 1.0)].into_iter().enumerate()
    {
        tape.add(drafter(params)).unwrap();
        let score = TapeScore { drafter: number, starts: starts(first), ..TapeScore::default() };
        tape.add(TapeLine::Score(score)).unwrap();
    }
    let found = only(&tape);
    let level = &found.levels[0];
    near(level.drawn.unwrap().value, 0.25 / 2.0);
    near(level.greedy.value, 1.0 / 2.0);
    assert_eq!((found.levels.len(), found.chains.len()), (1, 4));
    let cold = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    tape.header.samplings[0] = cold;
    assert_eq!(greedy_forecasts(&tape), []);
}

/// Catches: a tape with a level that is too short, or with a number that is no probability, is read.
#[test]
fn levels_are_checked() {
    let level = |greedy: f64, drawn: usize| LevelScores {
        greedy: vec![[greedy; MAX_SIBLINGS]; 3],
        drawn: vec![[0.5; DRAWS.len()]; drawn],
    };
    let mut tape = tape(&TapeScore::default());
    tape.add(drafter(cold())).unwrap();
    let mut added = |level: LevelScores| {
        let score = TapeScore { drafter: 1, level: Some(level), ..TapeScore::default() };
        tape.add(TapeLine::Score(score))
    };
    assert!(added(level(0.5, 2)).unwrap_err().contains("\"level\" has no entry for each of 3"));
    assert!(added(level(1.5, 3)).unwrap_err().contains("\"level\" of token 0 has 1.5"));
    added(level(0.5, 3)).unwrap();
}

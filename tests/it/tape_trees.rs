//! Forecasts of trees, against the enumeration of the production code.

use crate::tape_support::{ending, reader, sequence_of};
use specdec::core::params::{Params, Value};
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::model::{LanguageModel, ToyPair};
use specdec::proof::{Probe, enumerate, target_distribution};
use specdec::tapes::tape::{
    SequenceOdds, SiblingKind, TapeSequence, Teacher, log_probs, score_sequence,
};

/// Maximum number of tokens of a completion.
const MAX: usize = 4;
/// Sums of some thousand products in f64, taken in another order.
const ROUNDING: f64 = 1e-12;

/// Rounds, accepted tokens of the completion, and drafted tokens.
#[derive(Debug, Default)]
struct Sums([f64; 3]);

impl Probe for Sums {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        let accepted = event.verdict.path.len().min(event.emitted.len());
        let counts = [1.0, accepted as f64, event.draft.len() as f64];
        self.0.iter_mut().zip(counts).for_each(|(sum, count)| *sum += weight * count);
    }
}

fn enumerated(pair: &ToyPair, sampling: SamplingParams, siblings: &str, tree: &str) -> [f64; 3] {
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let params = [("siblings", siblings), ("tree", tree)];
    let string = |string: &str| Value::Text(string.to_owned());
    let params =
        params.iter().fold(Params::default(), |all, (key, value)| all.with(key, string(value)));
    let spec = MethodSpec {
        drafter: "model_tree".to_owned(),
        num_speculative_tokens: 9,
        sampling,
        params,
        ..MethodSpec::default()
    };
    let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(MAX) };
    let method = spec.build(Some(&draft)).unwrap();
    let generation = Generation::new(&target, method, &pair.prompt, stop, None).unwrap();
    let mut sums = Sums::default();
    enumerate(&target, generation, &mut [&mut sums]).unwrap();
    sums.0
}

fn forecast(
    pair: &ToyPair,
    sampling: SamplingParams,
    kind: SiblingKind,
    tree: &[usize],
) -> [f64; 3] {
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let sampler = Sampler::new(sampling).unwrap();
    let [mut p, mut q] = [&target, &draft].map(|model| Teacher::new(model).unwrap());
    let mut sums = [0.0; 3];
    for (tokens, mass) in target_distribution(&target, &sampler, &pair.prompt, MAX).unwrap() {
        let mut sequence = sequence_of(&pair.prompt, tokens, MAX);
        sequence.log_p = Some(log_probs(&mut p, &sampler, &sequence).unwrap());
        let samplers = std::slice::from_ref(&sampler);
        let scored =
            score_sequence(&mut q, samplers, Some(reader(&mut p, &sampler)), &sequence).unwrap();
        let odds = SequenceOdds::new(&sequence, &scored[0]).unwrap();
        let found = odds.forecast_tree(kind, tree).unwrap();
        let counts = [found.rounds, found.accepted, found.proposed];
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += mass * count);
    }
    sums
}

/// Catches: all siblings are decided on against p; the second sibling may repeat the first; a tree
/// is cut one level early.
#[test]
fn trees_have_the_rounds_of_the_enumeration() {
    let neutral = SamplingParams::default();
    let cooler = SamplingParams { temperature: 0.6, top_p: 0.9, ..neutral.clone() };
    let trees: [(SiblingKind, &[&[usize]]); 3] = [
        (SiblingKind::Independent, &[&[1, 1], &[2], &[2, 1], &[3], &[1, 2], &[4]]),
        (SiblingKind::Distinct, &[&[2], &[2, 1], &[1, 2]]),
        (SiblingKind::TopK, &[&[2], &[2, 2], &[3, 1]]),
    ];
    let greedy = SamplingParams { temperature: 0.0, ..neutral.clone() };
    let mut cases = ["mixed", "close", "gaps"].map(|name| (name, neutral.clone())).to_vec();
    cases.extend([("mixed", cooler), ("mixed", greedy.clone()), ("close", greedy)]);
    for (name, sampling) in cases {
        let pair = ending(name);
        for (kind, trees) in trees {
            for tree in trees {
                let shape = tree.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                let expected = enumerated(&pair, sampling.clone(), kind.name(), &shape);
                let found = forecast(&pair, sampling.clone(), kind, tree);
                let words = format!("{name}, {kind:?}, {shape}: {found:?}, {expected:?}");
                for (a, b) in found.iter().zip(expected).take(2) {
                    assert!((a - b).abs() < ROUNDING, "{words}");
                }
                // Where the support of q is small, a node has fewer children than it may have, and
                // an end token has none.
                assert!(expected[2] < found[2] + ROUNDING, "{words}");
                let whole = sampling == neutral && name != "gaps" && tree.len() == 1;
                assert!(!whole || (expected[2] - found[2]).abs() < ROUNDING, "{words}");
            }
        }
    }
}

#[test]
fn a_tape_covers_no_more_siblings_than_it_holds() {
    let pair = ending("mixed");
    let draft = pair.draft("q").unwrap();
    let log_p = Some(vec![-1.0, -1.0]);
    let sequence = TapeSequence { log_p, ..sequence_of(&pair.prompt, vec![0, 1], 2) };
    let sampler = [Sampler::new(SamplingParams::default()).unwrap()];
    let [mut p, mut q] = [&draft, &draft].map(|model| Teacher::new(model).unwrap());
    let both =
        score_sequence(&mut q, &sampler, Some(reader(&mut p, &sampler[0])), &sequence).unwrap();
    let siblings = both[0].siblings.as_ref().unwrap();
    assert!(siblings.accepted(SiblingKind::Independent, 4, 0).is_some());
    assert_eq!(siblings.accepted(SiblingKind::Independent, 5, 0), None);
    assert_eq!(siblings.accepted(SiblingKind::Distinct, 3, 0), None);
    assert_eq!(siblings.accepted(SiblingKind::TopK, 2, 2), None, "there is no third token");
}

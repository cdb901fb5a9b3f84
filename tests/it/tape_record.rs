//! How recorded completions end, their probabilities, and the drafts that leave them.

use specdec::core::chance::Request;
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::StopRules;
use specdec::model::{LanguageModel, zoo};
use specdec::tapes::tape::{
    DraftBeliefs, TapeEnd, TapeRequest, TapeSequence, TargetReader, Teacher, log_probs,
    record_sequence, score_sequence,
};

use crate::fixtures::near;
use crate::tape_support::{ending, sequence_of};

const MAX: usize = 4;

/// Catches: an end token at max_tokens counts as a stop; the probabilities are those of other tokens,
/// or other logarithms.
#[test]
fn an_end_token_that_is_also_the_last_possible_one_is_a_cut() {
    let pair = ending("mixed");
    let target = pair.target("p").unwrap();
    let (eos, params) = (target.info().eos.clone(), SamplingParams::default());
    let sampler = Sampler::new(params.clone()).unwrap();
    let clock = VirtualClock::new(VirtualCosts::default());
    // Completions that end before the last possible token, at it, and not at all.
    let mut seen = [0; 3];
    for seed in 0..200 {
        let request = Request { seed, prompt: "toy", repeat: 0 };
        let (category, prompt, sampling) = ("c", &*pair.prompt, (0, params.clone()));
        let asked = TapeRequest { request, category, prompt, sampling };
        let stop = StopRules { eos: eos.clone(), ..StopRules::max_tokens(MAX) };
        let found = record_sequence(&target, None, stop, &asked, &clock).unwrap();
        let (last, tokens) = (found.tokens.last().unwrap(), found.tokens.len());
        let (kind, end) = match (eos.contains(last), tokens < MAX) {
            (true, true) => (0, TapeEnd::Token),
            (true, false) => (1, TapeEnd::Cut),
            (false, _) => (2, TapeEnd::Cut),
        };
        seen[kind] += 1;
        assert_eq!((found.end, found.max_tokens), (end, MAX), "{found:?}");
        let read = log_probs(&mut Teacher::new(&target).unwrap(), &sampler, &found).unwrap();
        assert_eq!(read.len(), tokens);
        found.log_p.unwrap().into_iter().zip(read).for_each(|(a, b)| near(a, b));
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?}");
}

/// What policies see of a completion of one token, again and again.
fn beliefs(repeat: u32) -> DraftBeliefs {
    let pair = zoo::toy("mixed").unwrap();
    let [target, draft] = [pair.target("p").unwrap(), pair.draft("q").unwrap()];
    let sampler = Sampler::new(SamplingParams::default()).unwrap();
    let [mut p, mut q] = [&target, &draft].map(|model| Teacher::new(model).unwrap());
    let target = TargetReader { teacher: &mut p, sampler: &sampler, beliefs: Some(3), ends: &[] };
    let sequence = TapeSequence { repeat, ..sequence_of(&[0, 0], vec![0; 40], 40) };
    let scored = score_sequence(&mut q, std::slice::from_ref(&sampler), Some(target), &sequence);
    scored.unwrap().remove(0).beliefs.unwrap()
}

/// The toy looks at two tokens, so that all drafts have the same distribution.
/// Catches: drafts that leave a completion at different tokens, or in different repeats, have the
/// same random numbers.
#[test]
fn every_draft_that_leaves_a_completion_has_its_own_draw() {
    let first = beliefs(0);
    assert!(first.along.windows(2).all(|pair| pair[0] == pair[1]), "{first:?}");
    let behind = first.behind.iter().map(|draft| format!("{draft:?}"));
    let different = behind.collect::<std::collections::BTreeSet<_>>().len();
    assert!((5..40).contains(&different), "{different} drafts");
    assert_ne!(beliefs(1).behind, first.behind);
    assert_eq!(beliefs(0), first);
}

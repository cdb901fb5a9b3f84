//! Enumeration runs on virtual time, so that methods that learn from times behave as in whole
//! generations.

use std::collections::BTreeSet;
use std::time::Duration;

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::params::{Params, Value};
use specdec::core::round::{RoundEvent, RoundTimes};
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::model::{Toy, zoo};
use specdec::proof::{Gap, Probe, enumerate, replay};

const PROMPT: &[u32] = &[0, 1, 0];

/// All rounds, as (tokens before the round, draft size, draft time, target time).
#[derive(Debug, Default)]
struct Rounds(BTreeSet<(Vec<Token>, usize, Duration, Duration)>);

impl Rounds {
    fn note(&mut self, event: &RoundEvent<'_>) {
        let RoundTimes { draft, target, .. } = event.times;
        self.0.insert((event.context.to_vec(), event.draft.len(), draft, target));
    }
}

impl Probe for Rounds {
    fn round(&mut self, event: &RoundEvent<'_>, _weight: f64) {
        self.note(event);
    }
}

impl Observer for Rounds {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.note(event);
        Ok(())
    }
}

struct Setup {
    target: Toy,
    draft: Toy,
    spec: MethodSpec,
}

fn setup(drafter: &str, length: &str) -> Setup {
    let pair = zoo::toy("binary").unwrap();
    Setup {
        target: pair.target("target").unwrap(),
        draft: pair.draft("draft").unwrap(),
        spec: MethodSpec {
            drafter: drafter.to_owned(),
            length: length.to_owned(),
            num_speculative_tokens: 2,
            params: Params::default().with("tree_most_nodes", Value::Count(3)),
            ..MethodSpec::default()
        },
    }
}

impl Setup {
    fn generation(&self, tokens: usize) -> Generation<'_> {
        let method = self.spec.build(Some(&self.draft)).unwrap();
        Generation::new(&self.target, method, PROMPT, StopRules::max_tokens(tokens), None).unwrap()
    }

    fn walked(&self, tokens: usize) -> Rounds {
        let mut rounds = Rounds::default();
        enumerate(&self.target, self.generation(tokens), &mut [&mut rounds]).unwrap();
        rounds
    }

    fn sampled(&self, tokens: usize) -> Rounds {
        let mut rounds = Rounds::default();
        for repeat in 0..500 {
            let mut chance = Seeded::new(Request { seed: 2026, prompt: "time", repeat });
            let clock = VirtualClock::new(VirtualCosts::default());
            let mut generation = self.generation(tokens);
            generate(&mut generation, &self.target, &mut chance, &clock, &mut rounds).unwrap();
        }
        rounds
    }
}

#[test]
fn a_walked_round_takes_the_virtual_time_of_its_passes() {
    let VirtualCosts { target_pass, target_row, draft_pass, .. } = VirtualCosts::default();
    for (_, drafted, draft, target) in setup("model", "fixed").walked(5).0 {
        let passes = drafted as u32;
        assert_eq!(target, target_pass + target_row * (passes + 1));
        assert!(draft >= draft_pass * passes && (draft > Duration::ZERO) == (passes > 0));
    }
}

#[test]
fn the_walk_covers_sampled_rounds_that_learn_from_times() {
    for (drafter, length) in
        [("model", "optimal_stopping"), ("model", "ucb"), ("tree_optimal", "fixed")]
    {
        let setup = setup(drafter, length);
        let (walked, sampled) = (setup.walked(7).0, setup.sampled(7).0);
        let missed = sampled.difference(&walked).next();
        assert!(missed.is_none(), "{drafter} {length}: {missed:?}");
        // Some policy must end a draft before K and the token limit do.
        let ended = |(context, drafted, ..): &(Vec<Token>, usize, Duration, Duration)| {
            context.len() - PROMPT.len() <= 4 && *drafted == 1
        };
        assert!(length == "fixed" || walked.iter().any(ended), "{drafter} {length}");
    }
}

#[test]
fn merging_equal_states_is_exact_if_methods_learn_from_times() {
    for (drafter, length) in
        [("model", "optimal_stopping"), ("model", "ucb"), ("tree_optimal", "fixed")]
    {
        let setup = setup(drafter, length);
        let merged = enumerate(&setup.target, setup.generation(5), &mut []).unwrap();
        let whole = replay(&setup.target, &setup.generation(5)).unwrap();
        assert!(Gap::between(&merged.dist, &whole.dist).is_zero(), "{drafter} {length}");
    }
}

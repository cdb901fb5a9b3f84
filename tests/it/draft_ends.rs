//! Drafts and counts at the end of a completion.

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::error::Error;
use specdec::core::round::RoundEvent;
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::model::{LanguageModel, Toy};
use specdec::proof::{Probe, enumerate};

use crate::tape_support::ending;

const K: usize = 4;

fn generation<'a>(
    models: &'a [Toy; 2],
    spec: &MethodSpec,
    (prompt, most): (&[u32], usize),
) -> Generation<'a> {
    let [target, draft] = models;
    let tools = Tools { draft: Some(draft), target: Some(target), texts: None };
    let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(most) };
    Generation::new(target, spec.build_with(tools).unwrap(), prompt, stop, None).unwrap()
}

/// How many drafts have an end token, all of which must be leaves.
#[derive(Debug, Default)]
struct EndLeaves {
    ends: Vec<u32>,
    ended: usize,
}

impl Observer for EndLeaves {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let nodes = event.draft.nodes();
        let ends = |id: usize| self.ends.contains(&nodes[id].token);
        let open = nodes.iter().filter_map(|node| node.parent).all(|parent| !ends(parent));
        assert!(open, "{nodes:?}");
        let short = |id: &usize| nodes[*id].depth < K && ends(*id);
        self.ended += usize::from((0..nodes.len()).any(|id| short(&id)));
        Ok(())
    }
}

/// Catches, for each drafter: it drafts behind a token that ends the completion.
#[test]
fn no_drafter_drafts_behind_an_end_token() {
    let pair = ending("mixed");
    let models = [pair.target("p").unwrap(), pair.draft("q").unwrap()];
    let end = pair.eos[0];
    // With end tokens in the prompt, lookups copy them, too.
    let prompt = [0, 1, end, 0, end, 1, 0];
    for entry in DRAFTERS.iter().filter(|entry| entry.name != "none") {
        let mut spec = MethodSpec {
            drafter: entry.name.to_owned(),
            num_speculative_tokens: K,
            ..MethodSpec::default()
        };
        // Trees need a verifier for siblings that were not drawn.
        if spec
            .build_with(Tools { draft: Some(&models[1]), target: Some(&models[0]), texts: None })
            .is_err()
        {
            spec.verifier = "token_match".to_owned();
        }
        let mut seen = EndLeaves { ends: pair.eos.clone(), ended: 0 };
        for seed in 0..40 {
            let mut generation = generation(&models, &spec, (&prompt, 12));
            let mut chance = Seeded::new(Request { seed, prompt: entry.name, repeat: 0 });
            let clock = VirtualClock::new(VirtualCosts::default());
            generate(&mut generation, &models[0], &mut chance, &clock, &mut seen).unwrap();
        }
        assert!(seen.ended > 0, "{} never drafted an end token", entry.name);
    }
}

/// Sums over enumerated rounds.
#[derive(Debug, Default)]
struct Kept {
    accepted: f64,
    raw: f64,
    overlap: f64,
    forks: f64,
    reached: f64,
}

impl Probe for Kept {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        let forks = event.forks();
        self.accepted += weight * event.verdict.path.len() as f64;
        self.raw += weight * event.accepted_raw as f64;
        self.overlap += weight * forks.iter().map(|&at| event.overlap(at)).sum::<f64>();
        self.forks += weight * forks.len() as f64;
        self.reached += weight * event.reached().len() as f64;
    }
}

/// Rejection sampling keeps a token with the probability Σ min(p, q), so the expected number of
/// accepted tokens is the expected sum of the overlaps at the forks. A draft model that also drafts
/// behind end tokens is one without them.
/// Catches: the verdict keeps tokens behind the end; forks or reached tokens behind it count; the
/// raw count is that of kept tokens.
#[test]
fn only_what_the_completion_keeps_counts() {
    for name in ["mixed", "close", "apart", "gaps"] {
        let pair = ending(name);
        let models = [pair.target("p").unwrap(), pair.draft("q").unwrap()];
        for k in 1..=K {
            let spec = MethodSpec { num_speculative_tokens: k, ..MethodSpec::default() };
            let mut kept = Kept::default();
            let run = generation(&models, &spec, (&pair.prompt, 5));
            enumerate(&models[0], run, &mut [&mut kept]).unwrap();
            assert!((kept.accepted - kept.overlap).abs() < 1e-12, "{name}, K = {k}: {kept:?}");
            assert!((kept.reached - kept.forks).abs() < 1e-12, "{name}, K = {k}: {kept:?}");
            assert!((kept.raw - kept.accepted).abs() < 1e-12, "drafts end with the completion");
        }
    }
}

/// A stop string is found only once it is in the text, so drafts go on behind it.
/// Catches: accepted tokens behind a stop string count; the raw count leaves them out.
#[test]
fn tokens_behind_a_stop_string_are_not_accepted() {
    let mut pair = ending("mixed");
    pair.eos.clear();
    // A draft that equals the target is always accepted.
    pair.draft = pair.target.clone();
    let models = [pair.target("p").unwrap(), pair.draft("q").unwrap()];
    let tools = Tools { draft: Some(&models[1]), target: Some(&models[0]), texts: None };
    let spec = MethodSpec { num_speculative_tokens: K, ..MethodSpec::default() };
    let method = spec.build_with(tools).unwrap();
    // Ends after the second token of the first round.
    let user = Box::new(|new: &[u32], _: &str| new.len() == 2);
    let stop = StopRules { user: Some(user), ..StopRules::max_tokens(12) };
    let mut generation = Generation::new(&models[0], method, &pair.prompt, stop, None).unwrap();
    let mut seen = FirstRound::default();
    let mut chance = Seeded::new(Request { seed: 1, prompt: "stop", repeat: 0 });
    let clock = VirtualClock::new(VirtualCosts::default());
    generate(&mut generation, &models[0], &mut chance, &clock, &mut seen).unwrap();
    assert_eq!(seen, FirstRound { rounds: 1, kept: 2, raw: K, forks: 2, reached: 2, emitted: 2 });
}

#[derive(Debug, Default, PartialEq)]
struct FirstRound {
    rounds: usize,
    kept: usize,
    raw: usize,
    forks: usize,
    reached: usize,
    emitted: usize,
}

impl Observer for FirstRound {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        *self = Self {
            rounds: self.rounds + 1,
            kept: event.verdict.path.len(),
            raw: event.accepted_raw,
            forks: event.forks().len(),
            reached: event.reached().len(),
            emitted: event.emitted.len(),
        };
        Ok(())
    }
}

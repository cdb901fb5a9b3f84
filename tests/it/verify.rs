//! Verifiers as pure functions, and what they support.

use std::rc::Rc;

use specdec::chance::{Chance, Exhaustive};
use specdec::decode::{Generation, MethodSpec, StopRules};
use specdec::dist::Dist;
use specdec::draft::DRAFTERS;
use specdec::exactness::enumerate;
use specdec::model::zoo;
use specdec::params::{Params, Value};
use specdec::registry::Entry;
use specdec::round::Verdict;
use specdec::tree::{Draft, DraftShape, Siblings};
use specdec::verify::{BuildVerifier, Rejection, TokenMatch, VERIFIERS, Verifier};

/// All verdicts with their probabilities.
fn verdicts(verifier: &dyn Verifier, draft: &Draft, targets: &[Dist]) -> Vec<(Verdict, f64)> {
    let mut chance = Exhaustive::default();
    let mut found = Vec::new();
    loop {
        chance.begin_round(0);
        let verdict = verifier.verify(draft, targets, &mut chance);
        found.push((verdict, chance.weight()));
        if !chance.advance() {
            return found;
        }
    }
}

fn dist(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

fn made(entry: &Entry<BuildVerifier>) -> Box<dyn Verifier> {
    (entry.build.make)(&Params::default())
}

#[test]
fn every_drafter_has_a_verifier() {
    for drafter in DRAFTERS {
        let shape = (drafter.build.shape)(&Params::default());
        // The siblings of a tree are as the verifier likes them.
        let shape = shape.unwrap_or_else(|_| DraftShape::SAMPLED.with(Siblings::Distinct));
        assert!(VERIFIERS.iter().any(|v| made(v).supports(&shape)), "{}", drafter.name);
    }
    for verifier in VERIFIERS {
        assert!(made(verifier).supports(&DraftShape::NOTHING), "{}", verifier.name);
    }
}

#[test]
fn an_empty_draft_yields_a_token_of_the_target() {
    let target = [dist(&[0.25, 0.75])];
    for verifier in VERIFIERS {
        let found = verdicts(&*made(verifier), &Draft::empty(2), &target);
        assert_eq!(found.len(), 2);
        for (verdict, p) in found {
            assert!(verdict.path.is_empty());
            assert_eq!(p, target[0].p(verdict.next), "{}", verifier.name);
        }
    }
}

#[test]
fn a_certain_draft_is_accepted_with_the_probability_of_its_token() {
    let mut draft = Draft::empty(3);
    draft.certain(None, 1);
    let targets = [dist(&[0.5, 0.25, 0.25]), Dist::one_hot(3, 0)];
    for verifier in [&Rejection as &dyn Verifier, &TokenMatch] {
        let found = verdicts(verifier, &draft, &targets);
        let accepted = found.iter().filter(|(v, _)| v.path == [0]).map(|(_, p)| p).sum::<f64>();
        assert_eq!(accepted, 0.25);
        // The correction is never the token that was rejected.
        assert!(found.iter().all(|(v, _)| !v.path.is_empty() || v.next != 1));
    }
}

#[test]
fn equal_laws_are_always_accepted_and_impossible_tokens_never() {
    let law = dist(&[0.3, 0.7]);
    let mut chance = Exhaustive::default();
    let mut draft = Draft::empty(2);
    draft.sample(None, &std::rc::Rc::new(law.clone()), &mut chance);
    let found = verdicts(&Rejection, &draft, &[law.clone(), law]);
    assert!(found.iter().all(|(v, _)| v.path == [0] && v.residual_fallbacks == 0));
    let mut draft = Draft::empty(2);
    draft.certain(None, 0);
    let found = verdicts(&Rejection, &draft, &[Dist::one_hot(2, 1), Dist::one_hot(2, 0)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.path.len(), found[0].0.next), (0, 1));
}

#[test]
fn the_row_after_a_path_is_that_of_its_last_node() {
    let verdict = |path: &[usize]| Verdict { path: path.to_vec(), ..Verdict::default() };
    assert_eq!(verdict(&[]).last_row(), 0);
    assert_eq!(verdict(&[1, 4]).last_row(), 5);
}

/// Rejection, restricted to chains.
#[derive(Debug)]
struct ChainsOnly;

impl Verifier for ChainsOnly {
    fn supports(&self, shape: &DraftShape) -> bool {
        !shape.branches()
    }

    fn verify(&self, draft: &Draft, targets: &[Dist], chance: &mut dyn Chance) -> Verdict {
        Rejection.verify(draft, targets, chance)
    }
}

#[test]
fn an_unsupported_draft_is_noticed() {
    let pair = zoo::toy("binary").unwrap();
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    for tree in [false, true] {
        let drafter = if tree { "model_tree" } else { "model" };
        let params = Params::default().with("tree", Value::Text("2,1".to_owned()));
        let spec = MethodSpec { drafter: drafter.to_owned(), params, ..MethodSpec::default() };
        let mut method = spec.build(Some(&draft)).unwrap();
        method.verifier = Rc::new(ChainsOnly);
        let stop = StopRules::max_tokens(3);
        let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
        let found = enumerate(&target, generation, &mut []).unwrap();
        assert_eq!(found.unsupported, tree);
    }
}

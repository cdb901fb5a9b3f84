//! Verifiers as pure functions.

use std::rc::Rc;

use specdec::core::chance::{Chance, Exhaustive};
use specdec::core::distribution::Dist;
use specdec::core::params::{Params, Value};
use specdec::core::registry::{Class, Entry};
use specdec::core::round::Verdict;
use specdec::core::tree::{Draft, DraftShape, Row, Siblings};
use specdec::method::verify::{
    BuildVerifier, Lenient, Rejection, TokenMatch, Typical, VERIFIERS, Verifier,
};

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
fn an_empty_draft_yields_a_token_drawn_from_p() {
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
fn a_certain_token_is_accepted_with_its_probability_under_p() {
    let mut draft = Draft::empty(3);
    draft.certain(None, 1);
    let targets = [dist(&[0.5, 0.25, 0.25]), Dist::one_hot(3, 0)];
    // References to verifiers are verifiers, too.
    for verifier in [&Rejection as &dyn Verifier, &TokenMatch, &&Rejection] {
        let found = verdicts(verifier, &draft, &targets);
        let accepted = found.iter().filter(|(v, _)| v.path == [0]).map(|(_, p)| p).sum::<f64>();
        assert_eq!(accepted, 0.25);
        // The correction is never the token that was rejected.
        assert!(found.iter().all(|(v, _)| !v.path.is_empty() || v.next != 1));
    }
}

#[test]
fn drafts_are_accepted_if_p_equals_q_and_rejected_if_p_is_zero() {
    let dist = dist(&[0.3, 0.7]);
    let mut chance = Exhaustive::default();
    let mut draft = Draft::empty(2);
    draft.sample(None, &Rc::new(dist.clone()), &mut chance);
    let found = verdicts(&Rejection, &draft, &[dist.clone(), dist]);
    assert!(found.iter().all(|(v, _)| v.path == [0] && v.residual_fallbacks == 0));
    let mut draft = Draft::empty(2);
    draft.certain(None, 0);
    let found = verdicts(&Rejection, &draft, &[Dist::one_hot(2, 1), Dist::one_hot(2, 0)]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.path.len(), found[0].0.next), (0, 1));
}

#[test]
fn the_last_row_of_a_verdict_is_that_of_its_last_accepted_node() {
    let verdict = |path: &[usize]| Verdict { path: path.to_vec(), ..Verdict::default() };
    assert_eq!(verdict(&[]).last_row(), Row::CONTEXT);
    assert_eq!(verdict(&[1, 4]).last_row(), Row::after(Some(4)));
}

/// The marginal of the first token after a round, and the mass of kept drafts.
fn first_token(found: &[(Draft, Verdict, f64)], vocab: usize) -> (Vec<f64>, f64) {
    let (mut dist, mut kept) = (vec![0.0; vocab], 0.0);
    for (draft, verdict, weight) in found {
        let first = verdict.path.first().map_or(verdict.next, |&id| draft.node(id).token);
        dist[first as usize] += weight;
        kept += if verdict.path.is_empty() { 0.0 } else { *weight };
    }
    (dist, kept)
}

/// Every outcome of drawing one token from `q` and verifying it against `p`.
fn one_draft(verifier: &dyn Verifier, p: &Dist, q: &Rc<Dist>) -> Vec<(Draft, Verdict, f64)> {
    let mut chance = Exhaustive::default();
    let mut found = Vec::new();
    loop {
        chance.begin_round(0);
        let mut draft = Draft::empty(p.vocab());
        draft.sample(None, q, &mut chance);
        let verdict = verifier.verify(&draft, &[p.clone(), p.clone()], &mut chance);
        found.push((draft, verdict, chance.weight()));
        if !chance.advance() {
            return found;
        }
    }
}

fn near(found: &[f64], expected: &[f64]) {
    for (a, b) in found.iter().zip(expected) {
        // A few products of doubles below one.
        assert!((a - b).abs() < 1e-15, "{found:?} is not {expected:?}");
    }
}

/// Leviathan et al. 2023, App. A.5: the acceptance is Σ min(q, p/l), and corrections
/// are drawn from (p − l q)⁺.
#[test]
fn lenient_rejection_matches_its_closed_form() {
    let (p, q) = (dist(&[0.5, 0.3, 0.2]), Rc::new(dist(&[0.2, 0.3, 0.5])));
    let found = one_draft(&Lenient { lenience: 0.5 }, &p, &q);
    let (dist, kept) = first_token(&found, 3);
    // Kept of each token: min(0.2, 1.0), min(0.3, 0.6), min(0.5, 0.4).
    near(&[kept], &[0.9]);
    // The other tenth is drawn from (p − q/2)⁺ = (0.4, 0.15, 0).
    near(&dist, &[0.2 + 0.1 * 0.4 / 0.55, 0.3 + 0.1 * 0.15 / 0.55, 0.4]);
    let (dist, kept) = first_token(&one_draft(&Lenient { lenience: 1.0 }, &p, &q), 3);
    near(&[kept], &[0.7]);
    near(&dist, &[0.5, 0.3, 0.2]);
}

/// Cai et al. 2024: a token is kept if p(x) > min(ε, δ·exp(−H)), without a coin, and the next token
/// is drawn from p.
#[test]
fn typical_acceptance_keeps_only_tokens_above_its_threshold() {
    let p = dist(&[0.5, 0.25, 0.25, 0.0]);
    // exp(−H) = 2^−1.5 = 0.354.
    let kept = |epsilon: f64, delta: f64| {
        let kept = |token| {
            let mut draft = Draft::empty(4);
            draft.certain(None, token);
            let verifier = Typical { epsilon, delta };
            let found = verdicts(&verifier, &draft, &[p.clone(), p.clone()]);
            // Whether the draft is kept or not, the next token has the distribution p.
            for (verdict, weight) in &found {
                assert_eq!(*weight, p.p(verdict.next));
            }
            let kept = found[0].0.path.len();
            assert!(found.iter().all(|(verdict, _)| verdict.path.len() == kept));
            kept == 1
        };
        [0, 1, 2, 3].map(kept)
    };
    assert_eq!(kept(0.3, 1.0), [true, false, false, false]);
    assert_eq!(kept(0.2, 1.0), [true, true, true, false]);
    // The entropy's bound: 0.75 · 0.354 = 0.265 and 0.65 · 0.354 = 0.23.
    assert_eq!(kept(1.0, 0.75), [true, false, false, false]);
    assert_eq!(kept(1.0, 0.65), [true, true, true, false]);
    // A probability equal to the bound is not enough.
    assert_eq!(kept(0.25, 1.0), [true, false, false, false]);
    assert_eq!(kept(1.0, 1.4), [true, false, false, false]);
    assert_eq!(kept(1.0, 1.5), [false; 4]);
}

/// The distribution that a verifier states, called through the trait.
fn stated(verifier: impl Verifier, p: &Dist, q: &Dist) -> Option<Dist> {
    verifier.next_distribution(p, q)
}

#[test]
fn approximate_verifiers_state_their_actual_distribution() {
    let dists = [[0.5, 0.25, 0.25, 0.0], [0.1, 0.0, 0.3, 0.6], [0.25; 4], [0.0, 0.9, 0.05, 0.05]];
    let mut rules = Vec::<Box<dyn Verifier>>::new();
    rules.extend([0.2, 0.5, 1.0].map(|lenience| Box::new(Lenient { lenience }) as Box<_>));
    let typical = |epsilon| Box::new(Typical { epsilon, delta: 0.6 }) as Box<_>;
    rules.extend([0.05, 0.2, 0.5].map(typical));
    for rule in &rules {
        for (p, q) in dists.iter().flat_map(|p| dists.iter().map(move |q| (dist(p), dist(q)))) {
            let dist = stated(&**rule, &p, &q).expect("it is approximate");
            let (found, _) = first_token(&one_draft(&**rule, &p, &Rc::new(q)), 4);
            near(&found, &[0, 1, 2, 3].map(|token| dist.p(token)));
        }
    }
    let exact = stated(Rejection, &dist(&dists[0]), &dist(&dists[1]));
    assert!(exact.is_none(), "exact verifiers state none");
}

/// Even if q is 1 up to the last digit, the second child has the distribution of the
/// other tokens.
#[test]
fn spechub_is_exact_if_the_draft_is_almost_certain() {
    let spechub = made(VERIFIERS.iter().find(|entry| entry.name == "spechub").unwrap());
    let p = dist(&[0.2, 0.5, 0.3]);
    for rest in [1e-12, 1e-16, 1e-18] {
        let q = Rc::new(Dist::from_weights(vec![1.0, 0.5 * rest, 0.5 * rest]).unwrap());
        let (mut chance, mut found) = (Exhaustive::default(), Vec::new());
        loop {
            chance.begin_round(0);
            let mut draft = Draft::empty(3);
            draft.sample_hub(None, &q, &mut chance);
            let targets = vec![p.clone(); 1 + draft.len()];
            let verdict = spechub.verify(&draft, &targets, &mut chance);
            found.push((draft, verdict, chance.weight()));
            if !chance.advance() {
                break;
            }
        }
        let (dist, kept) = first_token(&found, 3);
        near(&dist, &[0.2, 0.5, 0.3]);
        // Each other token is in half of the pairs, enough to keep all of its 0.5 or 0.3.
        near(&[kept], &[1.0]);
        let fell = found.iter().filter(|(_, verdict, _)| verdict.residual_fallbacks > 0);
        // A probability of one may be rounded to just below one, and then no residual is left.
        assert!(fell.map(|(_, _, weight)| weight).sum::<f64>() < 1e-15);
    }
}

/// The properties of a verifier, called through the trait.
fn properties(verifier: impl Verifier, shape: &DraftShape) -> (bool, Option<usize>, Siblings) {
    (verifier.supports(shape), verifier.coupling(), verifier.siblings())
}

/// Verifiers with independent randomness do not support coupled drafts, and verifiers for one kind
/// of siblings do not support the other kinds.
#[test]
fn verifiers_support_only_drafts_for_which_they_are_exact() {
    let couple = |mut shape: DraftShape| {
        shape.coupled = true;
        shape
    };
    let coupled = couple(DraftShape::NOTHING);
    for entry in VERIFIERS {
        let verifier = made(entry);
        let races = entry.build.class == Class::P;
        assert_eq!(verifier.supports(&coupled), races, "{}", entry.name);
        assert_eq!(verifier.coupling(), races.then_some(1), "{}", entry.name);
        // A reference to a verifier is that verifier.
        let found = properties(&*verifier, &coupled);
        assert_eq!(found, (races, verifier.coupling(), verifier.siblings()), "{}", entry.name);
        let own: &[Siblings] = match entry.name {
            "k_seq" => &[Siblings::Independent],
            "spechub" => &[Siblings::Hub],
            "greedy_multi" => &[Siblings::LastSampled, Siblings::TopK],
            _ => &Siblings::CHOICES,
        };
        for kind in Siblings::CHOICES {
            let shape = DraftShape::SAMPLED.with(kind);
            assert_eq!(verifier.supports(&shape), own.contains(&kind), "{} {kind:?}", entry.name);
            assert_eq!(verifier.supports(&couple(shape)), races, "{} {kind:?}", entry.name);
        }
        assert!(own.contains(&verifier.siblings()), "{}", entry.name);
    }
    let lists = Params::default().with("gumbel_lists", Value::Count(3));
    let gumbel = VERIFIERS.iter().find(|entry| entry.name == "gumbel").unwrap();
    let lists = lists.of(gumbel.params).unwrap();
    let three = (gumbel.build.make)(&lists);
    assert_eq!(properties(&*three, &coupled).1, Some(3));
}

/// Distributions are normalised to within 1e-9, so q can be a little above p everywhere:
/// then a child may be rejected although no residual is left. The token is drawn from p,
/// and the verdict counts the fallback.
#[test]
fn a_residual_without_mass_falls_back_to_the_target() {
    let p = dist(&[0.5, 0.5]);
    let q = Rc::new(dist(&[0.5 + 4e-10, 0.5]));
    for entry in VERIFIERS.iter().filter(|entry| entry.build.class == Class::D) {
        if entry.name == "token_match" {
            continue;
        }
        let found = one_draft(&*made(entry), &p, &q);
        let rejected = found.iter().filter(|(_, verdict, _)| verdict.path.is_empty());
        let rejected = rejected.collect::<Vec<_>>();
        assert_eq!(rejected.len(), 2, "{}", entry.name);
        for (_, verdict, weight) in rejected {
            assert_eq!(verdict.residual_fallbacks, 1, "{}", entry.name);
            // Token 0, half of the draws, is rejected with probability 8e-10.
            assert!((weight / 2e-10 - 1.0).abs() < 1e-6, "{}: {weight}", entry.name);
        }
        let kept = found.iter().filter(|(_, verdict, _)| !verdict.path.is_empty());
        assert!(kept.into_iter().all(|(_, v, _)| v.residual_fallbacks == 0), "{}", entry.name);
    }
}

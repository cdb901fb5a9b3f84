//! The acceptance ceiling compared with its definition: the smallest `p(S) − P(X ⊆ S)` over all
//! sets of tokens, with P(X ⊆ S) from enumerated draws of the children.

use std::rc::Rc;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::core::chance::{Chance, Exhaustive, Request, Seeded};
use specdec::core::distribution::Dist;
use specdec::core::tree::{Draft, Siblings};
use specdec::method::verify::{ceiling, ceilings};

use crate::verifier_distribution::{grow, random_distribution};

/// Sums of up to a thousand products of doubles.
const TOLERANCE: f64 = 1e-12;

/// Every draft with its probability.
fn drafts(q: &Rc<Dist>, kind: (Siblings, usize)) -> Vec<(Draft, f64)> {
    let mut chance = Exhaustive::default();
    let mut found = Vec::new();
    loop {
        chance.begin_round(0);
        let mut draft = Draft::empty(q.vocab());
        grow(&mut draft, None, q, kind, &mut chance);
        found.push((draft, chance.weight()));
        if !chance.advance() {
            return found;
        }
    }
}

/// `1 + min_S (p(S) − P(X ⊆ S))`; X is given as sets of tokens in bits.
fn by_definition(p: &Dist, drafts: &[(Draft, f64)]) -> f64 {
    let bits = |draft: &Draft| draft.nodes().iter().fold(0_u32, |set, n| set | 1 << n.token);
    let sets = drafts.iter().map(|(draft, weight)| (bits(draft), weight)).collect::<Vec<_>>();
    let gap = |s: u32| {
        let inside = sets.iter().filter(|(x, _)| x & !s == 0).map(|(_, w)| *w).sum::<f64>();
        p.support().filter(|(t, _)| s >> t & 1 == 1).map(|(_, p)| p).sum::<f64>() - inside
    };
    1.0 + (0..1 << p.vocab()).map(gap).fold(0.0, f64::min)
}

/// If q is almost one-hot, rounding makes one minus its largest probability differ from the mass of
/// the other tokens.
#[test]
fn the_ceiling_is_accurate_when_q_is_almost_one_hot() {
    for rest in [1e-12, 1e-16, 1e-18] {
        for vocab in [3, 12] {
            let mut weights = vec![0.0; vocab];
            (weights[0], weights[1], weights[vocab - 1]) = (1.0, 0.75 * rest, 0.25 * rest);
            let spread = weights.iter().map(|w| w + 1e-40).collect::<Vec<_>>();
            let q = Rc::new(Dist::from_weights(spread).unwrap());
            // The second child is token 1 in three of four draws and otherwise the last token.
            let mut p = vec![0.0; vocab];
            (p[1], p[vocab - 1]) = (0.5, 0.5);
            let p = Dist::from_probs(p).unwrap();
            for kind in [Siblings::Distinct, Siblings::Hub] {
                let mut draft = Draft::empty(vocab);
                grow(&mut draft, None, &q, (kind, 2), &mut Exhaustive::default());
                let found = ceiling(&draft, None, &p).unwrap();
                assert!((found - 0.75).abs() < 1e-9, "{kind:?} {vocab} {rest}: {found}");
            }
        }
    }
}

/// Races on several lists may have the same winner, which then counts twice.
#[test]
fn the_ceiling_counts_races_rather_than_distinct_winners() {
    let (p, q) = (dist([0.4, 0.6]), Rc::new(dist([0.9, 0.1])));
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    let mut merged = 0;
    for position in 0..20 {
        let mut draft = Draft::empty(2).at(position);
        (0..2).for_each(|list| _ = draft.race(None, &q, (position, list), &mut chance));
        merged += usize::from(draft.len() == 1);
        // Two draws from q: both are token 0 with probability 0.81, and p(0) is 0.4.
        let found = ceiling(&draft, None, &p).unwrap();
        assert!((found - (1.0 + 0.4 - 0.81)).abs() < TOLERANCE, "{found}");
    }
    assert!(merged > 0);
}

/// Catches: sums that round to slightly more than 1 make a ceiling negative.
#[test]
fn nothing_of_a_draft_is_accepted_that_the_target_cannot_draw() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for vocab in [4, 40] {
        for _ in 0..200 {
            let [p, q] = [0, 1].map(|side| {
                let of = random_distribution(vocab, &mut rng);
                let own = |t: u32| if t % 2 == side { of.p(t) + 0.01 } else { 0.0 };
                Dist::from_weights((0..vocab as u32).map(own).collect()).unwrap()
            });
            let draws = [(Siblings::Independent, 2), (Siblings::Distinct, 2)];
            for found in ceilings(&p, &q, draws).map(Option::unwrap) {
                assert!((0.0..TOLERANCE).contains(&found), "{found}");
            }
        }
    }
}

fn dist(probs: [f64; 2]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// For these kinds of siblings the ceiling does not depend on which tokens were drawn.
#[test]
fn the_ceiling_of_sampled_children_matches_its_definition() {
    let mut rng = ChaCha8Rng::seed_from_u64(2026);
    let mut below_one = 0;
    for vocab in [2, 3, 5] {
        for _ in 0..8 {
            let (p, q) =
                (random_distribution(vocab, &mut rng), random_distribution(vocab, &mut rng));
            for kind in [Siblings::Independent, Siblings::Distinct, Siblings::Hub] {
                for count in [1, 2, 3] {
                    if kind == Siblings::Hub && count != 2 {
                        continue;
                    }
                    let drafts = drafts(&q, (kind, count));
                    let expected = by_definition(&p, &drafts);
                    below_one += usize::from(expected < 1.0 - TOLERANCE);
                    // A draft with fewer children than requested is of another kind.
                    let whole = drafts.iter().filter(|(draft, _)| draft.len() == count);
                    for (draft, _) in whole {
                        let found = ceiling(draft, None, &p).unwrap();
                        let error = (found - expected).abs();
                        assert!(error < TOLERANCE, "{kind:?} {count}: {found} not {expected}");
                    }
                }
            }
        }
    }
    assert!(below_one > 80, "{below_one}");
}

/// With more than eight possible tokens the implementation does not try all sets.
#[test]
fn the_ceiling_of_two_distinct_children_with_many_tokens() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut below_one = 0;
    for vocab in [9, 10] {
        for _ in 0..6 {
            // Every token is possible, so that the fast formula is used.
            let mut dist = || {
                let few = random_distribution(vocab, &mut rng);
                let weight = |t| few.p(t) + 0.01 * f64::from(t + 1);
                Rc::new(Dist::from_weights((0..vocab as u32).map(weight).collect()).unwrap())
            };
            let (p, q) = (dist(), dist());
            let drafts = drafts(&q, (Siblings::Distinct, 2));
            let expected = by_definition(&p, &drafts);
            below_one += usize::from(expected < 1.0 - TOLERANCE);
            let found = ceiling(&drafts[0].0, None, &p).unwrap();
            assert!((found - expected).abs() < TOLERANCE, "{found} not {expected}");
        }
    }
    assert!(below_one > 6, "{below_one}");
}

/// No fast formula is known for three draws without replacement; up to eight possible
/// tokens none is needed.
#[test]
fn the_ceiling_of_three_distinct_children_needs_few_tokens() {
    let three = |vocab: usize| {
        let q = Rc::new(Dist::from_weights(vec![1.0; vocab]).unwrap());
        let mut draft = Draft::empty(vocab);
        draft.sample_distinct(None, &q, 3, &mut Exhaustive::default());
        ceiling(&draft, None, &q)
    };
    let found = three(8).unwrap();
    assert!((found - 1.0).abs() < TOLERANCE, "equal distributions can always be kept: {found}");
    assert_eq!(three(9), None);
}

/// With listed children the ceiling is their mass under p; if the last one is sampled, its
/// overlap is added, as in the definition.
#[test]
fn the_ceiling_of_listed_children_is_their_mass_under_p() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for _ in 0..8 {
        let (p, q) = (random_distribution(5, &mut rng), random_distribution(5, &mut rng));
        for count in [1, 2, 3] {
            let draft = &drafts(&q, (Siblings::TopK, count))[0].0;
            let expected = draft.nodes().iter().map(|n| p.p(n.token)).sum::<f64>();
            assert!((ceiling(draft, None, &p).unwrap() - expected).abs() < TOLERANCE);
        }
        let possible = q.support().count();
        for count in 2..=possible.min(3) {
            let all = drafts(&q, (Siblings::LastSampled, count));
            let expected = by_definition(&p, &all);
            for (draft, _) in &all {
                let found = ceiling(draft, None, &p).unwrap();
                assert!((found - expected).abs() < TOLERANCE, "{found} not {expected}");
            }
        }
    }
}

/// Without children nothing can be kept, and for mixed kinds no ceiling is known.
#[test]
fn the_ceiling_depends_only_on_the_children_of_the_given_node() {
    let dist = Rc::new(Dist::from_weights(vec![1.0, 2.0, 1.0]).unwrap());
    // A hub with one child is treated as a single certain child.
    let mut hub = Draft::empty(3);
    hub.sample_hub(None, &Rc::new(Dist::one_hot(3, 2)), &mut Exhaustive::default());
    assert_eq!((hub.siblings(None), hub.len()), (Siblings::Hub, 1));
    assert_eq!(ceiling(&hub, None, &dist), Some(0.25));
    let mut draft = Draft::empty(3);
    assert_eq!(ceiling(&draft, None, &dist), None);
    let root = draft.certain(None, 1);
    let below = draft.certain(Some(root), 2);
    assert_eq!(ceiling(&draft, Some(root), &dist), Some(0.25));
    assert_eq!(ceiling(&draft, Some(below), &dist), None);
    draft.sample(Some(root), &dist, &mut Exhaustive::default());
    assert_eq!(draft.siblings(Some(root)), Siblings::Mixed);
    assert_eq!(ceiling(&draft, Some(root), &dist), None);
}

//! Distributions: checks, residual, overlap and quantile, with the same behaviour for every
//! kind of storage.

use proptest::prelude::*;
use specdec::core::distribution::{Dist, DistError};

fn dense(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// One distribution in every storage; its probabilities are dyadic and thus exact in each.
fn storages(eighths: &[u32]) -> [Dist; 3] {
    let exact = |&n: &u32| f64::from(n) / 8.0;
    let entries = eighths.iter().enumerate().map(|(t, n)| (t as u32, exact(n))).collect();
    [
        dense(&eighths.iter().map(exact).collect::<Vec<_>>()),
        Dist::from_weights_f32(eighths.iter().map(|&n| n as f32).collect()).unwrap(),
        Dist::sparse(eighths.len(), entries).unwrap(),
    ]
}

fn probs(dist: &Dist) -> Vec<f64> {
    (0..dist.vocab() as u32).map(|t| dist.p(t)).collect()
}

#[test]
fn invalid_distributions_are_refused() {
    assert_eq!(Dist::from_probs(vec![]).unwrap_err(), DistError::Empty);
    assert!(matches!(
        Dist::from_probs(vec![0.5, f64::NAN]).unwrap_err(),
        DistError::NotFinite { token: 1, .. }
    ));
    assert_eq!(
        Dist::from_probs(vec![1.5, -0.5]).unwrap_err(),
        DistError::Negative { token: 1, value: -0.5 }
    );
    assert_eq!(Dist::from_probs(vec![0.5, 0.4]).unwrap_err(), DistError::Mass { mass: 0.9 });
    assert_eq!(Dist::from_weights(vec![0.0, 0.0]).unwrap_err(), DistError::NothingPossible);
    assert_eq!(Dist::from_weights_f32(vec![]).unwrap_err(), DistError::Empty);
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for value in bad {
        assert!(matches!(
            Dist::from_weights_f32(vec![1.0, value]).unwrap_err(),
            DistError::NotFinite { token: 1, .. }
        ));
    }
    assert!(matches!(
        Dist::from_weights_f32(vec![1.0, -1.0]).unwrap_err(),
        DistError::Negative { token: 1, .. }
    ));
    assert!(Dist::sparse(2, vec![(2, 1.0)]).is_err(), "outside the vocabulary");
    assert!(Dist::sparse(2, vec![(0, -1.0), (1, 2.0)]).is_err());
    assert_eq!(Dist::sparse(2, vec![]).unwrap_err(), DistError::NothingPossible);
}

#[test]
fn residual_and_overlap_of_a_worked_example() {
    let (p, q) = (dense(&[0.5, 0.25, 0.25]), dense(&[0.25, 0.25, 0.5]));
    assert_eq!(p.overlap(&q), 0.75);
    assert_eq!(p.total_variation(&q), 0.25);
    assert_eq!(probs(&p.residual(&q).unwrap()), [1.0, 0.0, 0.0]);
    assert!(p.residual(&p).is_none());
    let away = dense(&[0.0, 0.0, 1.0]);
    let rest = dense(&[0.5, 0.5, 0.0]);
    assert_eq!(rest.overlap(&away), 0.0);
    assert_eq!(probs(&rest.residual(&away).unwrap()), [0.5, 0.5, 0.0]);
}

#[test]
fn one_hot_is_certain() {
    let dist = Dist::one_hot(4, 2);
    assert_eq!(probs(&dist), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!((dist.argmax(), dist.entropy()), (2, 0.0));
    assert_eq!((dist.quantile(0.0), dist.quantile(0.999)), (2, 2));
    assert_eq!(dist.p(9), 0.0, "outside the vocabulary");
}

#[test]
fn quantile_never_returns_an_impossible_token() {
    for dist in storages(&[0, 4, 0, 4, 0]) {
        assert_eq!(dist.quantile(0.0), 1);
        assert_eq!(dist.quantile(0.499_999), 1);
        assert_eq!(dist.quantile(0.5), 3, "intervals include their lower end");
        assert_eq!(dist.quantile(1.0 - f64::EPSILON), 3);
        // At 1, beyond all mass, as rounding could request.
        assert_eq!(dist.quantile(1.0), 3);
    }
    // Ten times 0.1 adds up to just below one.
    assert_eq!(dense(&[0.1; 10]).quantile(1.0 - f64::EPSILON / 2.0), 9);
}

#[test]
fn argmax_ties_go_to_the_lowest_token() {
    for dist in storages(&[1, 3, 3, 1]) {
        assert_eq!(dist.argmax(), 1);
    }
}

#[test]
fn entropy_of_a_uniform_distribution_is_the_log_of_its_size() {
    for dist in storages(&[2, 2, 2, 2]) {
        assert!((dist.entropy() - 4f64.ln()).abs() < 1e-15);
    }
}

/// Weights of many tokens are summed in blocks, which must not change any quantile.
#[test]
fn quantiles_of_many_tokens_match_the_cumulative_distribution() {
    // Full, empty and partly filled blocks; all weights are powers of two.
    let weight = |t: usize| match t {
        0..256 => 1.0,
        300..310 | 600..602 => 16.0,
        768..1024 => f64::from(t as u32 % 2),
        _ => 0.0,
    };
    let weights = (0..1500).map(weight).collect::<Vec<f64>>();
    let mass = weights.iter().sum::<f64>();
    let dists = [
        Dist::from_weights(weights.clone()).unwrap(),
        Dist::from_weights_f32(weights.iter().map(|&w| w as f32).collect()).unwrap(),
    ];
    for dist in dists {
        let mut below = 0.0;
        for (t, w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            // The lower end belongs to the interval; a quarter of it lies inside.
            for part in [0.0, 0.25] {
                let u = (below + part * w) / mass;
                // Rounding may move the quotient below the interval.
                let u = if u * mass < below { u.next_up() } else { u };
                assert_eq!(dist.quantile(u), t as u32, "{u}");
            }
            below += w;
        }
        assert_eq!(dist.quantile(1.0), 1023, "the last possible token");
        assert_eq!(dist.quantile(1.0 - f64::EPSILON / 2.0), 1023);
    }
}

#[test]
fn the_error_names_the_first_invalid_token() {
    let fault = |weights: Vec<f64>| Dist::from_weights(weights).unwrap_err();
    assert_eq!(fault(vec![0.0, 1.0, -2.0, -3.0]), DistError::Negative { token: 2, value: -2.0 });
    let infinite = DistError::NotFinite { token: 1, value: f64::INFINITY };
    assert_eq!(fault(vec![0.0, f64::INFINITY, -1.0]), infinite);
    assert_eq!(fault(vec![1e308, 1e308]), DistError::TooLarge);
    // Within the first vector of lanes, after it, and after a whole block.
    for place in [3, 20, 300] {
        let mut weights = vec![0.5; 301];
        weights[place] = -0.5;
        let negative = DistError::Negative { token: place, value: -0.5 };
        assert_eq!(fault(weights.clone()), negative);
        let single = weights.iter().map(|&w| w as f32).collect();
        assert_eq!(Dist::from_weights_f32(single).unwrap_err(), negative);
    }
}

#[test]
fn a_sparse_distribution_sorts_merges_and_checks_its_entries() {
    let dist = Dist::sparse(5, vec![(3, 3.0), (1, 0.0), (0, 1.0)]).unwrap();
    assert_eq!(dist.support().collect::<Vec<_>>(), [(0, 0.25), (3, 0.75)]);
    assert_eq!(dist.vocab(), 5);
    let fault = |entries: Vec<(u32, f64)>| Dist::sparse(2, entries).unwrap_err();
    // Even a weight of zero is refused outside the vocabulary.
    assert_eq!(fault(vec![(0, 1.0), (2, 0.0)]), DistError::Outside { token: 2, vocab: 2 });
    let infinite = DistError::NotFinite { token: 1, value: f64::INFINITY };
    assert_eq!(fault(vec![(0, 1.0), (1, f64::INFINITY)]), infinite);
    assert_eq!(fault(vec![(0, 2.0), (1, -1.0)]), DistError::Negative { token: 1, value: -1.0 });
    assert_eq!(fault(vec![(0, 0.0)]), DistError::NothingPossible);
    assert_eq!(fault(vec![(0, 1e308), (1, 1e308)]), DistError::TooLarge);
    let twice = Dist::sparse(3, vec![(2, 1.0), (0, 2.0), (2, 1.0)]).unwrap();
    assert_eq!(twice.support().collect::<Vec<_>>(), [(0, 0.5), (2, 0.5)]);
    assert_eq!(Dist::one_hot(5, 4).vocab(), 5);
}

#[test]
fn a_measure_is_normalised_if_it_has_mass() {
    let (dist, mass) = Dist::from_measure(vec![0.5, 0.0, 1.5]).unwrap();
    assert_eq!((probs(&dist), mass), (vec![0.25, 0.0, 0.75], 2.0));
    assert!(Dist::from_measure(vec![0.0, 0.0]).is_none());
    assert!(Dist::from_measure(vec![1.0, -1.0]).is_none());
    assert!(Dist::from_measure(vec![]).is_none());
}

/// Given probabilities are stored unchanged; their sum may be off by 1e-9.
#[test]
fn probabilities_are_not_normalised_again() {
    let dist = dense(&[0.5 + 5e-10, 0.5]);
    assert_eq!((dist.p(0), dist.p(1)), (0.5 + 5e-10, 0.5));
    let low = dense(&[0.5 - 5e-10, 0.5]);
    assert_eq!(low.p(0), 0.5 - 5e-10);
    for off in [-2e-9, 2e-9] {
        assert!(Dist::from_probs(vec![0.5 + off, 0.5]).is_err());
    }
}

#[test]
fn most_probable_tokens_are_sorted_and_never_impossible() {
    for dist in storages(&[1, 2, 0, 3, 2]) {
        let of = |count| dist.most_probable(count);
        assert!(of(0).is_empty());
        assert_eq!(of(1), [3]);
        assert_eq!(of(2), [3, 1]);
        assert_eq!(of(3), [3, 1, 4]);
        // All possible tokens, even if more are requested.
        assert_eq!(of(4), [3, 1, 4, 0]);
        assert_eq!(of(9), [3, 1, 4, 0]);
    }
}

/// With half of q subtracted: (p − q/2)⁺ = (3, 0, 1)/8, of mass 1/2.
#[test]
fn residual_of_subtracts_a_fraction_of_q() {
    for p in storages(&[4, 2, 2]) {
        for q in storages(&[2, 4, 2]) {
            assert_eq!(probs(&p.residual_of(&q, 0.5).unwrap()), [0.75, 0.0, 0.25]);
            assert_eq!(p.total_variation(&q), 0.25);
        }
    }
}

/// Five counts of eighths that add up to eight.
fn eighths() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(0usize..5, 8).prop_map(|hits| {
        let mut counts = vec![0; 5];
        hits.into_iter().for_each(|t| counts[t] += 1);
        counts
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_storage_behaves_the_same(a in eighths(), b in eighths(), u in 0.0..1.0f64) {
        let reference = &storages(&a)[0];
        let other = &storages(&b)[0];
        for p in storages(&a) {
            prop_assert_eq!(probs(&p), probs(reference));
            prop_assert_eq!(p.support().collect::<Vec<_>>(), reference.support().collect::<Vec<_>>());
            prop_assert_eq!(p.argmax(), reference.argmax());
            prop_assert_eq!(p.entropy(), reference.entropy());
            prop_assert_eq!(p.quantile(u), reference.quantile(u));
            for q in storages(&b) {
                prop_assert_eq!(p.overlap(&q), reference.overlap(other));
                prop_assert_eq!(
                    p.residual(&q).map(|r| probs(&r)),
                    reference.residual(other).map(|r| probs(&r))
                );
            }
        }
    }

    /// p = min(p, q) + TV · residual, the identity that makes rejection sampling exact.
    #[test]
    fn acceptance_and_residual_add_up_to_p(
        a in proptest::collection::vec(0.0..1.0f64, 6),
        b in proptest::collection::vec(0.0..1.0f64, 6),
    ) {
        let (Ok(p), Ok(q)) = (Dist::from_weights(a), Dist::from_weights(b)) else { return Ok(()) };
        let rejected = 1.0 - p.overlap(&q);
        prop_assert!((rejected - p.total_variation(&q)).abs() < 1e-12);
        if let Some(residual) = p.residual(&q) {
            for t in 0..6 {
                let back = p.p(t).min(q.p(t)) + rejected * residual.p(t);
                prop_assert!((back - p.p(t)).abs() < 1e-12);
            }
        }
    }
}

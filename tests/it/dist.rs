//! Laws: checks, residual, overlap, quantile, and the same behaviour whatever
//! the storage.

use proptest::prelude::*;
use specdec::dist::{Dist, DistError};

fn dense(probs: &[f64]) -> Dist {
    Dist::from_probs(probs.to_vec()).unwrap()
}

/// One law of dyadic probabilities, which every storage holds without error.
fn storages(eighths: &[u32]) -> [Dist; 3] {
    let exact = |&n: &u32| f64::from(n) / 8.0;
    let entries = eighths.iter().enumerate().map(|(t, n)| (t as u32, exact(n))).collect();
    [
        dense(&eighths.iter().map(exact).collect::<Vec<_>>()),
        Dist::from_weights_f32(eighths.iter().map(|&n| n as f32).collect()).unwrap(),
        Dist::sparse(eighths.len(), entries).unwrap(),
    ]
}

fn probs(law: &Dist) -> Vec<f64> {
    (0..law.vocab() as u32).map(|t| law.p(t)).collect()
}

#[test]
fn what_is_no_law_is_refused() {
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
    let law = Dist::one_hot(4, 2);
    assert_eq!(probs(&law), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!((law.argmax(), law.entropy()), (2, 0.0));
    assert_eq!((law.quantile(0.0), law.quantile(0.999)), (2, 2));
    assert_eq!(law.p(9), 0.0, "outside the vocabulary");
}

#[test]
fn quantile_never_returns_an_impossible_token() {
    for law in storages(&[0, 4, 0, 4, 0]) {
        assert_eq!(law.quantile(0.0), 1);
        assert_eq!(law.quantile(0.499_999), 1);
        assert_eq!(law.quantile(0.5), 3, "intervals are closed below");
        assert_eq!(law.quantile(1.0 - f64::EPSILON), 3);
        // Beyond all mass, which rounding could ask for.
        assert_eq!(law.quantile(1.0), 3);
    }
    // Ten times 0.1 sums to just below one.
    assert_eq!(dense(&[0.1; 10]).quantile(1.0 - f64::EPSILON / 2.0), 9);
}

#[test]
fn argmax_ties_go_to_the_lowest_token() {
    for law in storages(&[1, 3, 3, 1]) {
        assert_eq!(law.argmax(), 1);
    }
}

#[test]
fn entropy_of_a_fair_choice() {
    for law in storages(&[2, 2, 2, 2]) {
        assert!((law.entropy() - 4f64.ln()).abs() < 1e-15);
    }
}

/// Eighths that sum to eight, over five tokens.
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

    /// p = min(p, q) + TV · residual: what makes rejection sampling exact.
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

//! Draft length policies over trees: drafts are counted in levels, since at most one node
//! per level can be kept.

use specdec::core::chance::Exhaustive;
use specdec::core::tree::Draft;
use specdec::method::length::DraftLength;

use crate::asking::FinishedRound;
use crate::fixtures::dist;
use crate::lengths::{EVEN, drafted, limit_of_entropy, policy};

/// Two branches of two: six nodes on two levels, and the path 0, 2 down the first.
fn two_by_two() -> Draft {
    let (dist, mut draft) = (dist(&EVEN).into(), Draft::empty(4));
    let children = |draft: &mut Draft, of| {
        (0..2).for_each(|_| _ = draft.sample(of, &dist, &mut Exhaustive::default()));
    };
    [None, Some(0), Some(1)].into_iter().for_each(|of| children(&mut draft, of));
    assert_eq!((draft.len(), draft.depth(), draft.path(2)), (6, 2, vec![0, 2]));
    draft
}

/// Reports a round that kept the first `kept` nodes of the path 0, 2.
fn observe_tree(policy: &mut dyn DraftLength, kept: usize) {
    let draft = two_by_two();
    let path = &[0, 2][..kept];
    FinishedRound::new(&draft, path).event(|event| policy.observe(event));
}

#[test]
fn adaedl_measures_acceptance_in_levels_not_nodes() {
    // 1 - sqrt(H) is compared with the threshold, which starts at 0.4.
    for (kept, step) in [(0, 0.01), (1, -0.01), (2, -0.01)] {
        // The target rate of 0.4 is also the initial estimate: one of two levels raises it to 0.45,
        // whereas one of six nodes would lower it to 0.28.
        let settings = [("adaedl_gamma", "1"), ("adaedl_acceptance", "0.4")];
        let mut policy = policy("adaedl", 9, &settings);
        observe_tree(&mut *policy, kept);
        let threshold = 0.4 + 0.1 * step;
        let limit = f64::powi(1.0 - threshold, 2);
        assert!((limit_of_entropy(&mut *policy) - limit).abs() < 1e-12, "{kept} levels");
    }
}

#[test]
fn heuristic_counts_a_fully_kept_path_as_full_acceptance() {
    for (kept, next) in [(2, 4), (1, 1), (0, 1)] {
        let mut policy = policy("heuristic", 2, &[]);
        observe_tree(&mut *policy, kept);
        assert_eq!(drafted(&mut *policy, &EVEN), next, "{kept} levels");
    }
}

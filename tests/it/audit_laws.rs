//! The laws of bugs in cases at the edge.

use specdec::audit::{BUGS, BugLaw, PlaceLaws};
use specdec::distribution::Dist;

/// Each bug emits some token: its probabilities sum to 1, whatever the laws are, p = q, one-hot
/// and disjoint ones included.
#[test]
fn each_law_of_a_bug_is_a_law() {
    let laws = [
        [0.45, 0.3, 0.2, 0.05],
        [0.2, 0.25, 0.15, 0.4],
        [0.0, 1.0, 0.0, 0.0],
        [0.5, 0.5, 0.0, 0.0],
        [0.0, 0.0, 0.3, 0.7],
    ];
    let laws = laws.map(|law| Dist::from_probs(law.to_vec()).unwrap());
    let mut placed = 0;
    for target in &laws {
        for draft in &laws {
            for raw in &laws {
                let place = PlaceLaws {
                    target,
                    raw_target: Some(raw),
                    before: Some(raw),
                    draft: Some(draft),
                    draft_before: Some(raw),
                    raw_draft: Some(raw),
                };
                for bug in BUGS {
                    let Some(law) = (bug.law)(&place) else { continue };
                    let sum = match law {
                        BugLaw::Everywhere(law) => law.iter().sum::<f64>(),
                        BugLaw::Rounds { accepted, corrected, bonus } => {
                            let bonus = bonus.map_or(1.0, |law| law.iter().sum::<f64>());
                            // A dozen sums of four numbers below 1.
                            assert!((bonus - 1.0).abs() < 1e-12, "{}", bug.name);
                            accepted.iter().chain(&corrected).sum::<f64>()
                        }
                    };
                    placed += 1;
                    assert!(
                        (sum - 1.0).abs() < 1e-12,
                        "{}: {sum} of {target:?} {draft:?} {raw:?}",
                        bug.name
                    );
                }
            }
        }
    }
    assert!(placed > 2500, "{placed}");
}

//! Sentences and counts of a comparison of two simulated runs.

use specdec::compare::compare;

use crate::report::written;
use crate::synthetic::simulated;

/// Catches: the quotient of the times of plain decoding is upside down; cells of the other run count
/// as left out.
#[test]
fn a_comparison_counts_what_one_run_lacks_and_how_plain_drifted() {
    let mut first = simulated();
    let mut second = first.clone();
    for cell in ["none-0-0", "none-0-1"] {
        for round in second.rounds.iter_mut().filter(|round| round.cell == cell) {
            for us in [
                &mut round.draft_us,
                &mut round.target_us,
                &mut round.verify_us,
                &mut round.other_us,
            ] {
                *us *= 1.25;
            }
        }
        for generation in second.generations.iter_mut().filter(|own| own.cell == cell) {
            generation.decode_us *= 1.25;
        }
    }
    let lost = |cell: &str| cell == "model-4-1" || cell == "model-2-1";
    second.plan.cells.retain(|cell| !lost(&cell.id));
    second.rounds.retain(|round| !lost(&round.cell));
    second.generations.retain(|generation| !lost(&generation.cell));
    first.plan.cells.retain(|cell| cell.id != "model-2-0");
    first.rounds.retain(|round| round.cell != "model-2-0");
    first.generations.retain(|generation| generation.cell != "model-2-0");
    let (first, second) = (written(&first), written(&second));
    let found = compare(first.path(), second.path()).unwrap();
    assert_eq!((found.unmatched, found.cells.len()), ([2, 1], 3));
    let verdict = found.verdict.join("\n");
    assert!(verdict.contains("Left out: 2 cells of A and 1 of B."), "{verdict}");
    assert!(verdict.contains("Plain decoding took 1.250 "), "{verdict}");
}

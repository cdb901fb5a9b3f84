//! The table of tokens to detection.

use super::{rows, text};

const RUN: &str = "results/22-tokens-to-detection/2026-11-29-intel-xeon-2c";

/// Catches: the table of the page is not that of the results.
#[test]
fn the_table_of_tokens_to_detection_is_in_the_results() {
    let rows = rows(RUN, "detection");
    let (mut table, mut found) = (String::new(), [0; 2]);
    for both in rows.chunks(2) {
        for (found, row) in found.iter_mut().zip(both) {
            *found += usize::from(row["refuted"] == row["orders"]);
        }
        assert_eq!(both[0]["decoder"], both[1]["decoder"]);
        let cells = both.iter().map(|row| {
            let median = Some(&*row["median_tokens"]).filter(|median| !median.is_empty());
            let refuted = format!("{} of {}", row["refuted"], row["orders"]);
            format!("{} | {refuted}", median.unwrap_or("-"))
        });
        let cells = cells.collect::<Vec<_>>().join(" | ");
        table += &format!("| `{}` | {cells} |\n", both[0]["decoder"]);
    }
    let page = text("experiments/22-tokens-to-detection/README.md");
    assert!(page.contains(&table), "the page should have this table:\n{table}");
    // The first decoder is exact.
    let ([audit, other], wrong) = (found, rows.len() / 2 - 1);
    assert!(page.contains(&format!("The audit refutes {audit} of {wrong} wrong decoders")));
    assert!(other == 1 && page.contains("The two-sample test refutes one in all orders"));
}

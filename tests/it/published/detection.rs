//! The table of tokens to detection.

use super::{Columns, project, text};

const RUN: &str = "results/22-tokens-to-detection/2026-11-29-intel-xeon-2c";

/// Catches: the table of the page is not that of the results.
#[test]
fn the_table_of_tokens_to_detection_is_in_the_results() {
    let mut file = csv::Reader::from_path(project(&format!("{RUN}/detection.csv"))).unwrap();
    let rows = file.deserialize().collect::<Result<Vec<Columns>, _>>().unwrap();
    let mut table = String::new();
    for both in rows.chunks(2) {
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
}

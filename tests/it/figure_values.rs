//! The values behind the figures of a page, compared with the rows of the run.

use std::fs;

use specdec::measure::rows::RoundRow;
use specdec::run::report::{load, report};

use crate::report::{summary, written};
use crate::synthetic::Synthetic;

/// What a reader sees at each value of a cell: lines of a name and a number.
fn tips(page: &str, cell: &str) -> Vec<Vec<(String, f64)>> {
    let own = format!("data-key=\"{cell}\" data-tip=\"");
    let spots = page.split(&own).skip(1);
    let number = |line: &str| {
        let (name, value) = line.rsplit_once(": ")?;
        Some((name.to_owned(), value.split(' ').next()?.parse().ok()?))
    };
    let lines = spots.map(|spot| spot.split_once('"').unwrap().0.split("&#10;"));
    lines.map(|lines| lines.filter_map(number).collect()).collect()
}

/// Catches: parts of a round are exchanged, or not per round; shares do not sum to 1; a prediction is
/// divided by the measurement.
#[test]
fn figures_have_the_values_of_the_rows() {
    let run = Synthetic { prompts: 12, temperatures: vec![1.0], ..Synthetic::tiny() };
    let rows = run.rows();
    let folder = written(&rows);
    report(folder.path()).unwrap();
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    let cell = "model-3-1";
    let own = rows.rounds.iter().filter(|round| round.cell == cell).collect::<Vec<_>>();
    let mean =
        |of: &dyn Fn(&RoundRow) -> f64| own.iter().map(|r| of(r)).sum::<f64>() / own.len() as f64;
    let ms = |of: fn(&RoundRow) -> f64| mean(&|round| of(round) / 1000.0);
    let share = |n: usize| mean(&|round| f64::from(u8::from(round.accepted == n)));
    let found = summary(&load(folder.path()).unwrap());
    let row = found.into_iter().find(|row| row.cell == cell).unwrap();
    let residual = row.speedup.unwrap() / row.predicted_speedup.unwrap();
    let parts = [ms(|r| r.target_us), ms(|r| r.draft_us), ms(|r| r.verify_us), ms(|r| r.other_us)];
    let time = [("time per round (ms)", parts.iter().sum())];
    let time =
        time.into_iter().chain(["target", "draft", "verify", "other"].into_iter().zip(parts));
    let shares = [("share of rounds", 1.0)].into_iter();
    let shares = shares.chain(["0", "1", "2", "3"].into_iter().zip([0, 1, 2, 3].map(share)));
    let measured = [("measured ÷ predicted speedup", residual)].into_iter();
    let tips = tips(&page, cell);
    for expected in [time.collect::<Vec<_>>(), shares.collect(), measured.collect()] {
        let name = expected[0].0;
        let tip = tips.iter().find(|tip| tip.first().is_some_and(|(own, _)| own == name));
        let tip = tip.unwrap_or_else(|| panic!("no {name} in {tips:?}"));
        assert_eq!(tip.len(), expected.len(), "{tip:?}");
        for ((found, value), (name, expected)) in tip.iter().zip(expected) {
            // Six digits are shown.
            assert!(
                found == name && (value - expected).abs() < 1e-5 * expected.max(0.1),
                "{tip:?}"
            );
        }
    }
}

//! The tables of drafters that were trained at equal budgets.

use std::fmt::Write;

use super::{Columns, rows, text, value, words};

const RUN: &str = "results/20-equal-budget/2026-11-29-intel-xeon-2c";
const DRAFTERS: [&str; 4] = ["draft", "tap", "eagle3", "dspark"];

/// The row in which these columns have these values.
fn one<'r>(rows: &'r [Columns], keys: &[(&str, &str)]) -> &'r Columns {
    let found = rows.iter().filter(|row| keys.iter().all(|(key, value)| row[*key] == *value));
    let found = found.collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{keys:?}");
    found[0]
}

/// A value with the ends of its interval, two decimals each.
fn interval(row: &Columns, columns: [&str; 3]) -> String {
    let [middle, low, high] = columns.map(|column| value(row, column));
    format!("{middle:.2} [{low:.2}, {high:.2}]")
}

fn line(name: &str, cells: impl IntoIterator<Item = String>) -> String {
    let cells = cells.into_iter().collect::<Vec<_>>().join(" | ");
    format!("| {name} | {cells} |\n")
}

/// Catches: a table of the page is not that of the results.
#[test]
fn tables_of_equal_budgets_are_in_the_results() {
    let page = text("experiments/20-equal-budget/README.md");
    let [tau, seeds, costs] = ["tau", "seeds", "costs"].map(|name| rows(RUN, name));
    let mut efficiency = String::new();
    for group in ["kl-1", "kl-2", "kl-3", "ce-1", "tv-1", "on-1", "scratch-1"] {
        let of = |drafter| {
            let keys = [
                ("group", group),
                ("drafter", drafter),
                ("budget", "524288"),
                ("num_speculative_tokens", "4"),
                ("temperature", "1.0"),
            ];
            let columns = ["block_efficiency", "block_efficiency_lo", "block_efficiency_hi"];
            interval(one(&tau, &keys), columns)
        };
        efficiency += &line(&format!("`{group}`"), DRAFTERS.map(of));
    }
    let mut budgets = String::new();
    for drafter in DRAFTERS {
        let of = |budget| {
            let keys = [("drafter", drafter), ("budget", budget), ("text", "own")];
            interval(one(&seeds, &keys), ["mean", "least", "most"])
        };
        let found = ["131072", "262144", "524288", "equal-flops"].map(of);
        budgets += &line(&format!("`{drafter}`"), found);
    }
    let mut speed = String::new();
    for drafter in DRAFTERS {
        let _ = write!(speed, "| `{drafter}` |");
        for k in ["4", "8"] {
            let keys =
                [("drafter", drafter), ("num_speculative_tokens", k), ("temperature", "1.0")];
            let row = one(&costs, &keys);
            let speedup = interval(row, ["speedup", "speedup_lo", "speedup_hi"]);
            let _ = write!(speed, " {:.3} | {speedup} |", value(row, "cost_ratio"));
        }
        speed.push('\n');
    }
    for table in [efficiency, budgets, speed] {
        assert!(page.contains(&table), "the page should have this table:\n{table}");
    }
    for (drafter, tokens) in [("draft", "268,288"), ("eagle3", "288,768"), ("dspark", "315,392")] {
        let keys = [("group", "kl-1"), ("drafter", drafter), ("budget", "equal-flops")];
        assert_eq!(one(&rows(RUN, "trainings"), &keys)["tokens"], tokens.replace(',', ""));
        assert!(page.contains(tokens), "{tokens}");
    }
}

const SMOLLM2: &str = "results/20-equal-budget/2026-11-29-intel-xeon-2c-smollm2";

/// Catches: the table of the second target is not that of its results.
#[test]
fn the_table_of_smollm2_is_in_the_results() {
    let page = text("experiments/20-equal-budget/README.md");
    let (tau, overlaps) = (rows(SMOLLM2, "tau"), rows(SMOLLM2, "overlap"));
    let mut table = String::new();
    for drafter in DRAFTERS {
        let overlap = |budget| {
            let keys =
                [("drafter", drafter), ("budget", budget), ("text", "own"), ("position", "all")];
            interval(one(&overlaps, &keys), ["overlap", "low", "high"])
        };
        let tau = |temperature| {
            let keys = [("drafter", drafter), ("temperature", temperature)];
            let columns = ["block_efficiency", "block_efficiency_lo", "block_efficiency_hi"];
            interval(one(&tau, &keys), columns)
        };
        let cells = [overlap("65536"), overlap("131072"), tau("0.7"), tau("1.0")];
        table += &line(&format!("`{drafter}`"), cells);
    }
    assert!(page.contains(&table), "the page should have this table:\n{table}");
}

const LOSSES: &str = "results/19-drawn-or-greedy/2026-11-29-intel-xeon-2c-losses";

/// Catches: the table of losses of experiment 19 is not that of the results.
#[test]
fn the_table_of_training_losses_is_in_the_results() {
    let page = text("experiments/19-drawn-or-greedy/README.md");
    let (levels, measured) = (rows(LOSSES, "levels"), rows(LOSSES, "measured"));
    let (mut table, mut more, mut all) = (String::new(), 0, 0);
    for loss in ["kl", "ce", "tv"] {
        for temperature in ["0.3", "0.5", "0.7", "1.0"] {
            let at = [("draft", loss), ("temperature", temperature)];
            let level = one(&levels, &[at[0], at[1], ("tokens", "1")]);
            let chain = |params| {
                let keys = [at[0], at[1], ("drafter", "model"), ("params", params)];
                value(one(&measured, &keys), "block_efficiency")
            };
            let columns = ["drawn", "greedy", "greedy_better"].map(|column| value(level, column));
            more += usize::from(columns[0] > columns[1]);
            all += 1;
            let tau = ["", "draft_temperature=0"].map(chain);
            let cells = columns.into_iter().chain(tau).map(|value| format!("{value:.2}"));
            table += &line(&format!("{loss} | {temperature}"), cells);
        }
    }
    assert!(page.contains(&table), "the page should have this table:\n{table}");
    assert!(words(&page).contains(&format!("accepted more in {more} of {all} rows")));
}

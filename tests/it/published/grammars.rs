//! The table of speculation under a grammar.

use specdec::measure::statistics::{Sample, TimeSums};
use specdec::run::report::{CellView, load};

use super::{project, rows, text, value};

const RUNS: [(&str, &str); 2] = [
    ("schema", "results/21-grammars/2026-11-29-intel-xeon-2c"),
    ("free", "results/21-grammars/2026-11-29-intel-xeon-2c-free"),
];

/// Catches: a row of the page's table is not that of its run.
#[test]
fn the_table_of_grammars_is_in_the_results() {
    let mut table = String::new();
    for (name, run) in RUNS {
        for cell in rows(run, "summary").iter().filter(|cell| !cell["speedup"].is_empty()) {
            let drafter = match cell["params"].contains("draft_controls=0") {
                true => "`model`, q without the schema".to_owned(),
                false => format!("`{}`", cell["drafter"]),
            };
            let of = |column| format!("{:.2}", value(cell, column));
            let [speedup, low, high] = ["speedup", "speedup_lo", "speedup_hi"].map(of);
            table += &format!(
                "| {name} | {drafter} | {} | {} | {} | {speedup} [{low}, {high}] |\n",
                value(cell, "temperature"),
                of("acceptance_rate"),
                of("block_efficiency"),
            );
        }
    }
    let page = text("experiments/21-grammars/README.md");
    assert!(page.contains(&table), "the page should have this table:\n{table}");
}

/// Milliseconds per token of greedy plain decoding: of the target, and of verification.
fn plain_costs(run: &str) -> [f64; 2] {
    let run = load(&project(run)).unwrap();
    let plain =
        |view: &&CellView| view.row.drafter == "none" && view.row.sampling.temperature == 0.0;
    let samples = &run.cells.iter().find(plain).unwrap().samples;
    let tokens = samples.iter().map(|sample| sample.target_forwards as f64).sum::<f64>();
    let mean = |of: fn(&TimeSums) -> f64| {
        samples.iter().map(|sample| of(&sample.rounds.times)).sum::<f64>() / tokens / 1e3
    };
    [mean(|times| times.target), mean(|times| times.verify)]
}

/// Catches: the page states another cost of the grammar than that of the runs.
#[test]
fn the_cost_of_the_grammar_is_that_of_the_runs() {
    let page = text("experiments/21-grammars/README.md");
    for (_, run) in [RUNS[0], ("", "results/21-grammars/2026-11-29-intel-xeon-2c-small")] {
        let [[pass, with], [_, without]] =
            ["", "-free"].map(|end| plain_costs(&format!("{run}{end}")));
        let (cost, share) = (with - without, 100.0 * (with - without) / pass);
        let stated = format!("{cost:.2} ms of {pass:.1} ms, {share:.1} %");
        assert!(page.contains(&stated), "{stated}");
    }
}

/// Catches: the page states another number of draft passes that forced tokens save.
#[test]
fn the_draft_passes_per_round_are_those_of_the_run() {
    let run = load(&project(RUNS[0].1)).unwrap();
    let knows = |view: &&CellView| {
        view.row.drafter == "model"
            && view.row.sampling.temperature == 0.0
            && !view.row.params.contains("draft_controls")
    };
    let samples = &run.cells.iter().find(knows).unwrap().samples;
    let sum = |of: fn(&Sample) -> usize| samples.iter().map(of).sum::<usize>() as f64;
    let rounds = sum(|sample| sample.rounds.acceptance.rounds);
    let passes = sum(|sample| sample.draft_forwards);
    let proposed = sum(|sample| sample.rounds.acceptance.proposed);
    let stated = format!("{:.2} of {:.2} per round", passes / rounds, proposed / rounds);
    let page = text("experiments/21-grammars/README.md");
    assert!(page.contains(&stated), "{stated}");
    let share = format!("{:.0} % of the draft passes", 100.0 * (1.0 - passes / proposed));
    assert!(page.contains(&share), "{share}");
}

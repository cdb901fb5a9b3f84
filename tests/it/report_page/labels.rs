//! The order and the names of columns: what readers look for comes first, and says what it is.

use crate::report::{reported, summary};
use crate::report_page::page;
use crate::synthetic::Synthetic;
use specdec::run::report::load as load_run;

/// The cells of a line of a Markdown table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Catches: a head stands over the numbers of another column; speedups are off the screen.
#[test]
fn speedups_come_first_and_heads_name_their_numbers() {
    let (folder, text) = reported(&Synthetic::large().rows());
    let rows = summary(&load_run(folder.path()).unwrap());
    let all = text.split("## All cells").nth(1).unwrap();
    let mut lines = all.lines().skip_while(|line| !line.starts_with('|'));
    let head = cells(lines.next().unwrap());
    assert_eq!(head[..4], ["method", "sampling", "K", "speedup [95 %]"]);
    let best = text.lines().find(|line| line.starts_with("| method |")).unwrap();
    assert_eq!(cells(best)[..4], ["method", "sampling", "best K", "speedup [95 %]"]);
    let place = |name: &str| head.iter().position(|own| *own == name).expect(name);
    let mut seen = 0;
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let line = cells(line);
        let row = rows.iter().find(|row| row.cell == line[place("cell")]).unwrap();
        let number = |value: Option<f64>, decimals: usize| format!("{:.decimals$}", value.unwrap());
        let expected = [
            ("speedup [95 %]", number(row.speedup, 2)),
            ("accepted ÷ proposed", number(row.acceptance_rate, 3)),
            ("alpha, mean Σ min(p, q) per position [95 %]", number(row.alpha, 3)),
            ("τ, tokens per round [95 %]", number(row.block_efficiency, 2)),
            ("predicted speedup", number(row.predicted_speedup, 2)),
            ("c, time of a drafted token ÷ T(1)", number(row.cost_ratio, 3)),
            ("T(K+1) ÷ T(1), target passes", number(row.verify_cost_ratio, 2)),
            ("tokens/s", number(row.tokens_per_second, 1)),
            ("rounds", row.rounds.to_string()),
        ];
        for (name, number) in expected {
            assert_eq!(line[place(name)].split(" [").next(), Some(&*number), "{name}: {line:?}");
        }
        seen += 1;
    }
    assert_eq!(seen, 36);
    // The page explains the abbreviation where it uses it.
    let page = page(folder.path());
    assert!(page.contains("TV is the total variation from the target&#39;s distribution."));
}

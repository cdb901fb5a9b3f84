//! Numbers in READMEs, compared with the committed runs that they come from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use specdec::measure::rows::SummaryRow;
use specdec::run::report::{load, report};
use tempfile::TempDir;

use crate::report::summary;

mod budgets;
mod detection;
mod experts;
mod grammars;

const FIRST: &str = "results/01-draft-length/2026-11-22-amd-epyc-2c";

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(project(path)).unwrap()
}

/// A copy of a committed run, without its figures.
fn copy(run: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(project(run)).unwrap().map(Result::unwrap) {
        if file.path().is_file() {
            fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
    }
    folder
}

/// The cells of a table's row, without their blanks.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The rows of the first table after `heading`, without its head.
fn table<'t>(text: &'t str, heading: &str) -> Vec<Vec<&'t str>> {
    let after = text.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}"));
    let rows = after.lines().skip_while(|line| !line.starts_with('|'));
    rows.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

/// Catches: README prints another table than the program does for the committed run.
#[test]
fn the_readme_has_the_table_of_the_committed_run() {
    let folder = copy(FIRST);
    let printed = report(folder.path()).unwrap().0.text(120);
    let from = printed.find("\nmethod ").unwrap() + 1;
    let readme = text("README.md");
    assert!(readme.contains(&printed[from..]), "{}", &printed[from..]);
    let loops = printed.lines().next().unwrap().trim_start_matches("warning: ");
    let share = loops.split(" at T = 0").next().unwrap().rsplit(' ').nth(1).unwrap();
    assert!(readme.contains(&format!("{share} % of the tokens")), "{loops}");
}

/// Catches: README leads with speedups that the real pair does not have, or that rest on loops.
#[test]
fn the_readme_leads_with_the_real_pair() {
    let real = summary(&load(&project("results/08-real-pair/2026-11-24-intel-xeon-2c")).unwrap());
    let readme = text("README.md");
    let lead = readme.split("![").next().unwrap();
    for temperature in [0.0, 1.0] {
        let own = |row: &&SummaryRow| {
            row.drafter == "model"
                && row.verifier == "rejection"
                && row.num_speculative_tokens == Some(2)
                && row.sampling.temperature == temperature
        };
        let row = real.iter().find(own).unwrap();
        assert_eq!(row.baseline_loop_share, Some(0.0));
        let (_, speedup) = shown(row, [row.speedup, row.speedup_lo, row.speedup_hi]).unwrap();
        let speedup = speedup.trim_end_matches(", K = 2");
        assert!(lead.contains(&format!("{speedup} times")), "T = {temperature}: {speedup}");
    }
    let table = readme.lines().find(|line| line.starts_with("model") && line.contains("T = 1 "));
    let embedded = lead.split("reaches ").nth(1).unwrap().split(" at T = 1").next().unwrap();
    assert!(table.unwrap().contains(embedded), "{embedded}");
}

/// A speedup with its interval, and K.
fn shown(row: &SummaryRow, [value, lo, hi]: [Option<f64>; 3]) -> Option<(f64, String)> {
    let (value, k) = (value?, row.num_speculative_tokens?);
    Some((value, format!("{value:.2} [{:.2}, {:.2}], K = {k}", lo?, hi?)))
}

/// Catches: a speedup of the table of 01 that is not that of its run, such as one with loops in a
/// row without.
#[test]
fn the_speedups_of_draft_lengths_are_those_of_the_runs() {
    let runs = ["", "-bf16", "-q8_0"].map(|dtype| format!("{FIRST}{dtype}"));
    let runs = runs.map(|run| summary(&load(&project(&run)).unwrap()));
    let best = |run: &[SummaryRow], drafter: &str, temperature: f64, loops: bool| {
        let own = run.iter().filter(|row| {
            row.drafter == drafter && row.sampling.temperature == temperature && !row.control
        });
        let speedups = own.filter_map(|row| match loops {
            true => shown(row, [row.speedup, row.speedup_lo, row.speedup_hi]),
            false => shown(
                row,
                [row.loop_free_speedup, row.loop_free_speedup_lo, row.loop_free_speedup_hi],
            ),
        });
        speedups.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
    };
    let readme = text("experiments/01-draft-length/README.md");
    let rows = table(&readme, "at the best K:");
    let rows = rows.iter().filter(|row| !row[0].starts_with('*')).collect::<Vec<_>>();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let (temperature, loops) = match row[1] {
            "0, without loops" => (0.0, false),
            "0, all" => (0.0, true),
            other => (other.parse().unwrap(), true),
        };
        let found = runs.iter().map(|run| best(run, row[0], temperature, loops));
        assert_eq!(found.collect::<Vec<_>>(), row[2..], "{} at T = {}", row[0], row[1]);
    }
}

/// Catches: a speedup of the table of 04 that is not that of its run.
#[test]
fn the_speedups_of_drafters_by_category_are_those_of_the_run() {
    let folder = copy("results/04-drafters/2026-11-22-amd-epyc-2c");
    report(folder.path()).unwrap();
    let found = fs::read_to_string(folder.path().join("report.md")).unwrap();
    let found = table(&found, "## By category of prompt");
    let speedups = found.iter().map(|row| {
        let speedups = row[4..].iter().map(|cell| cell.split(", ").nth(1).unwrap());
        ((row[0], row[1]), speedups.collect::<Vec<_>>())
    });
    let speedups = speedups.collect::<BTreeMap<_, _>>();
    let readme = text("experiments/04-drafters/README.md");
    let rows = table(&readme, "better over all prompts:");
    assert_eq!(rows.len(), 11);
    for row in rows {
        let method = row[0].split(" (").next().unwrap();
        let method = match method {
            "bigrams of the text so far" => "ngram_lm, ngram_order = 2",
            "trigrams" => "ngram_lm, ngram_order = 3",
            "tree 2,2,1" => "model_tree",
            other => other,
        };
        let of = |sampling| speedups[&(method, sampling)].clone();
        assert_eq!([of("T = 0"), of("T = 1")].concat(), row[1..], "{method}");
    }
}

const DRAWN: &str = "results/19-drawn-or-greedy/2026-11-29-amd-epyc-2c";

/// A text on one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A row of a file of results, by column.
type Columns = BTreeMap<String, String>;

/// The rows of a table of a results folder.
fn rows(run: &str, name: &str) -> Vec<Columns> {
    let mut file = csv::Reader::from_path(project(&format!("{run}/{name}.csv"))).unwrap();
    file.deserialize().collect::<Result<_, _>>().unwrap()
}

fn drawn(name: &str) -> Vec<Columns> {
    rows(DRAWN, name)
}

/// A row of a table: a draft, its temperature, and values with two decimals; "-" for NaN.
fn line(key: &[&str], values: impl IntoIterator<Item = f64>) -> String {
    let shown = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.2}") };
    let values = values.into_iter().map(shown);
    let key = key.iter().map(ToString::to_string);
    format!("| {} |\n", key.chain(values).collect::<Vec<_>>().join(" | "))
}

fn value(row: &Columns, column: &str) -> f64 {
    row[column].parse().unwrap()
}

/// The row of `levels.csv` for a number of tokens, next to that of one token.
fn level<'r>(levels: &'r [Columns], one: &Columns, tokens: &str, draws: &str) -> &'r Columns {
    let same = |other: &&Columns| {
        let keys = ["draft", "temperature", "draft_temperature"];
        other["tokens"] == tokens
            && other["draws"] == draws
            && keys.iter().all(|key| other[*key] == one[*key])
    };
    levels.iter().find(same).unwrap()
}

/// Catches: a table or a count of the page is not that of the results.
#[test]
fn tables_of_drawn_and_greedy_drafts_are_in_the_results() {
    let page = text("experiments/19-drawn-or-greedy/README.md");
    let (levels, measured) = (drawn("levels"), drawn("measured"));
    let (mut positions, mut runs, mut scaled) = (String::new(), String::new(), String::new());
    // By row: drawn tokens win, greedy siblings win against either kind of draws, a tree with one of
    // each has the most tokens.
    let mut wins = [(0, 0); 4];
    let mut shares = Vec::new();
    let one = levels.iter().filter(|row| row["tokens"] == "1");
    let (own, others) = one.partition::<Vec<_>, _>(|row| row["draft_temperature"].is_empty());
    for row in own {
        let key = [&*row["draft"], &*row["temperature"]];
        let [two, distinct] =
            ["independent", "distinct"].map(|draws| level(&levels, row, "2", draws));
        let four = level(&levels, row, "4", "independent");
        let of = |row: &Columns| ["drawn", "greedy"].map(|column| value(row, column));
        let ([a, b], [c, d], [e, _], [f, g]) = (of(row), of(two), of(distinct), of(four));
        shares.push(value(row, "greedy_better"));
        positions += &line(&key, [a, b, value(row, "greedy_better"), c, e, d, f, g]);
        let cells = measured.iter().filter(|cell| {
            cell["draft"] == key[0] && value(cell, "temperature") == value(row, "temperature")
        });
        let cells = cells.collect::<Vec<_>>();
        let tau = |of: &dyn Fn(&str) -> bool| {
            let own = cells.iter().find(|cell| of(&cell["params"]));
            own.map(|cell| value(cell, "block_efficiency"))
        };
        let cold = |params: &str| params.contains("draft_temperature=0");
        let chain = |params: &str| !cold(params) && !params.contains("tree=");
        let tree = |kind: &str| tau(&|params| params == format!("siblings={kind};tree=2,2,2"));
        let kinds = ["independent", "distinct", "top_k", "last_sampled"].map(tree);
        runs += &line(
            &key,
            [tau(&chain), tau(&cold)].into_iter().chain(kinds).map(|tau| tau.unwrap_or(f64::NAN)),
        );
        let mut count = |at: usize, won: bool| {
            wins[at].0 += usize::from(won);
            wins[at].1 += 1;
        };
        count(0, a > b);
        count(1, d > c);
        count(2, d > e);
        if let [Some(x), Some(y), Some(z), Some(both)] = kinds {
            count(3, both >= x.max(y).max(z));
        }
        let same = |other: &&&Columns| [&*other["draft"], &*other["temperature"]] == key;
        let at = others.iter().filter(same).map(|other| value(other, "drawn")).collect::<Vec<_>>();
        if !at.is_empty() {
            scaled += &line(&key[1..], [b].into_iter().chain(at));
        }
    }
    for table in [positions, runs, scaled] {
        assert!(page.contains(&table), "the page should have this table:\n{table}");
    }
    let [drawn, independent, distinct, both] = wins.map(|(won, of)| format!("{won} of {of}"));
    let share = |share: f64| format!("{:.0} %", 100.0 * share);
    let least = shares.iter().copied().fold(1.0, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    for sentence in [
        format!("accepted more than the greedy one in {drawn} rows"),
        format!("better at {} to {} of the positions", share(least), share(most)),
        format!("more than two independent draws in {independent} rows"),
        format!("more than two draws without replacement in {distinct} rows"),
        format!("the most tokens per round in {both} rows"),
    ] {
        assert!(words(&page).contains(&sentence), "the page should have: {sentence}");
    }
}

/// Catches: forecasts of greedy or of drawn drafts are not what runs measure; a number of the page
/// for a category of prompts is not that of the results.
#[test]
fn drawn_and_greedy_drafts_are_measured_as_forecast() {
    let page = words(&text("experiments/19-drawn-or-greedy/README.md"));
    let gaps = drawn("gaps");
    let inside = gaps.iter().filter(|gap| {
        let [forecast, measured] = ["forecast", "measured"].map(|column| value(gap, column));
        assert!((forecast / measured - value(gap, "ratio")).abs() < 1e-9);
        value(gap, "ratio_lo99") <= 1.0 && 1.0 <= value(gap, "ratio_hi99")
    });
    let (inside, all) = (inside.count(), gaps.len());
    // More than two of forty 99 % intervals miss the truth less than once in a hundred times.
    assert!(all >= 40 && inside + 2 >= all, "{inside} of {all}");
    assert!(page.contains(&format!("{inside} of {all} cells")), "{inside} of {all}");
    let categories = drawn("categories");
    let of = |category: &str| {
        let own = categories.iter().find(|row| {
            row["draft"] == "draft" && row["temperature"] == "1.0" && row["category"] == category
        });
        let [drawn, greedy] = ["drawn", "greedy"].map(|column| value(own.unwrap(), column));
        format!("{greedy:.2} instead of {drawn:.2}")
    };
    let sentence = format!("{} in documentation, {} in code", of("docs"), of("code"));
    assert!(page.contains(&sentence), "{sentence}");
    let measured = drawn("measured");
    let cold = measured.iter().find(|row| value(row, "temperature") == 0.3).unwrap();
    let sentence = format!("{:.0} % of the tokens", 100.0 * value(cold, "loop_share"));
    assert!(page.contains(&sentence), "{sentence}");
}

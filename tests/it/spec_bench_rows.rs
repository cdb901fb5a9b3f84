//! `report --spec-bench`: rows that Spec-Bench's own definition of speed reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use specdec::measure::rows::{GenerationRow, RoundRow, SummaryRow, TextRow};
use specdec::run::experiment::read_plan;

use crate::experiment_support::rows;
use crate::run_support::{folder, run, specdec, succeed};

/// The rows of a cell.
fn answers(folder: &Path, cell: &str) -> Vec<Value> {
    let file = folder.join("spec-bench").join(format!("{cell}.jsonl"));
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// The mean number of accepted tokens and the speed, as `evaluation/speed.py` of Spec-Bench
/// computes them for the task "overall".
fn by_spec_bench(rows: &[Value]) -> (f64, f64) {
    let (mut speeds, mut lengths) = (Vec::new(), Vec::new());
    for row in rows {
        let choice = &row["choices"][0];
        let tokens = numbers(&choice["new_tokens"]).iter().sum::<f64>();
        let times = numbers(&choice["wall_time"]).iter().sum::<f64>();
        lengths.extend(numbers(&choice["accept_lengths"]));
        speeds.push(tokens / times);
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    (mean(&lengths), mean(&speeds))
}

/// Equal up to the rounding of the sums.
fn near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-12, "{a} is not {b}");
}

#[test]
fn the_published_definition_gives_the_numbers_of_our_columns() {
    let temporary = tempfile::tempdir().unwrap();
    succeed(run(temporary.path(), &["--set", "repeats=2", "--set", "sweep.temperature=[0.0,0.8]"]));
    let folder = folder(temporary.path());
    let path = folder.to_str().unwrap();
    assert!(!folder.join("spec-bench").exists(), "only on demand");
    succeed(specdec(&["report", path, "--spec-bench"]).output().unwrap());
    by_category(&folder);
    let plan = read_plan(&folder).unwrap();
    let generations: Vec<GenerationRow> = rows(&folder, "generations.csv");
    let rounds: Vec<RoundRow> = rows(&folder, "rounds.csv");
    let summary: Vec<SummaryRow> = rows(&folder, "summary.csv");
    let texts = fs::read_to_string(folder.join("generations.jsonl")).unwrap();
    let texts = texts.lines().map(|line| serde_json::from_str::<TextRow>(line).unwrap());
    let texts = texts.map(|row| ((row.cell, row.prompt, row.repeat), row.text));
    let texts = texts.collect::<BTreeMap<_, _>>();
    let mut speeds = csv::Reader::from_path(folder.join("spec-bench/speed.csv")).unwrap();
    let speeds = speeds.deserialize::<BTreeMap<String, String>>().map(Result::unwrap);
    let speeds = speeds.map(|row| (row["cell"].clone(), row)).collect::<BTreeMap<_, _>>();
    let mut baselines = BTreeMap::new();
    for cell in &plan.cells {
        let answers = answers(&folder, &cell.id);
        assert_eq!(answers.len(), plan.prompts.len());
        let (accepted, speed) = by_spec_bench(&answers);
        let column = |name: &str| speeds[&cell.id][name].parse::<f64>().unwrap();
        near(column("mean_accepted_tokens"), accepted);
        near(column("tokens_per_second"), speed);
        if cell.is_baseline() {
            assert_eq!(accepted, 1.0, "plain decoding emits one token per step");
            baselines.insert(cell.method.sampling.temperature.to_string(), speed);
        }
        let plain = baselines[&cell.method.sampling.temperature.to_string()];
        near(column("baseline_tokens_per_second"), plain);
        near(column("speedup_ratio"), speed / plain);
        // What the rows hold is what was measured.
        let own = |repeat| {
            let of = |row: &&GenerationRow| row.cell == cell.id && row.repeat == repeat;
            generations.iter().filter(of).collect::<Vec<_>>()
        };
        let (mut all_tokens, mut decode) = (0.0, 0.0);
        for repeat in 0..2 {
            for generation in own(repeat) {
                let row = answers.iter().find(|row| row["question_id"] == *generation.prompt);
                let row = row.unwrap();
                let choice = &row["choices"][repeat as usize];
                let wall = (generation.prefill_us + generation.decode_us) / 1e6;
                assert_eq!(row["category"], *generation.category);
                assert_eq!(choice["index"], repeat);
                assert_eq!(numbers(&choice["new_tokens"]), [generation.new_tokens as f64]);
                assert_eq!(numbers(&choice["wall_time"]), [wall]);
                assert_eq!(choice["decoding_steps"][0], generation.target_forwards);
                let place = (cell.id.clone(), generation.prompt.clone(), repeat);
                assert_eq!(choice["turns"][0], *texts[&place]);
                let of = |row: &&RoundRow| {
                    (&row.cell, &row.prompt, row.repeat) == (&place.0, &place.1, repeat)
                };
                let lengths = rounds.iter().filter(of).map(|row| row.accepted as f64 + 1.0);
                assert_eq!(numbers(&choice["accept_lengths"]), lengths.collect::<Vec<_>>());
                all_tokens += generation.new_tokens as f64;
                decode += wall - generation.prefill_us / 1e6;
            }
        }
        // Without the prefill, and as a quotient of sums, it is our own speed.
        let row = summary.iter().find(|row| row.cell == cell.id).unwrap();
        assert!((all_tokens / decode / row.tokens_per_second.unwrap() - 1.0).abs() < 1e-9);
        let rounds = rounds.iter().filter(|row| row.cell == cell.id);
        let emitted = rounds.clone().map(|row| row.accepted as f64 + 1.0).sum::<f64>();
        near(emitted / rounds.count() as f64, row.block_efficiency.unwrap_or(1.0));
    }
    assert!(plan.cells.len() >= 4 && baselines.len() == 2);
}

/// Catches: means of prompts for those of steps, steps without a draft, or the pooled value for the
/// mean over categories. The numbers are sums over the raw rows.
fn by_category(folder: &Path) {
    succeed(specdec(&["report", folder.to_str().unwrap(), "--by-category"]).output().unwrap());
    let generations: Vec<GenerationRow> = rows(folder, "generations.csv");
    let category = |prompt: &str| {
        generations.iter().find(|row| row.prompt == prompt).unwrap().category.clone()
    };
    let rounds: Vec<RoundRow> = rows(folder, "rounds.csv");
    let plan = read_plan(folder).unwrap();
    let cells = plan.cells.iter().filter(|cell| !cell.is_baseline()).collect::<Vec<_>>();
    for name in ["accept_length", "accept_rate"] {
        let mut table =
            csv::Reader::from_path(folder.join(format!("by-category/{name}.csv"))).unwrap();
        let head = table.headers().unwrap().clone();
        let head = head.iter().collect::<Vec<_>>();
        assert_eq!((head[0], *head.last().unwrap()), ("Model", "Overall"));
        let categories = &head[1..head.len() - 1];
        assert!(categories.len() > 1 && categories.is_sorted(), "{categories:?}");
        let lines = table.records().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(lines.len(), cells.len());
        for (cell, line) in cells.iter().zip(lines) {
            let values = categories.iter().map(|wanted| {
                let own = rounds.iter().filter(|row| row.cell == cell.id && row.proposed > 0);
                let own = own.filter(|row| category(&row.prompt) == *wanted).collect::<Vec<_>>();
                let sum = |of: fn(&RoundRow) -> usize| own.iter().map(|r| of(r)).sum::<usize>();
                let accepted = sum(RoundRow::kept) as f64;
                match name {
                    "accept_length" => 1.0 + accepted / own.len() as f64,
                    _ => accepted / sum(|row| row.proposed) as f64,
                }
            });
            let mut wanted = values.collect::<Vec<_>>();
            wanted.push(wanted.iter().sum::<f64>() / wanted.len() as f64);
            let found = line.iter().skip(1).map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(found, wanted.iter().map(|x| format!("{x:.4}")).collect::<Vec<_>>());
        }
    }
}

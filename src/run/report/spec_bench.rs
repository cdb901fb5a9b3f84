//! The run as rows of Spec-Bench (Xia et al. 2024, arXiv:2401.07851), one file per cell, and
//! the numbers that Spec-Bench's own definition of speed gives for them.
//!
//! Spec-Bench (`evaluation/speed.py`) takes the first choice of every question, divides the
//! sum of its `new_tokens` by the sum of its `wall_time`, and averages this over questions;
//! a speedup is the quotient of two such averages. A wall time includes the prefill.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::load::load;
use super::run::{CellView, Run};
use super::tables;
use crate::io::output::{make_folder, write_whole};
use crate::measure::rows::{TextRow, each_row};
use crate::measure::statistics::{Sample, timed};
use crate::model::hex;
use crate::run::experiment::{Plan, describe};

/// The folder that is written, and the table of numbers in it.
const FOLDER: &str = "spec-bench";
const TABLE: &str = "speed.csv";

/// What a model answered to a question in all turns of one repeat.
#[derive(Debug, Serialize)]
struct AnswerChoice {
    index: u32,
    turns: Vec<String>,
    decoding_steps: Vec<usize>,
    new_tokens: Vec<usize>,
    wall_time: Vec<f64>,
    accept_lengths: Vec<usize>,
}

/// A row of a file.
#[derive(Debug, Serialize)]
struct AnswerRow {
    question_id: Value,
    category: String,
    answer_id: String,
    model_id: String,
    choices: Vec<AnswerChoice>,
}

/// A row of the table: what Spec-Bench computes of a file.
#[derive(Debug, Default, Serialize)]
struct SpeedRow {
    cell: String,
    method: String,
    questions: usize,
    mean_accepted_tokens: Option<f64>,
    tokens_per_second: Option<f64>,
    baseline_tokens_per_second: Option<f64>,
    speedup_ratio: Option<f64>,
}

/// The text of each completion of a run by cell, prompt and repeat.
type TextsOfRun = BTreeMap<(String, String, u32), String>;

/// Writes the rows of every cell, and the table of their speeds, into a folder of the results
/// folder. Returns that folder. Only generations whose times count are taken, and only
/// questions all of whose turns were finished.
///
/// # Errors
/// If a file is missing, damaged or cannot be written; the message names the file.
pub fn write_spec_bench(folder: &Path) -> Result<PathBuf> {
    let run = load(folder)?;
    let mut texts = TextsOfRun::new();
    each_row(folder, |TextRow { cell, prompt, repeat, text, .. }| {
        texts.insert((cell, prompt, repeat), text);
        Ok(())
    })?;
    let out = folder.join(FOLDER);
    make_folder(&out)?;
    let mut speeds = Vec::new();
    for cell in &run.cells {
        let rows = answers(&run, cell, &texts);
        let lines = rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let file = out.join(format!("{}.jsonl", cell.id));
        let text = lines.into_iter().map(|line| line + "\n").collect::<String>();
        write_whole(&file, text.as_bytes())?;
        let lengths = rows.iter().filter_map(|row| row.choices.first());
        let lengths = lengths.flat_map(|choice| choice.accept_lengths.iter().map(|&n| n as f64));
        speeds.push(SpeedRow {
            cell: cell.id.clone(),
            method: describe(cell),
            questions: rows.len(),
            mean_accepted_tokens: mean(lengths),
            tokens_per_second: mean(rows.iter().filter_map(speed)),
            ..SpeedRow::default()
        });
    }
    for (number, cell) in run.cells.iter().enumerate() {
        let baseline = cell.baseline.and_then(|at| speeds[at].tokens_per_second);
        let row = &mut speeds[number];
        row.baseline_tokens_per_second = baseline;
        row.speedup_ratio = row.tokens_per_second.zip(baseline).map(|(own, plain)| own / plain);
    }
    tables::write_csv(&out.join(TABLE), &speeds)?;
    Ok(out)
}

/// The speed of a question by Spec-Bench's definition, in tokens per second.
fn speed(row: &AnswerRow) -> Option<f64> {
    let first = row.choices.first()?;
    let seconds = first.wall_time.iter().sum::<f64>();
    (seconds > 0.0).then(|| first.new_tokens.iter().sum::<usize>() as f64 / seconds)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// The questions of a run in order, each with the prompts of its turns.
fn questions(plan: &Plan) -> Vec<Vec<String>> {
    let turns = |id: &String| {
        let later = (2..=plan.turns.get(id).copied().unwrap_or(1)).map(|n| format!("{id}/{n}"));
        [id.clone()].into_iter().chain(later).collect::<Vec<_>>()
    };
    let later = plan.turns.keys().flat_map(|id| turns(id).split_off(1)).collect::<BTreeSet<_>>();
    plan.prompts.iter().filter(|id| !later.contains(*id)).map(turns).collect()
}

fn answers(run: &Run, cell: &CellView, texts: &TextsOfRun) -> Vec<AnswerRow> {
    let samples = timed(&cell.samples);
    let samples = samples.map(|sample| ((&*sample.prompt, sample.repeat), sample));
    let samples = samples.collect::<BTreeMap<_, _>>();
    let mut rows = Vec::new();
    for turns in questions(&run.plan) {
        let mut category = String::new();
        let choices = (0..run.plan.repeats).filter_map(|repeat| {
            let finished = turns.iter().map(|id| samples.get(&(id.as_str(), repeat)).copied());
            let finished = finished.collect::<Option<Vec<_>>>()?;
            category = finished.first()?.category.to_string();
            Some(choice(&cell.id, repeat, &finished, texts))
        });
        let choices = choices.collect::<Vec<_>>();
        if choices.is_empty() {
            continue;
        }
        let id = &turns[0];
        rows.push(AnswerRow {
            question_id: id.parse::<u64>().map_or_else(|_| id.as_str().into(), Value::from),
            category,
            answer_id: hex(&Sha256::digest(format!("{} {id}", cell.id)))[..22].to_owned(),
            model_id: describe(cell),
            choices,
        });
    }
    rows
}

fn choice(cell: &str, repeat: u32, turns: &[&Sample], texts: &TextsOfRun) -> AnswerChoice {
    let text = |sample: &&Sample| {
        let place = (cell.to_owned(), sample.prompt.to_string(), repeat);
        texts.get(&place).cloned().unwrap_or_default()
    };
    let seconds = |sample: &&Sample| (sample.prefill_us + sample.decode_us) / 1e6;
    let rounds = turns.iter().flat_map(|sample| sample.rounds.iter());
    AnswerChoice {
        index: repeat,
        turns: turns.iter().map(text).collect(),
        decoding_steps: turns.iter().map(|sample| sample.target_forwards).collect(),
        new_tokens: turns.iter().map(|sample| sample.new_tokens).collect(),
        wall_time: turns.iter().map(seconds).collect(),
        accept_lengths: rounds.map(|round| round.accepted + 1).collect(),
    }
}

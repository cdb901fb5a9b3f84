//! A results folder as typed data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

use crate::experiment::records::{DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow};
use crate::experiment::statistics::Sample;
use crate::experiment::{Cell, Manifest, Plan, columns, read_plan};

/// What a run left behind, reduced to what counts: superseded and unfinished
/// generations are gone.
#[derive(Debug, Clone)]
pub struct Results {
    /// What was decided before the run.
    pub plan: Plan,
    /// Where and with what it was run.
    pub manifest: Manifest,
    /// Finished generations by cell id, in the order in which they were run.
    pub samples: BTreeMap<String, Vec<Sample>>,
    /// Generations that failed.
    pub failures: Vec<FailureRow>,
    /// Texts that left plain decoding's and should not have.
    pub divergences: Vec<DivergenceRow>,
    /// Drafted tokens of the finished generations, if the run was traced.
    pub positions: Vec<PositionRow>,
    /// What was left out while reading, as sentences.
    pub notes: Vec<String>,
}

impl Results {
    /// The samples of a cell; empty if it has none.
    pub fn samples(&self, cell: &str) -> &[Sample] {
        self.samples.get(cell).map_or(&[], Vec::as_slice)
    }

    /// The samples of the baseline with the sampling setting of `cell`.
    pub fn baseline(&self, cell: &Cell) -> &[Sample] {
        self.plan.baseline_of(cell).map_or(&[], |baseline| self.samples(&baseline.id))
    }
}

type Key = (String, String, u32);

/// Reads `plan.toml`, `manifest.json`, `generations.csv`, `rounds.csv` and, if
/// there are any, `failures.csv`, `divergences.csv` and `positions.csv`. A last line that was torn
/// by a crash is left out with a note.
///
/// # Errors
/// If a file is missing or damaged elsewhere; the sentence names it.
pub fn load(folder: &Path) -> Result<Results> {
    if !folder.is_dir() {
        bail!("{} is not a folder: give the results folder of a run", folder.display());
    }
    let mut notes = Vec::new();
    let plan = read_plan(folder)?;
    let manifest = Manifest::read(folder)?;
    let generations: Vec<GenerationRow> = rows(folder, "generations.csv", &mut notes)?;
    let rounds: Vec<RoundRow> = rows(folder, "rounds.csv", &mut notes)?;
    let failures: Vec<FailureRow> = optional_rows(folder, "failures.csv", &mut notes)?;
    let divergences: Vec<DivergenceRow> = optional_rows(folder, "divergences.csv", &mut notes)?;
    let positions: Vec<PositionRow> = optional_rows(folder, "positions.csv", &mut notes)?;

    let known = plan.cells.iter().map(|c| c.id.as_str()).collect::<BTreeSet<_>>();
    if let Some(row) = generations.iter().find(|g| !known.contains(g.cell.as_str())) {
        bail!("generations.csv names the cell {}, which plan.toml does not know", row.cell);
    }
    let samples = live_samples(generations, rounds, &mut notes);
    let failures = failures.into_iter().filter(|f| !f.superseded).collect();
    let positions = live_positions(positions, &samples);
    let live = live(&samples);
    let counts = |d: &DivergenceRow| live.contains_key(&(&*d.cell, &*d.prompt, d.repeat));
    let divergences = divergences.into_iter().filter(counts).collect();
    Ok(Results { plan, manifest, samples, failures, divergences, positions, notes })
}

/// Joins generations with their rounds. Rounds of one generation follow each
/// other, from round 0; of several generations with the same key the last one
/// is the one that counts, the others are superseded or were cut off by a crash.
fn live_samples(
    generations: Vec<GenerationRow>,
    rounds: Vec<RoundRow>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, Vec<Sample>> {
    let mut last = BTreeMap::<Key, Vec<RoundRow>>::new();
    for round in rounds {
        let rounds =
            last.entry((round.cell.clone(), round.prompt.clone(), round.repeat)).or_default();
        if round.round == 0 {
            rounds.clear();
        }
        rounds.push(round);
    }
    let (mut superseded, mut incomplete) = (0, 0);
    let mut samples = BTreeMap::<String, Vec<Sample>>::new();
    for generation in generations {
        if generation.superseded {
            superseded += 1;
            continue;
        }
        let key = (generation.cell.clone(), generation.prompt.clone(), generation.repeat);
        let rounds = last.remove(&key).unwrap_or_default();
        let emitted = rounds.iter().map(|r| r.emitted).sum::<usize>();
        if emitted != generation.new_tokens {
            incomplete += 1;
            continue;
        }
        samples.entry(generation.cell.clone()).or_default().push(Sample { generation, rounds });
    }
    if superseded > 0 {
        notes.push(format!(
            "{superseded} superseded generations, timed again after a crash, are left out."
        ));
    }
    if incomplete > 0 {
        notes.push(format!(
            "{incomplete} generations whose rounds in rounds.csv are incomplete are left out."
        ));
    }
    samples
}

/// The generations that count, each with the number of its rounds.
fn live(samples: &BTreeMap<String, Vec<Sample>>) -> BTreeMap<(&str, &str, u32), u64> {
    let samples = samples.values().flatten();
    let live = samples.map(|Sample { generation: g, rounds }| {
        ((g.cell.as_str(), g.prompt.as_str(), g.repeat), rounds.len() as u64)
    });
    live.collect()
}

/// The last row of every drafted token, of finished generations only.
fn live_positions(
    positions: Vec<PositionRow>,
    samples: &BTreeMap<String, Vec<Sample>>,
) -> Vec<PositionRow> {
    if positions.is_empty() {
        return positions;
    }
    let live = live(samples);
    let mut last = BTreeMap::new();
    for row in positions {
        let rounds = live.get(&(row.cell.as_str(), row.prompt.as_str(), row.repeat));
        if rounds.is_some_and(|&rounds| row.round < rounds) {
            let key = (row.cell.clone(), row.prompt.clone(), row.repeat, row.round, row.node);
            last.insert(key, row);
        }
    }
    last.into_values().collect()
}

fn read(folder: &Path, name: &str) -> Result<String> {
    let path = folder.join(name);
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| anyhow!("{name} is damaged: it is not UTF-8 text"))
}

fn optional_rows<T: DeserializeOwned>(
    folder: &Path,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<T>> {
    if folder.join(name).exists() { rows(folder, name, notes) } else { Ok(Vec::new()) }
}

/// The rows of a CSV file that begins with the columns of `T`, in any order.
fn rows<T: DeserializeOwned>(folder: &Path, name: &str, notes: &mut Vec<String>) -> Result<Vec<T>> {
    let mut text = read(folder, name)?;
    // A crash can tear the last line only; whole lines end with a line break.
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    if whole < text.len() {
        text.truncate(whole);
        notes.push(format!("The last line of {name} was torn by a crash and is left out."));
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| anyhow!("{name} is damaged: {e}"))?.clone();
    for column in columns::<T>() {
        if !header.iter().any(|h| h == *column) {
            bail!("{name} has no column \"{column}\"");
        }
    }
    let mut rows = Vec::new();
    for record in reader.into_deserialize() {
        rows.push(record.map_err(|e| anyhow!("{name} is damaged: {}", one_line(&e.to_string())))?);
    }
    Ok(rows)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

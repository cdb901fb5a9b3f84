//! Measures how often intervals cover the truth: takes the prompts of committed runs as the
//! population and draws experiments with fewer prompts from it.
//!
//! ```text
//! cargo run --release --example coverage -- --out results/coverage/2026-11-22 results/0[1-7]-*/*
//! ```
//!
//! `experiments/93-coverage` has the question and the result.

mod candidates;
mod populations;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;
use specdec::measure::statistics::{Interval, quantile};
use specdec::run::report::load;

use candidates::{CANDIDATES, Candidate, Drawn};
use populations::{Population, populations};

/// The numbers of prompts of drawn experiments.
const SIZES: [usize; 5] = [4, 8, 16, 32, 48];

/// Count how often 95 % intervals of drawn experiments cover the ratio of the population.
#[derive(Debug, Parser)]
struct Args {
    /// Results folders of runs
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Folder for coverage.csv and summary.csv
    #[arg(long)]
    out: PathBuf,
    /// Drawn experiments per population and number of prompts
    #[arg(long, default_value_t = 5000)]
    draws: usize,
    /// Drawn experiments for bootstrap intervals, which take a thousand times as long
    #[arg(long, default_value_t = 1000)]
    resampled_draws: usize,
}

/// A row of `coverage.csv`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    run: &'a str,
    cell: &'a str,
    method: &'a str,
    ratio: &'a str,
    population: &'static str,
    size: usize,
    far: usize,
    interval: &'static str,
    prompts: usize,
    draws: usize,
    none: usize,
    too_low: usize,
    too_high: usize,
    coverage: f64,
    width: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    fs::create_dir_all(&args.out)?;
    let file = |name: &str| {
        let path = args.out.join(name);
        csv::Writer::from_path(&path).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut writer = file("coverage.csv")?;
    let mut summary = Summary::default();
    for run in &args.runs {
        let results = load(run)?;
        let populations = populations(run, &results);
        writeln!(io::stderr(), "{}: {} populations", run.display(), populations.len())?;
        for population in &populations {
            for prompts in SIZES {
                for row in coverage(population, prompts, &args) {
                    writer.serialize(&row)?;
                    summary.add(&row);
                }
            }
        }
        writer.flush()?;
    }
    let mut writer = file("summary.csv")?;
    summary.rows().into_iter().try_for_each(|row| writer.serialize(row))?;
    Ok(writer.flush()?)
}

/// The counts of a candidate interval.
#[derive(Debug, Default)]
struct Tally {
    draws: usize,
    none: usize,
    too_low: usize,
    too_high: usize,
    widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, interval: Option<Interval>, truth: f64) {
        self.draws += 1;
        let Some(Interval { lo, hi }) = interval else {
            self.none += 1;
            return;
        };
        // Values that are equal except for rounding count as covered.
        let slack = 1e-9 * truth.abs();
        self.too_low += usize::from(hi < truth - slack);
        self.too_high += usize::from(lo > truth + slack);
        self.widths.push((hi - lo) / truth);
    }
}

/// Draws experiments of `prompts` prompts, the same for all candidates, and counts how often
/// each interval covers the truth. The alternatives are computed only for the ratios that
/// matter most.
fn coverage<'a>(population: &'a Population, prompts: usize, args: &Args) -> Vec<Row<'a>> {
    let mut rng = ChaCha8Rng::seed_from_u64(prompts as u64);
    let size = population.ratio.prompts();
    let rivals = ["speedup", "tau", "alpha"].contains(&&*population.name);
    let candidates = &CANDIDATES[..if rivals { CANDIDATES.len() } else { 1 }];
    let mut tallies = candidates.iter().map(|_| Tally::default()).collect::<Vec<_>>();
    for draw in 0..args.draws {
        let drawn = (0..prompts).map(|_| rng.next_u64() as usize % size).collect::<Vec<_>>();
        let drawn = population.ratio.resample(&drawn);
        let resample = rivals && draw < args.resampled_draws;
        let drawn = Drawn::new(&drawn, resample);
        for (tally, candidate) in tallies.iter_mut().zip(candidates) {
            if resample || !candidate.resamples {
                let interval = drawn.as_ref().and_then(|drawn| (candidate.interval)(drawn));
                tally.add(interval, population.truth);
            }
        }
    }
    let row = |(mut tally, candidate): (Tally, &Candidate)| {
        tally.widths.sort_by(f64::total_cmp);
        let (missed, given) = (tally.too_low + tally.too_high, tally.draws - tally.none);
        Row {
            run: &population.run,
            cell: &population.cell,
            method: &population.method,
            ratio: &population.name,
            population: if population.trimmed { "without far prompts" } else { "all" },
            size,
            far: population.far,
            interval: candidate.name,
            prompts,
            draws: tally.draws,
            none: tally.none,
            too_low: tally.too_low,
            too_high: tally.too_high,
            coverage: rounded(1.0 - missed as f64 / given.max(1) as f64),
            width: rounded(quantile(&tally.widths, 0.5).unwrap_or(f64::NAN)),
        }
    };
    tallies.into_iter().zip(candidates).map(row).collect()
}

/// Rounds to 4 decimals; further digits would be noise of the draws.
fn rounded(x: f64) -> f64 {
    (1e4 * x).round() / 1e4
}

/// Collects coverage over all populations of each kind.
#[derive(Debug, Default)]
struct Summary {
    kinds: Vec<(Kind, Vec<(f64, String)>)>,
}

/// The key of a row of `summary.csv`.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Kind {
    ratio: String,
    population: &'static str,
    interval: &'static str,
    prompts: usize,
}

/// A row of `summary.csv`.
#[derive(Debug, Serialize)]
struct SummaryRow {
    ratio: String,
    population: &'static str,
    interval: &'static str,
    prompts: usize,
    populations: usize,
    least: f64,
    p5: f64,
    median: f64,
    p95: f64,
    most: f64,
    below_92: usize,
    below_93: usize,
    above_97: usize,
    worst: String,
}

impl Summary {
    fn add(&mut self, row: &Row<'_>) {
        // All positions of S(i) are one kind.
        let ratio = row.ratio.split(' ').next().unwrap_or_default().to_owned();
        let Row { population, interval, prompts, .. } = *row;
        let kind = Kind { ratio, population, interval, prompts };
        let entry = (row.coverage, format!("{} {} {}", row.run, row.cell, row.ratio));
        match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
            // An interval that was never given has no coverage.
            _ if row.none == row.draws => {}
            Some((_, entries)) => entries.push(entry),
            None => self.kinds.push((kind, vec![entry])),
        }
    }

    fn rows(mut self) -> Vec<SummaryRow> {
        let order =
            |kind: &Kind| (kind.ratio.clone(), kind.population, kind.interval, kind.prompts);
        self.kinds.sort_by_key(|(kind, _)| order(kind));
        let row = |(kind, mut entries): (Kind, Vec<(f64, String)>)| {
            entries.sort_by(|a, b| a.0.total_cmp(&b.0));
            let values = entries.iter().map(|(x, _)| *x).collect::<Vec<_>>();
            let at = |p| rounded(quantile(&values, p).unwrap_or(f64::NAN));
            let count = |of: &dyn Fn(f64) -> bool| values.iter().filter(|x| of(**x)).count();
            SummaryRow {
                ratio: kind.ratio,
                population: kind.population,
                interval: kind.interval,
                prompts: kind.prompts,
                populations: values.len(),
                least: at(0.0),
                p5: at(0.05),
                median: at(0.5),
                p95: at(0.95),
                most: at(1.0),
                below_92: count(&|x| x < 0.92),
                below_93: count(&|x| x < 0.93),
                above_97: count(&|x| x > 0.97),
                worst: entries.swap_remove(0).1,
            }
        };
        self.kinds.into_iter().map(row).collect()
    }
}

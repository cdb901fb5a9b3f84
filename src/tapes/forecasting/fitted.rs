//! Fits the costs of a run's own passes, as the rows that forecasts and simulations read.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::measure::bench::{CostRow, DRAFT_COST, OUTSIDE_COST, PREFILL_COST, TARGET_COST};
use crate::measure::statistics::{PartCost, RowSums, Sample, add_rows, timed};
use crate::method::decode::MethodSpec;
use crate::run::experiment::Cell;
use crate::run::report::{Run, load, write_csv};

/// Fits costs to the rounds of a run whose times count, and writes `fitted-costs-DRAFTER.csv` into
/// its folder. Plain decoding gives the cost of a step, the cells with this drafter that of passes
/// with more rows. The work between passes decides what a pass finds in the caches.
///
/// # Errors
/// If the run has no such rounds whose times count, or the file cannot be written.
pub fn write_costs(folder: &Path, drafter: &str) -> Result<PathBuf> {
    let run = load(folder)?;
    let plain = samples(&run, Cell::is_baseline);
    let drafted = samples(&run, |cell| cell.method.drafter == drafter);
    for (what, rounds) in [("plain decoding", &plain), (drafter, &drafted)] {
        if rounds.is_empty() {
            bail!("{} has no rounds of {what} whose times count", folder.display());
        }
    }
    let with_model = MethodSpec { drafter: drafter.to_owned(), ..MethodSpec::default() };
    let rows = fitted(&plain, &drafted, with_model.needs_draft_model());
    let file = folder.join(format!("fitted-costs-{drafter}.csv"));
    write_csv(&file, &rows)?;
    Ok(file)
}

/// The generations of some cells whose times count.
fn samples(run: &Run, of: impl Fn(&Cell) -> bool) -> Vec<&Sample> {
    let cells = run.cells.iter();
    let cells = cells.filter(|cell| !cell.control && cell.beam.is_none() && of(cell));
    cells.flat_map(|cell| timed(&cell.samples)).collect()
}

fn fitted(plain: &[&Sample], drafted: &[&Sample], with_model: bool) -> Vec<CostRow> {
    let contexts = ends(&sums(plain.iter().chain(drafted)));
    let mut rows = passes(plain, 1, &contexts, 0.0);
    let pass = if with_model { drafting(drafted) } else { None };
    rows.extend(passes(drafted, 2, &contexts, pass.unwrap_or_default()));
    rows.extend(pass.map(|us| row(DRAFT_COST, (1, 1), us)));
    rows.extend(prompts(plain));
    rows
}

/// The costs of the target's passes of at least `least` rows, and of what rounds take outside them
/// and outside the draft model's passes of `draft_us` each. The first draft pass of a round takes
/// longer, since the target's weights have evicted those of the draft from the caches. The excess
/// counts as time outside passes.
fn passes(samples: &[&Sample], least: usize, contexts: &[usize], draft_us: f64) -> Vec<CostRow> {
    let sums = sums(samples);
    let outside = PartCost::fit(&sums, |times| times.draft + times.verify + times.other);
    let Some((target, outside)) = target_pass(&sums, contexts).zip(outside) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for &context in contexts {
        for own in target.rows().filter(|&own| own >= least) {
            let us = |fit: &PartCost| fit.us(own, context as f64);
            rows.push(row(TARGET_COST, (own, context), us(&target)));
            let drafted = draft_us * (own - 1) as f64;
            rows.push(row(OUTSIDE_COST, (own, context), us(&outside) - drafted));
        }
    }
    rows
}

/// The costs of the target's passes. Every pass takes time. If the line through the contexts says
/// otherwise, which a single interrupted pass can cause, the effect of the context is unknown. Then
/// all passes with the same number of rows get their mean time.
fn target_pass(sums: &[RowSums], contexts: &[usize]) -> Option<PartCost> {
    let fit = |sums: &[RowSums]| PartCost::fit(sums, |times| times.target);
    let line = fit(sums)?;
    let takes_time = |rows| contexts.iter().all(|&at| line.us(rows, at as f64) > 0.0);
    if line.rows().all(takes_time) {
        return Some(line);
    }
    // Rounds with other numbers of rows would shift the fitted means.
    let own = sums.iter().filter(|own| line.rows().any(|rows| rows == own.rows));
    fit(&own.map(RowSums::without_context).collect::<Vec<_>>())
}

/// The sums of some generations by the number of rows.
fn sums<'s>(samples: impl IntoIterator<Item = &'s &'s Sample>) -> Vec<RowSums> {
    let mut sums = Vec::new();
    let own = samples.into_iter().flat_map(|sample| sample.rounds.by_rows());
    for own in own {
        add_rows(&mut sums, *own);
    }
    sums
}

/// Two contexts between which most rounds lie.
fn ends(sums: &[RowSums]) -> Vec<usize> {
    let sum = |of: fn(&RowSums) -> f64| sums.iter().map(of).sum::<f64>();
    let (rounds, mean) = (sum(|own| own.rounds), sum(|own| own.context));
    let mean = mean / rounds;
    let deviation = (sum(|own| own.context_squared) / rounds - mean * mean).max(0.0).sqrt();
    let mut ends =
        [mean - 2.0 * deviation, mean + 2.0 * deviation].map(|end| end.max(1.0) as usize);
    ends.sort_unstable();
    let mut ends = ends.to_vec();
    ends.dedup();
    ends
}

/// The cost of a further pass of the draft model, in µs: the growth of the drafting time with the
/// length of the draft. If all drafts have the same length, it is the mean over their passes. `None`
/// without drafts.
fn drafting(samples: &[&Sample]) -> Option<f64> {
    let fit = PartCost::fit(&sums(samples), |times| times.draft)?;
    let (short, long) = (fit.rows().find(|&rows| rows > 1)?, fit.rows().last()?);
    let us = |rows| fit.us(rows, 0.0);
    if short < long {
        return Some(((us(long) - us(short)) / (long - short) as f64).max(0.0));
    }
    let drafted = sums(samples).into_iter().find(|own| own.rows == long)?;
    Some(drafted.times.draft / (drafted.rounds * (long - 1) as f64))
}

/// The costs of reading the shortest and the longest prompt, by the line through all prompts.
fn prompts(samples: &[&Sample]) -> Vec<CostRow> {
    let known = samples.iter().filter(|sample| sample.new_tokens > 0);
    let points =
        known.map(|sample| (sample.rounds.begin as f64, sample.prefill_us)).collect::<Vec<_>>();
    let mean =
        |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread = points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>();
    let slope = if spread > 0.0 { slope / spread } else { 0.0 };
    let lengths = points.iter().map(|point| point.0.max(1.0) as usize);
    let mut ends = [lengths.clone().min(), lengths.max()].into_iter().flatten().collect::<Vec<_>>();
    ends.dedup();
    let us = |length: usize| (y + slope * (length as f64 - x)).max(0.0);
    ends.into_iter().map(|length| row(PREFILL_COST, (length, 1), us(length))).collect()
}

fn row(what: &str, (rows, context): (usize, usize), us: f64) -> CostRow {
    let ms = us.max(0.0) / 1000.0;
    CostRow { what: what.to_owned(), rows, context, batch: 1, ms, ..CostRow::default() }
}

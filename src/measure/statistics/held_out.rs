//! Predicts speedups from costs that were fitted on other prompts.
//!
//! The prompts are divided into two halves. Costs are fitted to the rounds of one half. They
//! predict the speedup on the other half, given the numbers of proposed and emitted tokens there,
//! and the prediction is compared with the measured speedup. Each half is predicted from the costs
//! of the other.

use std::collections::BTreeMap;

use super::cost_model::{CostKeys, CostModel};
use super::interval::MIN_PROMPTS;
use super::ratio;
use super::row_sums::{RowSums, add_rows};
use super::sample::{Sample, timed};

/// A cell whose speedup is predicted, or a baseline.
#[derive(Debug, Clone)]
pub struct HeldOutCell<'a> {
    /// The keys by which it shares costs.
    pub keys: CostKeys,
    /// The index of its baseline; a baseline's is its own.
    pub baseline: usize,
    /// Its generations.
    pub samples: &'a [Sample],
}

/// The prediction of a cell's speedup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOutSpeedup {
    /// The prediction over all prompts, each with the costs of the other half.
    pub predicted: f64,
    /// Measured ÷ predicted speedup − 1 on each half.
    pub gaps: [f64; 2],
}

/// Assigns each prompt to a half. Every second prompt of a category, in order, belongs to the
/// second half, so that both halves have the same categories.
pub fn halves<'a>(
    prompts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<&'a str, usize> {
    let mut seen = BTreeMap::<&str, usize>::new();
    let half = |(prompt, category)| {
        let before = seen.entry(category).or_default();
        *before += 1;
        (prompt, (*before - 1) % 2)
    };
    prompts.into_iter().map(half).collect()
}

/// Predicts the speedup of every cell; `halves` has the first of equal prompts. `None` for
/// baselines, for cells without rounds, and if a half has fewer than half of [`MIN_PROMPTS`]
/// prompts.
pub fn held_out(
    cells: &[HeldOutCell<'_>],
    halves: &BTreeMap<&str, usize>,
) -> Vec<Option<HeldOutSpeedup>> {
    let few = |half: usize| halves.values().filter(|own| **own == half).count() < MIN_PROMPTS / 2;
    if few(0) || few(1) {
        return vec![None; cells.len()];
    }
    let models = [0, 1].map(|half| {
        let sums = cells.iter().map(|cell| {
            let own = timed(cell.samples).filter(|s| halves.get(&*s.original) == Some(&half));
            rows_of(own)
        });
        let sums = sums.collect::<Vec<_>>();
        CostModel::fit(cells.iter().zip(&sums).map(|(cell, sums)| (&cell.keys, &**sums)))
    });
    let judge = |(at, cell): (usize, &HeldOutCell<'_>)| {
        let baseline = &cells[cell.baseline];
        let by_half = [0, 1].map(|half| {
            let takes = |prompt: &str| halves.get(prompt) == Some(&half);
            judged(&models[1 - half], [baseline, cell], takes)
        });
        let [first, second] = by_half;
        let (first, second) = (first?, second?);
        let gap = |times: &JudgedTimes| Some(times.measured()? / times.predicted()? - 1.0);
        let all = JudgedTimes {
            tokens: add(first.tokens, second.tokens),
            predicted_us: add(first.predicted_us, second.predicted_us),
            measured_us: add(first.measured_us, second.measured_us),
        };
        let speedup =
            HeldOutSpeedup { predicted: all.predicted()?, gaps: [gap(&first)?, gap(&second)?] };
        (at != cell.baseline).then_some(speedup)
    };
    cells.iter().enumerate().map(judge).collect()
}

/// Tokens and times, predicted and measured, of the generations of a baseline and of a cell whose
/// times count on both sides; `None` without rounds.
fn judged(
    model: &CostModel,
    cells: [&HeldOutCell<'_>; 2],
    takes: impl Fn(&str) -> bool,
) -> Option<JudgedTimes> {
    let [plain, own] = cells.map(|cell| timed(cell.samples));
    let plain = plain.map(|s| ((&*s.prompt, s.repeat), s));
    let plain = plain.collect::<BTreeMap<_, _>>();
    let own = own.filter(|sample| takes(&sample.original));
    let both = own.filter_map(|s| Some((*plain.get(&(&*s.prompt, s.repeat))?, s)));
    let (plain, own) = both.unzip::<_, _, Vec<_>, Vec<_>>();
    let sides = [&plain, &own];
    let sums = sides.map(|side| rows_of(side.iter().copied()));
    if sums.iter().any(Vec::is_empty) {
        return None;
    }
    let predicted = |side: usize| model.sum_us(&cells[side].keys, &sums[side]);
    Some(JudgedTimes {
        tokens: sides.map(|side| side.iter().map(|s| s.new_tokens as f64).sum()),
        predicted_us: [predicted(0)?, predicted(1)?],
        measured_us: sides.map(|side| side.iter().map(|s| s.decode_us).sum()),
    })
}

/// Tokens and times of plain decoding and of a cell.
#[derive(Debug, Clone, Copy)]
struct JudgedTimes {
    tokens: [f64; 2],
    predicted_us: [f64; 2],
    measured_us: [f64; 2],
}

impl JudgedTimes {
    fn predicted(&self) -> Option<f64> {
        self.speedup(self.predicted_us)
    }

    fn measured(&self) -> Option<f64> {
        self.speedup(self.measured_us)
    }

    fn speedup(&self, us: [f64; 2]) -> Option<f64> {
        let speedup = ratio(ratio(us[0], self.tokens[0])?, ratio(us[1], self.tokens[1])?);
        speedup.filter(|speedup| *speedup > 0.0)
    }
}

fn add(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

/// The sums over generations by number of rows.
fn rows_of<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<RowSums> {
    let mut list = Vec::new();
    for own in samples.flat_map(|sample| sample.rounds.by_rows()) {
        add_rows(&mut list, *own);
    }
    list
}

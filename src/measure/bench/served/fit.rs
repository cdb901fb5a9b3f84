//! Separates the times of rounds into the costs that forecasts need.
//!
//! ```text
//! round(d, b, c) = F(b (1 + d)) + κ b c + d (g + h b)
//!                  d: drafted tokens   b: requests   c: tokens before the pass
//! ```
//!
//! F, the time of a pass by its rows, is linear between the batches that decode plainly, and between
//! the rows of drafts that are beyond them. A row is taken to cost the same whether it is a further
//! request's or a further drafted token's. κ is the cost of a token in the caches, and g + h b that
//! of a draft pass over b requests.

use super::ServedPoint;
use crate::measure::bench::{CostRow, DRAFT_COST, PREFILL_COST, TARGET_COST};
use crate::measure::statistics::{Interval, NormalEquations, student};

/// A term is separated from those before it if more than this share of its square is its own.
const SEPARATE: f64 = 1e-3;
/// Knots nearer than this share of their rows are one.
const SAME_ROWS: f64 = 0.1;
/// The most rows of a sequence for which costs are written: a draft of 16 tokens and one more.
const MOST_ROWS: usize = 17;
/// The terms behind F, as columns and in words.
const TERMS: [&str; 3] = ["context", "drafting", "drafting by batch"];
/// The smallest number of degrees of freedom at which the quantiles of Student's t are known well.
const LEAST_FREEDOM: f64 = 3.0;

/// A time in ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedMs {
    /// The time.
    pub ms: f64,
    /// Its 95 % interval; none if there are as many terms as settings, none of them repeated.
    pub interval: Option<Interval>,
}

/// The costs of a server's passes.
#[derive(Debug, Clone)]
pub struct ServedFit {
    knots: Vec<f64>,
    coefficients: Vec<f64>,
    inverse: Vec<Vec<f64>>,
    /// The relative error of a setting's mean, times the quantile of Student's t.
    reach: Option<f64>,
    /// The terms that do not follow from these times, in words.
    pub unknown: Vec<&'static str>,
}

/// A mean round: drafted tokens, batch and context.
type MeanRound = [f64; 3];

impl ServedFit {
    /// Fits the costs to the mean round of each setting, so that relative errors count alike. Settings
    /// whose repetitions disagree are left out.
    ///
    /// # Errors
    /// If these are more than a quarter, or no setting decodes plainly.
    pub fn of(points: &[ServedPoint]) -> Result<Self, String> {
        let steady = points.iter().filter(|point| point.is_steady()).cloned().collect::<Vec<_>>();
        let wild = points.len() - steady.len();
        if 4 * wild > points.len() {
            return Err(format!(
                "the repetitions of {wild} of {} settings disagree by more than a tenth: the \
                 server, or this machine, is busy with something else",
                points.len()
            ));
        }
        let points = &steady[..];
        let knots = knots(points);
        if knots.is_empty() {
            let why = "no setting decodes plainly, so the time of a step is unknown: add a server \
                       without drafts";
            return Err(why.into());
        }
        let mut on = [spread(points), true, true];
        loop {
            let fit = Self::with(points, &knots, on);
            // Noise must not make drafting, or a longer context, take a negative time.
            let negative = (0..TERMS.len()).rev();
            let mut negative = negative.filter(|term| fit.coefficients[knots.len() + term] < 0.0);
            match negative.next() {
                Some(term) => on[term] = false,
                None => return Ok(fit),
            }
        }
    }

    fn with(points: &[ServedPoint], knots: &[f64], on: [bool; 3]) -> Self {
        let columns = knots.len() + TERMS.len();
        let mut equations = NormalEquations::separating(columns, SEPARATE);
        for point in points {
            let (place, ms) = (mean_round(point), point.mean(|one| one.round_ms));
            equations.observe(&terms(knots, on, place), ms, ms.powi(-2));
        }
        let inverse = equations.inverse();
        let is_used = |at: usize| inverse[at][at] > 0.0;
        let used = (0..columns).filter(|&at| is_used(at)).count();
        let drafts = points.iter().any(|point| point.setting().k > 0);
        let asked = |term: &usize| *term == 0 || drafts;
        let unknown = (0..TERMS.len()).filter(asked).filter(|term| !is_used(knots.len() + term));
        let unknown = unknown.map(|term| TERMS[term]).collect();
        let coefficients = equations.solve();
        let mut fit = Self { knots: knots.to_vec(), coefficients, inverse, reach: None, unknown };
        fit.reach = fit.reach_of(points, used);
        fit
    }

    /// The error of a setting's mean, from what the fit leaves or, if that is more, from the
    /// repetitions.
    fn reach_of(&self, points: &[ServedPoint], used: usize) -> Option<f64> {
        let squares = points.iter().map(|point| self.error(point).powi(2)).sum::<f64>();
        let left = (squares, points.len().saturating_sub(used));
        let noise = points.iter().map(ServedPoint::noise);
        let (squares, freedom) = noise.fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let repetitions = points.iter().map(|point| point.kept.len()).sum::<usize>();
        let each = repetitions as f64 / points.len() as f64;
        let reaches = [left, (squares / each, freedom)].into_iter().filter(|one| one.1 > 0);
        let reaches = reaches.map(|(squares, freedom)| {
            (squares / freedom as f64).sqrt() * student((freedom as f64).max(LEAST_FREEDOM))
        });
        reaches.reduce(f64::max)
    }

    /// How far a setting lies above the fit, relative to its time.
    pub fn error(&self, point: &ServedPoint) -> f64 {
        let [drafted, batch, context] = mean_round(point);
        point.mean(|one| one.round_ms) / self.round(drafted, batch, context).ms - 1.0
    }

    /// How far the fit is off at the settings that it is of, each relative to its time.
    pub fn errors(&self, points: &[ServedPoint]) -> Vec<f64> {
        let steady = points.iter().filter(|point| point.is_steady());
        steady.map(|point| self.error(point).abs()).collect()
    }

    /// The same at settings whose rows lie between those of others, by the fit without them.
    pub fn errors_left_out(points: &[ServedPoint]) -> Vec<f64> {
        let mut errors = Vec::new();
        for at in (0..points.len()).filter(|&at| points[at].is_steady()) {
            let mut others = points.to_vec();
            let point = others.remove(at);
            let known = knots(&others);
            let [drafted, batch, _] = mean_round(&point);
            let rows = batch * (1.0 + drafted);
            let is_between = known.first().is_some_and(|&first| first <= rows * (1.0 + SAME_ROWS))
                && known.last().is_some_and(|&last| rows <= last * (1.0 + SAME_ROWS));
            if let Ok(fit) = Self::of(&others)
                && is_between
            {
                errors.push(fit.error(&point).abs());
            }
        }
        errors
    }

    /// The time of a round in which each of `batch` requests drafts `drafted` tokens.
    pub fn round(&self, drafted: f64, batch: f64, context: f64) -> FittedMs {
        self.at(&self.columns([true; 3], [drafted, batch, context]))
    }

    /// The time of the target's pass over `rows` rows of each request.
    pub fn target(&self, rows: f64, batch: f64, context: f64) -> FittedMs {
        self.at(&self.columns([true, false, false], [rows - 1.0, batch, context]))
    }

    /// The time to draft one more token of each request.
    pub fn draft(&self, batch: f64) -> FittedMs {
        let pass = vec![0.0; self.knots.len()];
        self.at(&[&pass[..], &[0.0, 1.0, batch]].concat())
    }

    /// The columns of a round. Noise must not make a pass shorter the more rows it has beyond those
    /// that were measured.
    fn columns(&self, on: [bool; 3], place: MeanRound) -> Vec<f64> {
        let mut columns = terms(&self.knots, on, place);
        let (rows, last) = (place[1] * (1.0 + place[0]), self.knots.len() - 1);
        let falls = last > 0 && self.coefficients[last] < self.coefficients[last - 1];
        if falls && rows > self.knots[last] {
            columns[..last].fill(0.0);
            columns[last] = 1.0;
        }
        columns
    }

    fn at(&self, columns: &[f64]) -> FittedMs {
        let ms = columns.iter().zip(&self.coefficients).map(|(x, own)| x * own).sum::<f64>();
        let of_row = |row: &Vec<f64>| columns.iter().zip(row).map(|(x, own)| x * own).sum::<f64>();
        let variance = columns.iter().zip(&self.inverse).map(|(x, row)| x * of_row(row));
        let error = variance.sum::<f64>().max(0.0).sqrt();
        let interval = self.reach.map(|reach| reach * error);
        let interval = interval.map(|far| Interval { lo: (ms - far).max(0.0), hi: ms + far });
        FittedMs { ms, interval }
    }

    /// The costs at the measured batches, at the shortest and the longest context, and those of the
    /// measured prompts.
    pub fn rows(&self, points: &[ServedPoint]) -> Vec<CostRow> {
        let batches = ordered(points.iter().map(|point| point.setting().batch));
        let contexts = ordered(points.iter().map(|point| point.mean(|one| one.context) as usize));
        let mut ends =
            [contexts.first(), contexts.last()].into_iter().flatten().collect::<Vec<_>>();
        ends.dedup();
        let mut found = Vec::new();
        for &batch in &batches {
            for &&context in &ends {
                for rows in 1..=MOST_ROWS {
                    let ms = self.target(rows as f64, batch as f64, context as f64).ms;
                    found.push(row(TARGET_COST, [rows, context, batch], ms));
                }
                found.push(row(DRAFT_COST, [1, context, batch], self.draft(batch as f64).ms));
            }
        }
        found.extend(prompts(points));
        found
    }
}

/// The columns of a round: the weights of the knots, and the other terms that are on.
fn terms(knots: &[f64], on: [bool; 3], [drafted, batch, context]: MeanRound) -> Vec<f64> {
    let mut columns = weights(knots, batch * (1.0 + drafted));
    let others = [batch * context, drafted, drafted * batch];
    columns.extend(others.iter().zip(on).map(|(x, on)| if on { *x } else { 0.0 }));
    columns
}

/// The weights with which the knots' values give that of a number of rows: between two knots by the
/// line through them, beyond the last one by that through the last two.
fn weights(knots: &[f64], rows: f64) -> Vec<f64> {
    let mut weights = vec![0.0; knots.len()];
    let above = knots.iter().position(|&knot| knot >= rows).unwrap_or(knots.len());
    let high = above.min(knots.len() - 1);
    if high == 0 {
        weights[0] = 1.0;
        return weights;
    }
    let share = (rows - knots[high - 1]) / (knots[high] - knots[high - 1]);
    (weights[high - 1], weights[high]) = (1.0 - share, share);
    weights
}

/// Rows at which the time of a pass is a coefficient of its own: those of plain decoding, and those
/// of drafts beyond them; none without plain decoding.
fn knots(points: &[ServedPoint]) -> Vec<f64> {
    let rows = |point: &ServedPoint| point.mean(|one| one.batch as f64 * (1.0 + one.drafted));
    let plain = points.iter().filter(|point| point.setting().k == 0);
    let mut plain = plain.map(rows).collect::<Vec<_>>();
    plain.sort_by(f64::total_cmp);
    let last = plain.last().copied().unwrap_or(f64::INFINITY);
    let beyond = points.iter().map(rows).filter(|&rows| rows > last);
    let mut beyond = beyond.collect::<Vec<_>>();
    beyond.sort_by(f64::total_cmp);
    let mut knots = Vec::<f64>::new();
    for rows in plain.into_iter().chain(beyond) {
        if knots.last().is_none_or(|last| rows > last * (1.0 + SAME_ROWS)) {
            knots.push(rows);
        }
    }
    knots
}

/// Whether contexts differ enough for a cost of their own.
fn spread(points: &[ServedPoint]) -> bool {
    let contexts = points.iter().map(|point| point.mean(|one| one.context));
    let (least, most) = contexts
        .fold((f64::INFINITY, 0.0_f64), |(least, most), own| (least.min(own), most.max(own)));
    most > 1.5 * least
}

fn mean_round(point: &ServedPoint) -> MeanRound {
    let batch = point.setting().batch as f64;
    [point.mean(|one| one.drafted), batch, point.mean(|one| one.context)]
}

/// The mean time to the first token of a request alone that decodes plainly, by its prompt.
fn prompts(points: &[ServedPoint]) -> Vec<CostRow> {
    let alone = |point: &&ServedPoint| point.setting().k == 0 && point.setting().batch == 1;
    let mut found = Vec::<CostRow>::new();
    for point in points.iter().filter(alone) {
        let (prompt, ms) = (point.setting().prompt, point.mean(|one| one.first_ms));
        if ms > 0.0 && found.iter().all(|known| known.rows != prompt) {
            found.push(row(PREFILL_COST, [prompt, 1, 1], ms));
        }
    }
    found
}

fn ordered(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut all = numbers.collect::<Vec<_>>();
    all.sort_unstable();
    all.dedup();
    all
}

fn row(what: &str, [rows, context, batch]: [usize; 3], ms: f64) -> CostRow {
    CostRow { what: what.to_owned(), rows, context, batch, ms, ..CostRow::default() }
}

//! The time of one part of a round as a function of the rows of its pass and of the context,
//! fitted by least squares.

use super::least_squares::NormalEquations;
use super::row_sums::RowSums;
use super::time_sums::TimeSums;

/// A number of rows becomes a knot if at least this many rounds had it.
const LEAST_ROUNDS: f64 = 20.0;

/// The largest number of knots.
const MOST_KNOTS: usize = 16;

/// A time that is piecewise linear in the rows, with a value at each knot, and linear in the
/// context.
#[derive(Debug, Clone, PartialEq)]
pub struct PartCost {
    /// Numbers of rows, ascending, with the time in µs at the mean context.
    knots: Vec<(usize, f64)>,
    /// Mean context of the fitted rounds, in tokens.
    context: f64,
    /// µs per token of context.
    per_token: f64,
}

impl PartCost {
    /// Fits the part of the time that `part` selects, by least squares over rounds. `sums` has one
    /// entry per number of rows. `None` without rounds.
    pub fn fit(sums: &[RowSums], part: fn(&TimeSums) -> f64) -> Option<Self> {
        let rounds = sums.iter().map(|own| own.rounds).sum::<f64>();
        let context = super::ratio(sums.iter().map(|own| own.context).sum(), rounds)?;
        let knots = knots(sums)?;
        let slope = knots.len();
        let mut equations = NormalEquations::new(slope + 1);
        for own in sums {
            // Sums over these rounds of the context beyond the mean, and of its square.
            let beyond = own.context - own.rounds * context;
            let squared = own.context_squared - context * (own.context + beyond);
            let (time, context_time) = (part(&own.times), part(&own.context_times));
            let weights = weights(&knots, own.rows);
            for (n, (i, weight)) in weights.iter().enumerate() {
                for (j, other) in &weights[n..] {
                    equations.add_product(*i, *j, own.rounds * weight * other);
                }
                equations.add_product(*i, slope, weight * beyond);
                equations.add_value(*i, weight * time);
            }
            equations.add_product(slope, slope, squared);
            equations.add_value(slope, context_time - context * time);
        }
        let found = equations.solve();
        let per_token = found[slope];
        Some(Self { knots: knots.into_iter().zip(found).collect(), context, per_token })
    }

    /// The fitted numbers of rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        self.knots.iter().map(|(rows, _)| *rows)
    }

    /// The time of a round with this many rows and this context, in µs.
    pub fn us(&self, rows: usize, context_tokens: f64) -> f64 {
        let knots = self.knots.iter().map(|(rows, _)| *rows).collect::<Vec<_>>();
        let level = weights(&knots, rows).into_iter().map(|(i, weight)| weight * self.knots[i].1);
        level.sum::<f64>() + self.per_token * (context_tokens - self.context)
    }

    /// The time of all rounds of `sums`, in µs.
    pub fn sum_us(&self, sums: &RowSums) -> f64 {
        // The time is linear in the context, so the mean context suffices.
        sums.rounds * self.us(sums.rows, sums.context / sums.rounds.max(1.0))
    }
}

/// The numbers of rows with enough rounds. If there are too many, an evenly spread subset of them;
/// if there are none, the most frequent number of rows.
fn knots(sums: &[RowSums]) -> Option<Vec<usize>> {
    let enough = sums.iter().filter(|own| own.rounds >= LEAST_ROUNDS).map(|own| own.rows);
    let enough = enough.collect::<Vec<_>>();
    if enough.is_empty() {
        let most = sums.iter().rev().max_by(|a, b| a.rounds.total_cmp(&b.rounds))?;
        return Some(vec![most.rows]);
    }
    if enough.len() <= MOST_KNOTS {
        return Some(enough);
    }
    let gaps = MOST_KNOTS - 1;
    Some((0..=gaps).map(|i| enough[i * (enough.len() - 1) / gaps]).collect())
}

/// The knots around a number of rows, with weights that sum to 1. Beyond the last knot the last
/// line is extrapolated; before the first knot, its value is used.
fn weights(knots: &[usize], rows: usize) -> Vec<(usize, f64)> {
    let last = knots.len() - 1;
    let above = knots.iter().position(|&knot| knot >= rows).unwrap_or(last);
    if above == 0 || knots[above] == rows {
        return vec![(above, 1.0)];
    }
    let (low, high) = (knots[above - 1] as f64, knots[above] as f64);
    let share = (rows as f64 - low) / (high - low);
    vec![(above - 1, 1.0 - share), (above, share)]
}

//! Speedups on several machines, each measured separately.

use super::interval::{Interval, MIN_PROMPTS, Ratio, student};
use super::quantile::median;

/// The smallest number of machines that gives an interval.
pub const MIN_MACHINES: usize = MIN_PROMPTS;

/// The number of bisection steps, enough to determine all bits of a double.
const STEPS: usize = 200;

/// A ratio on several machines.
#[derive(Debug, Clone, PartialEq)]
pub struct BetweenMachines {
    /// Number of machines with the ratio.
    pub machines: usize,
    /// The median over the machines.
    pub median: f64,
    /// The smallest.
    pub lowest: f64,
    /// The largest.
    pub highest: f64,
    /// The expected ratio of a further machine.
    pub expected: Option<ExpectedRatio>,
}

/// The mean of a random-effects model, as a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedRatio {
    /// The ratio of the typical machine, a geometric mean.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// The standard deviation between machines, of the logarithm.
    pub spread: f64,
}

impl BetweenMachines {
    /// Summarises the ratios of several machines. `None` if no machine has the ratio.
    pub fn of(machines: &[Ratio]) -> Option<Self> {
        let known = machines.iter().filter_map(|ratio| Some((ratio.value()?, ratio)));
        let known = known.filter(|(value, _)| *value > 0.0).collect::<Vec<_>>();
        let values = known.iter().map(|(value, _)| *value).collect::<Vec<_>>();
        let logs = known.iter().map(|(value, ratio)| Some((value.ln(), ratio.log_variance()?)));
        Some(Self {
            machines: values.len(),
            median: median(&values)?,
            lowest: values.iter().copied().reduce(f64::min)?,
            highest: values.iter().copied().reduce(f64::max)?,
            expected: logs.collect::<Option<Vec<_>>>().and_then(|logs| random_effects(&logs)),
        })
    }
}

/// The random-effects model of some logarithms of ratios, each with the square of its standard
/// error: machine i has θᵢ ~ N(μ, τ²), and its measurement adds an independent error. τ² is the
/// estimate of Paule and Mandel (1982), for which the weighted sum of squared residuals equals its
/// expectation. The interval of μ is that of Hartung and Knapp (2001), with Student's t, and is
/// never shorter than with the weights alone (Röver et al. 2015). `None` for fewer than
/// [`MIN_MACHINES`], or an error of zero.
pub fn random_effects(logs: &[(f64, f64)]) -> Option<ExpectedRatio> {
    let count = logs.len();
    if count < MIN_MACHINES || logs.iter().any(|(_, square)| *square <= 0.0) {
        return None;
    }
    let freedom = (count - 1) as f64;
    let mean = |between: f64| {
        let weights = logs.iter().map(|(_, within)| 1.0 / (within + between));
        let sum = weights.clone().sum::<f64>();
        let mean = weights.clone().zip(logs).map(|(w, (log, _))| w * log).sum::<f64>() / sum;
        let squares = weights.zip(logs).map(|(w, (log, _))| w * (log - mean).powi(2));
        (mean, sum, squares.sum::<f64>())
    };
    let (mut low, mut high) = (0.0, 1.0);
    while mean(high).2 > freedom {
        high *= 2.0;
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if mean(middle).2 > freedom { low = middle } else { high = middle }
    }
    let between = if mean(0.0).2 <= freedom { 0.0 } else { high };
    let (centre, weight, squares) = mean(between);
    let reach = student(freedom) * ((squares / freedom).max(1.0) / weight).sqrt();
    let interval = Interval { lo: (centre - reach).exp(), hi: (centre + reach).exp() };
    Some(ExpectedRatio { ratio: centre.exp(), interval, spread: between.sqrt() })
}

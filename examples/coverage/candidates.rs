//! The candidate intervals: the one that reports use, and the alternatives it was compared
//! with.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::measure::statistics::{Interval, Ratio, Z, quantile, student};

/// A method of computing a confidence interval.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Its name in `coverage.csv`.
    pub(crate) name: &'static str,
    /// Whether it needs bootstrap resamples.
    pub(crate) resamples: bool,
    /// Computes the interval of a drawn experiment.
    pub(crate) interval: fn(&Drawn<'_>) -> Option<Interval>,
}

/// All candidates. The first is the one of the reports, here without their minimum number of
/// prompts.
pub(crate) const CANDIDATES: &[Candidate] = &[
    Candidate { name: "skew_t", resamples: false, interval: |drawn| drawn.ratio.interval_of(2, Z) },
    Candidate { name: "t", resamples: false, interval: |drawn| studentised(drawn, plain) },
    Candidate { name: "t_jackknife", resamples: false, interval: jackknife },
    Candidate { name: "hall", resamples: false, interval: |drawn| studentised(drawn, hall) },
    Candidate { name: "percentile", resamples: true, interval: percentile },
    Candidate { name: "bca", resamples: true, interval: bca },
    Candidate { name: "bootstrap_t", resamples: true, interval: bootstrap_t },
];

/// Number of bootstrap resamples.
const RESAMPLES: usize = 999;

/// A drawn experiment and the statistics from which intervals are computed.
pub(crate) struct Drawn<'r> {
    ratio: &'r Ratio,
    terms: Vec<(f64, &'r [f64])>,
    /// Number of prompts.
    n: f64,
    /// Logarithm of the quotient, its standard error, and the skewness of the influences of
    /// prompts.
    log: f64,
    error: f64,
    skewness: f64,
    /// The constant that the ratio adds to the quotient.
    plus: f64,
    /// The logarithms of the quotients of all resamples, and their studentised values; both
    /// sorted.
    resamples: [Vec<f64>; 2],
}

impl<'r> Drawn<'r> {
    /// The statistics of an experiment; `None` if its quotient is not a positive number.
    pub(crate) fn new(ratio: &'r Ratio, resample: bool) -> Option<Self> {
        let terms = ratio.terms().collect::<Vec<_>>();
        let log = terms.iter().map(|(power, sum)| power * sum.iter().sum::<f64>().ln()).sum();
        let (n, x) = (ratio.prompts() as f64, ratio.influences());
        let sum = |k: i32| x.iter().map(|x| x.powi(k)).sum::<f64>();
        let error = (sum(2) * n / (n - 1.0)).sqrt();
        let skewness = if error > 0.0 { sum(3) / n / (sum(2) / n).powf(1.5) } else { 0.0 };
        let plus = ratio.value()? - f64::exp(log);
        let resamples = [vec![], vec![]];
        let mut drawn = Self { ratio, terms, n, log, error, skewness, plus, resamples };
        if resample {
            drawn.resamples = drawn.resampled();
        }
        (log.is_finite() && error.is_finite()).then_some(drawn)
    }

    /// The interval between two logarithms.
    fn between(&self, lo: f64, hi: f64) -> Option<Interval> {
        Some(Interval { lo: lo.exp() + self.plus, hi: hi.exp() + self.plus })
    }

    fn resampled(&self) -> [Vec<f64>; 2] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut prompts = vec![0; self.ratio.prompts()];
        let mut scale = vec![0.0; self.terms.len()];
        let [mut logs, mut ts] = [vec![], vec![]];
        for _ in 0..RESAMPLES {
            prompts.iter_mut().for_each(|i| *i = rng.next_u64() as usize % self.terms[0].1.len());
            let mut log = 0.0;
            for (scale, (power, sum)) in scale.iter_mut().zip(&self.terms) {
                let total = prompts.iter().map(|&i| sum[i]).sum::<f64>();
                log += power * total.ln();
                *scale = power / total;
            }
            let terms = || self.terms.iter().zip(&scale);
            let influence = |i: usize| terms().map(|((_, sum), scale)| scale * sum[i]).sum::<f64>();
            let squares = prompts.iter().map(|&i| influence(i) * influence(i)).sum::<f64>();
            let error = (squares * self.n / (self.n - 1.0)).sqrt();
            // Resamples without a finite logarithm are skipped; without spread, t is 0.
            if log.is_finite() {
                logs.push(log);
                ts.push(if error > 1e-12 { (log - self.log) / error } else { 0.0 });
            }
        }
        logs.sort_by(f64::total_cmp);
        ts.sort_by(f64::total_cmp);
        [logs, ts]
    }
}

/// An interval of the logarithm. `reach` gives the distances to its lower and upper end, in
/// standard errors.
fn studentised(drawn: &Drawn<'_>, reach: fn(f64, f64, f64) -> (f64, f64)) -> Option<Interval> {
    let (below, above) = reach(student(drawn.n - 1.0), drawn.skewness, drawn.n);
    drawn.between(drawn.log - below * drawn.error, drawn.log + above * drawn.error)
}

/// Student's t.
fn plain(t: f64, _skewness: f64, _n: f64) -> (f64, f64) {
    (t, t)
}

/// Hall's transformation, which is also applied where it shortens the interval.
fn hall(t: f64, skewness: f64, n: f64) -> (f64, f64) {
    let (a, b) = (skewness / (3.0 * n.sqrt()), skewness / (6.0 * n.sqrt()));
    let inverse = |y: f64| {
        if a.abs() < 1e-9 { y } else { ((1.0 + 3.0 * a * (y - b)).cbrt() - 1.0) / a }
    };
    (inverse(t), -inverse(-t))
}

/// Student's t with the jackknife standard error.
fn jackknife(drawn: &Drawn<'_>) -> Option<Interval> {
    let without = |i: usize| {
        let terms = drawn.terms.iter();
        terms.map(|(p, sum)| p * (sum.iter().sum::<f64>() - sum[i]).max(1e-9).ln()).sum::<f64>()
    };
    let squares = (0..drawn.ratio.prompts()).map(|i| (without(i) - drawn.log).powi(2));
    let reach = student(drawn.n - 1.0) * (squares.sum::<f64>() * (drawn.n - 1.0) / drawn.n).sqrt();
    drawn.between(drawn.log - reach, drawn.log + reach)
}

/// The percentile bootstrap.
fn percentile(drawn: &Drawn<'_>) -> Option<Interval> {
    let logs = &drawn.resamples[0];
    drawn.between(quantile(logs, 0.025)?, quantile(logs, 0.975)?)
}

/// The bias-corrected and accelerated bootstrap (Efron 1987).
fn bca(drawn: &Drawn<'_>) -> Option<Interval> {
    let logs = &drawn.resamples[0];
    let below = logs.iter().filter(|log| **log < drawn.log).count() as f64;
    let bias = normal_quantile((below + 0.5) / (logs.len() as f64 + 1.0));
    let acceleration = drawn.skewness / (6.0 * drawn.n.sqrt());
    let end = |z: f64| {
        let z = bias + (bias + z) / (1.0 - acceleration * (bias + z));
        quantile(logs, normal(z))
    };
    drawn.between(end(-1.959_964)?, end(1.959_964)?)
}

/// The bootstrap-t: quantiles of the studentised resamples.
fn bootstrap_t(drawn: &Drawn<'_>) -> Option<Interval> {
    let end = |p| Some(drawn.log - quantile(&drawn.resamples[1], p)? * drawn.error);
    drawn.between(end(0.975)?, end(0.025)?)
}

/// The cumulative distribution function of the standard normal distribution.
fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// The quantile function of the standard normal distribution, by bisection.
fn normal_quantile(p: f64) -> f64 {
    let (mut lo, mut hi) = (-9.0, 9.0);
    for _ in 0..50 {
        let middle = (lo + hi) / 2.0;
        if normal(middle) < p { lo = middle } else { hi = middle }
    }
    lo
}

//! Intervals of ratios: Student's t on the logarithm, corrected for skewness.
//!
//! A ratio of a report is a product of sums over prompts divided by a product of
//! as many sums. On the logarithm it is nearly a mean: prompt i adds
//!
//! ```text
//! x_i = Σ aᵢ/Σa − Σ bᵢ/Σb        over the sums a above and b below
//! ```
//!
//! whose squares give the standard error. A mean of few skewed values is itself
//! skewed, so the quantiles of Student's t go through the inverse of Hall's
//! transformation (Hall 1992, "On the removal of skewness by transformation",
//! J. R. Stat. Soc. B 54). It may lengthen a side of the interval, never shorten
//! it below Student's: the skewness of few prompts is known too badly for that.
//!
//! `experiments/93-coverage` holds this against the bootstraps and against t
//! alone on the prompts of the committed runs.

/// Fewest prompts of an interval. On the prompts of the committed runs 95 %
/// intervals of 8 prompts hold the truth in 92 % of the draws or more in 862 of
/// 867 cells; of 4 prompts it is as little as 86 % (`experiments/93-coverage`).
pub const MIN_PROMPTS: usize = 8;

/// Normal quantile of 97.5 %.
const Z: f64 = 1.959_963_984_540_054;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

/// A product of sums over prompts ÷ a product of as many sums, plus a constant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ratio {
    /// The sums above the line, each by prompt.
    above: Vec<Vec<f64>>,
    /// Those below.
    below: Vec<Vec<f64>>,
    /// What is added to the quotient.
    plus: f64,
    /// The largest value that it can have.
    most: Option<f64>,
}

impl Ratio {
    /// The ratio of what each prompt adds to the `N` sums above the line and to
    /// the `N` below it. Both sides of a pair are of one prompt, so they stay
    /// together.
    pub fn of<const N: usize>(prompts: impl IntoIterator<Item = ([f64; N], [f64; N])>) -> Self {
        let mut ratio = Self { above: vec![vec![]; N], below: vec![vec![]; N], ..Self::default() };
        for (above, below) in prompts {
            ratio.above.iter_mut().zip(above).for_each(|(sum, x)| sum.push(x));
            ratio.below.iter_mut().zip(below).for_each(|(sum, x)| sum.push(x));
        }
        ratio
    }

    /// The ratio times another one of the same prompts.
    #[must_use]
    pub fn times(mut self, other: &Self) -> Self {
        self.above.extend(other.above.iter().cloned());
        self.below.extend(other.below.iter().cloned());
        self
    }

    /// The ratio plus a constant, to which its uncertainty does not belong.
    #[must_use]
    pub fn plus(self, constant: f64) -> Self {
        Self { plus: constant, ..self }
    }

    /// A probability, which no interval may exceed.
    #[must_use]
    pub fn at_most_one(self) -> Self {
        Self { most: Some(1.0), ..self }
    }

    /// The same ratio of some prompts, by their numbers, each as often as it is
    /// named.
    pub fn resample(&self, prompts: &[usize]) -> Self {
        let draw = |sums: &[Vec<f64>]| {
            sums.iter().map(|sum| prompts.iter().map(|&i| sum[i]).collect()).collect()
        };
        Self { above: draw(&self.above), below: draw(&self.below), ..*self }
    }

    /// Number of prompts.
    pub fn prompts(&self) -> usize {
        self.below.first().map_or(0, Vec::len)
    }

    /// The ratio; `None` if a sum below the line is zero.
    pub fn value(&self) -> Option<f64> {
        let sum = |parts: &Vec<f64>| parts.iter().sum::<f64>();
        let mut terms = self.above.iter().zip(&self.below);
        let product = terms.try_fold(1.0, |product, (above, below)| {
            Some(product * super::ratio(sum(above), sum(below))?)
        });
        Some(product? + self.plus)
    }

    /// Its 95 % interval. `None` if the ratio before the constant is not
    /// positive, if fewer than [`MIN_PROMPTS`] prompts add to every sum below
    /// the line, or if all prompts have the same ratio: those that never differed
    /// do not tell how far others may.
    pub fn interval(&self) -> Option<Interval> {
        self.interval_from(MIN_PROMPTS)
    }

    /// [`Self::interval`] with another fewest number of prompts, at least 2.
    pub fn interval_from(&self, least: usize) -> Option<Interval> {
        let value = self.value()? - self.plus;
        let adds = |sum: &Vec<f64>| sum.iter().filter(|x| **x > 0.0).count();
        let n = self.below.iter().map(adds).min()?;
        if n < least || value <= 0.0 {
            return None;
        }
        let (below, above) = skew_t(&self.influences(), n)?;
        let end = |log: f64| {
            let end = value * log.exp() + self.plus;
            self.most.map_or(end, |most| end.min(most))
        };
        Some(Interval { lo: end(-below), hi: end(above) })
    }

    /// The sums, each by prompt, with the power at which they enter: 1 above the
    /// line, -1 below.
    pub fn terms(&self) -> impl Iterator<Item = (f64, &[f64])> {
        let above = self.above.iter().map(|sum| (1.0, sum.as_slice()));
        above.chain(self.below.iter().map(|sum| (-1.0, sum.as_slice())))
    }

    /// What each prompt adds to the logarithm of the quotient; together nothing.
    pub fn influences(&self) -> Vec<f64> {
        let mut influences = vec![0.0; self.prompts()];
        for (power, sum) in self.terms() {
            let total = power * sum.iter().sum::<f64>();
            influences.iter_mut().zip(sum).for_each(|(x, part)| *x += part / total);
        }
        influences
    }
}

/// Influences whose squares sum to less are those of equal ratios, rounded.
const NO_SPREAD: f64 = 1e-24;

/// How far the interval of a mean reaches downwards and upwards, given the
/// influences of its `n` values; `None` if they have no spread.
fn skew_t(x: &[f64], n: usize) -> Option<(f64, f64)> {
    let n = n as f64;
    let moment = |k: i32| x.iter().map(|x| x.powi(k)).sum::<f64>() / n;
    let (variance, third) = (moment(2), moment(3));
    if variance * n < NO_SPREAD {
        return None;
    }
    // The influences are already divided by n.
    let error = (variance * n * n / (n - 1.0)).sqrt();
    let skewness = third / variance.powf(1.5);
    let t = student(n - 1.0);
    let reach = |t: f64| unskewed(t, skewness, n).abs().max(t.abs()) * error;
    Some((reach(t), reach(-t)))
}

/// The inverse of Hall's transformation of a studentised mean T,
/// `T + γ (2 T² + 1) / (6 √n) + γ² T³ / (27 n)`, which removes its skewness.
fn unskewed(t: f64, skewness: f64, n: f64) -> f64 {
    let (a, b) = (skewness / (3.0 * n.sqrt()), skewness / (6.0 * n.sqrt()));
    // Of a symmetric distribution it is the identity; near it the quotient loses digits.
    if a.abs() < 1e-9 { t } else { ((1.0 + 3.0 * a * (t - b)).cbrt() - 1.0) / a }
}

/// The 97.5 % quantile of Student's t with `df` degrees of freedom, to 1e-4 from
/// 7 on (Abramowitz and Stegun 1964, 26.7.5).
pub fn student(df: f64) -> f64 {
    let powers =
        |coefficients: &[f64]| coefficients.iter().rev().fold(0.0, |sum, c| sum * Z * Z + c) * Z;
    Z + powers(&[1.0, 1.0]) / (4.0 * df)
        + powers(&[3.0, 16.0, 5.0]) / (96.0 * df.powi(2))
        + powers(&[-15.0, 17.0, 19.0, 3.0]) / (384.0 * df.powi(3))
        + powers(&[-945.0, -1920.0, 1482.0, 776.0, 79.0]) / (92_160.0 * df.powi(4))
}

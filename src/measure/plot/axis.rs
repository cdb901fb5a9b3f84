//! Axes: map values to positions between 0 and 1, and choose ticks.

/// The x or y axis of a panel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// What is shown, with its unit.
    pub(crate) label: String,
    lo: f64,
    hi: f64,
    log: bool,
    ticks: Vec<f64>,
    /// Whether its values are settings, so that several curves have points at the same ones.
    pub(super) chosen: bool,
}

/// The minimum ratio of the largest to the smallest setting for a logarithmic axis.
const DECADE: f64 = 10.0;

impl Axis {
    /// A linear axis between round numbers that enclose all `values`.
    pub(crate) fn holding(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (lo, hi) = ends(values).unwrap_or((0.0, 1.0));
        let step = step((hi - lo).max(1e-9 * hi.abs()).max(f64::MIN_POSITIVE));
        // A value above the last tick only by rounding needs no further tick.
        let first = (lo / step + 1e-9).floor();
        let last = (hi / step - 1e-9).ceil().max(first + 1.0);
        let ticks = (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step).collect();
        let (lo, hi) = (first * step, last * step);
        Self { label: label.to_owned(), lo, hi, log: false, ticks, chosen: false }
    }

    /// A linear axis that encloses all `values` and 1 and has a tick below 1, so that the side
    /// of losses is visible.
    pub(crate) fn around_one(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::holding(label, values.into_iter().chain([1.0 - 1e-6, 1.0]))
    }

    /// Adds a margin before the beginning, for markers that lie on it.
    pub(crate) fn with_margin(self) -> Self {
        Self { lo: self.lo - (self.hi - self.lo) / 24.0, ..self }
    }

    /// A linear axis from 0 to 1.
    pub(crate) fn unit(label: &str) -> Self {
        Self::holding(label, [0.0, 1.0])
    }

    /// An axis of settings, with a tick at every one of `values`. It is logarithmic if they
    /// span a decade and are spaced more evenly on a logarithmic scale.
    pub(crate) fn of_settings(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut ticks = values.into_iter().filter(|x| x.is_finite()).collect::<Vec<_>>();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let (lo, hi) = ends(ticks.iter().copied()).unwrap_or((0.0, 1.0));
        let logs = ticks.iter().map(|x| x.ln()).collect::<Vec<_>>();
        let log = lo > 0.0 && hi / lo >= DECADE && unevenness(&logs) < unevenness(&ticks);
        let axis = Self { label: label.to_owned(), lo, hi, log, ticks, chosen: true };
        let margin = ((axis.scaled(hi) - axis.scaled(lo)) / 16.0).max(1e-3);
        let end = |x: f64| if log { x.exp() } else { x };
        Self { lo: end(axis.scaled(lo) - margin), hi: end(axis.scaled(hi) + margin), ..axis }
    }

    /// The position of a value: 0 at the beginning of the axis, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (lo, hi) = (self.scaled(self.lo), self.scaled(self.hi));
        (self.scaled(value) - lo) / (hi - lo)
    }

    /// Whether a value lies on the axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.place(value))
    }

    /// Ticks with their labels.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks.iter().map(|&x| (x, number(x)))
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.log { value.ln() } else { value }
    }
}

/// A number with at most 10 decimals and without trailing zeros, which hides rounding.
fn number(x: f64) -> String {
    let text = format!("{x:.10}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A value with the ends of its interval, all of which an axis must enclose.
pub(crate) fn reach(value: f64, interval: Option<(f64, f64)>) -> [f64; 3] {
    let (lo, hi) = interval.unwrap_or((value, value));
    [value, lo, hi]
}

fn ends(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|x| x.is_finite());
    finite.map(|x| (x, x)).reduce(|(lo, hi), (x, _)| (lo.min(x), hi.max(x)))
}

/// A tick distance of 1, 2 or 5 times a power of ten that divides `span` into about
/// five parts.
fn step(span: f64) -> f64 {
    let raw = span / 5.0;
    let magnitude = 10f64.powf(raw.log10().floor());
    // A small tolerance, since 0.1 has no exact binary representation.
    let nice = [1.0, 2.0, 5.0].into_iter().find(|m| m * magnitude >= raw * (1.0 - 1e-9));
    nice.unwrap_or(10.0) * magnitude
}

/// The widest distance between neighbours ÷ the narrowest.
fn unevenness(sorted: &[f64]) -> f64 {
    let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    ends(gaps).map_or(1.0, |(least, most)| most / least)
}

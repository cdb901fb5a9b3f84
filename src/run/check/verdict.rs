//! What the forecasts mean.

use super::{CheckOutcome, LengthForecast};
use crate::measure::statistics::Interval;
use crate::run::report::{SpeedVerdict, TimesValidity};

/// The K with the largest speedup, if costs are known.
pub(super) fn best(lengths: &[LengthForecast]) -> Option<LengthForecast> {
    let known = lengths.iter().filter(|forecast| forecast.speedup.is_some());
    known.copied().reduce(|best, next| if next.speedup > best.speedup { next } else { best })
}

/// The verdict that follows from the best K.
pub(super) fn of(best: Option<LengthForecast>, times: &TimesValidity) -> SpeedVerdict {
    let Some(best) = best else { return times.withheld().unwrap_or(SpeedVerdict::NoCosts) };
    times.verdict(best.lo.zip(best.hi).map(|(lo, hi)| Interval { lo, hi }))
}

impl CheckOutcome {
    /// The verdict in a sentence.
    pub fn sentence(&self) -> String {
        sentence(self.verdict, self.best)
    }
}

fn sentence(verdict: SpeedVerdict, best: Option<LengthForecast>) -> String {
    let best = best.map(|best| {
        let ends = best.lo.zip(best.hi);
        let ends = ends.map(|(lo, hi)| format!(" [{lo:.2}, {hi:.2}]")).unwrap_or_default();
        let speedup = best.speedup.unwrap_or_default();
        format!("{speedup:.2}x expected{ends} with K = {}", best.length)
    });
    let best = best.unwrap_or_default();
    match verdict {
        SpeedVerdict::Faster => format!("it is faster: {best}"),
        SpeedVerdict::Undecided => {
            format!("these prompts do not decide it; the best is {best}")
        }
        SpeedVerdict::Slower => {
            format!("no K is faster than plain decoding here; the best is {best}")
        }
        SpeedVerdict::TooFewPrompts | SpeedVerdict::TooManyLoops => {
            format!("too few prompts for an interval; the best is {best}")
        }
        SpeedVerdict::NoCosts => "no conclusion: a cost could not be measured".to_owned(),
        SpeedVerdict::Disturbed | SpeedVerdict::Set => "no conclusion: other work disturbed this \
            machine; try again when it is idle"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(length: usize, speedup: f64, ends: Option<(f64, f64)>) -> LengthForecast {
        LengthForecast {
            length,
            acceptance: None,
            tokens_per_round: None,
            speedup: Some(speedup),
            lo: ends.map(|ends| ends.0),
            hi: ends.map(|ends| ends.1),
        }
    }

    #[test]
    fn the_interval_of_the_best_length_decides() {
        let of = |ends, disturbed| {
            let lengths = [forecast(1, 0.9, None), forecast(2, 1.2, ends), forecast(3, 1.1, None)];
            let times = TimesValidity::of_blocks(usize::from(disturbed), 1, "other work");
            sentence(super::of(best(&lengths), &times), best(&lengths))
        };
        let faster = of(Some((1.1, 1.3)), false);
        assert_eq!(faster, "it is faster: 1.20x expected [1.10, 1.30] with K = 2");
        assert!(of(Some((0.9, 1.3)), false).starts_with("these prompts do not decide it"));
        assert!(of(Some((0.7, 0.9)), false).starts_with("no K is faster"));
        assert!(of(None, false).starts_with("too few prompts"));
        assert!(of(Some((1.1, 1.3)), true).starts_with("no conclusion"));
        assert_eq!(super::of(None, &TimesValidity::default()), SpeedVerdict::NoCosts);
    }
}

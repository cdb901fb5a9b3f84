//! What the forecasts mean.

use serde::Serialize;

use super::LengthForecast;

/// Whether drafting pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// It does, for prompts like these.
    Faster,
    /// These prompts do not decide it.
    Undecided,
    /// It does not pay with any K.
    Slower,
    /// Too few prompts for an interval.
    TooFewPrompts,
    /// Other work disturbed this machine too much.
    Disturbed,
}

/// The K with the largest speedup, if costs are known.
pub(super) fn best(lengths: &[LengthForecast]) -> Option<LengthForecast> {
    let known = lengths.iter().filter(|forecast| forecast.speedup.is_some());
    known.copied().reduce(|best, next| if next.speedup > best.speedup { next } else { best })
}

impl CheckVerdict {
    /// The verdict that follows from the best K.
    pub(super) fn of(best: Option<LengthForecast>, disturbed: bool) -> Self {
        let Some(best) = best.filter(|_| !disturbed) else { return Self::Disturbed };
        match best.lo.zip(best.hi) {
            Some((lo, _)) if lo > 1.0 => Self::Faster,
            Some((_, hi)) if hi < 1.0 => Self::Slower,
            Some(_) => Self::Undecided,
            None => Self::TooFewPrompts,
        }
    }

    /// The verdict in a sentence.
    pub fn sentence(self, best: Option<LengthForecast>) -> String {
        let best = best.map(|best| {
            let ends = best.lo.zip(best.hi);
            let ends = ends.map(|(lo, hi)| format!(" [{lo:.2}, {hi:.2}]")).unwrap_or_default();
            let speedup = best.speedup.unwrap_or_default();
            format!("{speedup:.2}x expected{ends} with K = {}", best.length)
        });
        let best = best.unwrap_or_default();
        match self {
            Self::Faster => format!("it is faster: {best}"),
            Self::Undecided => format!("these prompts do not decide it; the best is {best}"),
            Self::Slower => format!("no K is faster than plain decoding here; the best is {best}"),
            Self::TooFewPrompts => format!("too few prompts for an interval; the best is {best}"),
            Self::Disturbed => "no conclusion: other work disturbed this machine; try again when \
                                it is idle"
                .to_owned(),
        }
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
            CheckVerdict::of(best(&lengths), disturbed).sentence(best(&lengths))
        };
        let faster = of(Some((1.1, 1.3)), false);
        assert_eq!(faster, "it is faster: 1.20x expected [1.10, 1.30] with K = 2");
        assert!(of(Some((0.9, 1.3)), false).starts_with("these prompts do not decide it"));
        assert!(of(Some((0.7, 0.9)), false).starts_with("no K is faster"));
        assert!(of(None, false).starts_with("too few prompts"));
        assert!(of(Some((1.1, 1.3)), true).starts_with("no conclusion"));
        assert!(CheckVerdict::of(None, false) == CheckVerdict::Disturbed);
    }
}

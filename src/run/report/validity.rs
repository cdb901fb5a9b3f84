//! Whether times allow a verdict on speed. Everything that calls a method faster or slower, or
//! chooses a K by its speed, asks [`TimesValidity`].

use serde::Serialize;

use crate::io::shown::count;
use crate::measure::machine::DISTURBED;
use crate::measure::statistics::Interval;
use crate::run::experiment::MOST_DISTURBED;

/// What the K of a method's fastest cell is called.
pub(super) const BEST_K: &str = "best K";

/// A reason for which times give no verdict on speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InvalidTimes {
    /// A virtual clock sets them.
    Set,
    /// Too many blocks were disturbed.
    Disturbed {
        /// The share of them.
        share: f64,
        /// What took most time from the worst one, in words.
        cause: &'static str,
    },
    /// The two runs of this number of control cells differ by more than chance.
    ControlsDiffer(usize),
}

impl InvalidTimes {
    /// The reason in a sentence.
    pub fn sentence(self) -> String {
        match self {
            Self::Set => "Times are those of a virtual clock: they are set, not measured, and \
                          give no verdict on speed."
                .to_owned(),
            Self::Disturbed { share, cause } => format!(
                "DISTURBED: {:.0} % of the blocks lost more than {:.0} % of their time, the worst \
                 one mainly to {cause}. Above {:.0} % of the blocks no verdict is given.",
                100.0 * share,
                100.0 * DISTURBED,
                100.0 * MOST_DISTURBED
            ),
            Self::ControlsDiffer(cells) => format!(
                "DISTURBED: in {} that ran twice, the two runs differ by more than chance. No \
                 difference between cells of this run should be trusted.",
                count(cells, "cell")
            ),
        }
    }

    /// What is true of the run, as the rest of a sentence about it.
    pub fn predicate(self) -> &'static str {
        match self {
            Self::Set => "has times that a virtual clock sets",
            Self::Disturbed { .. } | Self::ControlsDiffer(_) => "was disturbed",
        }
    }

    fn verdict(self) -> SpeedVerdict {
        match self {
            Self::Set => SpeedVerdict::Set,
            Self::Disturbed { .. } | Self::ControlsDiffer(_) => SpeedVerdict::Disturbed,
        }
    }
}

/// The reasons for which some times give no verdict on speed; none if they are valid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TimesValidity {
    /// The most serious first.
    pub reasons: Vec<InvalidTimes>,
}

impl TimesValidity {
    /// That of `all` blocks of which some were disturbed, the worst one by this cause.
    pub fn of_blocks(disturbed: usize, all: usize, cause: &'static str) -> Self {
        let share = disturbed as f64 / all.max(1) as f64;
        let reason = InvalidTimes::Disturbed { share, cause };
        Self { reasons: Vec::from_iter((share > MOST_DISTURBED).then_some(reason)) }
    }

    /// Whether a verdict on speed may follow.
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// The verdict that stands in place of all others; `None` if the times are valid.
    pub fn withheld(&self) -> Option<SpeedVerdict> {
        self.reasons.first().map(|reason| reason.verdict())
    }

    /// The verdict that the interval of a speedup allows.
    pub fn verdict(&self, speedup: Option<Interval>) -> SpeedVerdict {
        self.withheld().unwrap_or_else(|| SpeedVerdict::of(speedup))
    }

    /// What the K is called that stands for a method: no K is best by times that are not valid.
    pub fn chosen_k(&self) -> &'static str {
        if self.is_valid() { BEST_K } else { "largest K" }
    }

    /// What a figure of these times says first; `None` if they are valid.
    pub(super) fn note(&self) -> Option<&'static str> {
        self.withheld().map(|verdict| match verdict {
            SpeedVerdict::Set => {
                "Times are set, not measured: no verdict on speed follows from them."
            }
            _ => "DISTURBED: no verdict on speed follows from these times.",
        })
    }
}

/// Whether speculation is faster than plain decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeedVerdict {
    /// It is, for prompts like these.
    Faster,
    /// These prompts do not decide it.
    Undecided,
    /// It is slower.
    Slower,
    /// Too few prompts for an interval.
    #[default]
    TooFewPrompts,
    /// Too few prompts whose plain decoding has no loop.
    TooManyLoops,
    /// Costs are unknown; only acceptance is known.
    NoCosts,
    /// Withheld: too much time was lost.
    Disturbed,
    /// Withheld: a virtual clock sets the times.
    Set,
}

impl SpeedVerdict {
    /// The verdict that the interval of a speedup allows.
    pub fn of(speedup: Option<Interval>) -> Self {
        match speedup {
            Some(interval) if interval.lo > 1.0 => Self::Faster,
            Some(interval) if interval.hi < 1.0 => Self::Slower,
            Some(_) => Self::Undecided,
            None => Self::TooFewPrompts,
        }
    }

    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Undecided => "no difference shown",
            Self::Slower => "slower",
            Self::TooFewPrompts => "unknown: too few prompts",
            Self::TooManyLoops => "unknown: too few prompts without loops",
            Self::NoCosts => "unknown: no costs",
            Self::Disturbed => "withheld: disturbed",
            Self::Set => "withheld: times are set",
        }
    }
}

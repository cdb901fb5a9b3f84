//! The settings of beam search that experiments sweep, by name.

use crate::core::params::Param;

/// The maximum number of beams of a search; each has its own cache.
pub const MOST_BEAMS: usize = 256;

/// The default width in experiments.
pub(super) const USUAL_BEAMS: usize = 4;

/// The settings of experiments. A cell records the best completion of each search, so the number of
/// returned completions is not a setting.
pub const BEAM_PARAMS: &[Param] = &[
    Param::count(
        "num_beams",
        USUAL_BEAMS,
        1..=MOST_BEAMS,
        "width of a beam search: completions that it extends in parallel",
    ),
    Param::number(
        "length_penalty",
        1.0,
        f64::MIN..=f64::MAX,
        "power of the length by which beam search divides log p",
    ),
    Param::choice(
        "early_stopping",
        "false",
        &["true", "false", "never"],
        "when a beam search ends although beams could continue",
    ),
    Param::count("num_beam_groups", 1, 1..=MOST_BEAMS, "groups of beams; a divisor of `num_beams`"),
    Param::number(
        "diversity_penalty",
        0.0,
        0.0..=f64::MAX,
        "penalty on log p of a token for every beam of an earlier group that chose it",
    ),
];

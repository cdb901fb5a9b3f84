//! The settings of beam search by name, as experiments sweep them.

use crate::params::Param;

/// The most beams of a search; each has a cache of its own.
pub const MOST_BEAMS: usize = 256;

/// The width where an experiment names none.
pub(super) const USUAL_BEAMS: usize = 4;

/// What an experiment may set. A cell has the best text of each search, so the number of
/// returned texts is not among it.
pub const BEAM_PARAMS: &[Param] = &[
    Param::count(
        "num_beams",
        USUAL_BEAMS,
        1..=MOST_BEAMS,
        "texts that a beam search continues side by side",
    ),
    Param::number(
        "length_penalty",
        1.0,
        f64::MIN..=f64::MAX,
        "power of a text's length by which beam search divides its log p",
    ),
    Param::choice(
        "early_stopping",
        "false",
        &["true", "false", "never"],
        "when a beam search ends although texts could still be continued",
    ),
    Param::count("num_beam_groups", 1, 1..=MOST_BEAMS, "groups of beams; a divisor of `num_beams`"),
    Param::number(
        "diversity_penalty",
        0.0,
        0.0..=f64::MAX,
        "what log p of a token loses for every beam of an earlier group that chose it",
    ),
];

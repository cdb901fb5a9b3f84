//! Beam search: continues several texts side by side and returns those whose tokens have the
//! largest sum of log p, by the target's unprocessed distributions.
//!
//! In each step the best continuations of all beams by one token are ranked by the sum of
//! log p; of equals, that of the better beam comes first, then that with the lower id. Those
//! among the best `num_beams` that end are finished; the best `num_beams` that do not end go
//! on. A text ends with an end token, a stop string, `max_tokens` tokens or the context.
//! Finished texts are compared by log p divided by length to the power of `length_penalty`.
//!
//! A drafter saves passes and changes no text.

mod ahead;
mod group;
mod params;
mod scores;
mod search;
mod settings;

pub use group::Hypothesis;
pub use params::{BEAM_PARAMS, MOST_BEAMS};
pub use search::{
    BeamObserver, BeamSearch, BeamStep, BeamTotals, FoundTexts, GroupStep, LiveBeam, NoBeamObserver,
};
pub use settings::{BeamSettings, EarlyStopping, drafting};

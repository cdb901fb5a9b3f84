//! Beam search: extends several completions in parallel and returns those with the largest sum of
//! log p under the target's unprocessed distributions.
//!
//! Each step ranks the best one-token continuations of all beams by the sum of log p. Ties go to
//! the better beam, then to the lower token id. Among the best `num_beams` candidates, those that
//! end are finished. The best `num_beams` candidates that do not end continue. A completion ends
//! with an end token, a stop string, after `max_tokens` tokens or at the end of the context.
//! Finished completions are compared by log p divided by length to the power of `length_penalty`.
//!
//! A drafter saves passes and does not change the result.

mod ahead;
mod group;
mod params;
mod scores;
mod search;
mod settings;

pub use group::Hypothesis;
pub use params::{BEAM_PARAMS, MOST_BEAMS};
pub use search::{
    BeamObserver, BeamResult, BeamSearch, BeamStep, BeamTotals, GroupStep, LiveBeam, NoBeamObserver,
};
pub use settings::{BeamSettings, EarlyStopping, drafting};

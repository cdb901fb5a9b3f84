//! Tapes: recorded sequences with the scores of drafters, and what follows from them without
//! running drafts: forecasts, simulated servers, and gates for logs.

#[cfg(feature = "harness")]
pub mod forecasting;
#[cfg(feature = "harness")]
pub mod gate;
#[cfg(feature = "harness")]
pub mod recording;
#[cfg(feature = "harness")]
pub mod simulation;
pub mod tape;

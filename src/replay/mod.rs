//! Requests that come to the engine as they came elsewhere: at the times of a log or of a
//! simulation, or from clients that wait for their texts. All of it happens in one process,
//! without a network and without clients that take time from the engine.

mod costs;
mod meter;
mod player;
mod requests;

pub use costs::{CostRatio, PlayedCosts};
pub use meter::PlayedStep;
pub use player::{Player, RequestToPlay};
pub use requests::RequestFile;

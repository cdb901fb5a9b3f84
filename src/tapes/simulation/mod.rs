//! A server in simulated time. The sequences of a tape are requests that arrive and share steps
//! (continuous batching: Yu et al. 2022, Orca, OSDI 2022; chunked prompts: Agrawal et al. 2024,
//! Sarathi-Serve, arXiv 2403.02310). The tape decides what a round accepts, and a table of costs
//! how long a step takes.
//!
//! Simulations with the same seed have the same arrivals. A round that begins at the same token of
//! the same request has the same draw under every policy. So differences between simulations are
//! due to the policies alone.

mod arrivals;
mod configs;
mod measures;
mod outlook;
mod policy;
mod rows;
mod sequence;
mod server;
mod step;

pub use arrivals::Arrivals;
pub use configs::{ServedConfig, configs};
pub use measures::{ServedRequest, ServedRun};
pub use outlook::Outlook;
pub use policy::{
    DEFAULT_MAX_K, DecodingRequest, DefaultK, NO_DRAFTS, PolicyEntry, PolicyParams, ServedRound,
    ServerStep, ServingPolicy, policies,
};
pub use rows::{RequestRow, Served, SimulationConfig, SimulationRow};
pub use sequence::{RequestProgress, SimulatedSequence};
pub use server::{Server, ServerLimits};
pub use step::{StepCosts, StepMs, StepWork};

//! A server in simulated time: the texts of a tape are requests that arrive and share steps
//! (continuous batching: Yu et al. 2022, Orca, OSDI 2022; prompts in chunks: Agrawal et al. 2024,
//! Sarathi-Serve, arXiv 2403.02310). What a round accepts is drawn from the tape, what a step
//! takes comes from a table of costs.
//!
//! Simulations with the same seed have the same arrivals, and a round that begins at the same
//! token of the same request has the same draw, whatever the policy: their differences are those
//! of the policies.

mod arrivals;
mod measures;
mod outlook;
mod policy;
mod rows;
mod server;
mod step;
mod text;
mod ways;

pub use arrivals::Arrivals;
pub use measures::{ServedRequest, ServedRun};
pub use outlook::Outlook;
pub use policy::{
    DecodingRequest, NO_DRAFTS, PolicyEntry, PolicyParams, ServedRound, ServerStep, ServingPolicy,
    USUAL_MOST, UsualK, policies,
};
pub use rows::{RequestRow, Served, SimulationRow, SimulationWay};
pub use server::{Server, ServerLimits};
pub use step::{StepCosts, StepMs, StepWork};
pub use text::{ServedPlace, SimulatedText};
pub use ways::{ServedWay, ways};

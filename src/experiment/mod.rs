//! Experiments: a TOML question becomes a frozen plan, the plan is run, the
//! rows are written as they come.

mod calibrate;
mod cell;
mod columns;
mod compare;
pub mod divergence;
mod exclude;
mod folder;
mod keys;
mod live;
mod machine;
mod manifest;
mod passes;
mod plan;
mod progress;
pub mod prompts;
mod recorder;
pub mod records;
mod run;
mod spec;
pub mod statistics;

pub use cell::{Calibration, Cell, CellCosts, Plan, PlannedModel};
pub use columns::columns;
pub use folder::{read_plan, write_whole};
pub use machine::Machine;
pub(crate) use machine::QueueDelay;
pub use manifest::{Manifest, Provenance, Status};
pub use passes::pass_time;
pub use plan::{Material, describe, freeze};
pub use run::{Bench, Ended, Resume, run};
pub use spec::{ClockKind, Experiment, OneOrMany, Spec, Sweep};

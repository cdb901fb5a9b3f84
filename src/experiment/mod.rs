//! Experiments: a TOML question becomes a frozen plan, the plan is run, the
//! rows are written as they come.

pub(crate) mod blocks;
mod calibrate;
mod cell;
mod columns;
mod compare;
mod costs;
mod disturbance;
pub mod divergence;
mod exclude;
mod files;
mod folder;
mod generation;
mod keys;
mod live;
mod lock;
mod machine;
mod manifest;
mod passes;
mod plan;
mod progress;
pub mod prompts;
mod provenance;
pub(crate) mod raw;
mod recorder;
pub mod records;
mod run;
mod spec;
pub mod statistics;

pub use cell::{Cell, FORMAT, Plan, PlannedModel};
pub use columns::columns;
pub use costs::{Calibration, CellCosts, PassCost};
pub(crate) use disturbance::Watch;
pub use disturbance::{DISTURBED, MOST_DISTURBED};
pub use files::write_whole;
pub use folder::read_plan;
pub use machine::{Machine, MachineClock};
pub use manifest::{Manifest, Session, Status, finish};
pub use passes::pass_time;
pub use plan::{Material, describe, freeze};
pub use provenance::{Build, Provenance};
pub use run::{Bench, Ended, Resume, run};
pub use spec::{ClockKind, Experiment, OneOrMany, Spec, Sweep};

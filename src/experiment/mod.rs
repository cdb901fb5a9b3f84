//! Experiments: a TOML question becomes a frozen plan, the plan is run, the
//! rows are written as they come.

mod cell;
pub mod records;

pub use cell::{Calibration, Cell, CellCosts, Plan, PlannedModel};

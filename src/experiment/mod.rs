//! Experiments: a TOML question becomes a frozen plan, the plan is run, the
//! rows are written as they come.

mod cell;
mod columns;
pub mod records;
pub mod statistics;

pub use cell::{Calibration, Cell, CellCosts, Plan, PlannedModel};
pub use columns::columns;

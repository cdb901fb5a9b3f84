//! Measuring: the machine, the costs of passes, the rows of results, their statistics, and figures.
//! It knows nothing of experiments.

pub mod bench;
pub mod machine;
pub(crate) mod plot;
pub mod rows;
pub mod statistics;

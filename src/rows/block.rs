//! The rows of one block.

use super::records::{DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow};
use super::traces::TraceRow;

/// All rows that one block adds to a results folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BlockRows {
    /// Rows of `rounds.csv`.
    pub(crate) rounds: Vec<RoundRow>,
    /// Rows of `positions.csv`.
    pub(crate) positions: Vec<PositionRow>,
    /// Rows of `generations.jsonl`.
    pub(crate) texts: Vec<TextRow>,
    /// Rows of `traces.jsonl`.
    pub(crate) traces: Vec<TraceRow>,
    /// Rows of `failures.csv`.
    pub(crate) failures: Vec<FailureRow>,
    /// Rows of `divergences.csv`.
    pub(crate) divergences: Vec<DivergenceRow>,
    /// Rows of `generations.csv`.
    pub(crate) generations: Vec<GenerationRow>,
}

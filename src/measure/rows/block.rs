//! The rows of one block.

use super::records::{DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow};
use super::traces::TraceRow;

/// All rows that one block adds to a results folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct BlockRows {
    pub(crate) rounds: Vec<RoundRow>,
    pub(crate) positions: Vec<PositionRow>,
    pub(crate) texts: Vec<TextRow>,
    pub(crate) traces: Vec<TraceRow>,
    pub(crate) failures: Vec<FailureRow>,
    pub(crate) divergences: Vec<DivergenceRow>,
    pub(crate) generations: Vec<GenerationRow>,
}

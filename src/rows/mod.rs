//! The rows of a results folder: their types, their text in CSV and JSON lines, and
//! the reader of raw files. Runs write them; reports and statistics read them.

mod block;
mod columns;
mod costs;
mod digest;
mod each;
mod file;
mod lines;
mod listing;
mod raw;
mod records;
mod text;
mod traces;

pub(crate) use block::BlockRows;
pub use columns::columns;
pub use costs::{Calibration, CellCosts, PassCost, Recalibration};
pub(crate) use digest::{BLOCK_FILES, BlockDigest};
pub(crate) use each::each_row;
pub(crate) use file::{PlacedRow, RawRow};
pub(crate) use lines::compressed;
pub(crate) use raw::{Raw, RowVisitor};
pub use records::{
    BeamRow, BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RAW_FILES, RoundRow,
    SummaryRow, SurvivalRow, TextRow,
};
pub(crate) use text::{RowWriter, text_of};
pub(crate) use traces::TopTokens;
pub use traces::{TraceNode, TraceRound, TraceRow};

//! The rows of a results folder: their types, their text in CSV and JSON lines, the
//! segments that hold them in columns, and the reader of raw files. Runs write them; reports and statistics read them.

mod ahead;
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
mod segments;
mod text;
mod traces;
mod typed;

pub(crate) use block::BlockRows;
pub use columns::columns;
pub use costs::{Calibration, CellCosts, PassCost, Recalibration};
pub(crate) use digest::{BLOCK_FILES, BlockDigest};
pub(crate) use each::{each_row, each_row_until, each_unpacked_row};
pub(crate) use file::{PlacedRow, RawRow};
pub(crate) use lines::compressed;
pub(crate) use raw::{Raw, RowVisitor};
pub use records::{
    BeamRow, BetweenRow, BlockRow, DivergenceRow, FailureRow, GenerationRow, MachineRow,
    PositionRow, RAW_FILES, RoundRow, SummaryRow, SurvivalRow, TextRow, ThinkingRow,
};
pub(crate) use segments::{
    SegmentWriter, each_packed, each_packed_place, next_segment, salvage, segments,
};
pub(crate) use text::{RowWriter, text_of};
pub(crate) use traces::TopTokens;
pub use traces::{TraceNode, TraceRound, TraceRow};

//! Which rows stand in which raw file.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::records::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow,
};
use super::traces::TraceRow;
use super::typed::{GENERATION, POSITION, ROUND, TEXT, TRACE, TypedColumn};

/// A row of a raw file.
pub(crate) trait RawRow:
    Clone + Default + PartialEq + Send + Serialize + DeserializeOwned + 'static
{
    /// The name of the file.
    const FILE: &'static str;
    /// Whether every run has the file.
    const NEEDED: bool;
    /// The beginning of its segments' names; empty if its rows stay in text.
    const SEGMENT: &'static str;
    /// The columns that runs of older versions lack.
    const LATER: &'static [&'static str] = &[];

    /// Whether the file has JSON lines instead of CSV.
    fn is_json() -> bool {
        Self::FILE.ends_with(".jsonl")
    }

    /// How many rows are handed to another thread at once: a line of JSON may be long.
    fn batch() -> usize {
        if Self::is_json() { 4 } else { 256 }
    }

    /// The columns of its segments.
    fn typed() -> &'static [TypedColumn<Self>];
}

/// A row of a raw file that belongs to the block of its generation.
pub(crate) trait PlacedRow: RawRow {
    /// Its cell, prompt and repeat.
    fn place(&self) -> (&str, &str, u32);

    /// Whether its block was run again, so that it does not count.
    fn is_superseded(&self) -> bool {
        false
    }
}

macro_rules! rows {
    ($($row:ty: $file:literal, $needed:literal, $segment:literal, $typed:expr
        $(, later $later:expr)?;)*) => {
        $(impl RawRow for $row {
            const FILE: &'static str = $file;
            const NEEDED: bool = $needed;
            const SEGMENT: &'static str = $segment;
            $(const LATER: &'static [&'static str] = $later;)?

            fn typed() -> &'static [TypedColumn<Self>] {
                $typed
            }
        })*
    };
}

macro_rules! placed {
    ($($row:ty $(, $superseded:ident)?;)*) => {
        $(impl PlacedRow for $row {
            fn place(&self) -> (&str, &str, u32) {
                (&self.cell, &self.prompt, self.repeat)
            }
            $(fn is_superseded(&self) -> bool {
                self.$superseded
            })?
        })*
    };
}

rows! {
    RoundRow: "rounds.csv", true, "rounds", ROUND, later &["accepted_raw", "experts"];
    PositionRow: "positions.csv", false, "positions", POSITION;
    TextRow: "generations.jsonl", false, "texts", TEXT, later &["thinking"];
    TraceRow: "traces.jsonl", false, "traces", TRACE;
    FailureRow: "failures.csv", false, "", &[];
    DivergenceRow: "divergences.csv", false, "", &[];
    GenerationRow: "generations.csv", true, "generations", GENERATION;
    BlockRow: "blocks.csv", true, "", &[], later &["throttled_share", "stopped_share"];
}

placed! {
    RoundRow;
    PositionRow;
    TextRow;
    TraceRow;
    FailureRow, superseded;
    DivergenceRow;
    GenerationRow, superseded;
}

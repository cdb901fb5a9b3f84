//! Reads back the raw rows of a results folder, for `report` and for a run that is
//! resumed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use super::block::BlockRows;
use super::columns::columns;
use super::records::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow,
};

/// All rows, in the order of their files.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) blocks: Vec<BlockRow>,
    pub(crate) rounds: Vec<RoundRow>,
    pub(crate) positions: Vec<PositionRow>,
    pub(crate) texts: Vec<TextRow>,
    pub(crate) failures: Vec<FailureRow>,
    pub(crate) divergences: Vec<DivergenceRow>,
    pub(crate) generations: Vec<GenerationRow>,
    /// Files whose last line was torn by a crash; it is left out.
    pub(crate) torn: Vec<&'static str>,
}

impl Raw {
    /// Reads the rows of a folder. Files that a run creates only when it has rows for
    /// them may be absent.
    ///
    /// # Errors
    /// Names the file that is missing, unreadable or damaged.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut torn = Vec::new();
        let mut lines = |name, needed| complete_lines(folder, name, needed, &mut torn);
        Ok(Self {
            blocks: rows("blocks.csv", lines("blocks.csv", true)?)?,
            rounds: rows("rounds.csv", lines("rounds.csv", true)?)?,
            positions: rows("positions.csv", lines("positions.csv", false)?)?,
            texts: texts(folder, &lines("generations.jsonl", false)?)?,
            failures: rows("failures.csv", lines("failures.csv", false)?)?,
            divergences: rows("divergences.csv", lines("divergences.csv", false)?)?,
            generations: rows("generations.csv", lines("generations.csv", true)?)?,
            torn,
        })
    }

    /// The rows that are not superseded, by block; `block_of` gives the block of a cell,
    /// prompt and repeat. Rows that belong to no block of the plan are left out; the
    /// second value is a sentence that names the last of them.
    pub(crate) fn by_block(
        &self,
        block_of: impl Fn(&str, &str, u32) -> Option<usize>,
    ) -> (BTreeMap<usize, BlockRows>, Option<String>) {
        let mut blocks = BTreeMap::<usize, BlockRows>::new();
        let mut stranger = None;
        macro_rules! share_out {
            ($field:ident, $name:literal, $counts:expr) => {
                for row in self.$field.iter().filter($counts) {
                    let Some(block) = block_of(&row.cell, &row.prompt, row.repeat) else {
                        stranger = Some(format!(
                            "{} has a row of cell {}, prompt {}, repeat {}, which plan.toml does \
                             not know",
                            $name, row.cell, row.prompt, row.repeat
                        ));
                        continue;
                    };
                    blocks.entry(block).or_default().$field.push(row.clone());
                }
            };
        }
        share_out!(rounds, "rounds.csv", |_| true);
        share_out!(positions, "positions.csv", |_| true);
        share_out!(texts, "generations.jsonl", |_| true);
        share_out!(failures, "failures.csv", |row| !row.superseded);
        share_out!(divergences, "divergences.csv", |_| true);
        share_out!(generations, "generations.csv", |row| !row.superseded);
        (blocks, stranger)
    }

    /// The rows of `blocks.csv` that are not superseded, by block number.
    pub(crate) fn standing(&self) -> BTreeMap<usize, &BlockRow> {
        let standing = self.blocks.iter().filter(|block| !block.superseded);
        standing.map(|block| (block.block, block)).collect()
    }
}

/// The text of a file up to its last line break. A last line without one was torn by a
/// crash and is dropped; no row has a line break inside. Empty if a file that is not
/// needed does not exist.
fn complete_lines(
    folder: &Path,
    name: &'static str,
    needed: bool,
    torn: &mut Vec<&'static str>,
) -> Result<String> {
    let file = folder.join(name);
    let mut bytes = match read_either(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !needed => {
            return Ok(String::new());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let complete = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
    if complete < bytes.len() {
        bytes.truncate(complete);
        torn.push(name);
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("{name} is damaged: it is not UTF-8 text"))
}

/// The content of a file or, if it does not exist, of its compressed version.
fn read_either(file: &Path) -> io::Result<Vec<u8>> {
    match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let packed = File::open(compressed(file)).map_err(|_| error)?;
            let mut bytes = Vec::new();
            MultiGzDecoder::new(packed).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        read => read,
    }
}

/// The name of a raw file's compressed version, as in committed runs.
pub(crate) fn compressed(file: &Path) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(".gz");
    name.into()
}

/// Parses the rows of a CSV file, which has the columns of `T` in any order.
fn rows<T: DeserializeOwned>(name: &str, text: String) -> Result<Vec<T>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| anyhow!("{name} is damaged: {e}"))?.clone();
    for column in columns::<T>() {
        if !header.iter().any(|h| h == *column) {
            bail!("{name} has no column \"{column}\"");
        }
    }
    let one_line =
        |error: csv::Error| error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = reader.into_deserialize();
    rows.map(|row| row.map_err(|e| anyhow!("{name} is damaged: {}", one_line(e)))).collect()
}

fn texts(folder: &Path, text: &str) -> Result<Vec<TextRow>> {
    let rows = text.lines().enumerate().map(|(i, line)| {
        let file = folder.join("generations.jsonl");
        let damaged = || format!("{}, line {} is damaged", file.display(), i + 1);
        serde_json::from_str(line).with_context(damaged)
    });
    rows.collect()
}

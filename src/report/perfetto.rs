//! The rounds of a run as a time line in Chrome's trace-event format, which Perfetto and
//! Chromium's `about:tracing` open ("Trace Event Format", Google 2016).
//!
//! A cell is a process and a generation is one of its threads. All generations begin at time 0,
//! so that those of a prompt can be compared; the parts of their rounds follow each other
//! without gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::load::load;
use super::results::Results;
use crate::experiment::blocks::Places;
use crate::experiment::{Cell, describe};
use crate::rows::{RoundRow, each_row};
use crate::shown;

/// The file that is written.
const FILE: &str = "trace.json";

/// An event of the trace.
#[derive(Debug, Serialize)]
#[serde(tag = "ph")]
enum TraceEvent<'a> {
    /// A name of a process or thread.
    #[serde(rename = "M")]
    Name { name: &'static str, pid: usize, tid: usize, args: TraceName },
    /// A span of time; `ts` and `dur` in µs.
    #[serde(rename = "X")]
    Span { name: &'static str, ts: f64, dur: f64, pid: usize, tid: usize, args: &'a RoundArgs },
}

#[derive(Debug, Serialize)]
struct TraceName {
    name: String,
}

/// What is shown of a round when one of its spans is chosen.
#[derive(Debug, Serialize)]
struct RoundArgs {
    round: u64,
    context_tokens: usize,
    proposed: usize,
    accepted: usize,
    emitted: usize,
}

/// The time line of a generation so far.
#[derive(Debug, Clone, Copy)]
struct TraceThread {
    tid: usize,
    /// Where its next span begins. In whole nanoseconds, the resolution of the rows: sums of
    /// fractions would make spans overlap.
    ns: u64,
}

/// Writes `trace.json` into a results folder, row by row, and returns its path. Blocks that the
/// report leaves out are left out.
///
/// # Errors
/// If a file is missing, damaged or cannot be written; the message names the file.
pub fn write_perfetto(folder: &Path) -> Result<PathBuf> {
    let results = load(folder)?;
    let path = folder.join(FILE);
    let cannot = || format!("cannot write {}", path.display());
    let file = File::create(&path).with_context(cannot)?;
    let mut trace = Trace::begin(&results, BufWriter::new(file)).with_context(cannot)?;
    each_row(folder, |row: RoundRow| trace.round(&row).with_context(cannot))?;
    trace.end().with_context(cannot)?;
    Ok(path)
}

/// A trace that is being written. It keeps a few numbers of every generation.
struct Trace<'a, W> {
    out: W,
    places: Places<'a>,
    /// The blocks that count.
    blocks: BTreeSet<usize>,
    /// The processes of the cells, by id.
    pids: BTreeMap<&'a str, usize>,
    /// By cell, the threads of its generations.
    threads: BTreeMap<usize, BTreeMap<(String, u32), TraceThread>>,
    first: bool,
}

impl<'a, W: Write> Trace<'a, W> {
    /// Writes the beginning and the names of the cells.
    fn begin(results: &'a Results, out: W) -> Result<Self> {
        let cells = &results.plan.cells;
        let mut trace = Self {
            out,
            places: Places::new(&results.plan),
            blocks: results.blocks.iter().map(|block| block.block).collect(),
            pids: cells.iter().zip(1..).map(|(cell, pid)| (&*cell.id, pid)).collect(),
            threads: BTreeMap::new(),
            first: true,
        };
        trace.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        for (cell, pid) in cells.iter().zip(1..) {
            trace.name("process_name", pid, 0, &process(cell))?;
        }
        Ok(trace)
    }

    /// Writes the spans of a round, and before the first one of a generation its name.
    fn round(&mut self, row: &RoundRow) -> Result<()> {
        let block = self.places.block(&row.cell, &row.prompt, row.repeat);
        let Some(&pid) = self.pids.get(&*row.cell) else { return Ok(()) };
        if block.is_none_or(|block| !self.blocks.contains(&block)) {
            return Ok(());
        }
        let place = (row.prompt.clone(), row.repeat);
        let known = self.threads.entry(pid).or_default();
        let new = TraceThread { tid: known.len() + 1, ns: 0 };
        let mut thread = known.get(&place).copied().unwrap_or(new);
        if thread.ns == 0 && row.round == 0 {
            let repeat = if row.repeat > 0 { format!(", {}", row.repeat) } else { String::new() };
            self.name("thread_name", pid, thread.tid, &format!("{}{repeat}", row.prompt))?;
        }
        let args = RoundArgs {
            round: row.round,
            context_tokens: row.context_tokens,
            proposed: row.proposed,
            accepted: row.accepted,
            emitted: row.emitted,
        };
        let parts = [
            ("draft", row.draft_us),
            ("target", row.target_us),
            ("verify", row.verify_us),
            ("other", row.other_us),
        ];
        for (name, us) in parts {
            // Rows that a report accepts have no negative times.
            let ns = (us * 1000.0).round() as u64;
            if ns > 0 {
                let (ts, dur) = (thread.ns as f64 / 1000.0, ns as f64 / 1000.0);
                let tid = thread.tid;
                self.event(&TraceEvent::Span { name, ts, dur, pid, tid, args: &args })?;
            }
            thread.ns += ns;
        }
        self.threads.entry(pid).or_default().insert(place, thread);
        Ok(())
    }

    fn name(&mut self, name: &'static str, pid: usize, tid: usize, text: &str) -> Result<()> {
        let args = TraceName { name: shown::line(text) };
        self.event(&TraceEvent::Name { name, pid, tid, args })
    }

    fn event(&mut self, event: &TraceEvent<'_>) -> Result<()> {
        let separator: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(separator)?;
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    fn end(mut self) -> Result<()> {
        self.out.write_all(b"\n]}\n")?;
        Ok(self.out.flush()?)
    }
}

/// The name of a cell's process.
fn process(cell: &Cell) -> String {
    format!("{} ({})", describe(cell), cell.id)
}

//! One session's part of a run: one block after another, in each of which the plain baseline
//! and all cells take turns; then disturbed blocks again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anyhow::Result;

use super::blocks::Block;
use super::cell::describe;
use super::compare;
use super::folder::ResultsFolder;
use super::generation::{TextModels, failure, generations};
use super::live::Live;
use super::progress::RunProgress;
use super::recalibrate::{apart, recalibrate};
use super::repeats;
use super::setup::Setup;
use crate::io::{shown, terminal};
use crate::measure::machine::Watch;
use crate::measure::rows::{BlockRow, BlockRows, Calibration, Recalibration};

/// One session's part of the sweep.
pub(super) struct Sweep<'a> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) folder: &'a ResultsFolder,
    pub(super) blocks: &'a [Block<'a>],
    pub(super) session: usize,
    pub(super) calibration: &'a Calibration,
}

impl Sweep<'_> {
    /// Runs the blocks of `work`, then repeats disturbed ones. `listed` are the rows of
    /// `blocks.csv` so far. Returns the number of blocks that are done, and the calibrations
    /// between them.
    pub(super) fn run(
        &self,
        work: &[usize],
        mut listed: Vec<BlockRow>,
    ) -> Result<(usize, Vec<Recalibration>)> {
        let cells = |blocks: &[BlockRow]| {
            let standing = blocks.iter().filter(|row| !row.superseded);
            standing.map(|row| self.blocks[row.block].generations()).sum::<usize>()
        };
        let total = work.iter().map(|&block| self.blocks[block].generations()).sum::<usize>();
        let before = cells(&listed);
        let mut progress = RunProgress::new("generations", before + total, before);
        let mut live = BTreeMap::new();
        let (apart, mut recalibrations) = (apart(work.len()), Vec::new());
        for (before, &number) in work.iter().enumerate() {
            if before > 0 && before % apart == 0 {
                recalibrations.extend(recalibrate(self.setup, self.calibration, number));
            }
            let block = &self.blocks[number];
            let Some((rows, row)) = self.block(block, 0, &mut progress, &mut live)? else { break };
            self.folder.append(&rows, &row, self.setup.pack_above)?;
            listed.push(row);
        }
        while !self.is_interrupted() {
            let again = repeats::again(&listed);
            if again.is_empty() {
                break;
            }
            progress.more(again.iter().map(|&block| self.blocks[block].generations()).sum());
            terminal::say(format_args!("disturbed blocks to be run again: {}", again.len()));
            for number in again {
                if !self.again(number, &mut listed, &mut progress, &mut live)? {
                    break;
                }
            }
        }
        let done = listed.iter().filter(|row| !row.superseded).count();
        Ok((done, recalibrations))
    }

    /// Runs a disturbed block again and keeps the less disturbed attempt; the other stays
    /// listed as superseded. Returns false if the run was interrupted.
    fn again(
        &self,
        number: usize,
        listed: &mut Vec<BlockRow>,
        progress: &mut RunProgress,
        live: &mut BTreeMap<String, Live>,
    ) -> Result<bool> {
        let of_block = || listed.iter().filter(|row| row.block == number);
        let attempt = of_block().map(|row| row.attempt + 1).max().unwrap_or(0);
        let before = of_block().find(|row| !row.superseded).cloned();
        let Some((mut rows, mut row)) =
            self.block(&self.blocks[number], attempt, progress, live)?
        else {
            return Ok(false);
        };
        let share = |row: &BlockRow| row.disturbance().share();
        if before.as_ref().is_none_or(|before| share(&row) < share(before)) {
            self.folder.set_aside(self.setup.plan, number)?;
            let old = listed.iter_mut().filter(|old| old.block == number);
            for old in old {
                old.superseded = true;
            }
        } else {
            row.superseded = true;
            rows = superseded(rows);
        }
        self.folder.append(&rows, &row, self.setup.pack_above)?;
        listed.push(row);
        Ok(true)
    }

    /// Runs a block; `None` if the run was interrupted.
    fn block(
        &self,
        block: &Block<'_>,
        attempt: u32,
        progress: &mut RunProgress,
        live: &mut BTreeMap<String, Live>,
    ) -> Result<Option<(BlockRows, BlockRow)>> {
        let watch = Watch::begin(self.setup.clock);
        let rows = run_block(self.setup, block, progress, live);
        if self.is_interrupted() {
            return Ok(None);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let disturbance = watch.end(self.setup.threads, cores);
        progress.disturbed_by(disturbance.share());
        let row = BlockRow {
            block: block.number,
            attempt,
            session: self.session,
            prompt: block.texts[0].prompt.id.clone(),
            repeat: block.texts[0].repeat,
            waiting_share: disturbance.waiting,
            others_share: disturbance.others,
            stolen_share: disturbance.stolen,
            throttled_share: Some(disturbance.throttled),
            stopped_share: Some(disturbance.stopped),
            disturbed: disturbance.is_disturbed(),
            ..BlockRow::listing(&rows)?
        };
        Ok(Some((rows, row.sealed()?)))
    }

    fn is_interrupted(&self) -> bool {
        self.setup.interrupted.load(Ordering::Relaxed)
    }
}

/// The rows that are kept of a repetition that does not count.
fn superseded(rows: BlockRows) -> BlockRows {
    let BlockRows { mut generations, mut failures, .. } = rows;
    for g in &mut generations {
        g.superseded = true;
    }
    for f in &mut failures {
        f.superseded = true;
    }
    BlockRows { generations, failures, ..BlockRows::default() }
}

/// Runs all cells of a block in its order.
fn run_block(
    setup: &Setup<'_>,
    block: &Block<'_>,
    progress: &mut RunProgress,
    live: &mut BTreeMap<String, Live>,
) -> BlockRows {
    let mut rows = BlockRows::default();
    let models = TextModels::of(setup, block);
    for cell in &block.cells {
        let made = generations(setup, &models, cell, block);
        // The whole block will be run again, so there is nothing to compare.
        if setup.interrupted.load(Ordering::Relaxed) {
            return rows;
        }
        for (text, made) in block.texts.iter().zip(made) {
            match made {
                Ok(done) => {
                    let live = live.entry(cell.id.clone()).or_default();
                    live.add(&done);
                    progress.advance(&live.line(cell));
                    rows.generations.push(done.row);
                    rows.texts.push(done.text);
                    rows.rounds.extend(done.rounds);
                    rows.positions.extend(done.positions);
                    rows.traces.extend(done.trace);
                }
                Err(error) => {
                    let failed = failure(cell, text, &error, "");
                    let (cell, prompt, reason) = (describe(cell), &failed.prompt, &failed.reason);
                    let line = format!("failed: {cell}, prompt {prompt}: {reason}");
                    terminal::say(shown::line(&line));
                    progress.advance("");
                    rows.failures.push(failed);
                }
            }
        }
    }
    compare::greedy(setup.target, block, &mut rows);
    compare::paths(setup, block, &mut rows);
    rows
}

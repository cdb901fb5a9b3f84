//! The sweep: runs one block after another, in each of which the plain baseline and all
//! cells take turns, and then repeats disturbed blocks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};

use super::blocks::{Block, blocks};
use super::calibrate::calibrate;
use super::cell::{Plan, describe};
use super::compare;
use super::costs::doubts;
use super::folder::ResultsFolder;
use super::generation::{BlockModels, failure, one};
use super::live::Live;
use super::manifest::{Manifest, RunSession, Status};
use super::progress::RunProgress;
use super::provenance::utc_now;
use super::recalibrate::{apart, recalibrate};
use super::repeats::{self, MOST_DISTURBED};
use super::setup::Setup;
use crate::machine::{DISTURBED, Watch};
use crate::rows::{BlockRow, BlockRows, Calibration, Recalibration};
use crate::{shown, terminal};

/// Which folder a run writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// A new folder.
    No,
    /// The newest unfinished folder of the same plan.
    Newest,
    /// This folder.
    Folder(PathBuf),
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The results folder.
    pub folder: PathBuf,
    /// Whether it was interrupted before it was done.
    pub interrupted: bool,
}

/// Runs the plan, or what is left of it. The caller makes summary, figures and report
/// from the rows, and then calls [`super::finish`].
///
/// # Errors
/// If a file cannot be written or the calibration fails. A generation that
/// fails is recorded with its reason and does not end the run.
pub fn run(setup: &Setup<'_>, out: &Path, resume: &Resume) -> Result<Ended> {
    let blocks = blocks(setup.plan, setup.prompts, setup.tokens);
    let opened = match resume {
        Resume::No => None,
        Resume::Newest => Some(ResultsFolder::newest_unfinished(out, setup.plan)?),
        Resume::Folder(path) => Some(ResultsFolder::open(path, setup.plan)?),
    };
    let (mut manifest, listed) = match &opened {
        None => (Manifest::new(setup.plan, blocks.len()), Vec::new()),
        Some(folder) => reopen(folder, setup.plan)?,
    };
    let mut session = RunSession::begin(setup.threads);
    let done = listed.iter().filter(|row| !row.superseded).count();
    let open = done < blocks.len() || !repeats::again(&listed).is_empty();
    if open {
        let watch = Watch::begin(setup.clock);
        session.calibration = calibrate(setup)?;
        session.lost_before = watch.end(setup.threads, session.machine.cores).share();
        announce(&session, setup.plan);
        manifest.sessions.push(session);
        manifest.blocks.0 = done;
        manifest.status = Status::Running;
    }
    let folder = match opened {
        Some(folder) => {
            manifest.write(folder.path())?;
            folder
        }
        None => ResultsFolder::create(out, setup.plan, &manifest)?,
    };
    terminal::say(format_args!("results: {}", folder.path().display()));
    let number = manifest.sessions.len().saturating_sub(1);
    if open {
        let calibration = &manifest.sessions[number].calibration;
        let sweep = Sweep { setup, folder: &folder, blocks: &blocks, session: number, calibration };
        let watch = Watch::begin(setup.clock);
        let (done, recalibrations) = sweep.run(listed)?;
        manifest.blocks.0 = done;
        let session = &mut manifest.sessions[number];
        session.recalibrations = recalibrations;
        session.lost_share = watch.end(setup.threads, session.machine.cores).share();
        session.ended = Some(utc_now());
    }
    folder.check()?;
    let interrupted = setup.interrupted.load(Ordering::Relaxed);
    manifest.status = if interrupted { Status::Interrupted } else { Status::Measured };
    manifest.write(folder.path())?;
    Ok(Ended { folder: folder.path().to_owned(), interrupted })
}

/// The manifest of a folder to resume, and its rows of `blocks.csv` after repair.
fn reopen(folder: &ResultsFolder, plan: &Plan) -> Result<(Manifest, Vec<BlockRow>)> {
    let manifest = Manifest::read(folder.path())?;
    if manifest.status == Status::Finished {
        bail!("{} is finished: there is nothing to resume", folder.path().display());
    }
    Ok((manifest, folder.repair(plan)?))
}

/// Says how busy the machine is before anything is measured.
fn announce(session: &RunSession, plan: &Plan) {
    let (load, cores) = (session.load_average[0], session.machine.cores);
    terminal::say(format_args!(
        "machine: load average {load:.2} on {cores} cores; other work took {:.0} % of the \
         calibration",
        100.0 * session.lost_before.min(1.0)
    ));
    if session.lost_before > DISTURBED {
        terminal::say(format_args!(
            "warning: other work disturbs this machine: blocks that lose more than {:.0} % of \
             their time to it are repeated, and if more than {:.0} % of them remain disturbed, no \
             verdict is given",
            100.0 * DISTURBED,
            100.0 * MOST_DISTURBED
        ));
    }
    let found = doubts(&session.calibration, plan);
    found.iter().for_each(|doubt| terminal::say(format_args!("warning: {doubt}")));
}

/// One session's part of the sweep.
struct Sweep<'a> {
    setup: &'a Setup<'a>,
    folder: &'a ResultsFolder,
    blocks: &'a [Block<'a>],
    session: usize,
    calibration: &'a Calibration,
}

impl Sweep<'_> {
    /// Runs the blocks that are not `listed`, then repeats disturbed ones. Returns the
    /// number of blocks that are done, and the calibrations between them.
    fn run(&self, mut listed: Vec<BlockRow>) -> Result<(usize, Vec<Recalibration>)> {
        let cells = |blocks: &[BlockRow]| {
            let standing = blocks.iter().filter(|row| !row.superseded);
            standing.map(|row| self.blocks[row.block].cells.len()).sum::<usize>()
        };
        let total = self.blocks.iter().map(|block| block.cells.len()).sum();
        let mut progress = RunProgress::new("generations", total, cells(&listed));
        let mut live = BTreeMap::new();
        let done = listed.iter().filter(|row| !row.superseded).map(|row| row.block);
        let done = done.collect::<std::collections::BTreeSet<_>>();
        let open = self.blocks.iter().filter(|block| !done.contains(&block.number));
        let (apart, mut recalibrations) = (apart(open.clone().count()), Vec::new());
        for (before, block) in open.enumerate() {
            if before > 0 && before % apart == 0 {
                recalibrations.extend(recalibrate(self.setup, self.calibration, block.number));
            }
            let Some((rows, row)) = self.block(block, 0, &mut progress, &mut live)? else { break };
            self.folder.append(&rows, &row)?;
            listed.push(row);
        }
        while !self.is_interrupted() {
            let again = repeats::again(&listed);
            if again.is_empty() {
                break;
            }
            progress.more(again.iter().map(|&block| self.blocks[block].cells.len()).sum());
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
        let share = |row: &BlockRow| repeats::of(row).share();
        if before.as_ref().is_none_or(|before| share(&row) < share(before)) {
            self.folder.set_aside(self.setup.plan, number)?;
            let old = listed.iter_mut().filter(|old| old.block == number);
            old.for_each(|old| old.superseded = true);
        } else {
            row.superseded = true;
            rows = superseded(rows);
        }
        self.folder.append(&rows, &row)?;
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
            prompt: block.prompt.id.clone(),
            repeat: block.repeat,
            waiting_share: disturbance.waiting,
            others_share: disturbance.others,
            stolen_share: disturbance.stolen,
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
    generations.iter_mut().for_each(|g| g.superseded = true);
    failures.iter_mut().for_each(|f| f.superseded = true);
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
    let models = BlockModels::new(setup, block);
    for cell in &block.cells {
        match one(setup, &models, cell, block) {
            // The whole block will be run again, so there is nothing to compare.
            _ if setup.interrupted.load(Ordering::Relaxed) => return rows,
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
                let failed = failure(cell, block, &error, "");
                let (cell, prompt, reason) = (describe(cell), &block.prompt.id, &failed.reason);
                let line = format!("failed: {cell}, prompt {prompt}: {reason}");
                terminal::say(shown::line(&line));
                progress.advance("");
                rows.failures.push(failed);
            }
        }
    }
    compare::greedy(setup.target, block, &mut rows);
    compare::paths(setup, block, &mut rows);
    rows
}

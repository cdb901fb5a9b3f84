//! A run: finds or makes its results folder, calibrates, and measures what is left of the
//! plan.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};

use super::blocks::{Block, blocks, places};
use super::calibrate::calibrate;
use super::calibration_doubts::doubts;
use super::cell::Plan;
use super::deal::deal;
use super::folder::ResultsFolder;
use super::manifest::{Manifest, RunSession, Status};
use super::provenance::utc_now;
use super::repeats::{self, MOST_DISTURBED};
use super::setup::Setup;
use super::share::{Shard, Share};
use super::shares::SharedPlace;
use super::sweep::Sweep;
use crate::io::terminal;
use crate::measure::machine::{DISTURBED, Watch, host};
use crate::measure::rows::BlockRow;

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
    let folder = match resume {
        Resume::No => None,
        Resume::Newest => Some(ResultsFolder::newest_unfinished(out, setup.plan)?),
        Resume::Folder(path) => Some(ResultsFolder::open(path, setup.plan)?),
    };
    let (manifest, listed) = match &folder {
        None => (Manifest::new(setup.plan, blocks.len()), Vec::new()),
        Some(folder) => reopen(folder, setup.plan)?,
    };
    if let Some((share, folder)) = manifest.share.zip(folder.as_ref()) {
        let (folder, rest) = (folder.path.display(), how_to_go_on(share));
        bail!("{folder} is one part of a run, \"{share}\": {rest}");
    }
    let done = standing(&listed);
    let work = (0..blocks.len()).filter(|block| !done.contains(block)).collect::<Vec<_>>();
    let begun = Begun { setup, blocks: &blocks, folder, manifest, listed };
    begun.carry_out(&work, |manifest| ResultsFolder::create(out, setup.plan, manifest))
}

/// How `specdec run` does what is left of a part.
fn how_to_go_on(share: Share) -> String {
    match share {
        Share::Shard(shard) => format!("--shard {shard} continues it"),
        Share::Claims => "--shard 1/1 runs the blocks that no part has".to_owned(),
    }
}

/// Runs a shard of the plan, or what is left of it: without the blocks that stand in other
/// folders of the same plan below `out`. Continues the folder that the same shard has on this
/// machine, if it is unfinished. `None` if nothing was left to do, and no folder was there to
/// be continued.
///
/// # Errors
/// As [`run`].
pub fn run_shard(setup: &Setup<'_>, out: &Path, shard: Shard) -> Result<Option<Ended>> {
    let blocks = blocks(setup.plan, setup.prompts, setup.tokens);
    let place = SharedPlace::new(out, setup.plan, shard)?;
    let folder = place.left_behind()?;
    let (manifest, listed) = match &folder {
        None => (Manifest::new(setup.plan, blocks.len()), Vec::new()),
        Some(folder) => reopen(folder, setup.plan)?,
    };
    let own = standing(&listed);
    let elsewhere = place.done_elsewhere(folder.as_ref().map(|folder| &*folder.path))?;
    let done = own.union(&elsewhere).copied().collect::<BTreeSet<_>>();
    let dealt = deal(setup.plan, shard.of).into_iter().enumerate();
    let dealt = dealt.filter(|(block, to)| *to == shard.index && !done.contains(block));
    let work = dealt.map(|(block, _)| block).collect::<Vec<_>>();
    if folder.is_none() && work.is_empty() {
        return Ok(None);
    }
    let share = Some(Share::Shard(shard));
    let manifest = Manifest { share, blocks: (own.len(), own.len() + work.len()), ..manifest };
    let begun = Begun { setup, blocks: &blocks, folder, manifest, listed };
    begun.carry_out(&work, |manifest| place.create(manifest)).map(Some)
}

/// The blocks that are done.
fn standing(listed: &[BlockRow]) -> BTreeSet<usize> {
    listed.iter().filter(|row| !row.superseded).map(|row| row.block).collect()
}

/// A run whose work is known.
struct Begun<'a> {
    setup: &'a Setup<'a>,
    blocks: &'a [Block<'a>],
    /// The folder to continue, if there is one.
    folder: Option<ResultsFolder>,
    manifest: Manifest,
    /// The rows of `blocks.csv` so far.
    listed: Vec<BlockRow>,
}

impl Begun<'_> {
    /// Measures the blocks of `work`. A new folder is made by `create` once the calibration has
    /// succeeded.
    fn carry_out(
        self,
        work: &[usize],
        create: impl FnOnce(&Manifest) -> Result<ResultsFolder>,
    ) -> Result<Ended> {
        let Self { setup, blocks, folder, mut manifest, listed } = self;
        let mut session = RunSession::begin(setup.threads);
        let several = manifest.sessions.iter().any(|session| session.host.is_some());
        session.host = (manifest.share.is_some() || several).then(host);
        let done = standing(&listed).len();
        let open = !work.is_empty() || !repeats::again(&listed).is_empty();
        if open {
            let watch = Watch::begin(setup.clock);
            session.calibration = calibrate(setup, &goals(setup.plan, &manifest, work))?;
            session.lost_before = watch.end(setup.threads, session.machine.cores).share();
            announce(&session, setup.plan);
            manifest.sessions.push(session);
            manifest.blocks.0 = done;
            manifest.status = Status::Running;
        }
        let folder = match folder {
            Some(folder) => {
                manifest.write(&folder.path)?;
                folder
            }
            None => create(&manifest)?,
        };
        terminal::say(format_args!("results: {}", folder.path.display()));
        if open {
            let session = manifest.sessions.len().saturating_sub(1);
            let calibration = &manifest.sessions[session].calibration;
            let sweep = Sweep { setup, folder: &folder, blocks, session, calibration };
            let watch = Watch::begin(setup.clock);
            let (done, recalibrations) = sweep.run(work, listed)?;
            manifest.blocks.0 = done;
            let session = &mut manifest.sessions[session];
            session.recalibrations = recalibrations;
            session.lost_share = watch.end(setup.threads, session.machine.cores).share();
            session.ended = Some(utc_now());
        }
        folder.check()?;
        let interrupted = setup.interrupted.load(Ordering::Relaxed);
        manifest.status = if interrupted { Status::Interrupted } else { Status::Measured };
        manifest.write(&folder.path)?;
        Ok(Ended { folder: folder.path.clone(), interrupted })
    }
}

/// The goals that a session calibrates. A part needs those of its blocks, and of a plan with
/// many goals has few. Under the virtual clock it calibrates all: a merged run then has the
/// calibration that one machine has.
fn goals(plan: &Plan, manifest: &Manifest, open: &[usize]) -> BTreeSet<usize> {
    let all = places(plan);
    match manifest.share {
        Some(_) if plan.clock != "virtual" && !open.is_empty() => {
            open.iter().map(|&block| all[block].goal).collect()
        }
        _ => all.iter().map(|place| place.goal).collect(),
    }
}

/// The manifest of a folder to resume, and its rows of `blocks.csv` after repair.
fn reopen(folder: &ResultsFolder, plan: &Plan) -> Result<(Manifest, Vec<BlockRow>)> {
    let manifest = Manifest::read(&folder.path)?;
    if manifest.status == Status::Finished {
        bail!("{} is finished: there is nothing to resume", folder.path.display());
    }
    Ok((manifest, folder.repair(plan)?))
}

/// Says how busy the machine is before anything is measured.
fn announce(session: &RunSession, plan: &Plan) {
    let (load, cores) = (session.load_average[0], session.machine.cores);
    terminal::say(format_args!(
        "machine: load average {load:.2} on {cores} cores; the calibration lost {:.0} % of its time",
        100.0 * session.lost_before.min(1.0)
    ));
    if session.lost_before > DISTURBED {
        terminal::say(format_args!(
            "warning: other work, a limit or a stop disturbs this machine: blocks that lose more \
             than {:.0} % of their time are repeated, and if more than {:.0} % of them remain \
             disturbed, no verdict is given",
            100.0 * DISTURBED,
            100.0 * MOST_DISTURBED
        ));
    }
    let found = doubts(&session.calibration, plan);
    for doubt in &found {
        terminal::say(format_args!("warning: {doubt}"));
    }
}

//! A run: finds or makes its results folder, calibrates, and measures what is left of the
//! plan.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};

use super::blocks::{Block, blocks, places};
use super::calibrate::calibrate;
use super::cell::Plan;
use super::claims::{ClaimPatience, Claims};
use super::costs::doubts;
use super::deal::deal;
use super::folder::ResultsFolder;
use super::manifest::{Manifest, RunSession, Status};
use super::provenance::utc_now;
use super::repeats::{self, MOST_DISTURBED};
use super::setup::Setup;
use super::share::{Shard, Share};
use super::shares::SharedPlace;
use super::sweep::{BlockWork, Sweep};
use crate::machine::{DISTURBED, Watch, host};
use crate::rows::BlockRow;
use crate::terminal;

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
        let (folder, option) = (folder.path().display(), option(share));
        bail!("{folder} is one part of a run, \"{share}\": {option} continues it");
    }
    let done = standing(&listed);
    let mut work = (0..blocks.len()).filter(|block| !done.contains(block)).collect::<VecDeque<_>>();
    let begun = Begun { setup, blocks: &blocks, folder, manifest, listed };
    begun.carry_out(&mut work, |manifest| ResultsFolder::create(out, setup.plan, manifest))
}

/// The option of `specdec run` for a share.
fn option(share: Share) -> String {
    match share {
        Share::Shard(shard) => format!("--shard {shard}"),
        Share::Claims => "--claim".to_owned(),
    }
}

/// Runs a share of the plan, or what is left of it: without the blocks that stand in other
/// folders of the same plan below `out`. Continues the folder that the same share has on this
/// machine, if it is unfinished. `None` if nothing was left to do, and no folder was there to
/// be continued. A process that claims its blocks takes over those of a process of which it
/// has not heard for as long as its `patience`.
///
/// # Errors
/// As [`run`].
pub fn run_share(
    setup: &Setup<'_>,
    out: &Path,
    share: Share,
    patience: ClaimPatience,
) -> Result<Option<Ended>> {
    let blocks = blocks(setup.plan, setup.prompts, setup.tokens);
    let place = SharedPlace::new(out, setup.plan, share)?;
    let folder = place.left_behind()?;
    let (manifest, listed) = match &folder {
        None => (Manifest::new(setup.plan, blocks.len()), Vec::new()),
        Some(folder) => reopen(folder, setup.plan)?,
    };
    let own = standing(&listed);
    let elsewhere = place.done_elsewhere(folder.as_ref().map(ResultsFolder::path))?;
    let done = own.union(&elsewhere).copied().collect::<BTreeSet<_>>();
    let mut work: Box<dyn BlockWork> = match share {
        Share::Shard(Shard { index, of }) => {
            let dealt = deal(setup.plan, of).into_iter().enumerate();
            let dealt = dealt.filter(|(block, shard)| *shard == index && !done.contains(block));
            Box::new(dealt.map(|(block, _)| block).collect::<VecDeque<_>>())
        }
        Share::Claims => Box::new(Claims::new(&place, blocks.len(), done, patience)?),
    };
    let left = work.open().len();
    if folder.is_none() && left == 0 {
        return Ok(None);
    }
    // How many blocks a process will have claimed is known when it ends.
    let planned = own.len() + if share == Share::Claims { 0 } else { left };
    let manifest = Manifest { share: Some(share), blocks: (own.len(), planned), ..manifest };
    let begun = Begun { setup, blocks: &blocks, folder, manifest, listed };
    begun.carry_out(&mut *work, |manifest| place.create(manifest)).map(Some)
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
    /// Measures what is to be measured. A new folder is made by `create` once the
    /// calibration has succeeded.
    fn carry_out(
        self,
        work: &mut dyn BlockWork,
        create: impl FnOnce(&Manifest) -> Result<ResultsFolder>,
    ) -> Result<Ended> {
        let Self { setup, blocks, folder, mut manifest, listed } = self;
        let mut session = RunSession::begin(setup.threads);
        let several = manifest.sessions.iter().any(|session| session.host.is_some());
        session.host = (manifest.share.is_some() || several).then(host);
        let done = standing(&listed).len();
        let open = !work.open().is_empty() || !repeats::again(&listed).is_empty();
        if open {
            let watch = Watch::begin(setup.clock);
            session.calibration = calibrate(setup, &goals(setup.plan, &manifest, &work.open()))?;
            session.lost_before = watch.end(setup.threads, session.machine.cores).share();
            announce(&session, setup.plan);
            manifest.sessions.push(session);
            manifest.blocks.0 = done;
            manifest.status = Status::Running;
        }
        let folder = match folder {
            Some(folder) => {
                manifest.write(folder.path())?;
                folder
            }
            None => create(&manifest)?,
        };
        terminal::say(format_args!("results: {}", folder.path().display()));
        if open {
            let session = manifest.sessions.len().saturating_sub(1);
            let calibration = &manifest.sessions[session].calibration;
            let sweep = Sweep { setup, folder: &folder, blocks, session, calibration };
            let watch = Watch::begin(setup.clock);
            let (done, recalibrations) = sweep.run(work, listed)?;
            manifest.blocks = (done, manifest.blocks.1.max(done));
            let session = &mut manifest.sessions[session];
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

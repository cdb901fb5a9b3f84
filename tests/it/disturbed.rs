//! Other work on the machine: disturbed blocks are rerun a bounded number of times, and no
//! verdict is given if too many of them stay disturbed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use specdec::checkpoint::load;
use specdec::core::clock::{Clock, Lost, VirtualClock, VirtualCosts, Who};
use specdec::measure::rows::{BlockRow, RoundRow};
use specdec::model::Role;
use specdec::run::report;

use crate::experiment_support::{rows, run_smoke, run_smoke_on};
use crate::report::reported;
use crate::synthetic::Synthetic;
use crate::synthetic_blocks::sealed;

/// Readings of lost time before the first block: at both ends of the calibration and at the
/// beginning of the sweep.
const BEFORE: usize = 3;

/// A clock on which each block loses the share of its time that the test lists; blocks
/// beyond the list lose none.
#[derive(Debug)]
struct Busy {
    clock: VirtualClock,
    shares: RefCell<VecDeque<f64>>,
    readings: Cell<usize>,
    begun: Cell<Duration>,
    lost: Cell<Duration>,
}

impl Busy {
    fn new(shares: &[f64]) -> Self {
        Self {
            clock: VirtualClock::new(VirtualCosts::default()),
            shares: RefCell::new(shares.iter().copied().collect()),
            readings: Cell::new(0),
            begun: Cell::default(),
            lost: Cell::default(),
        }
    }
}

impl Clock for Busy {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn forward(&self, who: Who, rows: usize) {
        self.clock.forward(who, rows);
    }

    fn lost(&self) -> Lost {
        let reading = self.readings.replace(self.readings.get() + 1);
        match reading.checked_sub(BEFORE) {
            None => {}
            Some(at) if at % 2 == 0 => self.begun.set(self.now()),
            Some(_) => {
                let share = self.shares.borrow_mut().pop_front().unwrap_or(0.0);
                self.lost.set(self.lost.get() + (self.now() - self.begun.get()).mul_f64(share));
            }
        }
        Lost { waiting: self.lost.get(), others: self.lost.get(), ..Lost::default() }
    }
}

/// Number of blocks: one prompt at three temperatures, repeated four times.
const BLOCKS: usize = 12;

/// A run whose blocks lose these shares of their time, in the order in which they run.
fn run_with(shares: &[f64], out: &Path) -> PathBuf {
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let busy = Busy::new(shares);
    let set = ["repeats=4", "max_tokens=8"];
    let never = AtomicBool::new(false);
    run_smoke_on(Some(&busy), &*target, &["ab"], &set, &never, out)
}

/// The rows of a block, as (attempt, disturbed, superseded).
fn attempts(folder: &Path, block: usize) -> Vec<(u32, bool, bool)> {
    let rows = rows::<BlockRow>(folder, "blocks.csv");
    let own = rows.iter().filter(|row| row.block == block);
    own.map(|row| (row.attempt, row.disturbed, row.superseded)).collect()
}

#[test]
fn a_disturbed_block_is_rerun_and_the_better_attempt_counts() {
    let (out, quiet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shares = [0.0; BLOCKS];
    shares[5] = 0.5;
    let folder = run_with(&shares, out.path());
    assert_eq!(attempts(&folder, 5), [(0, true, true), (1, false, false)]);
    assert_eq!(rows::<BlockRow>(&folder, "blocks.csv").len(), BLOCKS + 1);
    let results = report::load(&folder).unwrap();
    assert_eq!((results.blocks.len(), results.disturbed_blocks()), (BLOCKS, 0));
    assert!(results.samples().all(|sample| sample.timed));
    // The rows of the block appear once and equal those of an undisturbed run.
    let target = load("toy:mixed", Role::Target).unwrap().model;
    let never = AtomicBool::new(false);
    let set = ["repeats=4", "max_tokens=8"];
    let plain = run_smoke(&*target, &["ab"], &set, &never, quiet.path());
    let sorted = |folder: &Path| {
        let mut rounds = rows::<RoundRow>(folder, "rounds.csv");
        rounds.sort_by_key(|r| (r.repeat, r.cell.clone(), r.round));
        rounds
    };
    assert_eq!(sorted(&folder), sorted(&plain));
}

/// Catches: the last attempt always counts.
#[test]
fn a_rerun_that_is_no_better_is_superseded() {
    let out = tempfile::tempdir().unwrap();
    let mut shares = vec![0.0; BLOCKS];
    shares[5] = 0.5;
    shares.extend([0.6, 0.7, 0.0]);
    let folder = run_with(&shares, out.path());
    // There are at most three attempts.
    assert_eq!(attempts(&folder, 5), [(0, true, false), (1, true, true), (2, true, true)]);
    let results = report::load(&folder).unwrap();
    // One block of twelve: its times are left out, but its tokens count.
    assert!(!results.is_disturbed());
    let samples = || results.samples();
    let timed = samples().filter(|sample| sample.timed).count();
    assert_eq!(timed * BLOCKS, samples().count() * (BLOCKS - 1));
}

#[test]
fn reruns_are_bounded_and_start_with_the_worst_blocks() {
    let out = tempfile::tempdir().unwrap();
    let shares = (0..BLOCKS).map(|i| 0.2 + 0.01 * i as f64).collect::<Vec<_>>();
    // No rerun is better.
    let folder = run_with(&[&shares[..], &[0.9; 100]].concat(), out.path());
    let again = rows::<BlockRow>(&folder, "blocks.csv").into_iter().filter(|row| row.attempt > 0);
    let again = again.map(|row| row.block).collect::<Vec<_>>();
    assert_eq!(again, [11, 10, 9, 8]);
    assert!(report::load(&folder).unwrap().is_disturbed());
}

#[test]
fn a_block_that_loses_a_tenth_of_its_time_is_disturbed() {
    let out = tempfile::tempdir().unwrap();
    let mut shares = [0.0; BLOCKS];
    (shares[3], shares[4]) = (0.0999, 0.1001);
    let folder = run_with(&shares, out.path());
    assert_eq!(attempts(&folder, 3), [(0, false, false)]);
    assert_eq!(attempts(&folder, 4).len(), 2);
}

/// Marks blocks of a written run as disturbed and reports it again.
pub(crate) fn disturb(folder: &Path, blocks: usize) -> String {
    change(folder, blocks, |row| BlockRow { disturbed: true, ..row })
}

/// Changes blocks of a written run and reports it again.
fn change(folder: &Path, blocks: usize, change: impl Fn(BlockRow) -> BlockRow) -> String {
    let mut listed = rows::<BlockRow>(folder, "blocks.csv");
    for block in listed.iter_mut().take(blocks) {
        *block = sealed(change(block.clone()));
    }
    let mut writer = csv::Writer::from_path(folder.join("blocks.csv")).unwrap();
    listed.iter().for_each(|row| writer.serialize(row).unwrap());
    writer.flush().unwrap();
    report::report(folder).unwrap();
    std::fs::read_to_string(folder.join("report.md")).unwrap()
}

#[test]
fn too_many_disturbed_blocks_withhold_the_verdicts() {
    // 40 prompts at three temperatures: 120 blocks.
    let (folder, before) = reported(&Synthetic::large().rows());
    assert!(before.contains("| faster |") && !before.contains("DISTURBED"), "{before}");
    let some = disturb(folder.path(), 12);
    assert!(some.contains("| faster |") && !some.contains("DISTURBED"), "{some}");
    assert!(some.contains("12 of 120 blocks were disturbed"), "{some}");
    let says = |figure: &str| {
        let svg = std::fs::read_to_string(folder.path().join("figures").join(figure)).unwrap();
        svg.contains("DISTURBED")
    };
    assert!(!says("speedup.svg"));
    let many = disturb(folder.path(), 13);
    assert!(says("speedup.svg") && says("categories.svg") && !says("acceptance.svg"));
    // It comes first after the question.
    let first = many.lines().filter(|line| !line.is_empty()).nth(2).unwrap();
    assert!(first.starts_with("**DISTURBED: 11 % of the blocks lost"), "{first}");
    assert!(many.contains("| withheld: disturbed |"), "{many}");
    for verdict in ["| faster |", "| slower |", "| no difference shown |", "are slower than plain"]
    {
        assert!(!many.contains(verdict), "{verdict} in {many}");
    }
}

/// Catches: blocks without the later columns are refused, or their digests no longer fit.
#[test]
fn blocks_of_older_versions_are_read() {
    let (folder, _) = reported(&Synthetic::tiny().rows());
    let older = |row| BlockRow { throttled_share: None, stopped_share: None, ..row };
    let report = change(folder.path(), usize::MAX, older);
    let header = std::fs::read_to_string(folder.path().join("blocks.csv")).unwrap();
    assert!(!header.contains("stopped_share"), "{header}");
    assert!(!report.contains("is left out"), "{report}");
    let results = report::load(folder.path()).unwrap();
    assert!(!results.blocks.is_empty() && results.notes.is_empty(), "{:?}", results.notes);
}

/// Catches: the report blames other work for every disturbance.
#[test]
fn the_report_names_what_disturbed_a_run() {
    let (folder, _) = reported(&Synthetic::large().rows());
    let stopped = |row| BlockRow { stopped_share: Some(0.5), disturbed: true, ..row };
    let report = change(folder.path(), usize::MAX, stopped);
    assert!(report.contains("the worst one mainly to stops of the process"), "{report}");
}

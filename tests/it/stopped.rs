//! Runs that are stopped, frozen or held to a CPU limit: the blocks in which it happens are
//! disturbed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use specdec::measure::rows::BlockRow;
use tempfile::TempDir;

use crate::run_support::{blocks, signal, specdec, wait_for_a_block};

/// As many blocks as a run has without timing passes between them.
const BLOCKS: usize = 8;

/// The smoke experiment on the embedded pair: one cell and plain decoding, in blocks of some tenths
/// of a second.
const SET: [&str; 9] = [
    "target=embedded-target",
    "draft=embedded-draft",
    "prompts=code",
    "prompts_limit=8",
    "max_tokens=96",
    "sweep.drafter=model",
    "sweep.verifier=rejection",
    "sweep.num_speculative_tokens=4",
    "sweep.temperature=0",
];

/// A run that has finished its first block.
struct Begun {
    out: TempDir,
    child: Child,
}

impl Begun {
    fn new() -> Self {
        let out = tempfile::tempdir().unwrap();
        let mut command = specdec(&["run", "experiments/00-smoke", "--out"]);
        command.arg(out.path()).args(SET.iter().flat_map(|set| ["--set", set]));
        let child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let begun = Self { out, child };
        wait_for_a_block(begun.out.path());
        begun
    }

    /// The blocks after the first one, repetitions included, and the report.
    fn end(mut self) -> (Vec<BlockRow>, String) {
        assert!(self.child.wait().unwrap().success());
        let folder = wait_for_a_block(self.out.path());
        let report = fs::read_to_string(folder.join("report.md")).unwrap();
        (blocks(&folder).split_off(1), report)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ms(ms: u64) {
    sleep(Duration::from_millis(ms));
}

/// The number of blocks that are disturbed and lost more than a tenth of their time in this way.
fn lost(blocks: &[BlockRow], share: impl Fn(&BlockRow) -> Option<f64>) -> usize {
    let lost = |row: &&BlockRow| row.disturbed && share(row).unwrap() > 0.1;
    blocks.iter().filter(lost).count()
}

/// Asserts that a stop or two were noticed, and that the other blocks do not count as stopped,
/// under any load of the machine.
#[track_caller]
fn notices_a_stop(run: Begun) {
    let (blocks, _) = run.end();
    let stopped = lost(&blocks, |row| row.stopped_share);
    assert!((1..=BLOCKS / 2).contains(&stopped), "{blocks:#?}");
}

/// Catches: a stop goes unnoticed; every block counts as stopped.
#[test]
fn a_stop_disturbs_its_block() {
    let run = Begun::new();
    // One of the two may fall between blocks.
    for _ in 0..2 {
        signal("-STOP", &run.child);
        ms(750);
        signal("-CONT", &run.child);
        ms(20);
    }
    notices_a_stop(run);
}

/// As programs do that hold a process to a share of a core. Catches: short stops go unnoticed.
#[test]
fn a_run_that_is_stopped_again_and_again_gets_no_verdict() {
    let mut run = Begun::new();
    while run.child.try_wait().unwrap().is_none() {
        signal("-STOP", &run.child);
        ms(60);
        signal("-CONT", &run.child);
        ms(30);
    }
    let (blocks, report) = run.end();
    assert!(lost(&blocks, |row| row.stopped_share) > blocks.len() / 2, "{blocks:#?}");
    assert!(report.contains("**DISTURBED: ") && !report.contains("| faster |"), "{report}");
}

/// Catches: a frozen process goes unnoticed.
#[test]
fn a_freeze_disturbs_its_block() {
    let Some(group) = Group::new("freezer", ["freezer.state", "cgroup.freeze"]) else { return };
    let run = Begun::new();
    group.add(&run.child);
    for _ in 0..2 {
        group.set(["FROZEN", "1"]);
        ms(600);
        group.set(["THAWED", "0"]);
        ms(20);
    }
    notices_a_stop(run);
}

/// Catches: threads that wait because of a limit go unnoticed while no other process runs.
#[test]
fn a_run_with_a_cpu_limit_gets_no_verdict() {
    let Some(group) = Group::new("cpu", ["cpu.cfs_quota_us", "cpu.max"]) else { return };
    let run = Begun::new();
    group.set(["30000", "30000 100000"]);
    group.add(&run.child);
    let (blocks, report) = run.end();
    let limited = lost(&blocks, |row| Some(row.waiting_share.min(row.throttled_share?)));
    assert!(limited > blocks.len() / 2, "{blocks:#?}");
    assert!(report.contains("**DISTURBED: ") && !report.contains("| faster |"), "{report}");
}

/// A control group for a test.
struct Group {
    folder: PathBuf,
    /// The file that a test writes, in versions 1 and 2.
    files: [&'static str; 2],
}

impl Group {
    /// None where no group with one of these files can be made.
    fn new(controller: &str, files: [&'static str; 2]) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("specdec-{controller}-{}", process::id());
        let folders = [root.join(controller), root.to_owned()].map(|parent| parent.join(&name));
        let made = folders.into_iter().find(|folder| fs::create_dir(folder).is_ok());
        let group = made.map(|folder| Self { folder, files });
        let group = group.filter(|group| files.iter().any(|file| group.folder.join(file).exists()));
        if group.is_none() {
            let _ = writeln!(io::stderr(), "skipped: no control group of {controller} can be made");
        }
        group
    }

    /// Writes the value for the version of the group.
    fn set(&self, values: [&str; 2]) {
        let both = self.files.iter().map(|file| self.folder.join(file)).zip(values);
        for (file, value) in both.filter(|(file, _)| file.exists()) {
            fs::write(file, value).unwrap();
        }
    }

    fn add(&self, child: &Child) {
        fs::write(self.folder.join("cgroup.procs"), child.id().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

//! Runs of the smoke experiment from the command line.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use specdec::measure::rows::{BlockRow, GenerationRow, RoundRow};
use specdec::run::experiment::Manifest;

use crate::experiment_support::rows;

/// The program, in the project's folder.
pub(crate) fn specdec(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_specdec"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
    command
}

/// Runs the smoke experiment on the virtual clock.
pub(crate) fn run(out: &Path, more: &[&str]) -> Output {
    let mut command = specdec(&["run", "experiments/00-smoke", "--clock", "virtual", "--out"]);
    command.arg(out).args(more).output().unwrap()
}

/// A run long enough to be killed or disturbed in the middle.
pub(crate) const LONG: &[&str] = &["--set", "repeats=12", "--set", "max_tokens=96"];

/// Starts a long run.
pub(crate) fn spawn(out: &Path) -> Child {
    spawn_with(out, &[])
}

/// The same with more options.
pub(crate) fn spawn_with(out: &Path, more: &[&str]) -> Child {
    let mut command = specdec(&["run", "experiments/00-smoke", "--clock", "virtual", "--out"]);
    let command = command.arg(out).args(LONG).args(more);
    command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Sends a signal, such as `-STOP`, to a process.
pub(crate) fn signal(name: &str, child: &Child) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until the long run in `out` has finished its first block.
pub(crate) fn wait_for_a_block(out: &Path) -> PathBuf {
    loop {
        std::thread::sleep(Duration::from_millis(2));
        if begun(out).is_none() {
            continue;
        }
        let folder = folder(out);
        let listed = std::fs::read_to_string(folder.join("blocks.csv")).unwrap_or_default();
        if listed.lines().count() > 1 {
            return folder;
        }
    }
}

#[track_caller]
pub(crate) fn succeed(output: Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that the program failed, and that its last line is an error with all `parts`.
#[track_caller]
pub(crate) fn fail(output: Output, parts: &[&str]) {
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    let line = error.lines().last().unwrap_or_default();
    assert!(line.starts_with("error: "), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    for part in parts {
        assert!(line.contains(part), "{line:?} does not contain {part:?}");
    }
}

/// The only results folder.
pub(crate) fn folder(out: &Path) -> PathBuf {
    let found = std::fs::read_dir(out.join("00-smoke")).unwrap().map(|e| e.unwrap().path());
    let mut found = found.filter(|path| path.is_dir() && !path.ends_with(".new"));
    let path = found.next().unwrap();
    assert!(found.next().is_none(), "one folder expected");
    path
}

/// The manifest of the only run in `out`, if it has been written.
pub(crate) fn begun(out: &Path) -> Option<Manifest> {
    let found = std::fs::read_dir(out.join("00-smoke")).ok()?;
    let mut found = found.flatten().map(|e| e.path()).filter(|path| !path.ends_with(".new"));
    found.find_map(|path| Manifest::read(&path).ok())
}

pub(crate) fn generations(folder: &Path) -> Vec<GenerationRow> {
    rows(folder, "generations.csv")
}

pub(crate) fn rounds(folder: &Path) -> Vec<RoundRow> {
    rows(folder, "rounds.csv")
}

pub(crate) fn blocks(folder: &Path) -> Vec<BlockRow> {
    rows(folder, "blocks.csv")
}

/// The generations that count.
pub(crate) fn standing(folder: &Path) -> Vec<GenerationRow> {
    generations(folder).into_iter().filter(|g| !g.superseded).collect()
}

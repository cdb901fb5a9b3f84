//! Runs in parts: shards of the smoke experiment, and merged folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use specdec::measure::rows::{BlockRow, RAW_FILES};

use crate::run_support::{specdec, succeed};

/// A part of the smoke experiment on the virtual clock, on a machine of the given name.
pub(crate) fn part(machine: &str, out: &Path, which: &[&str], more: &[&str]) -> Command {
    let mut command = specdec(&["run", "experiments/00-smoke", "--clock", "virtual", "--out"]);
    command.arg(out).args(which).args(more).env("SPECDEC_MACHINE", machine);
    command
}

/// Runs a shard.
pub(crate) fn shard(out: &Path, which: &str, more: &[&str]) -> Output {
    part("here", out, &["--shard", which], more).output().unwrap()
}

/// Runs all of `n` shards.
pub(crate) fn all_shards(out: &Path, n: usize, more: &[&str]) {
    (1..=n).for_each(|i| succeed(shard(out, &format!("{i}/{n}"), more)));
}

/// The folder with the shards of the only plan in `out`.
pub(crate) fn shards_in(out: &Path) -> PathBuf {
    let mut found = fs::read_dir(out.join("00-smoke")).unwrap().map(|e| e.unwrap().path());
    let path = found.next().unwrap();
    assert!(found.next().is_none(), "one plan expected");
    path
}

/// The folders of the shards, by name; none before there are any. One that is still being
/// made has a hidden name.
pub(crate) fn parts_in(out: &Path) -> Vec<PathBuf> {
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = inside(out.join("00-smoke")).flat_map(|place| inside(place.path()));
    let hidden = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with('.');
    let paths = entries.map(|entry| entry.path());
    let mut found =
        paths.filter(|path| !hidden(path) && path.join("plan.toml").exists()).collect::<Vec<_>>();
    found.sort();
    found
}

/// The number of blocks that the shards have done.
pub(crate) fn done(out: &Path) -> usize {
    let rows = |part: &PathBuf| fs::read_to_string(part.join("blocks.csv")).ok();
    let texts = parts_in(out).iter().filter_map(rows).collect::<Vec<_>>();
    texts.iter().map(|text| text.lines().count().saturating_sub(1)).sum()
}

/// Writes a folder's list of blocks.
pub(crate) fn list(folder: &Path, rows: &[BlockRow]) {
    let mut csv = csv::Writer::from_path(folder.join("blocks.csv")).unwrap();
    rows.iter().for_each(|row| csv.serialize(row).unwrap());
    csv.flush().unwrap();
}

/// Merges folders.
pub(crate) fn merge(folders: &[&Path], out: &Path, more: &[&str]) -> Output {
    specdec(&["merge"]).args(folders).arg("--out").arg(out).args(more).output().unwrap()
}

/// Writes the report of a folder.
pub(crate) fn report(folder: &Path) -> String {
    succeed(specdec(&["report"]).arg(folder).output().unwrap());
    fs::read_to_string(folder.join("report.md")).unwrap()
}

/// Asserts that two folders have the same raw files and tables, byte for byte.
#[track_caller]
pub(crate) fn same_tables(merged: &Path, whole: &Path) {
    for name in RAW_FILES.iter().chain(&["summary.csv", "survival.csv"]) {
        let read = |folder: &Path| fs::read_to_string(folder.join(name)).ok();
        assert!(read(merged) == read(whole), "{name} differs");
    }
}

//! Files from strangers: links, FIFOs and devices in the place of files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use specdec::measure::rows::RAW_FILES;
use specdec::run::experiment::{Manifest, Status};

use crate::run_support::{fail, folder, run, specdec, succeed};
use crate::synthetic::Synthetic;

/// What stands in a file that nobody may change.
const THEIRS: &str = "theirs\n";

/// What a report consists of, with one of the figures.
fn derived(folder: &Path) -> Vec<String> {
    let figure = fs::read_dir(folder.join("figures")).unwrap().next().unwrap().unwrap();
    let figure = format!("figures/{}", figure.file_name().display());
    let others = ["summary.csv", "survival.csv", "report.md", "report.html", "SHA256SUMS"];
    others.map(str::to_owned).into_iter().chain([figure]).collect()
}

/// The output of a program that must end.
fn ended(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begun) = (command.spawn().unwrap(), Instant::now());
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it waits for ever: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn report(folder: &Path) -> Output {
    ended(specdec(&["report"]).arg(folder))
}

fn fifo(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A results folder with a report, and a file of somebody else's.
fn reported() -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    Synthetic::tiny().rows().write(&folder);
    succeed(report(&folder));
    fs::write(place.path().join("theirs"), THEIRS).unwrap();
    (place, folder)
}

/// Catches: a report is written into the file that a link leads to, or its own file before it is
/// complete.
#[test]
fn a_report_is_written_through_no_link() {
    let (place, folder) = reported();
    let theirs = place.path().join("theirs");
    let untouched = || assert_eq!(fs::read_to_string(&theirs).unwrap(), THEIRS);
    for name in &derived(&folder) {
        let file = folder.join(name);
        let partial = folder.join(format!("{name}.partial"));
        let whole = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        symlink(&theirs, &file).unwrap();
        symlink(&theirs, &partial).unwrap();
        succeed(report(&folder));
        untouched();
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{name}");
        assert!(fs::read(&file).unwrap() == whole && !partial.exists(), "{name}");
    }
    fs::remove_dir_all(folder.join("figures")).unwrap();
    symlink(place.path(), folder.join("figures")).unwrap();
    fail(report(&folder), &["figures", "a symbolic link, not a folder"]);
    untouched();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}

/// Data files may be links, as git-annex makes them.
/// Catches: a link to a row file is refused.
#[test]
fn rows_are_read_through_links() {
    let (place, folder) = reported();
    let whole = fs::read(folder.join("summary.csv")).unwrap();
    for name in ["plan.toml", "manifest.json", "rounds.csv", "generations.csv", "blocks.csv"] {
        let elsewhere = place.path().join(name);
        fs::rename(folder.join(name), &elsewhere).unwrap();
        symlink(&elsewhere, folder.join(name)).unwrap();
    }
    succeed(report(&folder));
    assert!(fs::read(folder.join("summary.csv")).unwrap() == whole);
}

/// Catches: a report waits for ever for the writer of a FIFO, or writes to one.
#[test]
fn fifos_and_devices_are_refused_by_name() {
    let (_place, folder) = reported();
    let read = ["plan.toml", "manifest.json", "rounds.csv", "generations.jsonl", "blocks.csv"];
    let names = read.map(str::to_owned).into_iter().chain(derived(&folder));
    for name in &names.collect::<Vec<_>>() {
        let (_place, folder) = reported();
        fifo(&folder.join(name));
        fail(report(&folder), &[name, "a FIFO, not a regular file"]);
        fs::remove_file(folder.join(name)).unwrap();
        symlink("/dev/null", folder.join(name)).unwrap();
        fail(report(&folder), &[name, "a device, not a regular file"]);
    }
    let (_place, folder) = reported();
    fs::remove_file(folder.join("rounds.csv")).unwrap();
    fifo(&folder.join("rounds.csv.gz"));
    fail(report(&folder), &["rounds.csv", "a FIFO"]);
    fs::remove_file(folder.join("rounds.csv.gz")).unwrap();
    fifo(&folder.join("rounds-00001.parquet"));
    fail(report(&folder), &["rounds-00001.parquet", "a FIFO"]);
}

/// Catches: a tape, costs or an experiment are waited for.
#[test]
fn commands_wait_for_no_fifo() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("fifo");
    fifo(&file);
    let name = file.to_str().unwrap();
    for args in [
        &["run", name][..],
        &["tape", "show", name],
        &["tape", "score", name],
        &["audit", name, "--target", "toy:mixed"],
        &["generate", "--target", "toy:mixed", "--prompt-file", name],
        &["forecast", name, "--costs", name],
    ] {
        fail(ended(&mut specdec(args)), &["fifo", "a FIFO, not a regular file"]);
    }
}

/// The shell's `<(…)` is a FIFO that is open already.
/// Catches: it is refused like any FIFO.
#[test]
fn what_a_shell_pipes_is_read_once() {
    let program = env!("CARGO_BIN_EXE_specdec");
    let line = format!(
        "{program} generate --target toy:mixed --plain -n 2 --prompt-file <(printf ab) 2>/dev/null"
    );
    let output = ended(Command::new("bash").args(["-c", &line]));
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
}

/// A measured run that lost its last block, so that it can be resumed.
fn unfinished(out: &Path) -> std::path::PathBuf {
    succeed(run(out, &["--trace"]));
    let folder = folder(out);
    let text = fs::read_to_string(folder.join("blocks.csv")).unwrap();
    let lines = text.split_inclusive('\n').collect::<Vec<_>>();
    fs::write(folder.join("blocks.csv"), lines[..lines.len() - 1].concat()).unwrap();
    let manifest = Manifest::read(&folder).unwrap();
    Manifest { status: Status::Running, ..manifest }.write(&folder).unwrap();
    folder
}

/// Catches: a resumed run appends to the file that a link leads to, such as `~/.bashrc`, or writes
/// its process id there.
#[test]
fn a_resumed_run_writes_through_no_link() {
    let out = tempfile::tempdir().unwrap();
    let folder = unfinished(out.path());
    let place = tempfile::tempdir().unwrap();
    let theirs = place.path().join("theirs");
    let sound = place.path().join("sound");
    assert!(Command::new("cp").arg("-r").args([&folder, &sound]).status().unwrap().success());
    let names = RAW_FILES.iter().chain(&[".lock", "manifest.json", "summary.csv"]);
    for name in names.filter(|name| **name == ".lock" || sound.join(name).exists()) {
        fs::remove_dir_all(&folder).unwrap();
        assert!(Command::new("cp").arg("-r").args([&sound, &folder]).status().unwrap().success());
        let own = fs::read(folder.join(name)).unwrap_or_default();
        fs::write(&theirs, &own).unwrap();
        let _ = fs::remove_file(folder.join(name));
        symlink(&theirs, folder.join(name)).unwrap();
        let output = run(out.path(), &["--trace", "--resume"]);
        assert!(fs::read(&theirs).unwrap() == own, "{name}");
        let file = fs::symlink_metadata(folder.join(name)).unwrap();
        assert_eq!(output.status.success(), file.is_file(), "{name}: {output:?}");
    }
    // A file that is not there yet is not made where a link leads to, either.
    for name in ["positions.csv", "generations.jsonl"] {
        fs::remove_dir_all(&folder).unwrap();
        assert!(Command::new("cp").arg("-r").args([&sound, &folder]).status().unwrap().success());
        let _ = fs::remove_file(&theirs);
        fs::remove_file(folder.join(name)).unwrap();
        symlink(&theirs, folder.join(name)).unwrap();
        fail(run(out.path(), &["--trace", "--resume"]), &[name, "a symbolic link"]);
        assert!(!theirs.exists());
    }
}

/// Catches: a table is written to a FIFO, where nobody reads it, or in the place of a device.
#[test]
fn outputs_are_files() {
    let (place, folder) = reported();
    let file = place.path().join("fifo");
    fifo(&file);
    let compare = |csv: &str| {
        let folder = folder.to_str().unwrap();
        ended(&mut specdec(&["compare", folder, folder, "--csv", csv]))
    };
    fail(compare(file.to_str().unwrap()), &["fifo", "a FIFO, not a regular file"]);
    fail(compare("/dev/null"), &["/dev/null", "a device, not a regular file"]);
    fail(compare("/dev/stdout"), &["/dev/stdout", "a descriptor of this process"]);
}

/// No thread gets a stack of this size.
/// Catches: a report ends in a panic where the system allows no further thread.
#[test]
fn a_report_needs_no_thread() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let read = |name| fs::read(folder.join(name)).unwrap();
    let with = [read("summary.csv"), read("report.md")];
    let none = (1_u64 << 50).to_string();
    succeed(ended(specdec(&["report", "--pack"]).arg(&folder).env("RUST_MIN_STACK", &none)));
    assert!(folder.join("rounds-00001.parquet").exists());
    succeed(ended(specdec(&["report"]).arg(&folder).env("RUST_MIN_STACK", &none)));
    assert!(with == [read("summary.csv"), read("report.md")]);
    fs::write(folder.join("blocks.csv"), "nonsense\n").unwrap();
    let output = ended(specdec(&["report"]).arg(&folder).env("RUST_MIN_STACK", &none));
    fail(output, &["blocks.csv has no column"]);
}

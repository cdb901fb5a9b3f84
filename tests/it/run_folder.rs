//! Results folders: who may write to them, how changes by anything else are noticed,
//! and what a crash leaves behind.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use specdec::measure::rows::PassCost;
use specdec::measure::rows::RAW_FILES;
use specdec::run::experiment::{Build, Manifest, Status};
use specdec::run::report;

use crate::run_support::{
    LONG, begun, blocks, fail, folder, generations, rounds, run, signal, spawn, specdec, standing,
    succeed, wait_for_a_block,
};

/// A git repository that is not the project's, with one commit.
fn foreign_repository() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(place.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        assert!(command.args(args).output().unwrap().status.success());
    };
    git(&["init"]);
    git(&["commit", "--allow-empty", "-m", "theirs"]);
    place
}

#[test]
fn a_run_records_its_build_in_any_working_directory() {
    let (place, out) = (foreign_repository(), tempfile::tempdir().unwrap());
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/00-smoke");
    let mut command = specdec(&["run", smoke, "--clock", "virtual", "--out"]);
    succeed(command.arg(out.path()).current_dir(place.path()).output().unwrap());
    let manifest = Manifest::read(&folder(out.path())).unwrap();
    assert_eq!(manifest.sessions[0].build, Build::this());
    // In a clone the commit is known.
    let mut git = Command::new("git");
    let head = git.args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    if let Ok(head) = head.map(|output| String::from_utf8(output.stdout).unwrap()) {
        assert!(head.trim().is_empty() || Build::this().git_commit == head.trim());
    }
}

/// A run whose last `left` blocks are not done yet, as if it had been killed; `change`
/// edits its manifest.
fn cut(out: &Path, left: usize, change: impl Fn(&mut Manifest)) -> std::path::PathBuf {
    succeed(run(out, &[]));
    let folder = folder(out);
    let text = fs::read_to_string(folder.join("blocks.csv")).unwrap();
    let lines = text.split_inclusive('\n').collect::<Vec<_>>();
    fs::write(folder.join("blocks.csv"), lines[..lines.len() - left].concat()).unwrap();
    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.status = Status::Running;
    change(&mut manifest);
    manifest.write(&folder).unwrap();
    folder
}

#[test]
fn resuming_with_another_build_or_cpu_separates_times() {
    let whole = tempfile::tempdir().unwrap();
    succeed(run(whole.path(), &[]));
    let expected = standing(&folder(whole.path()));
    let changes: [fn(&mut Manifest); 3] = [
        |manifest| manifest.sessions[0].build.git_commit = "0123abc".to_owned(),
        |manifest| manifest.sessions[0].machine.cpu_model = "Slow CPU".to_owned(),
        |manifest| manifest.sessions[0].threads += 1,
    ];
    for change in changes {
        let out = tempfile::tempdir().unwrap();
        let folder = cut(out.path(), 4, change);
        succeed(run(out.path(), &["--resume"]));
        assert_eq!(standing(&folder), expected);
        let manifest = Manifest::read(&folder).unwrap();
        assert_eq!((manifest.status, manifest.groups()), (Status::Finished, vec![0, 1]));
        let sessions = blocks(&folder).into_iter().filter(|b| !b.superseded).map(|b| b.session);
        let of_second = sessions.clone().filter(|&session| session == 1).count();
        assert_eq!((sessions.count(), of_second), (12, 4));
        // The tokens of all blocks count, but only the times of the larger group.
        let results = report::load(&folder).unwrap();
        let samples = || results.samples();
        let timed = samples().filter(|sample| sample.timed).count();
        assert_eq!((samples().count(), timed), (expected.len(), expected.len() * 8 / 12));
        assert!(samples().all(|sample| !sample.rounds.is_empty()));
        let text = fs::read_to_string(folder.join("report.md")).unwrap();
        assert!(text.contains("4 of 12 blocks were timed by another build"), "{text}");
    }
}

#[test]
fn resuming_with_the_same_build_and_machine_keeps_all_times() {
    let out = tempfile::tempdir().unwrap();
    let folder = cut(out.path(), 4, |_| {});
    succeed(run(out.path(), &["--resume"]));
    assert_eq!(Manifest::read(&folder).unwrap().groups(), [0, 0]);
    let results = report::load(&folder).unwrap();
    assert!(results.samples().all(|sample| sample.timed));
}

#[test]
fn a_folder_has_one_writer_and_its_lock_ends_with_the_process() {
    let out = tempfile::tempdir().unwrap();
    let mut first = spawn(out.path());
    let folder = wait_for_a_block(out.path());
    // So that it does not end before the others have begun.
    signal("-STOP", &first);
    let writer = format!("is being written by process {}", first.id());
    fail(run(out.path(), &[LONG, &["--resume"]].concat()), &[&writer]);
    let given = format!("--resume={}", folder.display());
    fail(run(out.path(), &[LONG, &[&given]].concat()), &[&writer]);
    first.kill().unwrap();
    first.wait().unwrap();
    succeed(run(out.path(), &[LONG, &["--resume"]].concat()));
    assert_eq!(begun(out.path()).unwrap().status, Status::Finished);
    assert!(!folder.join(".lock").exists());
}

#[test]
fn a_foreign_change_ends_the_run_and_resume_repairs_it() {
    let whole = tempfile::tempdir().unwrap();
    succeed(run(whole.path(), LONG));
    let expected = standing(&folder(whole.path()));
    let expected_rounds = rounds(&folder(whole.path()));
    type Change = fn(&Path);
    let ways: [(&str, Change); 4] = [
        ("rounds.csv", |file| fs::remove_file(file).unwrap()),
        ("generations.csv", |file| fs::write(file, "").unwrap()),
        ("generations.jsonl", |file| {
            let file = fs::OpenOptions::new().write(true).open(file).unwrap();
            file.set_len(100).unwrap();
        }),
        ("blocks.csv", |file| {
            let text = fs::read_to_string(file).unwrap();
            fs::write(file, text + "\n").unwrap();
        }),
    ];
    for (name, change) in ways {
        let out = tempfile::tempdir().unwrap();
        let child = spawn(out.path());
        let folder = wait_for_a_block(out.path());
        change(&folder.join(name));
        fail(child.wait_with_output().unwrap(), &[name, "something else changed it"]);
        succeed(run(out.path(), &[LONG, &["--resume"]].concat()));
        assert_eq!(standing(&folder), expected, "{name}");
        assert_eq!(rounds(&folder), expected_rounds, "{name}");
    }
}

#[test]
fn reformatted_rows_stay_and_unknown_cells_are_run_again() {
    let out = tempfile::tempdir().unwrap();
    let folder = cut(out.path(), 4, |_| {});
    // Four of twelve blocks are run again.
    let (before, lost) = (generations(&folder).len(), generations(&folder).len() / 12 * 4);
    // As other programs write CSV files.
    for name in ["rounds.csv", "generations.csv", "blocks.csv"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        fs::write(folder.join(name), text.replace('\n', "\r\n")).unwrap();
    }
    succeed(run(out.path(), &["--resume"]));
    let superseded = |folder: &Path| generations(folder).iter().filter(|g| g.superseded).count();
    assert_eq!((superseded(&folder), generations(&folder).len()), (lost, before + lost));

    // Emptied while rows were being written: the header is gone, rows are not.
    let out = tempfile::tempdir().unwrap();
    let folder = cut(out.path(), 4, |_| {});
    for name in ["rounds.csv", "generations.csv", "blocks.csv"] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        fs::write(folder.join(name), text.split_once('\n').unwrap().1).unwrap();
    }
    succeed(run(out.path(), &["--resume"]));
    assert_eq!((superseded(&folder), generations(&folder).len()), (lost, before + lost));

    let out = tempfile::tempdir().unwrap();
    let folder = cut(out.path(), 4, |_| {});
    let text = fs::read_to_string(folder.join("rounds.csv")).unwrap();
    let cell = text.lines().nth(1).unwrap().split(',').next().unwrap();
    fs::write(folder.join("rounds.csv"), text.replacen(cell, "stranger", 1)).unwrap();
    succeed(run(out.path(), &["--resume"]));
    assert!(superseded(&folder) > lost && rounds(&folder).iter().all(|r| r.cell != "stranger"));
}

#[test]
fn blocks_whose_rows_were_changed_are_run_again() {
    let out = tempfile::tempdir().unwrap();
    let folder = cut(out.path(), 1, |_| {});
    let expected = {
        let whole = tempfile::tempdir().unwrap();
        succeed(run(whole.path(), &[]));
        rounds(&crate::run_support::folder(whole.path()))
    };
    // One digit of one row of the first block.
    let text = fs::read_to_string(folder.join("rounds.csv")).unwrap();
    let row = text.lines().nth(3).unwrap();
    fs::write(folder.join("rounds.csv"), text.replacen(row, &format!("{row}1"), 1)).unwrap();
    succeed(run(out.path(), &["--resume"]));
    let mut found = rounds(&folder);
    let mut expected = expected;
    let key = |r: &specdec::measure::rows::RoundRow| {
        (r.prompt.clone(), r.repeat, r.cell.clone(), r.round)
    };
    found.sort_by_key(key);
    expected.sort_by_key(key);
    assert_eq!(found, expected);
    assert_eq!(blocks(&folder).iter().filter(|b| b.superseded).count(), 1);
    assert_eq!(generations(&folder).iter().filter(|g| g.superseded).count(), 26);
}

#[test]
fn a_folder_left_by_a_kill_during_creation_is_not_a_run() {
    let out = tempfile::tempdir().unwrap();
    let orphan = out.path().join("00-smoke").join(".new");
    fs::create_dir_all(&orphan).unwrap();
    fs::write(orphan.join("plan.toml"), "experiment = \"half a pl").unwrap();
    fail(run(out.path(), &["--resume"]), &["nothing to resume"]);
    succeed(run(out.path(), &[]));
    assert!(!orphan.exists());
    assert_eq!(Manifest::read(&folder(out.path())).unwrap().status, Status::Finished);
}

#[test]
fn resume_makes_a_report_that_had_failed() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let before = fs::read(folder.join("report.md")).unwrap();
    // As a kill during the report leaves it.
    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.status = Status::Measured;
    manifest.write(&folder).unwrap();
    fs::remove_file(folder.join("report.md")).unwrap();
    // No folder can be made where a file is.
    fs::remove_dir_all(folder.join("figures")).unwrap();
    fs::write(folder.join("figures"), "").unwrap();
    fail(run(out.path(), &["--resume"]), &["figures"]);
    assert_eq!(Manifest::read(&folder).unwrap().status, Status::Measured);
    fs::remove_file(folder.join("figures")).unwrap();
    succeed(run(out.path(), &["--resume"]));
    let manifest = Manifest::read(&folder).unwrap();
    assert_eq!((manifest.status, manifest.sessions.len()), (Status::Finished, 1));
    assert!(fs::read(folder.join("report.md")).unwrap() == before);
}

#[test]
fn compressed_runs_can_be_reported_but_not_resumed() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let report = || fs::read(folder.join("report.md")).unwrap();
    let before = report();
    for name in RAW_FILES.iter().filter(|name| folder.join(name).exists()) {
        let packed = fs::File::create(folder.join(format!("{name}.gz"))).unwrap();
        let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::best());
        packed.write_all(&fs::read(folder.join(name)).unwrap()).unwrap();
        packed.finish().unwrap();
        fs::remove_file(folder.join(name)).unwrap();
    }
    fs::remove_file(folder.join("report.md")).unwrap();
    succeed(specdec(&["report", folder.to_str().unwrap()]).output().unwrap());
    assert_eq!(report(), before);

    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.status = Status::Running;
    manifest.write(&folder).unwrap();
    fail(run(out.path(), &["--resume"]), &["rounds.csv.gz", "gunzip"]);

    let rounds = folder.join("rounds.csv.gz");
    let bytes = fs::read(&rounds).unwrap();
    fs::write(&rounds, &bytes[..bytes.len() / 2]).unwrap();
    let cut = specdec(&["report", folder.to_str().unwrap()]).output().unwrap();
    fail(cut, &["cannot read", "rounds.csv"]);
}

#[test]
fn rows_of_another_format_are_refused() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let file = folder(out.path()).join("plan.toml");
    let text = fs::read_to_string(&file).unwrap();
    for other in ["", "format = 1\n", "format = 4\n"] {
        fs::write(&file, text.replacen("format = 3\n", other, 1)).unwrap();
        let output = specdec(&["report", folder(out.path()).to_str().unwrap()]).output().unwrap();
        fail(output, &["format", "use the version that made them"]);
    }
}

#[test]
fn editing_the_text_of_a_drafter_makes_another_plan() {
    let out = tempfile::tempdir().unwrap();
    let text = out.path().join("corpus.txt");
    fs::write(&text, "abcabcabc").unwrap();
    let set = format!("sweep.ngram_text={}", text.display());
    let more = ["--set", "sweep.drafter=ngram_lm", "--set", &set];
    let folder_of = |more: &[&str]| {
        succeed(run(out.path(), more));
        folder(out.path())
    };
    let folder = folder_of(&more);
    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.status = Status::Running;
    manifest.write(&folder).unwrap();
    let ids = |path: &Path| {
        let plan = specdec::run::experiment::read_plan(path).unwrap();
        plan.cells.iter().map(|c| c.id.clone()).collect::<Vec<_>>()
    };
    let before = ids(&folder);
    let given = format!("--resume={}", folder.display());
    fs::write(&text, "abcabcabd").unwrap();
    fail(run(out.path(), &[&more[..], &[&given]].concat()), &["another plan"]);
    fs::remove_dir_all(out.path().join("00-smoke")).unwrap();
    let after = ids(&folder_of(&more));
    let kept = before.iter().filter(|id| after.contains(id)).count();
    // The baselines read no text: one per temperature.
    assert_eq!((before.len(), after.len(), kept), (before.len(), before.len(), 3));
}

#[test]
fn a_manifest_keeps_its_floats_to_the_last_bit() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let mut manifest = Manifest::read(&folder).unwrap();
    // Values that an inexact parser gets wrong in the last digit.
    let us = |i: u32| 1.0 / f64::from(i) + 1e-9 * f64::from(i * 7919);
    let passes = (1..2000).map(|i| PassCost { us: us(i), ..PassCost::default() });
    manifest.sessions[0].calibration.passes = passes.collect();
    manifest.write(&folder).unwrap();
    assert_eq!(Manifest::read(&folder).unwrap(), manifest);
}

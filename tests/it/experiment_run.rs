//! Runs from the command line, on toys and the virtual clock, so that results are
//! reproducible to the byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use specdec::run::experiment::{Manifest, Status};

use crate::run_support::{
    LONG, begun, fail, folder, generations, rounds, run, signal, spawn, specdec, standing, succeed,
};

#[test]
fn the_smoke_experiment_is_reproducible_to_the_byte() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    succeed(run(a.path(), &["--trace"]));
    succeed(run(b.path(), &["--trace"]));
    let files =
        ["plan.toml", "rounds.csv", "positions.csv", "generations.csv", "generations.jsonl"];
    for name in files.iter().chain(&["summary.csv", "survival.csv"]) {
        let read = |out: &Path| std::fs::read(folder(out).join(name)).unwrap();
        assert!(read(a.path()) == read(b.path()), "{name} differs");
    }
}

/// Catches: the option is ignored, or loses against the file or `--set`, or makes other cells.
#[test]
fn threads_are_chosen_and_recorded() {
    let (usual, one) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    succeed(run(usual.path(), &[]));
    succeed(run(one.path(), &["--set", "threads=2", "--threads", "1"]));
    let [usual, one] = [usual, one].map(|out| {
        let folder = folder(out.path());
        let plan = std::fs::read_to_string(folder.join("plan.toml")).unwrap();
        (Manifest::read(&folder).unwrap().sessions[0].threads, plan)
    });
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!((usual.0, one.0), (cores, 1));
    assert_eq!(usual.1, one.1);
    let shown = specdec(&["plan", "experiments/00-smoke", "--threads", "1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("\nthreads     1\n"));
}

/// Only times depend on it: the virtual clock counts the rows that a pass computes.
#[test]
fn texts_do_not_depend_on_the_kv_cache() {
    let (cached, uncached) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    succeed(run(cached.path(), &[]));
    succeed(run(uncached.path(), &["--set", "kv_cache=false"]));
    let read = |out: &Path, name| std::fs::read_to_string(folder(out).join(name)).unwrap();
    let of = |name| [&cached, &uncached].map(|out| read(out.path(), name));
    let [with, without] = of("generations.jsonl");
    assert!(with == without, "generations.jsonl differs");
    let [with, without] = of("generations.csv");
    assert!(with != without, "a pass without a cache computes more rows");
    let [with, without] = of("plan.toml");
    assert!(!with.contains("kv_cache") && without.contains("kv_cache = false"), "{without}");
}

#[test]
fn round_rows_agree_with_generation_rows() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let mut emitted: BTreeMap<_, usize> = BTreeMap::new();
    let mut passes: BTreeMap<_, usize> = BTreeMap::new();
    for r in rounds(&folder) {
        let key = (r.cell.clone(), r.prompt.clone(), r.repeat);
        *emitted.entry(key.clone()).or_default() += r.emitted;
        *passes.entry(key).or_default() += 1;
        assert!(r.accepted <= r.proposed && r.reached >= r.accepted);
        assert!(r.emitted <= r.accepted + 1);
        assert_eq!(r.truncated, r.emitted < r.accepted + 1);
        assert!(r.overlap_sum >= 0.0 && r.overlap_sum <= r.forks as f64 + 1e-9);
    }
    let plan = specdec::run::experiment::read_plan(&folder).unwrap();
    for g in generations(&folder) {
        let key = (g.cell.clone(), g.prompt.clone(), g.repeat);
        assert_eq!(emitted[&key], g.new_tokens);
        assert_eq!(passes[&key], g.target_forwards);
        assert_eq!(g.stop_reason, "max_tokens");
        let cell = plan.cells.iter().find(|c| c.id == g.cell).unwrap();
        if cell.is_baseline() {
            assert_eq!((g.target_forwards, g.draft_forwards), (g.new_tokens, 0));
        }
        if cell.method.sampling.is_greedy() {
            assert_eq!(g.first_divergence, None, "greedy texts equal plain decoding's");
        }
    }
    assert_eq!(Manifest::read(&folder).unwrap().status, Status::Finished);
}

#[test]
fn a_killed_run_resumes_to_the_same_rows() {
    let whole = tempfile::tempdir().unwrap();
    succeed(run(whole.path(), LONG));
    let (expected, expected_rounds) =
        (standing(&folder(whole.path())), rounds(&folder(whole.path())));
    for milliseconds in [15, 60, 150, 400] {
        let out = tempfile::tempdir().unwrap();
        let mut child = spawn(out.path());
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        match begun(out.path()) {
            Some(manifest) if manifest.status == Status::Finished => {}
            Some(_) => succeed(run(out.path(), &[LONG, &["--resume"]].concat())),
            None => {
                // Killed before there was anything to resume.
                let _ = std::fs::remove_dir_all(out.path().join("00-smoke"));
                succeed(run(out.path(), LONG));
            }
        }
        assert_eq!(standing(&folder(out.path())), expected, "killed after {milliseconds} ms");
        assert_eq!(rounds(&folder(out.path())), expected_rounds, "after {milliseconds} ms");
    }
}

#[test]
fn torn_rows_of_an_unfinished_block_are_repaired() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let (expected, expected_rounds) = (standing(&folder), rounds(&folder));
    // As if the machine had died in the middle of the third block: some of its
    // generations are listed, and a row of rounds.csv is cut in two.
    let text = std::fs::read_to_string(folder.join("generations.csv")).unwrap();
    let kept = text.split_inclusive('\n').take(1 + 2 * 13 + 5).collect::<String>();
    std::fs::write(folder.join("generations.csv"), kept).unwrap();
    let text = std::fs::read_to_string(folder.join("rounds.csv")).unwrap();
    std::fs::write(folder.join("rounds.csv"), &text[..text.len() * 2 / 3]).unwrap();
    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.status = Status::Running;
    manifest.write(&folder).unwrap();
    succeed(run(out.path(), &["--resume"]));
    assert_eq!(standing(&folder), expected);
    assert_eq!(rounds(&folder), expected_rounds);
    assert_eq!(generations(&folder).iter().filter(|g| g.superseded).count(), 5);
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_folder_that_can_be_resumed() {
    let out = tempfile::tempdir().unwrap();
    let mut child = spawn(out.path());
    while begun(out.path()).is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    signal("-INT", &child);
    assert!(!child.wait().unwrap().success());
    assert_eq!(begun(out.path()).unwrap().status, Status::Interrupted);
    let given = folder(out.path());
    let resume = format!("--resume={}", given.display());
    succeed(run(out.path(), &[LONG, &[&resume]].concat()));
    assert_eq!(begun(out.path()).unwrap().status, Status::Finished);
}

#[test]
fn resuming_a_finished_missing_or_different_run_is_refused() {
    let out = tempfile::tempdir().unwrap();
    fail(run(out.path(), &["--resume"]), &["nothing to resume"]);
    succeed(run(out.path(), &[]));
    fail(run(out.path(), &["--resume"]), &["nothing to resume"]);
    let given = folder(out.path());
    let given = format!("--resume={}", given.display());
    fail(run(out.path(), &[&given]), &["finished"]);
    fail(run(out.path(), &[&given, "--set", "seed=2"]), &["another plan"]);
}

/// A finished run whose manifest says that it is still running, as after a kill.
fn unfinished(out: &Path) -> PathBuf {
    succeed(run(out, &[]));
    let folder = folder(out);
    let mut manifest = Manifest::read(&folder).unwrap();
    manifest.status = Status::Running;
    manifest.write(&folder).unwrap();
    folder
}

#[test]
fn resume_names_the_damaged_line() {
    let out = tempfile::tempdir().unwrap();
    let folder = unfinished(out.path());
    let file = folder.join("generations.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let second = text.lines().nth(1).unwrap();
    std::fs::write(&file, text.replace(second, "{\"cell\"")).unwrap();
    let place = format!("{}, line 2 is damaged", file.display());
    fail(run(out.path(), &["--resume"]), &[&place]);
}

#[test]
fn a_taken_folder_name_gets_a_number() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    succeed(run(out.path(), &[]));
    let mut names = std::fs::read_dir(out.path().join("00-smoke"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    assert_eq!(names.len(), 2);
    assert_eq!(names[1], format!("{}-2", names[0]));
}

#[test]
fn bad_input_is_refused_with_the_reason() {
    let out = tempfile::tempdir().unwrap();
    fail(run(out.path(), &["--set", "target=toy:mixd"]), &["mixd", "\"mixed\""]);
    fail(run(out.path(), &["--set", "target=no-such-model"]), &["no-such-model"]);
    fail(
        run(out.path(), &["--set", "draft=toy:binary"]),
        &["has 4 tokens", "has 2", "one vocabulary"],
    );
    fail(run(out.path(), &["--set", "prompts=smoek"]), &["smoek"]);
    fail(run(out.path(), &["--set", "max_tokens=2000"]), &["max_tokens = 2000 leaves no room"]);
    fail(run(out.path(), &["--set", "sweep.drafter=modle"]), &["modle", "\"model\""]);
    // No folder can be created below a file.
    let file = out.path().join("file");
    std::fs::write(&file, "").unwrap();
    fail(run(&file, &[]), &["results folder", "file"]);
    let prompts = out.path().join("empty.jsonl");
    std::fs::write(&prompts, "{\"id\": \"a\", \"category\": \"c\", \"prompt\": \"\"}\n").unwrap();
    let set = format!("prompts={}", prompts.display());
    fail(run(out.path(), &["--set", &set]), &["prompt a", "no beginning-of-text token"]);
    let turns = "{\"question_id\": 1, \"category\": \"c\", \"turns\": []}\n";
    std::fs::write(&prompts, turns).unwrap();
    fail(run(out.path(), &["--set", &set]), &["empty.jsonl line 1", "\"turns\" is not a list"]);
    std::fs::write(&prompts, "{\"id\": \"a\"}\n").unwrap();
    fail(run(out.path(), &["--set", &set]), &["empty.jsonl line 1"]);
}

#[test]
fn spec_bench_rows_are_read_as_prompts() {
    let out = tempfile::tempdir().unwrap();
    let prompts = out.path().join("question.jsonl");
    let row = r#"{"question_id": 81, "category": "writing", "turns": ["abca", "bb"]}"#;
    std::fs::write(&prompts, format!("{row}\n")).unwrap();
    succeed(run(out.path(), &["--set", &format!("prompts={}", prompts.display())]));
    let rows = generations(&folder(out.path()));
    assert!(rows.iter().all(|g| g.prompt == "81" && g.category == "writing"));
}

#[test]
fn plan_prints_the_cells_and_an_estimate() {
    let output = specdec(&["plan", "experiments/00-smoke"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("21c2fd54851b") && text.contains("model + rejection, K = 4, T = 0.7"));
    assert!(text.contains("estimate    156 generations"));
}

#[test]
fn every_experiment_can_be_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            continue;
        }
        assert!(path.join("README.md").exists(), "{} has no README.md", path.display());
        // Comparisons with other programs are scripts without an experiment.toml.
        if let Ok(text) = std::fs::read_to_string(path.join("experiment.toml")) {
            let mut arguments = vec!["plan", path.to_str().unwrap()];
            // Models that have to be fetched first may be missing: the embedded pair, which
            // has no chat template, takes their place.
            if text.contains(".gguf\"") {
                for key in ["target=embedded-target", "draft=embedded-draft", "chat=false"] {
                    arguments.extend(["--set", key]);
                }
            }
            let output = specdec(&arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

//! Shards of a run: which blocks each has, how it continues, and what it reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use specdec::measure::rows::BlockRow;
use specdec::run::cluster::shard_of_task;
use specdec::run::experiment::{Manifest, Shard, Share, Status};
use specdec::run::report;

use crate::cluster_support::{all_shards, done, list, part, parts_in, report as report_of, shard};
use crate::report::summary;
use crate::run_support::{LONG, blocks, fail, folder, run, signal, specdec, standing, succeed};

/// The number of the smoke experiment's blocks.
const BLOCKS: usize = 12;

/// How often each block stands in the shards.
fn counts(out: &Path) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for row in parts_in(out).iter().flat_map(|part| blocks(part)) {
        *counts.entry(row.block).or_default() += usize::from(!row.superseded);
    }
    counts
}

/// Catches: a shard has all blocks of a sampling setting.
#[test]
fn blocks_are_dealt_once_and_evenly_for_each_sampling() {
    for n in [1, 2, 3, 5] {
        let out = tempfile::tempdir().unwrap();
        all_shards(out.path(), n, &["--set", "repeats=5"]);
        assert_eq!(counts(out.path()), (0..5 * BLOCKS).map(|block| (block, 1)).collect());
        let parts = parts_in(out.path());
        let all = parts.iter().map(|part| blocks(part).len()).collect::<Vec<_>>();
        assert!(all.iter().max().unwrap() - all.iter().min().unwrap() <= 1, "{all:?}");
        // The three temperatures take turns in the order of the blocks.
        for goal in 0..3 {
            let own = parts
                .iter()
                .map(|part| blocks(part).iter().filter(|b| b.block % 3 == goal).count());
            let own = own.collect::<Vec<_>>();
            assert!(own.iter().max().unwrap() - own.iter().min().unwrap() <= 1, "{own:?}");
        }
    }
}

/// Catches: blocks are dealt by their place in the plan.
#[test]
fn a_shard_depends_on_its_blocks_and_not_on_their_order() {
    let dealt = |order: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("prompts.jsonl");
        let line =
            |id: &&str| format!("{{\"id\": \"{id}\", \"category\": \"c\", \"prompt\": \"abc\"}}\n");
        fs::write(&file, order.iter().map(line).collect::<String>()).unwrap();
        let set = format!("prompts={}", file.display());
        succeed(shard(out.path(), "1/2", &["--set", &set]));
        let rows = standing(&parts_in(out.path())[0]).into_iter();
        let mut found = rows.map(|row| (row.cell, row.prompt, row.repeat)).collect::<Vec<_>>();
        found.sort();
        found
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut turned = names;
    turned.reverse();
    assert_eq!(dealt(&names), dealt(&turned));
}

/// Catches: a finished folder is continued.
#[test]
fn another_number_of_shards_runs_what_is_left() {
    let out = tempfile::tempdir().unwrap();
    succeed(shard(out.path(), "1/4", &[]));
    succeed(shard(out.path(), "3/4", &[]));
    succeed(shard(out.path(), "1/3", &[]));
    all_shards(out.path(), 2, &[]);
    assert_eq!(counts(out.path()), (0..BLOCKS).map(|block| (block, 1)).collect());
    // Nothing is left: no folder is made.
    let before = parts_in(out.path());
    let again = shard(out.path(), "2/2", &[]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("2/2: no block is left to run"));
    assert!(again.stdout.is_empty());
    succeed(again);
    succeed(shard(out.path(), "13/13", &[]));
    assert_eq!(parts_in(out.path()), before);
}

/// Catches: rows that are not sealed make a block done.
#[test]
fn a_block_whose_row_is_damaged_is_run_again() {
    let out = tempfile::tempdir().unwrap();
    succeed(shard(out.path(), "1/2", &[]));
    let first = parts_in(out.path()).remove(0);
    let mut rows = blocks(&first);
    // The row keeps the seal of what it said before.
    rows[2] = BlockRow { attempt: 1, ..rows[2].clone() };
    list(&first, &rows);
    succeed(shard(out.path(), "1/1", &[]));
    let mut others = parts_in(out.path());
    others.retain(|part| *part != first);
    let own = rows.iter().map(|row| row.block).collect::<Vec<_>>();
    let mut run = blocks(&others[0]).iter().map(|row| row.block).collect::<Vec<_>>();
    run.sort_unstable();
    let left = |block: &usize| *block == rows[2].block || !own.contains(block);
    assert_eq!(run, (0..BLOCKS).filter(left).collect::<Vec<_>>());
}

#[test]
fn a_shard_without_blocks_ends_well() {
    let out = tempfile::tempdir().unwrap();
    all_shards(out.path(), BLOCKS + 2, &[]);
    assert_eq!(parts_in(out.path()).len(), BLOCKS);
    assert_eq!(counts(out.path()), (0..BLOCKS).map(|block| (block, 1)).collect());
}

/// Starts a long shard on a machine, and kills it once it has a block.
fn kill(machine: &str, out: &Path) {
    let mut command = part(machine, out, &["--shard", "1/2"], LONG);
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let before = done(out);
    while done(out) < before + 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Catches: a shard is continued in its folder on another machine.
#[test]
fn a_killed_shard_continues_here_or_on_another_machine() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let half = 12 * BLOCKS / 2;
    kill("a", here.path());
    succeed(part("a", here.path(), &["--shard", "1/2"], LONG).output().unwrap());
    let parts = parts_in(here.path());
    let manifest = Manifest::read(&parts[0]).unwrap();
    assert_eq!((parts.len(), manifest.sessions.len()), (1, 2));
    assert_eq!((manifest.status, manifest.blocks), (Status::Finished, (half, half)));
    assert_eq!(manifest.share, Some(Share::Shard(Shard::new(1, 2).unwrap())));
    assert_eq!(manifest.sessions[1].host.as_deref(), Some("a"));

    kill("a", elsewhere.path());
    let kept = counts(elsewhere.path()).len();
    succeed(part("b", elsewhere.path(), &["--shard", "1/2"], LONG).output().unwrap());
    let parts = parts_in(elsewhere.path());
    let done = |part: &Path| blocks(part).len();
    assert_eq!((parts.len(), done(&parts[0]), done(&parts[1])), (2, kept, half - kept));
    assert_eq!(counts(elsewhere.path()), counts(here.path()));
    let hosts = parts.iter().map(|part| Manifest::read(part).unwrap().sessions[0].host.clone());
    assert_eq!(hosts.flatten().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_shard_has_one_writer_and_continues_only_as_a_shard() {
    let out = tempfile::tempdir().unwrap();
    let mut command = part("a", out.path(), &["--shard", "1/2"], LONG);
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while parts_in(out.path()).is_empty() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // So that it does not end before the second one has begun.
    signal("-STOP", &child);
    let writer = format!("is being written by process {}", child.id());
    let second = part("a", out.path(), &["--shard", "1/2"], LONG).output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    fail(second, &[&writer]);
    let given = format!("--resume={}", parts_in(out.path())[0].display());
    fail(run(out.path(), &[LONG, &[&given]].concat()), &["\"1/2\"", "--shard 1/2 continues it"]);
    fail(run(out.path(), &[LONG, &["--resume"]].concat()), &["nothing to resume"]);
}

#[test]
fn a_shard_reports_its_part_as_a_whole() {
    let out = tempfile::tempdir().unwrap();
    all_shards(out.path(), BLOCKS, &[]);
    let part = &parts_in(out.path())[0];
    let text = report_of(part);
    assert_eq!(
        text.matches("This is shard 1/12 of a run: it has 1 of 12 blocks").count(),
        1,
        "{text}"
    );
    assert!(!text.contains("have not finished"), "{text}");
    let rows = summary(&report::load(part).unwrap());
    let status = |status: &str| rows.iter().filter(|row| row.status == status).count();
    // One temperature of three.
    assert_eq!((status("finished"), status("in other parts"), rows.len()), (13, 26, 39));

    // A part that was stopped is not whole.
    let mut manifest = Manifest::read(part).unwrap();
    manifest.blocks.1 += 1;
    manifest.write(part).unwrap();
    assert!(report_of(part).contains("39 of 39 cells have not finished"));
}

#[test]
fn a_plain_run_in_a_task_of_an_array_is_a_whole_run() {
    let out = tempfile::tempdir().unwrap();
    let mut command = part("a", out.path(), &[], &[]);
    let task = [("ID", "1"), ("MIN", "1"), ("MAX", "2"), ("COUNT", "2")];
    task.iter().for_each(|(part, value)| {
        command.env(format!("SLURM_ARRAY_TASK_{part}"), value);
    });
    succeed(command.output().unwrap());
    assert_eq!(blocks(&folder(out.path())).len(), BLOCKS);
    let manifest = Manifest::read(&folder(out.path())).unwrap();
    assert_eq!((manifest.share, &manifest.sessions[0].host), (None, &None));
    // With --shard auto it is one of two.
    let out = tempfile::tempdir().unwrap();
    let mut command = part("a", out.path(), &["--shard", "auto"], &[]);
    task.iter().for_each(|(part, value)| {
        command.env(format!("SLURM_ARRAY_TASK_{part}"), value);
    });
    succeed(command.output().unwrap());
    assert_eq!(blocks(&parts_in(out.path())[0]).len(), BLOCKS / 2);
}

/// What a task with these variables is.
fn task(set: &[(&str, &str)]) -> Result<String, String> {
    let find = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, v)| (*v).to_owned());
    shard_of_task(find).map(|shard| shard.to_string()).map_err(|error| format!("{error:#}"))
}

/// The variables of a task of an array of Slurm.
fn array<'a>(id: &'a str, min: &'a str, max: &'a str, count: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("SLURM_ARRAY_TASK_ID", id),
        ("SLURM_ARRAY_TASK_MIN", min),
        ("SLURM_ARRAY_TASK_MAX", max),
        ("SLURM_ARRAY_TASK_COUNT", count),
    ]
}

/// Catches: the first task of an array, or of Kubernetes, is counted wrongly.
#[test]
fn tasks_of_every_engine_are_shards() {
    assert_eq!(task(&array("0", "0", "3", "4")).unwrap(), "1/4");
    assert_eq!(task(&array("4", "1", "4", "4")).unwrap(), "4/4");
    let stepped = [array("14", "10", "16", "4"), vec![("SLURM_ARRAY_TASK_STEP", "2")]].concat();
    assert_eq!(task(&stepped).unwrap(), "3/4");
    let pod = [("JOB_COMPLETION_INDEX", "0"), ("SPECDEC_SHARDS", "3")];
    assert_eq!(task(&pod).unwrap(), "1/3");
    let hq = [("HQ_TASK_ID", "3"), ("SPECDEC_SHARDS", "3")];
    assert_eq!(task(&hq).unwrap(), "3/3");
    // The worker of HyperQueue is itself a task of an array.
    assert_eq!(task(&[&hq[..], &array("0", "0", "3", "4")].concat()).unwrap(), "3/3");
}

/// Catches: an array with gaps is taken.
#[test]
fn what_names_no_shard_is_refused_in_one_sentence() {
    let wrong = [
        (vec![], "--shard auto finds no task"),
        (array("2", "0", "5", "3"), "gaps between them"),
        (array("x", "0", "5", "6"), "SLURM_ARRAY_TASK_ID = \"x\" is no count"),
        (vec![("SLURM_ARRAY_TASK_ID", "1")], "SLURM_ARRAY_TASK_MIN is not"),
        (vec![("JOB_COMPLETION_INDEX", "0")], "SPECDEC_SHARDS is not"),
        (vec![("JOB_COMPLETION_INDEX", "4"), ("SPECDEC_SHARDS", "4")], "there is no shard 5/4"),
        (vec![("HQ_TASK_ID", "0"), ("SPECDEC_SHARDS", "4")], "numbered from 1 to N"),
    ];
    for (set, said) in wrong {
        let error = task(&set).unwrap_err();
        assert!(error.contains(said) && !error.contains('\n'), "{error}");
    }
    let out = tempfile::tempdir().unwrap();
    let cases = [
        ("5/4", "there is no shard 5/4"),
        ("0/4", "there is no shard 0/4"),
        ("0/0", "there is no shard 0/0"),
        ("1/100001", "N is from 1 to 100000"),
        ("a/b", "\"a/b\" is no shard: write I/N"),
        ("+1/4", "is no shard"),
        ("1/4/2", "is no shard"),
        ("3", "\"3\" is no shard"),
        ("1/99999999999999999999", "is no shard"),
    ];
    for (which, said) in cases {
        fail(shard(out.path(), which, &[]), &["--shard", said]);
    }
    assert!(!out.path().join("00-smoke").exists());
    let mut both = specdec(&["run", "experiments/00-smoke", "--shard", "1/2", "--resume"]);
    let both = both.output().unwrap();
    assert_eq!(both.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&both.stderr).contains("--resume"));
}

//! Claims: processes share the blocks of a run out as they go, and take over from dead ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use specdec::experiment::{Manifest, Share, Status};

use crate::cluster_support::{done, merge, part, parts_in, report, same_tables, shards_in};
use crate::run_support::{LONG, blocks, folder, run, signal, succeed};

/// The number of blocks of a long run.
const BLOCKS: usize = 144;

/// A process that runs for so long will not end: it takes a few seconds, or a minute in a build
/// without optimisations on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);

/// Starts a process that claims blocks of a long run.
fn claimer(machine: &str, out: &Path, claim: &str) -> Child {
    let mut command = part(machine, out, &[claim], LONG);
    command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// The output of a process, which must end.
fn ended(child: Child) -> Output {
    let (id, (say, heard)) = (child.id().to_string(), mpsc::channel());
    thread::spawn(move || say.send(child.wait_with_output()));
    let output = heard.recv_timeout(LIMIT).unwrap_or_else(|_| {
        let killed = Command::new("kill").args(["-KILL", &id]).status();
        panic!("a process did not end: {killed:?}")
    });
    output.unwrap()
}

/// How many folders have each block.
fn owners(out: &Path) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for row in parts_in(out).iter().flat_map(|part| blocks(part)) {
        *counts.entry(row.block).or_default() += 1;
    }
    counts
}

/// Waits until `blocks` blocks are done.
fn wait_for(out: &Path, blocks: usize) {
    let since = Instant::now();
    while done(out) < blocks {
        assert!(since.elapsed() < LIMIT, "{} of {blocks} blocks are done", done(out));
        thread::sleep(Duration::from_millis(2));
    }
}

/// Merges the parts, and compares the rows with those of one machine.
#[track_caller]
fn merged_is_whole(out: &Path) {
    let whole = tempfile::tempdir().unwrap();
    succeed(run(whole.path(), LONG));
    let merged = out.join("merged");
    succeed(merge(&[&shards_in(out)], &merged, &[]));
    report(&merged);
    same_tables(&merged, &folder(whole.path()));
}

/// The names of the claims.
fn claims(out: &Path) -> Vec<String> {
    let files = fs::read_dir(shards_in(out).join("claims")).unwrap().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn processes_share_out_the_blocks_and_merge_to_the_run_of_one_machine() {
    let out = tempfile::tempdir().unwrap();
    let all = ["a", "b", "c", "d"].map(|machine| claimer(machine, out.path(), "--claim"));
    all.into_iter().for_each(|child| succeed(ended(child)));
    assert_eq!(owners(out.path()), (0..BLOCKS).map(|block| (block, 1)).collect());
    let parts = parts_in(out.path());
    for part in &parts {
        let manifest = Manifest::read(part).unwrap();
        let own = blocks(part).len();
        assert_eq!((manifest.share, manifest.status), (Some(Share::Claims), Status::Finished));
        assert_eq!(manifest.blocks, (own, own));
    }
    assert!(parts.iter().filter(|part| blocks(part).len() > 1).count() >= 2);
    let mut names = claims(out.path());
    names.sort();
    assert_eq!(names, (0..BLOCKS).map(|block| format!("{block:08}.1")).collect::<Vec<_>>());
    let text = report(&parts[0]);
    assert!(text.contains("This is one process's part of a run"), "{text}");
    merged_is_whole(out.path());
    // All is done.
    let late = part("e", out.path(), &["--claim"], LONG).output().unwrap();
    assert!(String::from_utf8_lossy(&late.stderr).contains("claims: no block is left to run"));
    assert_eq!(parts_in(out.path()), parts);
}

#[test]
fn the_block_of_a_killed_process_is_taken_over_once_it_is_stale() {
    let out = tempfile::tempdir().unwrap();
    let mut dead = claimer("a", out.path(), "--claim=2");
    wait_for(out.path(), 3);
    let others = ["b", "c"].map(|machine| claimer(machine, out.path(), "--claim=2"));
    dead.kill().unwrap();
    dead.wait().unwrap();
    others.into_iter().for_each(|child| succeed(ended(child)));
    // The dead one may have written its last block before its claim said so.
    assert_eq!(owners(out.path()).len(), BLOCKS);
    let taken = claims(out.path()).into_iter().filter(|name| name.ends_with(".2")).count();
    assert!(taken <= 1, "{taken}");
    merged_is_whole(out.path());
}

/// The claim on the first block that the test makes, and lets beat.
fn beat(out: &Path, number: u32) {
    let file = shards_in(out).join("claims").join("00000000.1");
    fs::write(file, format!("somebody {number}\n")).unwrap();
}

#[test]
fn a_claim_that_beats_is_respected_and_a_stale_one_is_not() {
    let out = tempfile::tempdir().unwrap();
    // The folder that the plan has.
    let mut first = claimer("a", out.path(), "--claim=2");
    wait_for(out.path(), 1);
    first.kill().unwrap();
    first.wait().unwrap();
    let place = shards_in(out.path());
    fs::read_dir(&place).unwrap().flatten().for_each(|e| fs::remove_dir_all(e.path()).unwrap());
    fs::create_dir(place.join("claims")).unwrap();
    beat(out.path(), 0);
    let mut child = claimer("a", out.path(), "--claim=2");
    wait_for(out.path(), BLOCKS - 1);
    let since = Instant::now();
    for number in 1..=16 {
        beat(out.path(), number);
        thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none(), "it did not wait");
        assert_eq!(done(out.path()), BLOCKS - 1, "it did not respect the claim");
    }
    succeed(ended(child));
    assert!(since.elapsed() > Duration::from_secs(6));
    assert_eq!(owners(out.path()), (0..BLOCKS).map(|block| (block, 1)).collect());
    assert!(claims(out.path()).contains(&"00000000.2".to_owned()));
}

#[test]
fn a_process_that_slept_and_lost_its_claim_still_writes_rows_that_merge() {
    let out = tempfile::tempdir().unwrap();
    let slow = claimer("a", out.path(), "--claim=1");
    wait_for(out.path(), 3);
    signal("-STOP", &slow);
    let other = ended(claimer("b", out.path(), "--claim=1"));
    signal("-CONT", &slow);
    succeed(other);
    succeed(ended(slow));
    let owners = owners(out.path());
    assert_eq!(owners.len(), BLOCKS);
    assert!(owners.values().sum::<usize>() <= BLOCKS + 1);
    merged_is_whole(out.path());
}

#[test]
fn blocks_of_a_lost_folder_are_run_again_although_their_claims_say_done() {
    let out = tempfile::tempdir().unwrap();
    let all = ["a", "b"].map(|machine| claimer(machine, out.path(), "--claim"));
    all.into_iter().for_each(|child| succeed(ended(child)));
    let most = |part: &PathBuf| blocks(part).len();
    let lost = parts_in(out.path()).into_iter().max_by_key(most).unwrap();
    // Most of its claims go with it, as if it had been run long ago; three stay.
    let gone = blocks(&lost).into_iter().map(|row| row.block).collect::<Vec<_>>();
    for block in &gone[3..] {
        fs::remove_file(shards_in(out.path()).join("claims").join(format!("{block:08}.1")))
            .unwrap();
    }
    fs::remove_dir_all(&lost).unwrap();
    succeed(ended(claimer("c", out.path(), "--claim=1")));
    assert_eq!(owners(out.path()), (0..BLOCKS).map(|block| (block, 1)).collect());
    merged_is_whole(out.path());
}

#[test]
fn a_wrong_patience_and_two_ways_to_divide_a_run_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let wrong = [
        (vec!["--claim=0"], "1..=86400"),
        (vec!["--claim=soon"], "invalid digit"),
        (vec!["--claim", "--shard", "1/2"], "cannot be used with"),
        (vec!["--claim", "--resume"], "cannot be used with"),
    ];
    for (args, said) in wrong {
        let output = part("a", out.path(), &args, &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(said), "{error}");
    }
}

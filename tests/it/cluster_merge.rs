//! Merged runs: the rows of one machine's run, and what is refused, named or left out.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use specdec::measure::rows::{BlockRow, GenerationRow, TextRow};
use specdec::run::experiment::{Manifest, Share, Status};

use crate::cluster_support::{
    all_shards, list, merge, part, parts_in, report, same_tables, shard, shards_in,
};
use crate::run_support::{blocks, fail, folder, run, specdec, succeed};
use crate::synthetic_blocks::{sealed, short};

/// Settings with rows in every file that a sound run has.
const TRACED: &[&str] = &["--trace", "--set", "repeats=2"];

/// The folder of a run on one machine, with its report.
fn whole(out: &Path, more: &[&str]) -> PathBuf {
    succeed(run(out, more));
    folder(out)
}

#[test]
fn four_merged_shards_have_the_bytes_of_one_machine() {
    let (one, four) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = whole(one.path(), TRACED);
    // The machines end in another order than the shards have.
    for (machine, which) in [("d", "3/4"), ("a", "2/4"), ("c", "4/4"), ("b", "1/4")] {
        succeed(part(machine, four.path(), &["--shard", which], TRACED).output().unwrap());
    }
    let merged = four.path().join("merged");
    let output = merge(&[&shards_in(four.path())], &merged, &[]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), merged.to_str().unwrap());
    succeed(output);
    report(&merged);
    same_tables(&merged, &whole);
    for name in ["rounds.csv", "positions.csv", "traces.jsonl", "generations.jsonl"] {
        assert!(fs::metadata(merged.join(name)).unwrap().len() > 1000, "{name}");
    }
    let manifest = Manifest::read(&merged).unwrap();
    assert_eq!((manifest.status, manifest.blocks), (Status::Finished, (24, 24)));
    assert!(manifest.merged.iter().all(|part| part.blocks == 6 && part.machines.len() == 1));

    // In any order of the folders, and from folders of several numbers of shards.
    let mut parts = parts_in(four.path());
    parts.reverse();
    let parts = parts.iter().map(PathBuf::as_path).collect::<Vec<_>>();
    let again = four.path().join("again");
    succeed(merge(&parts, &again, &[]));
    report(&again);
    same_tables(&again, &whole);
    let other = tempfile::tempdir().unwrap();
    succeed(shard(other.path(), "2/5", TRACED));
    all_shards(other.path(), 3, TRACED);
    let merged = other.path().join("merged");
    succeed(merge(&[&shards_in(other.path())], &merged, &[]));
    report(&merged);
    same_tables(&merged, &whole);
}

#[test]
fn compressed_shards_and_merged_ones_are_merged_as_they_are() {
    use std::io::Write;
    let (one, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = whole(one.path(), &[]);
    all_shards(out.path(), 3, &[]);
    let parts = parts_in(out.path());
    let rounds = parts[0].join("rounds.csv");
    let packed = fs::File::create(parts[0].join("rounds.csv.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::best());
    packed.write_all(&fs::read(&rounds).unwrap()).unwrap();
    packed.finish().unwrap();
    fs::remove_file(rounds).unwrap();
    let two = out.path().join("two");
    succeed(merge(&[&parts[0], &parts[1]], &two, &["--partial"]));
    let three = out.path().join("three");
    succeed(merge(&[&two, &parts[2]], &three, &[]));
    report(&three);
    same_tables(&three, &whole);
    assert_eq!(Manifest::read(&three).unwrap().merged.len(), 3);
}

/// Makes the parts in `out` what processes of a former version left behind that took block by
/// block: each block has a file, and no part has a number.
fn as_claimed(out: &Path) {
    let claims = shards_in(out).join("claims");
    fs::create_dir(&claims).unwrap();
    for (number, part) in parts_in(out).iter().enumerate() {
        for row in blocks(part) {
            let text = format!("node-{number} {:>20}\n", "done");
            fs::write(claims.join(format!("{:08}.1", row.block)), text).unwrap();
        }
        let manifest = Manifest::read(part).unwrap();
        Manifest { share: Some(Share::Claims), ..manifest }.write(part).unwrap();
        fs::rename(part, part.with_file_name(format!("claims-2026-01-31-cpu-{number}"))).unwrap();
    }
}

#[test]
fn parts_whose_processes_claimed_their_blocks_are_merged() {
    let (one, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = whole(one.path(), &[]);
    all_shards(out.path(), 3, &[]);
    as_claimed(out.path());
    let parts = parts_in(out.path());
    let manifest = fs::read_to_string(parts[0].join("manifest.json")).unwrap();
    assert!(manifest.contains("\"share\": \"claims\""), "{manifest}");
    assert!(report(&parts[0]).contains("This is one process's part of a run: it has 4 of 12"));
    let merged = out.path().join("merged");
    succeed(merge(&[&shards_in(out.path())], &merged, &[]));
    report(&merged);
    same_tables(&merged, &whole);
    let shares = Manifest::read(&merged).unwrap().merged.into_iter().map(|part| part.share);
    assert_eq!(shares.collect::<Vec<_>>(), [Some(Share::Claims); 3]);

    // What a part lacks that was stopped is run as a shard.
    fs::remove_dir_all(&parts[0]).unwrap();
    let mut manifest = Manifest::read(&parts[1]).unwrap();
    manifest.status = Status::Interrupted;
    manifest.write(&parts[1]).unwrap();
    let resume = format!("--resume={}", parts[1].display());
    fail(run(out.path(), &[&resume]), &["\"claims\"", "--shard 1/1 runs the blocks that no part"]);
    let lacking = out.path().join("lacking");
    let said = ["merged 8 of 12 blocks", "4 of 12 blocks are missing, unfinished in claims-"];
    fail(merge(&[&shards_in(out.path())], &lacking, &[]), &said);
    succeed(shard(out.path(), "1/1", &[]));
    let again = out.path().join("again");
    succeed(merge(&[&shards_in(out.path())], &again, &[]));
    report(&again);
    same_tables(&again, &whole);
}

#[test]
fn different_plans_and_folders_that_are_in_use_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let (first, second) = (out.path().join("first"), out.path().join("second"));
    all_shards(&first, 2, &[]);
    succeed(shard(&second, "1/2", &["--set", "seed=2"]));
    let merged = out.path().join("merged");
    let (own, others) = (shards_in(&first), shards_in(&second));
    fail(merge(&[&own, &others], &merged, &[]), &["different plans", "1-of-2"]);
    assert!(!merged.exists());
    fs::create_dir(&merged).unwrap();
    fs::write(merged.join("note"), "mine").unwrap();
    fail(merge(&[&own], &merged, &[]), &["merged is not empty: name a new folder"]);
    fs::remove_file(merged.join("note")).unwrap();
    succeed(merge(&[&own], &merged, &[]));
    let nothing = out.path().join("nothing");
    fail(merge(&[&nothing], &out.path().join("x"), &[]), &["nothing is not a folder"]);
    fs::create_dir(&nothing).unwrap();
    fail(merge(&[&nothing], &out.path().join("x"), &[]), &["nothing has no results folder"]);
    assert!(!out.path().join("x").exists());
}

/// Catches: a merge that failed leaves its folder.
#[test]
fn a_merge_that_fails_leaves_nothing_behind() {
    let out = tempfile::tempdir().unwrap();
    succeed(shard(out.path(), "1/12", &[]));
    let place = out.path().join("place");
    // File systems refuse so long a name, but only once all rows have been written.
    let merged = place.join("x".repeat(300));
    let failed = merge(&[&shards_in(out.path())], &merged, &["--partial"]);
    fail(failed, &["cannot make the folder", "xxx"]);
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
}

/// Catches: what a killed merge has left behind stays, or what another one is writing is removed.
#[test]
fn a_merge_removes_what_killed_ones_have_left() {
    let out = tempfile::tempdir().unwrap();
    all_shards(out.path(), 2, &[]);
    let place = out.path().join("place");
    let hidden = |name: &str, seconds: u64| {
        let path = place.join(name);
        fs::create_dir_all(&path).unwrap();
        let lock = fs::File::create(path.join(".lock")).unwrap();
        let begun = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        fs::File::open(&path).unwrap().set_modified(begun).unwrap();
        (path, lock)
    };
    let (left, _) = hidden(".new-here-1-a", 3600);
    let (running, lock) = hidden(".new-here-2-b", 3600);
    lock.lock().unwrap();
    let (young, _) = hidden(".new-here-3-c", 0);
    let (other, _) = hidden(".new-elsewhere-4-d", 3600);
    let mut merge = specdec(&["merge"]);
    merge.arg(shards_in(out.path())).arg("--out").arg(place.join("merged"));
    succeed(merge.env("SPECDEC_MACHINE", "here").output().unwrap());
    assert!(!left.exists() && running.exists() && young.exists() && other.exists());
    assert!(!place.join("merged/.lock").exists());
}

/// Catches: a missing shard is not named.
#[test]
fn bad_shards_are_named_and_the_rest_is_merged() {
    let (one, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = whole(one.path(), &[]);
    all_shards(out.path(), 4, &[]);
    let parts = parts_in(out.path());
    let merged = out.path().join("merged");
    // The first is gone, the second has a damaged file, the third was stopped.
    fs::remove_dir_all(&parts[0]).unwrap();
    let rounds = fs::read_to_string(parts[1].join("rounds.csv")).unwrap();
    fs::write(parts[1].join("rounds.csv"), rounds.replacen("0.0", "zero", 1)).unwrap();
    let listed = fs::read_to_string(parts[2].join("blocks.csv")).unwrap();
    let cut = listed.trim_end().rfind('\n').unwrap() + 1;
    fs::write(parts[2].join("blocks.csv"), &listed[..cut]).unwrap();
    let mut manifest = Manifest::read(&parts[2]).unwrap();
    manifest.status = Status::Running;
    manifest.write(&parts[2]).unwrap();
    let named = [
        "merged 5 of 12 blocks",
        "2-of-4",
        "is corrupt and left out: rounds.csv is damaged",
        "shard 1/4 is missing: no sound folder has 3 of its 3 blocks",
        "shard 2/4 is missing",
        "shard 3/4 is incomplete: 1 of its 3 blocks are missing, unfinished in 3-of-4",
    ];
    fail(merge(&[&shards_in(out.path())], &merged, &[]), &named);
    let manifest = Manifest::read(&merged).unwrap();
    assert_eq!((manifest.status, manifest.blocks.0), (Status::Interrupted, 5));
    let text = report(&merged);
    assert!(text.contains("The merged run has 5 of 12 blocks"), "{text}");
    assert!(text.contains("In merging: shard 1/4 is missing"), "{text}");

    // The merged folder can be completed on one machine: its rows are then those of the plan,
    // in the order in which they were measured.
    let given = format!("--resume={}", merged.display());
    succeed(run(out.path(), &[&given]));
    let manifest = Manifest::read(&merged).unwrap();
    assert_eq!((manifest.status, manifest.blocks), (Status::Finished, (12, 12)));
    let sorted = |folder: &Path| {
        let text = fs::read_to_string(folder.join("generations.csv")).unwrap();
        let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&merged), sorted(&whole));
    // With --partial the same merge succeeds.
    let again = out.path().join("again");
    succeed(merge(&[&shards_in(out.path())], &again, &["--partial"]));
}

/// Catches: a block is taken although its rows do not match its digest.
#[test]
fn a_damaged_block_is_left_out_and_named() {
    let out = tempfile::tempdir().unwrap();
    all_shards(out.path(), 2, &[]);
    let parts = parts_in(out.path());
    let text = fs::read_to_string(parts[1].join("rounds.csv")).unwrap();
    let row = text.lines().nth(3).unwrap();
    fs::write(parts[1].join("rounds.csv"), text.replacen(row, &format!("{row}1"), 1)).unwrap();
    let merged = out.path().join("merged");
    let lost = blocks(&parts[1])[0].block;
    let named = format!("block {lost} (prompt");
    fail(merge(&[&shards_in(out.path())], &merged, &[]), &[&named, "2-of-2", "are not those"]);
    let kept = blocks(&merged).iter().map(|row| row.block).collect::<Vec<_>>();
    assert_eq!(kept, (0..12).filter(|block| *block != lost).collect::<Vec<_>>());
    assert!(report(&merged).contains(&format!("In merging: {named}")));
    // A plan that is damaged is a corrupt folder, and no different plan.
    let plan = fs::read_to_string(parts[1].join("plan.toml")).unwrap();
    fs::write(parts[1].join("plan.toml"), plan.replace("seed = 1", "seed = 2")).unwrap();
    let again = out.path().join("again");
    fail(
        merge(&[&shards_in(out.path())], &again, &[]),
        &["is corrupt", "do not have the hash", "-of-2", "6 of 12"],
    );
}

/// Catches: the rows of a block come from every part that has it.
#[test]
fn blocks_that_agree_are_taken_once() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    all_shards(one.path(), 2, &[]);
    let whole = whole(two.path(), &[]);
    let merged = one.path().join("merged");
    succeed(merge(&[&shards_in(one.path()), &whole], &merged, &[]));
    report(&merged);
    same_tables(&merged, &whole);
}

/// Changes a text of the folder's only block, and lists the block as if it had been measured
/// so.
fn forge(folder: &Path) {
    let text = fs::read_to_string(folder.join("generations.jsonl")).unwrap();
    let line = text.lines().next().unwrap();
    let mut row: TextRow = serde_json::from_str(line).unwrap();
    row.tokens[0] = (row.tokens[0] + 1) % 4;
    row.text = format!("{}{}", ["a", "b", "c", "d"][row.tokens[0] as usize], &row.text[1..]);
    let hash = Sha256::digest(&row.text).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let texts = text.replacen(line, &serde_json::to_string(&row).unwrap(), 1);
    fs::write(folder.join("generations.jsonl"), &texts).unwrap();
    let generations = fs::read_to_string(folder.join("generations.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(generations.as_bytes());
    let old: GenerationRow = reader.deserialize().next().unwrap().unwrap();
    let generations = generations.replacen(&old.text_sha256, &hash, 1);
    fs::write(folder.join("generations.csv"), &generations).unwrap();
    let mut block = blocks(folder).remove(0);
    let mut digests = block.digests.split('-').map(str::to_owned).collect::<Vec<_>>();
    digests[2] = short(texts.as_bytes());
    digests[5] = short(generations.split_once('\n').unwrap().1.as_bytes());
    block.digests = digests.join("-");
    list(folder, &[sealed(block)]);
}

/// Catches: a block that differs is taken.
#[test]
fn blocks_with_different_texts_are_named_and_neither_is_taken() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    all_shards(one.path(), 12, &[]);
    let whole = whole(two.path(), &[]);
    let part = &parts_in(one.path())[0];
    forge(part);
    let lost = blocks(part)[0].block;
    // The forged folder is sound by itself.
    assert!(!report(part).contains("left out"));
    let merged = one.path().join("merged");
    let name = part.file_name().unwrap().to_str().unwrap();
    let said = ["is left out", name, "have different texts of \"", "for prompt smoke-"];
    fail(merge(&[part, &whole], &merged, &[]), &said);
    assert!(blocks(&merged).iter().all(|row| row.block != lost) && blocks(&merged).len() == 11);
    assert!(specdec(&["merge"]).output().unwrap().status.code() == Some(2));
}

/// Lists all blocks of a folder as disturbed or as undisturbed.
fn disturb(folder: &Path, disturbed: bool) {
    let rows = blocks(folder).into_iter().map(|row| sealed(BlockRow { disturbed, ..row }));
    list(folder, &rows.collect::<Vec<_>>());
}

/// Catches: a disturbed attempt counts as much as an undisturbed one.
#[test]
fn the_undisturbed_copy_of_a_block_is_taken() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    all_shards(one.path(), 12, &[]);
    let whole = whole(two.path(), &[]);
    let part = &parts_in(one.path())[0];
    // Blocks that the merged run takes from the shard and from the whole run, and those of
    // its blocks that were disturbed.
    let taken = |name: &str| {
        let merged = one.path().join(name);
        succeed(merge(&[part, &whole], &merged, &[]));
        let own = Manifest::read(&merged).unwrap().merged.iter().map(|part| part.blocks).collect();
        (own, blocks(&merged).iter().filter(|row| row.disturbed).count())
    };
    disturb(part, true);
    assert_eq!(taken("disturbed"), (vec![0, 12], 0));
    disturb(&whole, true);
    assert_eq!(taken("both"), (vec![1, 11], 12));
    disturb(part, false);
    assert_eq!(taken("quiet"), (vec![1, 11], 11));
}

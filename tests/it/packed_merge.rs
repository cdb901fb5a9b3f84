//! Merging of runs whose rows have moved to segments.

use std::fs;
use std::path::{Path, PathBuf};

use specdec::measure::rows::RoundRow;

use crate::cluster_support::{merge, parts_in, report, same_tables, shard, shards_in};
use crate::experiment_support::rows;
use crate::packed_support::{OwnRun, TRACED, all_rows, packed, segments};
use crate::run_support::{fail, succeed};

/// Three shards: with a segment for each block, with few segments, and plain.
fn shards(out: &Path) -> Vec<PathBuf> {
    for (which, above) in [("1/3", "0"), ("2/3", "45000"), ("3/3", "1000000")] {
        succeed(shard(out, which, &[TRACED, &["--pack-above", above]].concat()));
    }
    let parts = parts_in(out);
    let counts = parts.iter().map(|part| segments(part, "rounds").len()).collect::<Vec<_>>();
    assert!(counts[0] == 8 && (1..8).contains(&counts[1]) && counts[2] == 0, "{counts:?}");
    parts
}

/// The segments of two folders have the same bytes.
#[track_caller]
fn same_segments(merged: &Path, whole: &Path, least: usize) {
    for stem in ["rounds", "positions"] {
        let read = |folder: &Path| {
            let found = segments(folder, stem);
            found.iter().map(|segment| fs::read(segment).unwrap()).collect::<Vec<_>>()
        };
        let (found, expected) = (read(merged), read(whole));
        assert!(expected.len() >= least && found == expected, "{stem}: {}", found.len());
    }
}

/// Catches: merging packs nothing, every block, or at half the length.
#[test]
fn packed_and_plain_shards_merge_to_the_same_rows() {
    let (plain, some) =
        (OwnRun::new(TRACED), OwnRun::new(&[TRACED, &["--pack-above", "90000"]].concat()));
    let out = tempfile::tempdir().unwrap();
    shards(out.path());
    let place = shards_in(out.path());
    // Below the length, the merged folder is that of a plain run.
    let merged = out.path().join("merged");
    succeed(merge(&[&place], &merged, &[]));
    report(&merged);
    same_tables(&merged, &plain.folder);
    assert!(segments(&merged, "rounds").is_empty());
    // Above it, that of a run that was packed at the same blocks.
    let merged = out.path().join("packed");
    succeed(merge(&[&place], &merged, &["--pack-above", "90000"]));
    report(&merged);
    same_tables(&merged, &some.folder);
    same_segments(&merged, &some.folder, 3);
    let names = fs::read_dir(&merged).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_str().unwrap().contains("partial")));
    // A merged folder is a part like any other.
    let again = out.path().join("again");
    succeed(merge(&[&merged, &plain.folder], &again, &["--pack-above", "0"]));
    assert_eq!(segments(&again, "rounds").len(), 24);
    let found = all_rows::<RoundRow>(&again, "rounds");
    assert_eq!(found, rows::<RoundRow>(&plain.folder, "rounds.csv"));
}

#[test]
fn a_shard_killed_while_packing_is_merged_row_by_row_once() {
    let plain = OwnRun::new(TRACED);
    let out = tempfile::tempdir().unwrap();
    let parts = shards(out.path());
    // The text of the last segment was not cut yet.
    let last = packed::<RoundRow>(segments(&parts[0], "rounds").last().unwrap());
    let mut text = csv::Writer::from_path(parts[0].join("rounds.csv")).unwrap();
    last.iter().for_each(|row| text.serialize(row).unwrap());
    text.flush().unwrap();
    let merged = out.path().join("merged");
    succeed(merge(&[&shards_in(out.path())], &merged, &[]));
    report(&merged);
    same_tables(&merged, &plain.folder);
}

#[test]
fn a_shard_with_a_damaged_segment_is_named_and_left_out() {
    let out = tempfile::tempdir().unwrap();
    let parts = shards(out.path());
    let segment = &segments(&parts[1], "rounds")[0];
    let bytes = fs::read(segment).unwrap();
    fs::write(segment, &bytes[..bytes.len() - 9]).unwrap();
    let named =
        ["merged 16 of 24 blocks", "is corrupt and left out: rounds-00001.parquet is damaged"];
    fail(merge(&[&shards_in(out.path())], &out.path().join("merged"), &[]), &named);
}

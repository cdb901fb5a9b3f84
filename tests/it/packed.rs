//! Long files of rows move to segments: the rows, and everything that is made of them, stay the
//! same, no matter what a crash leaves behind.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use specdec::measure::rows::{GenerationRow, PositionRow, RoundRow};
use specdec::run::report::load;

use crate::experiment_support::rows;
use crate::packed_support::{OwnRun, TRACED, all_rows, packed, segments};
use crate::run_support::{
    LONG, blocks, fail, generations, run, spawn_with, specdec, succeed, wait_for_a_block,
};

/// Segment `number` of the rounds.
fn segment(number: usize) -> String {
    format!("rounds-{number:05}.parquet")
}

/// Catches: a row of each group is lost; segments are numbered from 1 again; packing begins at
/// twice the length.
#[test]
fn rows_of_long_files_move_to_segments_in_their_order() {
    let plain = OwnRun::new(TRACED);
    assert!(segments(&plain.folder, "rounds").is_empty(), "small runs are CSV alone");
    let packed = OwnRun::new(&[TRACED, &["--pack-above", "86000"]].concat());
    for (stem, least) in [("rounds", 3), ("positions", 6)] {
        let found = segments(&packed.folder, stem);
        assert!(found.len() >= least, "{found:?}");
        let text = fs::read_to_string(packed.folder.join(format!("{stem}.csv"))).unwrap();
        assert!(text.len() <= 86_000, "{stem}");
    }
    let rounds = all_rows::<RoundRow>(&packed.folder, "rounds");
    assert_eq!(rounds, rows::<RoundRow>(&plain.folder, "rounds.csv"));
    let positions = all_rows::<PositionRow>(&packed.folder, "positions");
    assert_eq!(positions, rows::<PositionRow>(&plain.folder, "positions.csv"));
    assert!(!rows::<RoundRow>(&packed.folder, "rounds.csv").is_empty(), "both are read");
    // Digests do not say where rows stand.
    for name in ["blocks.csv", "generations.csv", "generations.jsonl", "traces.jsonl"] {
        assert!(packed.read(name) == plain.read(name), "{name} differs");
    }
}

/// Catches: the last rows are not written; a complete segment gets no name; the text file is not
/// cut.
#[test]
fn a_block_ends_in_the_segment_in_which_it_begins() {
    let run = OwnRun::packed(&[]);
    let found = segments(&run.folder, "rounds");
    let listed = blocks(&run.folder);
    assert_eq!(found.len(), listed.len());
    for (segment, block) in found.iter().zip(&listed) {
        let rows = packed::<RoundRow>(segment);
        assert_eq!(rows.len(), block.rounds);
        assert!(rows.iter().all(|row| row.prompt == block.prompt && row.repeat == block.repeat));
    }
    // What is left of the text is its header.
    let header = fs::read_to_string(run.folder.join("rounds.csv")).unwrap();
    assert!(header.starts_with("cell,prompt,repeat,round,") && header.lines().count() == 1);
}

/// Catches: segments are not read, or in the wrong order; empty cells become zeros.
#[test]
fn everything_made_of_packed_rows_equals_that_of_plain_ones() {
    let (plain, other) = (OwnRun::new(TRACED), OwnRun::packed(TRACED));
    let report = |run: &OwnRun| {
        let folder = run.folder.to_str().unwrap();
        succeed(specdec(&["report", folder]).output().unwrap());
        let names = ["summary.csv", "survival.csv", "report.md", "report.html"];
        names.map(|name| run.read(name))
    };
    let expected = report(&plain);
    // The same run, whose commands and times would differ otherwise.
    for stem in ["rounds", "positions"] {
        plain.take(&other, &format!("{stem}.csv"));
        for segment in segments(&other.folder, stem) {
            plain.take(&other, segment.file_name().unwrap().to_str().unwrap());
        }
    }
    let found = report(&plain);
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found == expected && !expected.is_empty());
    }
}

/// Catches: a file stays in text, or its compressed version next to the segment; rows of a text
/// that has moved already move again.
#[test]
fn a_packed_run_is_reported_as_before() {
    let run = OwnRun::new(TRACED);
    let report = |more: &[&str]| {
        let folder = run.folder.to_str().unwrap();
        succeed(specdec(&[&["report", folder], more].concat()).output().unwrap());
        let names = ["summary.csv", "survival.csv", "report.md", "report.html"];
        names.map(|name| run.read(name))
    };
    let before = report(&[]);
    let (text, traces) = (run.read("generations.csv"), run.read("traces.jsonl"));
    let (mut gzip, file) = (GzEncoder::new(Vec::new(), Compression::fast()), "generations.csv.gz");
    gzip.write_all(&text).unwrap();
    fs::write(run.folder.join(file), gzip.finish().unwrap()).unwrap();
    run.remove("generations.csv");
    report(&["--pack"]);
    for gone in [file, "generations.jsonl", "traces.jsonl"] {
        assert!(!run.folder.join(gone).exists(), "{gone}");
    }
    for name in ["rounds.csv", "positions.csv", "generations.csv"] {
        assert_eq!(String::from_utf8(run.read(name)).unwrap().lines().count(), 1, "{name}");
    }
    let stems = ["rounds", "positions", "generations", "texts", "traces"];
    let packed = || stems.map(|stem| segments(&run.folder, stem).len());
    assert_eq!(packed(), [1; 5]);
    let moved = all_rows::<GenerationRow>(&run.folder, "generations");
    let rows = csv::Reader::from_reader(&*text).into_deserialize().map(Result::unwrap);
    assert_eq!(moved, rows.collect::<Vec<GenerationRow>>());
    assert!(report(&["--pack"]) == before);
    assert_eq!(packed(), [1; 5]);

    // Killed between the two steps: the rows of the segment stand in the text, too.
    fs::write(run.folder.join("generations.csv"), &text).unwrap();
    fs::write(run.folder.join("traces.jsonl"), &traces).unwrap();
    assert!(report(&["--pack"]) == before);
    assert_eq!(packed(), [1; 5]);
    assert!(!run.folder.join("traces.jsonl").exists());

    run.reopen();
    let output = specdec(&["report", run.folder.to_str().unwrap(), "--pack"]).output().unwrap();
    fail(output, &["is not finished, so its rows stay where they are"]);
    let resumed = crate::run_support::run(run.out.path(), &[TRACED, &["--resume"]].concat());
    fail(resumed, &["is finished and packed: its rows cannot be continued"]);
}

/// A run that was killed after some blocks: three have segments, the others stand in the text.
fn half_packed(whole: &OwnRun, done: usize) -> OwnRun {
    let run = OwnRun::new(&[]);
    run.cut(done);
    let skipped = blocks(&run.folder)[..3].iter().map(|block| block.rounds).sum::<usize>();
    let text = fs::read_to_string(run.folder.join("rounds.csv")).unwrap();
    let mut lines = text.split_inclusive('\n');
    let kept = lines.next().into_iter().chain(lines.skip(skipped)).collect::<String>();
    fs::write(run.folder.join("rounds.csv"), kept).unwrap();
    (1..=3).for_each(|number| run.take(whole, &segment(number)));
    run
}

/// What must hold of a run that was resumed: it has all rows of the whole run, each once.
#[track_caller]
fn is_whole(run: &OwnRun, expected: &[RoundRow], superseded: usize) {
    let mut found = all_rows::<RoundRow>(&run.folder, "rounds");
    let mut expected = expected.to_vec();
    let key = |r: &RoundRow| (r.prompt.clone(), r.repeat, r.cell.clone(), r.round);
    if superseded > 0 {
        found.sort_by_key(key);
        expected.sort_by_key(key);
    }
    assert_eq!(found, expected);
    assert_eq!(blocks(&run.folder).iter().filter(|block| block.superseded).count(), superseded);
    let results = load(&run.folder).unwrap();
    assert_eq!(results.blocks.len(), 12);
    let noted = results.notes.iter().filter(|note| !note.contains("run again are left out"));
    assert_eq!(noted.count(), 0, "{:?}", results.notes);
    assert!(
        !fs::read_dir(&run.folder)
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_str().unwrap().ends_with(".partial") })
    );
}

/// Catches: rows in a segment and in the text file are read twice; the text file is skipped though
/// it does not repeat a segment, or all of it but one row; half-written files stay; the last rows
/// are not handed over.
#[test]
fn a_kill_during_packing_loses_and_doubles_nothing() {
    let whole = OwnRun::packed(&[]);
    let expected = all_rows::<RoundRow>(&whole.folder, "rounds");

    // Before the segment was complete. Later, three blocks move at once, or none.
    for (more, count) in [(&["--pack-above", "0"][..], 10), (&[], 3)] {
        let run = half_packed(&whole, 5);
        let sound = whole.read(&segment(4));
        let partial = run.folder.join(segment(4) + ".partial");
        for length in [0, 4, sound.len() / 2, sound.len()] {
            fs::write(&partial, &sound[..length]).unwrap();
            let results = load(&run.folder).unwrap();
            assert_eq!((results.blocks.len(), results.notes.len()), (5, 0));
        }
        run.resume(more);
        is_whole(&run, &expected, 0);
        assert_eq!(segments(&run.folder, "rounds").len(), count);
    }

    // Between the name of the segment and the cut of the text: both have the rows.
    for more in [&["--pack-above", "0"][..], &[]] {
        let run = half_packed(&whole, 4);
        run.take(&whole, &segment(4));
        let twice = packed::<RoundRow>(&run.folder.join(segment(4)));
        assert_eq!(twice, rows::<RoundRow>(&run.folder, "rounds.csv"));
        let results = load(&run.folder).unwrap();
        assert_eq!((results.notes.len(), results.blocks.len()), (0, 4), "{:?}", results.notes);
        run.resume(more);
        is_whole(&run, &expected, 0);
    }
}

#[test]
fn torn_lines_and_rows_of_unlisted_blocks_are_dropped() {
    let whole = OwnRun::packed(&[]);
    let expected = all_rows::<RoundRow>(&whole.folder, "rounds");
    let run = half_packed(&whole, 5);
    let mut text = fs::read_to_string(run.folder.join("rounds.csv")).unwrap();
    let stray = expected.iter().rev().take(3).rev();
    let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    stray.for_each(|row| csv.serialize(row).unwrap());
    text += &String::from_utf8(csv.into_inner().unwrap()).unwrap();
    text += "0123,smoke";
    fs::write(run.folder.join("rounds.csv"), text).unwrap();
    run.resume(&["--pack-above", "0"]);
    is_whole(&run, &expected, 0);
}

/// Catches: damage is not noticed, or ends the resumption.
#[test]
fn a_damaged_segment_is_named_and_its_blocks_are_run_again() {
    let whole = OwnRun::packed(&[]);
    let expected = all_rows::<RoundRow>(&whole.folder, "rounds");
    let sound = whole.read(&segment(2));
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let other = whole.read(&segment(3));
    // Cut, damaged in its pages, no Parquet at all, and empty.
    let damage =
        [sound[..sound.len() / 2].to_vec(), flipped(40), b"cell,prompt\n".to_vec(), Vec::new()];
    for bytes in damage {
        let run = half_packed(&whole, 5);
        fs::write(run.folder.join(segment(2)), &bytes).unwrap();
        let refused = load(&run.folder).unwrap_err().to_string();
        assert!(refused.starts_with("rounds-00002.parquet is damaged"), "{refused}");
        assert!(!refused.contains('\n'), "{refused}");
        let said = run.resume(&["--pack-above", "0"]);
        assert!(said.contains("warning: rounds-00002.parquet is damaged"), "{said}");
        is_whole(&run, &expected, 1);
        assert_eq!(run.read(&(segment(2) + ".damaged")), bytes);
    }
    // A block that another segment has already: the rows of neither count.
    let run = half_packed(&whole, 5);
    fs::write(run.folder.join(segment(2)), other).unwrap();
    run.resume(&["--pack-above", "0"]);
    is_whole(&run, &expected, 2);
    // A segment that is gone.
    let run = half_packed(&whole, 5);
    run.remove(&segment(2));
    let lost = load(&run.folder).unwrap().notes;
    assert!(lost[0].contains("rounds.csv has 0 of its"), "{lost:?}");
    run.resume(&["--pack-above", "0"]);
    is_whole(&run, &expected, 1);
}

/// Catches: the damaged block stays in its segment, or sound ones leave it, too.
#[test]
fn only_the_damaged_block_of_a_segment_is_run_again() {
    let expected = all_rows::<RoundRow>(&OwnRun::new(&[]).folder, "rounds");
    let run = OwnRun::new(&["--pack-above", "20000"]);
    let found = segments(&run.folder, "rounds");
    assert!(found.len() > 1 && found.len() < 12);
    let before = found.iter().map(fs::read).collect::<Result<Vec<_>, _>>().unwrap();
    // One digit of the first block's rows in another file.
    let text = fs::read_to_string(run.folder.join("generations.csv")).unwrap();
    let row = text.lines().nth(1).unwrap();
    let changed = row.replacen(",1,", ",2,", 1);
    assert_ne!(row, changed);
    fs::write(run.folder.join("generations.csv"), text.replacen(row, &changed, 1)).unwrap();
    run.reopen();
    run.resume(&["--pack-above", "20000"]);
    is_whole(&run, &expected, 1);
    let after = found.iter().map(fs::read).collect::<Result<Vec<_>, _>>().unwrap();
    assert!(after[0].len() < before[0].len() && after[1..] == before[1..]);
}

/// Catches: a change to a segment is not noticed.
#[test]
fn a_change_to_a_segment_ends_the_run() {
    let out = tempfile::tempdir().unwrap();
    let child = spawn_with(out.path(), &["--pack-above", "0"]);
    let folder = wait_for_a_block(out.path());
    while !folder.join(segment(2)).exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let first = folder.join(segment(1));
    fs::File::options().write(true).open(first).unwrap().set_len(50).unwrap();
    let named = ["rounds-00001.parquet has 50 bytes", "something else changed it"];
    fail(child.wait_with_output().unwrap(), &named);
    succeed(run(out.path(), &[LONG, &["--resume"]].concat()));
    let superseded = generations(&folder).iter().filter(|row| row.superseded).count();
    assert!(superseded > 0 && load(&folder).unwrap().blocks.len() == 144);
}

/// Catches: a missing column is read from the first one.
#[test]
fn files_of_others_are_refused_in_one_sentence() {
    let whole = OwnRun::packed(&[]);
    let place = whole.folder.join(segment(1));
    let sound = whole.read(&segment(1));
    let refused = |folder: &Path| {
        let output = specdec(&["report"]).arg(folder).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        fail(output, &["rounds-00001.parquet"]);
        said
    };
    // Rows of another kind.
    let traced = OwnRun::packed(&["--trace"]);
    fs::write(&place, traced.read("positions-00001.parquet")).unwrap();
    let said = refused(&whole.folder);
    assert!(said.contains("rounds-00001.parquet has no column \"context_tokens\""), "{said}");
    fs::write(&place, &sound[..sound.len() - 1]).unwrap();
    assert!(refused(&whole.folder).contains("rounds-00001.parquet is damaged"));
}

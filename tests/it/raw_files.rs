//! Raw files as other programs, crashes and disks may leave them: what the reader accepts,
//! wherever it stands in a file that is larger than a piece that is read at once.

use std::fs;
use std::path::Path;

use specdec::run::report::{Run, load};

use crate::synthetic::Synthetic;

/// A run whose `rounds.csv` and first text are longer than any piece that is read at once.
fn large() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let run = Synthetic { prompts: 2, max_tokens: 30_000, ..Synthetic::tiny() };
    Synthetic { drafters: vec!["model"], draft_lengths: vec![3], ..run }.write(folder.path());
    folder
}

/// Changes the bytes of a file.
fn change(folder: &Path, name: &str, change: impl Fn(&mut Vec<u8>)) {
    let file = folder.join(name);
    let mut bytes = fs::read(&file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

/// Changes the lines of a file after its header.
fn change_lines(folder: &Path, name: &str, reorder: impl Fn(Vec<&str>) -> Vec<&str>) {
    change(folder, name, |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let (header, rows) = text.split_once('\n').unwrap();
        let rows = reorder(rows.lines().collect());
        *bytes = format!("{header}\n{}\n", rows.join("\n")).into_bytes();
    });
}

#[track_caller]
fn same(found: &Run, expected: &Run) {
    assert_eq!(found.notes, [""; 0]);
    assert!(found.samples().eq(expected.samples()) && found.samples().next().is_some());
}

#[test]
fn rows_of_a_block_may_lie_anywhere_in_their_order() {
    let folder = large();
    let expected = load(folder.path()).unwrap();
    // The rows of both temperatures and both prompts by turns.
    change_lines(folder.path(), "rounds.csv", |rows| {
        let block = |row: &str| {
            let mut fields = row.split(',');
            let cell = fields.next().unwrap().rsplit('-').next().unwrap();
            (cell.to_owned(), fields.next().unwrap().to_owned())
        };
        let mut turns = std::collections::BTreeMap::<_, usize>::new();
        let mut rows = rows.into_iter().map(|row| {
            let turn = turns.entry(block(row)).or_default();
            *turn += 1;
            (*turn, row)
        });
        let mut rows = rows.by_ref().collect::<Vec<_>>();
        rows.sort_by_key(|(turn, _)| *turn);
        rows.into_iter().map(|(_, row)| row).collect()
    });
    same(&load(folder.path()).unwrap(), &expected);
    // Two rows of one block in the other order.
    change_lines(folder.path(), "rounds.csv", |mut rows| {
        let at = rows.len() - 9;
        let block = rows[at].split(',').take(2).collect::<Vec<_>>().join(",");
        let next = rows.iter().skip(at + 1).position(|row| row.starts_with(&block)).unwrap();
        rows.swap(at, at + 1 + next);
        rows
    });
    let results = load(folder.path()).unwrap();
    assert_eq!((results.notes.len(), results.blocks.len()), (1, 3), "{:?}", results.notes);
    assert!(results.notes[0].contains("its rounds are not numbered from 0"), "{:?}", results.notes);
}

#[test]
fn columns_may_have_any_order() {
    let folder = large();
    let expected = load(folder.path()).unwrap();
    change(folder.path(), "rounds.csv", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let turned = text.lines().map(|line| {
            let fields = line.split(',').rev().collect::<Vec<_>>();
            format!("{},more\n", fields.join(","))
        });
        *bytes = turned.collect::<String>().into_bytes();
    });
    same(&load(folder.path()).unwrap(), &expected);
}

#[test]
fn late_damage_is_named_and_a_torn_last_line_withheld() {
    let folder = large();
    let expected = load(folder.path()).unwrap();
    // A line that has no end may hold anything, however long it is.
    change(folder.path(), "rounds.csv", |bytes| bytes.extend(vec![0xff; 200_000]));
    let torn = load(folder.path()).unwrap();
    assert_eq!(torn.notes, ["The last line of rounds.csv was torn by a crash and is left out."]);
    assert!(torn.samples().eq(expected.samples()));
    for (name, at, part) in [
        ("rounds.csv", 2_000_000, "rounds.csv is damaged: it is not UTF-8 text"),
        ("generations.jsonl", 100_000, "generations.jsonl is damaged: it is not UTF-8 text"),
    ] {
        let folder = large();
        change(folder.path(), name, |bytes| bytes[at] = 0xff);
        assert_eq!(load(folder.path()).unwrap_err().to_string(), part);
    }
    let folder = large();
    change(folder.path(), "generations.jsonl", |bytes| {
        let end = bytes.len();
        bytes[end - 2] = b' ';
    });
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("generations.jsonl, line 8 is damaged"), "{error}");
}

//! Runs whose rows have moved to segments, read without the program's reader.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use specdec::measure::rows::{BlockRow, GenerationRow, TraceRow};
use specdec::run::experiment::{Manifest, Status};

use crate::experiment_support::rows;
use crate::run_support::{blocks, folder, generations, run, succeed};

/// Settings with rows in every file that a sound run has.
pub(crate) const TRACED: &[&str] = &["--trace", "--set", "repeats=2"];

/// The segments of a file, by name.
pub(crate) fn segments(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let own = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{stem}-")) && name.ends_with(".parquet")
    };
    let mut found = entries.filter(own).collect::<Vec<_>>();
    found.sort();
    found
}

/// The rows of a segment.
pub(crate) fn packed<T: DeserializeOwned>(segment: &Path) -> Vec<T> {
    let reader = SerializedFileReader::new(File::open(segment).unwrap()).unwrap();
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => Value::from(*flag),
        Field::Long(number) => Value::from(*number),
        Field::Double(number) => Value::from(*number),
        Field::Decimal(time) => {
            let nanoseconds = time.data().try_into().map(i64::from_be_bytes).unwrap();
            assert_eq!(time.scale(), 3);
            Value::from(nanoseconds as f64 / 1e3)
        }
        Field::Str(text) => Value::from(text.clone()),
        other => panic!("{other} is in {}", segment.display()),
    };
    let row = |row: parquet::record::Row| {
        let fields = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        serde_json::from_value(Value::Object(fields.collect::<Map<_, _>>())).unwrap()
    };
    reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect()
}

/// The rows of a file's segments and text.
pub(crate) fn all_rows<T: DeserializeOwned>(folder: &Path, stem: &str) -> Vec<T> {
    let found = segments(folder, stem);
    let own = found.iter().flat_map(|segment| packed(segment));
    own.chain(rows(folder, &format!("{stem}.csv"))).collect()
}

/// A run in a folder of its own.
pub(crate) struct OwnRun {
    pub(crate) out: tempfile::TempDir,
    pub(crate) folder: PathBuf,
}

impl OwnRun {
    pub(crate) fn new(more: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        succeed(run(out.path(), more));
        let folder = folder(out.path());
        Self { out, folder }
    }

    /// One in which each block has a segment.
    pub(crate) fn packed(more: &[&str]) -> Self {
        Self::new(&[more, &["--pack-above", "0"]].concat())
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap()
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.folder.join(name)).unwrap();
    }

    /// Takes the place of a file of this run by that of another.
    pub(crate) fn take(&self, other: &Self, name: &str) {
        fs::copy(other.folder.join(name), self.folder.join(name)).unwrap();
    }

    /// Cuts a plain run back to its first blocks, as if it had been killed after them.
    pub(crate) fn cut(&self, kept: usize) {
        let listed = &blocks(&self.folder)[..kept];
        let sum = |of: fn(&BlockRow) -> usize| listed.iter().map(of).sum::<usize>();
        // Each generation of a block is listed there.
        let kept_lines = sum(|b| b.generations);
        let of = |row: &GenerationRow| (row.cell.clone(), row.prompt.clone(), row.repeat);
        let made = generations(&self.folder);
        let kept_places = made[..kept_lines].iter().map(of).collect::<BTreeSet<_>>();
        let traces = fs::read_to_string(self.folder.join("traces.jsonl")).unwrap();
        let stays = |line: &&str| {
            let row: TraceRow = serde_json::from_str(line).unwrap();
            kept_places.contains(&(row.cell, row.prompt, row.repeat))
        };
        let traces = traces.split_inclusive('\n').filter(stays).collect::<String>();
        fs::write(self.folder.join("traces.jsonl"), traces).unwrap();
        let files = [
            ("rounds.csv", sum(|b| b.rounds), true),
            ("positions.csv", sum(|b| b.positions), true),
            ("generations.jsonl", sum(|b| b.texts), false),
            ("generations.csv", kept_lines, true),
            ("blocks.csv", kept, true),
        ];
        for (name, rows, header) in files {
            let Ok(text) = fs::read_to_string(self.folder.join(name)) else { continue };
            let lines = text.split_inclusive('\n').take(rows + usize::from(header));
            fs::write(self.folder.join(name), lines.collect::<String>()).unwrap();
        }
        self.reopen();
    }

    /// Makes a finished run one that was killed.
    pub(crate) fn reopen(&self) {
        let mut manifest = Manifest::read(&self.folder).unwrap();
        manifest.status = Status::Running;
        manifest.write(&self.folder).unwrap();
    }

    /// Resumes the run, and returns what it said.
    pub(crate) fn resume(&self, more: &[&str]) -> String {
        let output = run(self.out.path(), &[more, &["--resume"]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        succeed(output);
        said
    }
}

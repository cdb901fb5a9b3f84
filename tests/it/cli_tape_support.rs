//! An experiment on a toy pair, its tape and its run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli_support::stdout;

/// A folder with an experiment on a toy pair at two temperatures, and with many prompts.
pub(crate) struct TapeFolder(pub(crate) tempfile::TempDir, &'static str);

pub(crate) const PROMPTS: usize = 12;

impl TapeFolder {
    pub(crate) fn new() -> Self {
        Self::of("toy:mixed", ['a', 'b', 'c', 'd'])
    }

    /// One whose completions may end.
    pub(crate) fn ending() -> Self {
        Self::of("toy:random-1", ['a', 'b', 'b', 'a'])
    }

    fn of(toy: &'static str, letters: [char; 4]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("toy")).unwrap();
        let toml = format!(
            "question = \"q\"\ntarget = \"{toy}\"\ndraft = \"{toy}\"\n\
             prompts = \"p.jsonl\"\nmax_tokens = 40\nrepeats = 3\nclock = \"virtual\"\n\
             [sweep]\ndrafter = [\"model\", \"prompt_lookup\"]\n\
             verifier = [\"rejection\", \"traversal\"]\n\
             num_speculative_tokens = [1, 3, 6]\ntemperature = [0, 1]\n"
        );
        fs::write(dir.path().join("toy/experiment.toml"), toml).unwrap();
        let letters = |i: usize| (0..4).map(move |j| letters[(i >> (2 * j)) & 3]);
        let line = |i| format!("{}\n", json!({"prompt": letters(7 * i).collect::<String>()}));
        let lines = (0..PROMPTS).map(line).collect::<String>();
        fs::write(dir.path().join("toy/p.jsonl"), lines).unwrap();
        Self(dir, toy)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Records the experiment and scores the tape with both of its drafters.
    pub(crate) fn scored(&self) -> String {
        let tape = self.path("t.jsonl");
        stdout(&["tape", "record", &self.path("toy"), "--out", &tape]);
        let score = ["tape", "score", &tape, "--draft", self.1];
        stdout(&[&score[..], &["--drafter", "model", "--drafter", "prompt_lookup"]].concat());
        tape
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.run_with(&[])
    }

    pub(crate) fn run_with(&self, more: &[&str]) -> PathBuf {
        let run = ["run", &self.path("toy"), "--out", &self.path("results")];
        let report = stdout(&[&run[..], more].concat());
        Path::new(report.trim()).parent().unwrap().to_owned()
    }
}

/// A row of a file of gaps: its fields by column.
pub(crate) type Gap = BTreeMap<String, String>;

/// What `forecast --against` prints, and the gaps that it writes.
pub(crate) fn against(folder: &TapeFolder, tape: &str, run: &Path) -> (String, Vec<Gap>) {
    let file = folder.path("gaps.csv");
    let run = run.to_str().unwrap();
    let found = stdout(&["forecast", tape, "--against", run, "--against-csv", &file]);
    let gaps = csv::Reader::from_path(&file).unwrap().into_deserialize().map(Result::unwrap);
    (found, gaps.collect())
}

/// Those at temperature 0.
pub(crate) fn greedy(gaps: &[Gap]) -> Vec<&Gap> {
    gaps.iter().filter(|gap| gap["temperature"] == "0.0").collect()
}

/// The rows of a CSV file.
pub(crate) fn rows(file: &str) -> Vec<csv::StringRecord> {
    csv::Reader::from_path(file).unwrap().into_records().map(Result::unwrap).collect()
}

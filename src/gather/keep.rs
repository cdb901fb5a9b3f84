//! The file of the sequences gathered so far.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::core::error::Error;
use crate::core::sampling::SamplingParams;
use crate::io::output::open_in_place;
use crate::tapes::recording::SequenceLine;

/// The file, open for appending.
#[derive(Debug)]
pub(super) struct KeptSequences {
    file: File,
    path: PathBuf,
    has: HashSet<(String, u64)>,
}

impl KeptSequences {
    /// Opens or creates the file; removes a line that a crash has truncated.
    ///
    /// # Errors
    /// If it cannot be written, another process writes to it, or it has other sampling settings.
    pub(super) fn open(path: &Path, sampling: SamplingParams) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = open_in_place(&mut options, path).with_context(cannot)?;
        if file.try_lock().is_err() {
            bail!("{} is being written by another process", path.display());
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(cannot)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let mut has = HashSet::new();
        let lines = text[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        for (number, line) in (1..).zip(lines) {
            let why = |what: String| Error::file(path, format!("line {number}: {what}"));
            let line = SequenceLine::parse(line).map_err(why)?;
            if line.sampling != sampling {
                let (own, asked) = (line.sampling.words(), sampling.words());
                let drawn = format!("its completion was drawn at {own}, not {asked}");
                let what = format!("{drawn}: name another file");
                return Err(why(what).into());
            }
            if let (Some(prompt), Some(seed)) = (line.prompt, line.seed) {
                has.insert((prompt, seed));
            }
        }
        file.set_len(whole as u64).with_context(cannot)?;
        file.seek(SeekFrom::End(0)).with_context(cannot)?;
        Ok(Self { file, path: path.to_owned(), has })
    }

    /// Whether it has the sequence of a prompt and a seed.
    pub(super) fn has(&self, prompt: &str, seed: u64) -> bool {
        self.has.contains(&(prompt.to_owned(), seed))
    }

    /// Appends a sequence.
    pub(super) fn append(&mut self, line: &SequenceLine) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

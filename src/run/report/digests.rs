//! `SHA256SUMS`: the digests of the tables, figures and reports that [`super::report`] has written,
//! in the format of `sha256sum`.

use std::io;
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::document::DocFigure;
use crate::io::input::{open_file, read_text, read_whole};
use crate::io::output::write_whole;
use crate::model::hex;

/// The name of the file.
pub(super) const SUMS: &str = "SHA256SUMS";

/// What stands in the results folder itself. Few runs have all of it.
const FILES: [&str; 7] = [
    "summary.csv",
    "survival.csv",
    "machines.csv",
    "between_machines.csv",
    "thinking.csv",
    "report.md",
    "report.html",
];

/// Writes the digests of the files of a report.
pub(super) fn write(folder: &Path, figures: &[String]) -> Result<()> {
    let mut text = String::new();
    for name in FILES.into_iter().chain(figures.iter().map(String::as_str)) {
        match digest(&folder.join(name)) {
            Ok(digest) => text += &format!("{digest}  {name}\n"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        }
    }
    write_whole(&folder.join(SUMS), text.as_bytes())
}

/// The names of the files of figures.
pub(super) fn names(figures: &[DocFigure]) -> Vec<String> {
    figures.iter().map(|figure| format!("figures/{}.svg", figure.name)).collect()
}

/// What is wrong with the files that have digests, a sentence each, and how many these are.
pub(super) fn check(folder: &Path) -> Result<(usize, Vec<String>)> {
    let text = read_text(&folder.join(SUMS))?;
    let mut wrong = Vec::new();
    for line in text.lines() {
        let Some((written, name)) = line.split_once("  ").filter(|(_, name)| is_within(name))
        else {
            bail!(
                "{SUMS} is damaged: \"{}\" names no file of this folder",
                crate::io::shown::line(line)
            );
        };
        match digest(&folder.join(name)) {
            Ok(found) if found == written => {}
            Ok(_) => wrong.push(format!("{name} is not the one that was written")),
            Err(error) => wrong.push(format!("{name} cannot be read: {error}")),
        }
    }
    Ok((text.lines().count(), wrong))
}

/// Whether a name leads to no other folder than its own.
fn is_within(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn digest(file: &Path) -> io::Result<String> {
    Ok(hex(&Sha256::digest(read_whole(open_file(file)?)?)))
}

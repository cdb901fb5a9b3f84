//! Reading prompt files.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::fields::name;
use super::{Asked, PromptTemplate, Question, asked};
use crate::input::{OpenedFile, read_whole};
use crate::terminal;

/// The keys of an id: ours, then those of Spec-Bench and MT-Bench, of HumanEval, of UltraChat,
/// of LMSYS-Chat-1M, of WildChat, of MATH-500, of SWE-bench and of LongBench.
const IDS: [&str; 9] = [
    "id",
    "question_id",
    "task_id",
    "prompt_id",
    "conversation_id",
    "conversation_hash",
    "unique_id",
    "instance_id",
    "_id",
];
const CATEGORY: &str = "category";

/// With which bytes a file begins that is compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a prompt set. A question without an id is named after file and line; one without a
/// category gets the file's name as its category.
///
/// # Errors
/// Names the file and the line.
pub fn read(file: &Path) -> Result<Vec<Question>> {
    read_by(file, None)
}

/// [`read`], where each row of a file is the prompt that a template makes of it.
///
/// # Errors
/// As for [`read`].
pub fn read_by(file: &Path, template: Option<&PromptTemplate>) -> Result<Vec<Question>> {
    let text = unpacked(file)?;
    let (set, kind) = named(file);
    let mut left_out = Vec::new();
    let mut rows = PromptRows { file, set: &set, template, left_out: &mut left_out };
    let mut questions = match kind.as_str() {
        "txt" | "md" => vec![plain(&text, set.clone())],
        "json" if text.trim_start().starts_with('[') => rows.list(&text)?,
        "json" => rows.lines(&text, "a list of objects, or one object per line")?,
        _ => rows.lines(&text, "one object per line")?,
    };
    let rows = questions.len();
    questions.retain(|question| !question.asked.turns.is_empty());
    if questions.is_empty() {
        bail!("{} holds no prompt", file.display());
    }
    match rows - questions.len() {
        0 => {}
        n => {
            terminal::say(format_args!("note: {}: {n} of {rows} rows ask nothing", file.display()))
        }
    }
    left_out.sort_unstable();
    for same in left_out.chunk_by(|a, b| a == b) {
        terminal::say(format_args!(
            "note: {}: \"{}\" of {} of {rows} rows is left out: docs/prompts.md lists what is read",
            file.display(),
            same[0],
            same.len()
        ));
    }
    Ok(questions)
}

/// The rows of a file.
struct PromptRows<'a> {
    file: &'a Path,
    set: &'a str,
    template: Option<&'a PromptTemplate>,
    /// The keys of context that was not read, once for each row.
    left_out: &'a mut Vec<&'static str>,
}

/// The text of a file, unpacked if it is compressed.
fn unpacked(file: &Path) -> Result<String> {
    let bytes = OpenedFile::open(file).and_then(|opened| {
        let bytes = read_whole(opened.from(0)?)?;
        if bytes.starts_with(&GZIP) { read_whole(MultiGzDecoder::new(&*bytes)) } else { Ok(bytes) }
    });
    let bytes = bytes.with_context(|| format!("cannot read prompts: {}", file.display()))?;
    let not_text = |_| anyhow!("cannot read prompts: {}: not UTF-8 text", file.display());
    let text = String::from_utf8(bytes).map_err(not_text)?;
    // Some editors mark UTF-8 with a character that belongs to no prompt.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The name of a set and the kind of its file, `jsonl` for `mine.jsonl.gz`.
fn named(file: &Path) -> (String, String) {
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let packed = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz"));
    let file = if packed { file.with_extension("") } else { file.to_owned() };
    (part(file.file_stem()), part(file.extension()).to_ascii_lowercase())
}

/// A plain text is one prompt, without the newline that ends most files.
fn plain(text: &str, set: String) -> Question {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    Question { id: set.clone(), category: set, asked: Asked::once(text) }
}

impl PromptRows<'_> {
    /// One object per line; `expected` is what a file of this kind holds.
    fn lines(&mut self, text: &str, expected: &str) -> Result<Vec<Question>> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let questions = lines.map(|(i, line)| {
            let row = serde_json::from_str(line).map_err(|error| {
                anyhow!("{}: expected is {expected}, {{\"prompt\": …}}", unreadable(&error))
            });
            let question = row.and_then(|row| self.question(row, i + 1));
            question.with_context(|| format!("{} line {}", self.file.display(), i + 1))
        });
        questions.collect()
    }

    fn list(&mut self, text: &str) -> Result<Vec<Question>> {
        let file = self.file;
        let rows = serde_json::from_str::<Vec<Value>>(text).map_err(|error| {
            anyhow!("{} line {}: {}", file.display(), error.line(), unreadable(&error))
        })?;
        let questions = rows.into_iter().enumerate().map(|(i, row)| {
            let question = self.question(row, i + 1);
            question.with_context(|| format!("{} entry {}", file.display(), i + 1))
        });
        questions.collect()
    }

    fn question(&mut self, row: Value, number: usize) -> Result<Question> {
        let Value::Object(row) = row else {
            bail!("not an object: write {{\"prompt\": …}}");
        };
        let own = (IDS[0], &Value::String(format!("{}-{number}", self.set)));
        let (key, id) = IDS.iter().find_map(|key| Some((*key, row.get(*key)?))).unwrap_or(own);
        let category = row.get(CATEGORY).cloned().unwrap_or_else(|| self.set.into());
        let (id, category) = (name(key, id)?, name(CATEGORY, &category)?);
        let asked = match self.template {
            Some(template) => Asked::once(template.fill(&row)?),
            None => asked(&row, self.left_out)?,
        };
        Ok(Question { id, category, asked })
    }
}

/// What is wrong with a text that a parser refuses, and in which column.
fn unreadable(error: &serde_json::Error) -> String {
    let (why, column) = (error.to_string(), error.column());
    // The library's limits, which JSON itself does not have.
    if why.starts_with("number out of range") {
        format!("a number at column {column} is out of range")
    } else if why.starts_with("recursion limit") {
        format!("nested too deeply at column {column}")
    } else {
        format!("not JSON at column {column}")
    }
}

//! Reading prompt files.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::fields::name;
use super::shapes::{FileRows, rows};
use super::{Asked, PromptTemplate, Question, asked};
use crate::io::input::{OpenedFile, read_whole};
use crate::io::terminal;

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

/// With which bytes a file begins that is compressed with gzip or Zstandard, and how such a
/// file's name ends.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const PACKED: [&str; 2] = ["gz", "zst"];

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
    let cannot = || format!("cannot read prompts: {}", file.display());
    let bytes = unpacked(file).with_context(cannot)?;
    let (set, kind) = named(file);
    if ["txt", "md"].contains(&kind.as_str()) {
        return Ok(vec![plain(&text(bytes).with_context(cannot)?, set)]);
    }
    let text = |bytes| text(bytes).with_context(cannot);
    let FileRows { unit, rows } = rows(file, &kind, bytes, text)?;
    let (mut questions, mut left_out) = (Vec::new(), Vec::new());
    for (number, row) in rows {
        let question = question(&row, number, &set, template, &mut left_out);
        questions.push(question.with_context(|| format!("{} {unit} {number}", file.display()))?);
    }
    let rows = questions.len();
    questions.retain(|question| !question.asked.is_nothing());
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

/// The bytes of a file, unpacked if it is compressed.
fn unpacked(file: &Path) -> std::io::Result<Vec<u8>> {
    let opened = OpenedFile::open(file)?;
    let bytes = read_whole(opened.from(0))?;
    let unpacking: Box<dyn Read + '_> = match &*bytes {
        packed if packed.starts_with(&GZIP) => Box::new(MultiGzDecoder::new(packed)),
        packed if packed.starts_with(&ZSTANDARD) => Box::new(zstd::Decoder::new(packed)?),
        _ => return Ok(bytes),
    };
    read_whole(unpacking)
}

fn text(bytes: Vec<u8>) -> Result<String> {
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("not UTF-8 text"))?;
    // Some editors mark UTF-8 with a character that belongs to no prompt.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The name of a set and the kind of its file, `jsonl` for `mine.jsonl.gz`.
fn named(file: &Path) -> (String, String) {
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let packed =
        |end: &std::ffi::OsStr| PACKED.iter().any(|packed| end.eq_ignore_ascii_case(packed));
    let packed = file.extension().is_some_and(packed);
    let file = if packed { file.with_extension("") } else { file.to_owned() };
    (part(file.file_stem()), part(file.extension()).to_ascii_lowercase())
}

/// A plain text is one prompt, without the newline that ends most files.
fn plain(text: &str, set: String) -> Question {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    Question { id: set.clone(), category: set, asked: Asked::once(text) }
}

/// The question of the row with this number. The keys of context that is not read are added to
/// `left_out`.
fn question(
    row: &Value,
    number: usize,
    set: &str,
    template: Option<&PromptTemplate>,
    left_out: &mut Vec<&'static str>,
) -> Result<Question> {
    let Value::Object(row) = row else {
        bail!("not an object: write {{\"prompt\": …}}");
    };
    let own = (IDS[0], &Value::String(format!("{set}-{number}")));
    let (key, id) = IDS.iter().find_map(|key| Some((*key, row.get(*key)?))).unwrap_or(own);
    let category = row.get(CATEGORY).cloned().unwrap_or_else(|| set.into());
    let (id, category) = (name(key, id)?, name(CATEGORY, &category)?);
    let asked = match template {
        Some(template) => Asked::once(template.fill(row)?),
        None => asked(row, left_out)?,
    };
    Ok(Question { id, category, asked })
}

//! Tapes as Parquet files, for programs that read columns: a row for each line of the tape, whose
//! long lists of numbers are columns of their own.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{ByteArrayType, DoubleType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value};

use crate::core::error::Error;
use crate::io::input::caught;
use crate::io::output::{Replacement, cannot_write};
use crate::tapes::tape::{Tape, TapeLine};

/// The first bytes of a Parquet file.
pub(super) const PARQUET: [u8; 4] = *b"PAR1";

/// Columns of one number per row: the kind of line is a word, the others are numbers of lines.
const KIND: &str = "kind";
const NUMBERS: [&str; 2] = ["drafter", "text"];
/// Columns with a list of whole numbers, or of any numbers, per row.
const TOKENS: [&str; 2] = ["prompt_tokens", "tokens"];
const LOGS: [&str; 4] = ["log_p", "log_q", "overlap", "race"];
/// Everything else, as JSON.
const REST: &str = "rest";

/// Lines that are written and compressed together.
const GROUP: usize = 1024;

/// Writes a tape to a new file. If that fails, nothing is left of it.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write_parquet(tape: &Tape, path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists already: name another file", path.display());
    }
    write_lines(tape, Replacement::begin(path)?).with_context(|| cannot_write(path))?.commit()
}

fn write_lines<W: Write + Send>(tape: &Tape, file: W) -> Result<W> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let gzip = Compression::GZIP(GzipLevel::default());
    let properties = WriterProperties::builder().set_compression(gzip).build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let lines = tape.lines().map(ParquetRow::of).collect::<Result<Vec<_>>>()?;
    for rows in lines.chunks(GROUP) {
        let mut group = writer.next_row_group()?;
        write_group(&mut group, rows)?;
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

/// Reads a tape. The library panics where a file is damaged in some ways, so it reads in a thread
/// of its own.
///
/// # Errors
/// If it cannot be read, or a row is not a line of a tape; names the file and the row.
pub(super) fn read_parquet(file: File, path: &Path) -> Result<Tape> {
    caught(|| tape_of(file, path)).unwrap_or_else(|| bail!("{} is damaged", path.display()))
}

fn tape_of(file: File, path: &Path) -> Result<Tape> {
    let reader = SerializedFileReader::new(file).map_err(|error| Error::file(path, error))?;
    let rows = reader.get_row_iter(None).map_err(|error| Error::file(path, error))?;
    let mut tape = None;
    for (number, row) in rows.enumerate() {
        let place = || format!("{}, row {number}", path.display());
        let line = line(&row.with_context(place)?).with_context(place)?;
        let added = match (&mut tape, line) {
            (None, TapeLine::Tape(header)) => Tape::new(header).map(|new| tape = Some(new)),
            (None, _) => Err("a tape begins with a line \"tape\"".to_owned()),
            (Some(tape), line) => tape.add(line),
        };
        added.map_err(|why| anyhow!(why)).with_context(place)?;
    }
    tape.with_context(|| format!("{} holds no tape", path.display()))
}

fn schema() -> String {
    let mut schema = format!("message tape {{ required binary {KIND} (UTF8); ");
    for name in NUMBERS {
        schema += &format!("optional int32 {name}; ");
    }
    let lists = TOKENS.map(|name| (name, "int32")).into_iter();
    for (name, numbers) in lists.chain(LOGS.map(|name| (name, "double"))) {
        schema += &format!(
            "optional group {name} (LIST) {{ repeated group list {{ required {numbers} element; }} }} "
        );
    }
    schema + &format!("required binary {REST} (UTF8); }}")
}

/// A line, divided into its columns.
struct ParquetRow {
    kind: String,
    numbers: [Option<i32>; NUMBERS.len()],
    tokens: [Option<Vec<i32>>; TOKENS.len()],
    logs: [Option<Vec<f64>>; LOGS.len()],
    rest: String,
}

impl ParquetRow {
    fn of(line: TapeLine) -> Result<Self> {
        let Value::Object(line) = serde_json::to_value(line)? else { bail!("a line is no object") };
        let (kind, fields) = line.into_iter().next().context("a line is empty")?;
        let Value::Object(mut fields) = fields else { bail!("a line holds no object") };
        let listed = |fields: &mut Map<String, Value>, name: &str| match fields.get(name) {
            Some(Value::Array(_)) => fields.remove(name),
            _ => None,
        };
        let whole = |value: &Value| {
            let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
            // Tokens above i32 keep their bits.
            token.map(u32::cast_signed)
        };
        let numbers = NUMBERS.map(|name| fields.get(name).and_then(whole));
        let tokens = TOKENS.map(|name| {
            let list = listed(&mut fields, name)?;
            list.as_array().map(|list| list.iter().filter_map(whole).collect())
        });
        let log = |value: &Value| value.as_f64().unwrap_or(f64::NEG_INFINITY);
        let logs = LOGS.map(|name| {
            let list = listed(&mut fields, name)?;
            list.as_array().map(|list| list.iter().map(log).collect())
        });
        Ok(Self { kind, numbers, tokens, logs, rest: Value::Object(fields).to_string() })
    }
}

/// Writes the columns of some rows, in the order of the schema.
fn write_group<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[ParquetRow],
) -> Result<()> {
    let words = |of: fn(&ParquetRow) -> &String| {
        rows.iter().map(|row| of(row).as_bytes().to_vec().into()).collect::<Vec<_>>()
    };
    let mut column = group.next_column()?.context("a column is missing")?;
    column.typed::<ByteArrayType>().write_batch(&words(|row| &row.kind), None, None)?;
    column.close()?;
    for at in 0..NUMBERS.len() {
        let known = rows.iter().map(|row| i16::from(row.numbers[at].is_some())).collect::<Vec<_>>();
        let numbers = rows.iter().filter_map(|row| row.numbers[at]).collect::<Vec<_>>();
        let mut column = group.next_column()?.context("a column is missing")?;
        column.typed::<Int32Type>().write_batch(&numbers, Some(&known), None)?;
        column.close()?;
    }
    for at in 0..TOKENS.len() {
        let (levels, values) = flat(rows.iter().map(|row| row.tokens[at].as_deref()));
        let mut column = group.next_column()?.context("a column is missing")?;
        column.typed::<Int32Type>().write_batch(&values, Some(&levels.0), Some(&levels.1))?;
        column.close()?;
    }
    for at in 0..LOGS.len() {
        let (levels, values) = flat(rows.iter().map(|row| row.logs[at].as_deref()));
        let mut column = group.next_column()?.context("a column is missing")?;
        column.typed::<DoubleType>().write_batch(&values, Some(&levels.0), Some(&levels.1))?;
        column.close()?;
    }
    let mut column = group.next_column()?.context("a column is missing")?;
    column.typed::<ByteArrayType>().write_batch(&words(|row| &row.rest), None, None)?;
    column.close()?;
    Ok(())
}

/// The lists of a column: definition levels (0: no list, 1: an empty one, 2: a number) and
/// repetition levels (1: the list continues), and all numbers.
fn flat<'r, T: Copy + 'r>(
    lists: impl Iterator<Item = Option<&'r [T]>>,
) -> ((Vec<i16>, Vec<i16>), Vec<T>) {
    let (mut defined, mut repeated, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        let level = list.map_or(0, |list| if list.is_empty() { 1 } else { 2 });
        let count = list.map_or(1, |list| list.len().max(1));
        defined.extend(std::iter::repeat_n(level, count));
        repeated.push(0);
        repeated.extend(std::iter::repeat_n(1, count - 1));
        values.extend_from_slice(list.unwrap_or_default());
    }
    ((defined, repeated), values)
}

/// A row as a line.
fn line(row: &Row) -> Result<TapeLine> {
    let (mut kind, mut fields) = (None, None);
    let mut lists = Map::new();
    for (name, field) in row.get_column_iter() {
        match field {
            Field::Str(text) if name == KIND => kind = Some(text.clone()),
            Field::Str(text) if name == REST => fields = Some(serde_json::from_str::<Value>(text)?),
            Field::ListInternal(list) => {
                let values = list.elements().iter().map(number).collect::<Result<Vec<_>>>()?;
                lists.insert(name.clone(), Value::Array(values));
            }
            // The rest holds the numbers, too.
            _ => {}
        }
    }
    let (Some(kind), Some(Value::Object(mut fields))) = (kind, fields) else {
        bail!("it has no columns \"{KIND}\" and \"{REST}\" as those of a tape");
    };
    fields.extend(lists);
    let line = Map::from_iter([(kind, Value::Object(fields))]);
    Ok(serde_json::from_value(Value::Object(line))?)
}

/// JSON has no infinity; a tape has null in its place.
fn number(field: &Field) -> Result<Value> {
    match field {
        Field::Int(token) => Ok(Value::from(token.cast_unsigned())),
        Field::Double(log) => Ok(Value::from(*log)),
        other => bail!("a list holds {other}"),
    }
}

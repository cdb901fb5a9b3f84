//! Parquet files of prompts, as the Hugging Face hub, pandas and polars write them.

use std::path::Path;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

use crate::io::input::caught;

/// The first bytes of a Parquet file.
pub(super) const PARQUET: [u8; 4] = *b"PAR1";

/// The rows of a file, numbered from 1. The library panics where a file is damaged in some ways,
/// so it reads in a thread of its own.
///
/// # Errors
/// Names the file if it is damaged, or compressed in a way that is not read.
pub(super) fn parquet_rows(file: &Path, bytes: Vec<u8>) -> Result<Vec<(usize, Value)>> {
    let damaged = |why: String| anyhow!("{} cannot be read: {why}", file.display());
    let rows = caught(|| values(bytes)).unwrap_or_else(|| Err("it is damaged".to_owned()));
    Ok((1..).zip(rows.map_err(damaged)?).collect())
}

fn values(bytes: Vec<u8>) -> Result<Vec<Value>, String> {
    let why = |error: parquet::errors::ParquetError| {
        error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let reader = SerializedFileReader::new(Bytes::from(bytes)).map_err(why)?;
    let rows = reader.get_row_iter(None).map_err(why)?;
    rows.map(|row| row.map(|row| object(&row)).map_err(why)).collect()
}

fn object(row: &Row) -> Value {
    Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect())
}

/// A field as JSON; kinds of numbers that JSON lacks, such as dates, become texts.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => (*flag).into(),
        Field::Byte(n) => (*n).into(),
        Field::Short(n) => (*n).into(),
        Field::Int(n) => (*n).into(),
        Field::Long(n) => (*n).into(),
        Field::UByte(n) => (*n).into(),
        Field::UShort(n) => (*n).into(),
        Field::UInt(n) => (*n).into(),
        Field::ULong(n) => (*n).into(),
        Field::Float(x) => f64::from(*x).into(),
        Field::Double(x) => (*x).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into(),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        other => other.to_string().into(),
    }
}

//! Writes rows as the text of a file.

use anyhow::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::columns::columns;
use super::records::TextRow;

/// The rows as CSV, after their header if `headers` is set, even if there are no rows.
pub(crate) fn csv_bytes<R>(rows: &[R], headers: bool) -> Result<Vec<u8>>
where
    R: Serialize + DeserializeOwned,
{
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    if headers {
        writer.write_record(columns::<R>())?;
    }
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(writer.into_inner()?)
}

/// The rows as JSON lines.
pub(crate) fn text_lines(rows: &[TextRow]) -> Result<Vec<u8>> {
    let lines = rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n"));
    Ok(lines.collect::<Result<String>>()?.into_bytes())
}

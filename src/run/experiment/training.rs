//! `training.json` next to the weights of a drafter: what it was trained on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::io::input::read_text;

/// The name of the file, and the value of its key `format`. A file without the key is another
/// program's.
const FILE: &str = "training.json";
const FORMAT: &str = "specdec-training 1";

/// The largest numbers of entries and of bytes of each: a report shows all.
const MOST: (usize, usize) = (64, 200);

/// What a drafter was trained on, by key; those of an inner object are `outer.inner`.
pub type Training = BTreeMap<String, String>;

/// The record of a drafter's training, if its folder has one.
///
/// # Errors
/// Names the file and the key at fault.
pub fn read_training(folder: &Path) -> Result<Option<Training>> {
    let file = folder.join(FILE);
    if !file.is_file() {
        return Ok(None);
    }
    let place = || file.display().to_string();
    let text = read_text(&file).with_context(place)?;
    let Ok(Value::Object(mut record)) = serde_json::from_str(&text) else {
        return Ok(None);
    };
    if record.remove("format") != Some(FORMAT.into()) {
        return Ok(None);
    }
    let mut found = Training::new();
    add("", record, &mut found).with_context(place)?;
    if found.len() > MOST.0 {
        bail!("{}: it has {} entries: allowed are {}", place(), found.len(), MOST.0);
    }
    Ok(Some(found))
}

fn add(outer: &str, record: Map<String, Value>, to: &mut Training) -> Result<()> {
    for (key, value) in record {
        let key = format!("{outer}{key}");
        let text = match value {
            Value::Object(inner) => {
                add(&format!("{key}."), inner, to)?;
                continue;
            }
            Value::String(text) => text,
            Value::Null => continue,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Array(_) => bail!("\"{key}\" is a list: allowed are texts, numbers and objects"),
        };
        if key.len().max(text.len()) > MOST.1 {
            bail!("\"{key:.40}\" is too long: allowed are {} bytes", MOST.1);
        }
        to.insert(key, text);
    }
    Ok(())
}

//! Reads `experiment.toml` into a [`Spec`].
//!
//! Keys are checked before anything else, so that the error for a misspelt key suggests
//! the nearest allowed name. vLLM's names are canonical; those of transformers and
//! llama.cpp are accepted as aliases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use toml::{Table, Value};

use super::arguments::ChatArguments;
use super::axes::{Axes, BEAM, SAMPLING, STRATEGY, axis};
use super::keys::{day, fill_in, top_key};
use super::spec::Spec;
use super::unknown_key::{unknown_axis, unknown_key};
use crate::core::params;
use crate::core::sampling::SamplingParams;
use crate::io::input::{is_shipped, is_there, read_any_text, read_text, shipped_root};
use crate::method::beam::BEAM_PARAMS;
use crate::method::decode::readers;

/// An experiment and where it was found.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Name of the folder that holds the file (or of the file itself).
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// Its content, with overrides applied.
    pub spec: Spec,
}

impl Experiment {
    /// Reads `path`, a TOML file or a folder with an `experiment.toml`, and
    /// applies overrides of the form `key=value` or `sweep.axis=value`. If nothing has this
    /// path, it may be that of an experiment that the program holds itself.
    ///
    /// # Errors
    /// Names the file, the key and the allowed values.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        let file = file_of(path);
        let read = if is_shipped(&file) { read_text } else { read_any_text };
        let text = read(&file).context("cannot read the experiment")?;
        let place = || file.display().to_string();
        let mut table = parse(&text).with_context(place)?;
        for set in overrides {
            apply(&mut table, set).with_context(|| format!("--set {set}"))?;
        }
        let mut spec = check(table).with_context(place)?;
        spec.replaced = overrides.iter().any(|set| sets_an_axis(set));
        Ok(Self { name: name_of(&file), file, spec })
    }
}

/// The file that a path names.
fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.join("experiment.toml");
    }
    let held = shipped_root().map(|root| root.join(path).join("experiment.toml"));
    held.filter(|held| is_there(held) && !is_there(path)).unwrap_or_else(|| path.to_owned())
}

/// Parses TOML; a syntax error becomes one line that says where it is.
fn parse(text: &str) -> Result<Table> {
    text.parse::<Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        anyhow!("line {line} is not valid TOML: {}", error.message())
    })
}

/// The name of an experiment, which is also the name of its results folder.
fn name_of(file: &Path) -> String {
    // A file of the program itself has no other path.
    let whole = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let named = match file.file_name().and_then(|n| n.to_str()) {
        Some("experiment.toml") => whole.parent().and_then(Path::file_name),
        _ => file.file_stem(),
    };
    let named = named.and_then(|n| n.to_str());
    // A name of dots alone would mean the folder of all results, or one above it.
    named.filter(|n| !n.trim_matches('.').is_empty()).unwrap_or("experiment").to_owned()
}

fn check(mut table: Table) -> Result<Spec> {
    let sweeps = match table.remove("sweep") {
        Some(sweeps) => tables(sweeps)?,
        None => bail!("the key \"sweep\" is missing: write [sweep] and name a drafter in it"),
    };
    let conditions = match table.remove("exclude") {
        Some(Value::Array(conditions)) => list(conditions, EXCLUDE)?,
        Some(_) => bail!(EXCLUDE),
        None => Vec::new(),
    };
    let (mut top, common) = top(table)?;
    if let Some(set @ Value::String(_)) = top.get_mut("prompts") {
        *set = Value::Array(vec![set.clone()]);
    }
    if let Some(set) = top.get_mut("chat_date")
        && let Some(day) = day(set)
    {
        *set = Value::String(day);
    }
    if let Some(set) = top.get("thinking")
        && set.as_array().is_none_or(|texts| texts.len() != 2 || texts.contains(&"".into()))
    {
        bail!("\"thinking\" = {set}: allowed is a list of two texts that are not empty");
    }
    let arguments = match top.remove("chat_arguments") {
        Some(Value::Table(arguments)) => arguments,
        _ => Table::new(),
    };
    let arguments = ChatArguments::combinations(&arguments)?;
    fill_in(&mut top)?;
    let mut spec: Spec = top.try_into().map_err(|e: toml::de::Error| anyhow!("{}", e.message()))?;
    spec.chat_arguments = arguments;
    spec.sweep =
        sweeps.into_iter().map(|s| axes_of(s, "sweep", " in [sweep]")).collect::<Result<_>>()?;
    let condition = |table| axes_of(table, "exclude", " in [[exclude]]");
    spec.exclude = conditions.into_iter().map(condition).collect::<Result<_>>()?;
    spread(&mut spec.sweep, common)?;
    Ok(spec)
}

/// Splits the top level into its keys and the settings of methods, with their values.
fn top(table: Table) -> Result<(Table, BTreeMap<&'static str, Vec<params::Value>>)> {
    let (mut top, mut common) = (Table::new(), BTreeMap::new());
    for (name, value) in table {
        let (key, twice) = match (top_key(&name), axis(&name)) {
            (Some(key), _) => {
                key.check(&value)?;
                (key.name, top.insert(key.name.to_owned(), value).is_some())
            }
            (None, Some(axis)) if axis.is_setting() => {
                (axis.name, common.insert(axis.name, axis.values("", &value)?).is_some())
            }
            (None, Some(_)) => bail!("\"{name}\" is an axis: write it below [sweep]"),
            (None, None) => {
                return Err(unknown_key(&name, |_| "write it below [sweep]".to_owned()));
            }
        };
        if twice {
            bail!("\"{key}\" is given twice, once as \"{name}\"");
        }
    }
    for key in ["target", "prompts"] {
        if !top.contains_key(key) {
            bail!("the key \"{key}\" is missing");
        }
    }
    Ok((top, common))
}

const EXCLUDE: &str = "\"exclude\" must be a list of tables: write [[exclude]]";

/// The tables of one sweep or of a list of sweeps.
fn tables(value: Value) -> Result<Vec<Table>> {
    let values = match value {
        Value::Array(values) if !values.is_empty() => values,
        value => vec![value],
    };
    list(values, "\"sweep\" must be a table: write [sweep]")
}

fn list(values: Vec<Value>, otherwise: &'static str) -> Result<Vec<Table>> {
    let table = |value| match value {
        Value::Table(table) => Ok(table),
        _ => bail!(otherwise),
    };
    values.into_iter().map(table).collect()
}

/// The axes of one `[sweep]` or `[[exclude]]`.
fn axes_of(table: Table, place: &str, below: &str) -> Result<Axes> {
    let mut found = Axes::default();
    for (name, value) in table {
        let Some(axis) = axis(&name) else {
            if top_key(&name).is_some() {
                bail!("\"{name}\" is not an axis: write it at the top, above all tables");
            }
            return Err(unknown_axis(&name, below, |_| {
                "write it at the top, above all tables".to_owned()
            }));
        };
        let values = axis.values(&format!("{place}."), &value)?;
        if found.0.insert(axis.name, values).is_some() {
            bail!("\"{}\" is given twice{below}, once as \"{name}\"", axis.name);
        }
    }
    Ok(found)
}

/// Gives the settings of the top level to the sweeps that read them, and refuses settings
/// that no method reads.
fn spread(
    sweeps: &mut [Axes],
    mut common: BTreeMap<&'static str, Vec<params::Value>>,
) -> Result<()> {
    if let Some(key) = common.keys().find(|key| sweeps.iter().any(|s| s.get(key).is_some())) {
        bail!("\"{key}\" is given twice, once in [sweep]");
    }
    if let Some(lengths) = common.remove("length") {
        for sweep in sweeps.iter_mut() {
            sweep.0.insert("length", lengths.clone());
        }
    }
    let read = |sweep: &Axes, key: &str| sweep.methods().any(|name| readers(key).contains(&&*name));
    for sweep in &*sweeps {
        if sweep.get("drafter").is_none() {
            bail!(
                "the key \"drafter\" is missing in [sweep]: name one or more from `specdec list`"
            );
        }
        check_strategies(sweep)?;
        if let Some(key) = sweep.settings().find(|key| !read(sweep, key)) {
            let methods = sweep.methods().collect::<Vec<_>>().join(", ");
            bail!(
                "\"sweep.{key}\" is read by none of {methods}: leave it out, or choose one of {}",
                readers(key).join(", ")
            );
        }
    }
    for (key, values) in common {
        let mut reading = sweeps.iter_mut().filter(|sweep| read(sweep, key)).peekable();
        if reading.peek().is_none() {
            bail!(
                "\"{key}\" is read by no method of the sweep: leave it out, or choose one of {}",
                readers(key).join(", ")
            );
        }
        for sweep in reading {
            sweep.0.insert(key, values.clone());
        }
    }
    Ok(())
}

/// Refuses axes that no strategy of the sweep reads.
fn check_strategies(sweep: &Axes) -> Result<()> {
    let named = sweep.get(STRATEGY.key).map(|values| values.iter().map(ToString::to_string));
    let named = named.map_or_else(|| vec![SAMPLING.to_owned()], Iterator::collect);
    let beam = |key: &str| BEAM_PARAMS.iter().any(|param| param.key == key);
    let sampling = |key: &str| key == "verifier" || SamplingParams::NEUTRAL.get(key).is_some();
    for key in sweep.0.keys() {
        let reads = if beam(key) { BEAM } else { SAMPLING };
        if (beam(key) || sampling(key)) && named.iter().all(|name| name != reads) {
            bail!(
                "\"sweep.{key}\" is read by strategy \"{reads}\" alone: leave it out, or add that \
                 strategy to the sweep"
            );
        }
    }
    Ok(())
}

/// Whether an override sets an axis rather than a key of the top level.
fn sets_an_axis(set: &str) -> bool {
    let key = set.split('=').next().unwrap_or_default().trim();
    key.starts_with("sweep.") || (top_key(key).is_none() && axis(key).is_some())
}

/// Applies `key=value` or `sweep.axis=value`; a value that is not TOML is a text.
fn apply(table: &mut Table, set: &str) -> Result<()> {
    let Some((path, text)) = set.split_once('=') else {
        bail!("write key=value or sweep.axis=value");
    };
    let value = format!("v = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let replace = |place: &mut Table, name: &str, aliases: &[&str]| {
        for spelling in aliases.iter().chain([&name]) {
            place.remove(*spelling);
        }
        place.insert(name.to_owned(), value.clone());
    };
    let (name, in_sweep) = match path.split_once('.') {
        None => (path, false),
        Some(("sweep", axis)) => (axis, true),
        Some(_) => bail!("only keys of the top level and sweep.axis can be set"),
    };
    match (top_key(name), axis(name)) {
        (Some(key), _) if !in_sweep => replace(table, key.name, key.aliases),
        (None, Some(axis)) if !in_sweep && axis.is_setting() => {
            replace(table, axis.name, axis.aliases);
        }
        (None, Some(axis)) if !in_sweep => {
            bail!("\"{name}\" is an axis: write sweep.{}={text}", axis.name)
        }
        (_, Some(axis)) => {
            let sweeps = table.remove("sweep");
            let mut sweeps = sweeps.map_or(Ok(vec![Table::new()]), tables)?;
            for sweep in &mut sweeps {
                replace(sweep, axis.name, axis.aliases);
            }
            table.insert("sweep".into(), sweeps.into());
        }
        (Some(key), None) => bail!("\"{name}\" is not an axis: write {}={text}", key.name),
        (None, None) if in_sweep => {
            return Err(unknown_axis(name, "", |key| format!("write {key}={text}")));
        }
        (None, None) => {
            return Err(unknown_key(name, |axis| format!("write sweep.{axis}={text}")));
        }
    }
    Ok(())
}

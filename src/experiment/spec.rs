//! `experiment.toml`: what people write.
//!
//! Keys are checked before anything else, so that a misspelt one is answered
//! with the nearest allowed name. Names of vLLM are canonical; those of
//! transformers and llama.cpp are accepted as aliases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::{Table, Value};

use super::keys::{axes, canonical, check_type, settings, top_keys};
use crate::decode::PLAIN;
use crate::model::{Dtype, Engine, Role, Settings};
use crate::params;
use crate::registry::UnknownName;

/// An experiment, checked for its keys and types but not yet for its values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Spec {
    /// What is asked.
    #[serde(default)]
    pub question: String,
    /// Name or path of the target.
    pub target: String,
    /// Name or path of the draft model.
    pub draft: Option<String>,
    /// Names or paths of prompt sets.
    pub prompts: OneOrMany<String>,
    /// New tokens per generation.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: usize,
    /// Generations per prompt and cell.
    #[serde(default = "one")]
    pub repeats: u32,
    /// Seed of all draws.
    #[serde(default)]
    pub seed: u64,
    /// Warm-up generations per cell, whose costs predict its speedup.
    #[serde(default = "default_warmup")]
    pub warmup: u32,
    /// Treat end-of-text tokens as ordinary tokens, so that lengths agree.
    #[serde(default = "yes")]
    pub ignore_eos: bool,
    /// Take strings in prompts that name control tokens for these tokens.
    #[serde(default)]
    pub special_tokens: bool,
    /// Write `positions.csv`.
    #[serde(default)]
    pub trace: bool,
    /// Worker threads; all cores by default.
    pub threads: Option<usize>,
    /// Which code computes the logits.
    pub engine: Option<Engine>,
    /// Where the models are: `cpu`, `cuda:N` or `metal`.
    pub device: Option<String>,
    /// How the models' weights are stored in memory.
    pub dtype: Option<Dtype>,
    /// The same for the draft model alone.
    pub draft_dtype: Option<Dtype>,
    /// `real` or `virtual`.
    #[serde(default)]
    pub clock: ClockKind,
    /// Whether some cells are run twice, to show what differs by chance alone.
    #[serde(default)]
    pub control: bool,
    /// The axes; several tables are several sweeps in one run.
    pub sweep: OneOrMany<Sweep>,
    /// Cells to leave out: those that match all conditions of a table.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
}

impl Spec {
    /// How a model is to be held, as far as the experiment says.
    pub fn settings(&self, role: Role) -> Settings {
        let (engine, dtype, device) = (self.engine, self.dtype, self.device.clone());
        let special_tokens = self.special_tokens;
        Settings { engine, dtype, device, special_tokens, ..Settings::default() }
            .of(role, self.draft_dtype)
    }
}

/// Which clock times a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockKind {
    /// Wall-clock time.
    #[default]
    Real,
    /// A fixed cost per pass and row: reproducible to the last digit.
    Virtual,
}

impl ClockKind {
    /// The name used in files.
    pub fn name(self) -> &'static str {
        match self {
            ClockKind::Real => "real",
            ClockKind::Virtual => "virtual",
        }
    }
}

/// The axes of a sweep; cells are their product.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sweep {
    /// Names from the drafter registry.
    pub drafter: OneOrMany<String>,
    /// Names from the verifier registry.
    #[serde(default = "rejection")]
    pub verifier: OneOrMany<String>,
    /// K.
    #[serde(default = "four")]
    pub num_speculative_tokens: OneOrMany<usize>,
    /// Of the target.
    #[serde(default = "unit")]
    pub temperature: OneOrMany<f64>,
    /// Of both models; 0 keeps all.
    #[serde(default = "zero")]
    pub top_k: OneOrMany<usize>,
    /// Of both models.
    #[serde(default = "unit")]
    pub top_p: OneOrMany<f64>,
    /// Of both models.
    #[serde(default = "none")]
    pub min_p: OneOrMany<f64>,
    /// Names from the registry of draft length policies.
    #[serde(default = "fixed")]
    pub length: OneOrMany<String>,
    /// Settings of methods, by key.
    #[serde(flatten)]
    pub params: BTreeMap<String, OneOrMany<params::Value>>,
}

/// A condition: a cell that has one of the listed values on every named axis.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[allow(missing_docs)]
pub struct Exclude {
    pub drafter: Option<OneOrMany<String>>,
    pub verifier: Option<OneOrMany<String>>,
    pub num_speculative_tokens: Option<OneOrMany<usize>>,
    pub temperature: Option<OneOrMany<f64>>,
    pub top_k: Option<OneOrMany<usize>>,
    pub top_p: Option<OneOrMany<f64>>,
    pub min_p: Option<OneOrMany<f64>>,
    pub length: Option<OneOrMany<String>>,
    #[serde(flatten)]
    pub params: BTreeMap<String, OneOrMany<params::Value>>,
}

impl Exclude {
    /// A sweep over the listed values, to be checked like any other.
    pub(super) fn axes(&self) -> Sweep {
        Sweep {
            drafter: self.drafter.clone().unwrap_or(OneOrMany::One(PLAIN.to_owned())),
            verifier: self.verifier.clone().unwrap_or_else(rejection),
            num_speculative_tokens: self.num_speculative_tokens.clone().unwrap_or_else(four),
            temperature: self.temperature.clone().unwrap_or_else(unit),
            top_k: self.top_k.clone().unwrap_or_else(zero),
            top_p: self.top_p.clone().unwrap_or_else(unit),
            min_p: self.min_p.clone().unwrap_or_else(none),
            length: self.length.clone().unwrap_or_else(fixed),
            params: self.params.clone(),
        }
    }
}

/// A list, or one value where a list would have one entry.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// A list.
    Many(Vec<T>),
    /// A value.
    One(T),
}

impl<T: Clone> OneOrMany<T> {
    /// The values.
    pub fn values(&self) -> Vec<T> {
        match self {
            OneOrMany::Many(values) => values.clone(),
            OneOrMany::One(value) => vec![value.clone()],
        }
    }
}

fn default_max_tokens() -> usize {
    64
}
/// Of three the median is right while one is disturbed.
fn default_warmup() -> u32 {
    3
}
fn one() -> u32 {
    1
}
fn yes() -> bool {
    true
}
fn fixed() -> OneOrMany<String> {
    OneOrMany::One("fixed".to_owned())
}
fn rejection() -> OneOrMany<String> {
    OneOrMany::One("rejection".to_owned())
}
fn four() -> OneOrMany<usize> {
    OneOrMany::One(4)
}
fn unit() -> OneOrMany<f64> {
    OneOrMany::One(1.0)
}
fn zero() -> OneOrMany<usize> {
    OneOrMany::One(0)
}
fn none() -> OneOrMany<f64> {
    OneOrMany::One(0.0)
}

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
    /// applies overrides of the form `key=value` or `sweep.axis=value`.
    ///
    /// # Errors
    /// One sentence that names the file, the key and what is allowed.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        let file = if path.is_dir() { path.join("experiment.toml") } else { path.to_owned() };
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read experiment {}", file.display()))?;
        let mut table = parse(&text).with_context(|| file.display().to_string())?;
        for set in overrides {
            apply(&mut table, set)?;
        }
        let spec = check(table).with_context(|| file.display().to_string())?;
        Ok(Self { name: name_of(&file), file, spec })
    }
}

/// Parses TOML; a syntax error becomes one line that says where it is.
fn parse(text: &str) -> Result<Table> {
    text.parse::<Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        anyhow::anyhow!("line {line} is not valid TOML: {}", error.message())
    })
}

fn name_of(file: &Path) -> String {
    let folder = file.canonicalize().ok();
    let named = match file.file_name().and_then(|n| n.to_str()) {
        Some("experiment.toml") => {
            folder.as_deref().and_then(Path::parent).and_then(Path::file_name)
        }
        _ => file.file_stem(),
    };
    let named = named.and_then(|n| n.to_str());
    // It names a folder: dots alone would be the folder that it should lie in, or one above.
    named.filter(|n| !n.trim_matches('.').is_empty()).unwrap_or("experiment").to_owned()
}

/// Checks the keys, turns aliases into canonical names, then the types.
fn check(table: Table) -> Result<Spec> {
    let mut table = canonical(table, &top_keys(), "")?;
    let mut sweeps = sweeps(&mut table)?
        .into_iter()
        .map(|sweep| canonical(sweep, &axes(), " in [sweep]"))
        .collect::<Result<Vec<_>>>()?;
    for (key, _) in settings() {
        let Some(value) = table.remove(key) else { continue };
        for sweep in &mut sweeps {
            if sweep.insert(key.to_owned(), value.clone()).is_some() {
                bail!("\"{key}\" is given twice, once in [sweep]");
            }
        }
    }
    table.insert("sweep".into(), sweeps.into());
    if let Some(conditions) = table.remove("exclude") {
        table.insert("exclude".into(), exclude(conditions)?);
    }
    for key in ["target", "prompts"] {
        if !table.contains_key(key) {
            bail!("the key \"{key}\" is missing");
        }
    }
    for (key, value) in &table {
        check_type(key, value)?;
    }
    let text = toml::to_string(&table)?;
    toml::from_str(&text).map_err(|e| anyhow::anyhow!("{}", e.message()))
}

/// Checks the keys of every `[[exclude]]`.
fn exclude(conditions: Value) -> Result<Value> {
    const LIST: &str = "\"exclude\" must be a list of tables: write [[exclude]]";
    let Value::Array(conditions) = conditions else { bail!(LIST) };
    let checked = conditions.into_iter().map(|condition| match condition {
        Value::Table(condition) => Ok(canonical(condition, &axes(), " in [[exclude]]")?.into()),
        _ => bail!(LIST),
    });
    Ok(Value::Array(checked.collect::<Result<_>>()?))
}

/// Takes `[sweep]`, or every `[[sweep]]`, out of the experiment.
fn sweeps(table: &mut Table) -> Result<Vec<Table>> {
    let values = match table.remove("sweep") {
        Some(Value::Array(values)) if !values.is_empty() => values,
        Some(value) => vec![value],
        None => bail!("the key \"sweep\" is missing"),
    };
    let tables = values.into_iter().map(|value| match value {
        Value::Table(sweep) => Ok(sweep),
        _ => bail!("\"sweep\" must be a table: write [sweep]"),
    });
    tables.collect()
}

/// Applies `key=value` or `sweep.axis=value`; what is not TOML is a text.
fn apply(table: &mut Table, set: &str) -> Result<()> {
    let Some((path, text)) = set.split_once('=') else {
        bail!("--set {set}: write key=value or sweep.axis=value");
    };
    let value = format!("v = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let (keys, name) = match path.split_once('.') {
        None => (top_keys(), path),
        Some(("sweep", axis)) => (axes(), axis),
        Some(_) => bail!("--set {set}: only top-level keys and sweep.axis can be set"),
    };
    let Some((key, aliases)) = keys.iter().find(|(k, a)| *k == name || a.contains(&name)) else {
        bail!("--set {set}: {}", UnknownName::new("key", name, keys.iter().map(|(k, _)| *k)));
    };
    let replace = |place: &mut Table| {
        for spelling in aliases.iter().chain([key]) {
            place.remove(*spelling);
        }
        place.insert((*key).to_owned(), value.clone());
    };
    if name == path {
        replace(table);
        return Ok(());
    }
    let mut all = if table.contains_key("sweep") { sweeps(table)? } else { vec![Table::new()] };
    all.iter_mut().for_each(replace);
    table.insert("sweep".into(), all.into());
    Ok(())
}

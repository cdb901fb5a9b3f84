//! Names of models and prompt sets, as defined in `configs/` folders; models may also have
//! the names of their repositories on the Hugging Face hub.
//!
//! ```toml
//! # configs/models.toml; paths are relative to the folder that holds configs/
//! [embedded-target]
//! path = "models/target"
//! aliases = ["target"]
//! dtype = "bf16"        # and engine, device; of a head also feedback, taps, first_row
//! ```

mod known;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use self::known::KnownModel;
use super::hub::{self, HubCache, HubName};
use super::{heads, layout};
use crate::core::error::Error;
use crate::core::registry::UnknownName;
use crate::engine::{
    Dtype, Engine, Feedback, FirstRow, HeadSettings, Settings, Source, TapSetting,
};
use crate::io::input;
use crate::model::HeadFault;

/// The folders in which names are looked up, one after the other.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The folder that relative paths start from.
    start: PathBuf,
    /// Folders with a `configs/`, in the order of lookup.
    roots: Vec<PathBuf>,
    /// Where models have the names of their repositories.
    cache: Option<HubCache>,
}

/// A table of `configs/models.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogEntry {
    path: String,
    #[serde(default)]
    aliases: Vec<String>,
    engine: Option<Engine>,
    dtype: Option<Dtype>,
    device: Option<String>,
    feedback: Option<Feedback>,
    taps: Option<TapSetting>,
    first_row: Option<FirstRow>,
    block: Option<usize>,
    causal: Option<bool>,
    anchor_first: Option<bool>,
    fault: Option<HeadFault>,
}

impl CatalogEntry {
    /// The model of an entry in the `configs/` of `root`.
    fn source(&self, root: &Path) -> Source {
        let toy = self.path.starts_with("toy:");
        let path = if toy { self.path.clone() } else { text(root.join(&self.path)) };
        let settings = Settings {
            engine: self.engine,
            dtype: self.dtype,
            device: self.device.clone(),
            head: HeadSettings {
                feedback: self.feedback,
                taps: self.taps.clone(),
                first_row: self.first_row,
                block: self.block,
                causal: self.causal,
                anchor_first: self.anchor_first,
                fault: self.fault,
            },
            ..Settings::default()
        };
        Source { settings, ..path.into() }
    }
}

impl Catalog {
    /// The catalog for `start`: the names of the nearest `configs/` at or above it,
    /// then those of the working directory, of `$SPECDEC_HOME`, and those that the program
    /// holds itself.
    pub fn near(start: &Path) -> Self {
        let start = std::path::absolute(start).unwrap_or_else(|_| start.to_path_buf());
        let holds = |folder: &Path| folder.join("configs").is_dir();
        let nearest = start.ancestors().find(|folder| holds(folder)).map(PathBuf::from);
        let others = [env::current_dir().ok(), env::var_os("SPECDEC_HOME").map(PathBuf::from)];
        let mut roots: Vec<PathBuf> = nearest.into_iter().collect();
        for folder in others.into_iter().flatten().filter(|folder| holds(folder)) {
            if !roots.contains(&folder) {
                roots.push(folder);
            }
        }
        roots.extend(input::shipped_root());
        Self { start, roots, cache: HubCache::of_user() }
    }

    /// The same catalog with another Hugging Face cache than the user's.
    #[must_use]
    pub fn with_cache(self, cache: HubCache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// The source of a model, for [`load`](super::load): the entry of this name in
    /// `configs/`, or else `name` itself if it is a toy or a folder (relative to the
    /// folder that the catalog was made for, or to the working directory), or else the
    /// repository of this name in the Hugging Face cache.
    ///
    /// # Errors
    /// If there is no such name or folder, a `configs/models.toml` is invalid, or the cache
    /// lacks a file of the repository; the sentence then has the command that downloads it.
    pub fn model(&self, name: &str) -> Result<Source, Error> {
        if ["toy:", heads::OF_TARGET].iter().any(|scheme| name.starts_with(scheme)) {
            return Ok(name.into());
        }
        let mut known = Vec::new();
        for root in &self.roots {
            let entries = read_models(&root.join("configs/models.toml"))?;
            let called = |key: &str, entry: &CatalogEntry| {
                key == name || entry.aliases.iter().any(|alias| alias == name)
            };
            if let Some((_, entry)) = entries.iter().find(|(key, entry)| called(key, entry)) {
                return Ok(entry.source(root));
            }
            known.extend(entries.into_keys());
        }
        if let Some(folder) = self.existing(name) {
            return Ok(text(folder).into());
        }
        if let Some(name) = HubName::parse(name)? {
            return hub::find(self.cache.as_ref(), &name);
        }
        if looks_like_path(name) || layout::is_gguf(name) {
            return Err(layout::absent(name));
        }
        Err(unknown("model", name, known, "folder"))
    }

    /// The file of a prompt set: `configs/prompts/NAME.jsonl`, or else `name`
    /// itself if it is a file.
    ///
    /// # Errors
    /// If there is no such set or file.
    pub fn prompts(&self, name: &str) -> Result<PathBuf, Error> {
        let mut known = Vec::new();
        for root in &self.roots {
            let folder = root.join("configs/prompts");
            let file = folder.join(format!("{name}.jsonl"));
            if input::is_there(&file) {
                return Ok(file);
            }
            let files = input::names_in(&folder);
            known.extend(files.iter().filter_map(|f| f.strip_suffix(".jsonl")).map(str::to_owned));
        }
        if let Some(file) = self.existing(name) {
            return Ok(file);
        }
        if looks_like_path(name) {
            return Err(Error::setting(format!("prompt set {name}: no such file")));
        }
        Err(unknown("prompt set", name, known, "file"))
    }

    fn existing(&self, path: &str) -> Option<PathBuf> {
        if path.is_empty() {
            return None;
        }
        // A path from the working directory stays as it was written: rows and reports have it.
        let here = env::current_dir().is_ok_and(|here| here == self.start);
        let start = if here { Path::new("") } else { &self.start };
        [start.join(path), PathBuf::from(path)].into_iter().find(|p| p.exists())
    }
}

fn read_models(file: &Path) -> Result<BTreeMap<String, CatalogEntry>, Error> {
    if !input::is_there(file) {
        return Ok(BTreeMap::new());
    }
    let text = input::read_text(file)?;
    // The further lines of the library's message draw the location; here it becomes
    // part of the sentence.
    let place = |e: &toml::de::Error| {
        let line = text[..e.span().map_or(0, |s| s.start)].matches('\n').count() + 1;
        format!("line {line}: {}", e.message())
    };
    toml::from_str(&text).map_err(|e: toml::de::Error| Error::file(file, place(&e)))
}

fn unknown(kind: &'static str, name: &str, mut known: Vec<String>, otherwise: &str) -> Error {
    known.sort();
    known.dedup();
    let error = UnknownName::new(kind, name, known.iter().map(String::as_str));
    Error::setting(format!("{error}, or the path of a {otherwise}"))
}

fn looks_like_path(name: &str) -> bool {
    name.starts_with('.') || name.contains(['/', std::path::MAIN_SEPARATOR])
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

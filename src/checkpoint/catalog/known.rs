//! Everything that has a name: the entries of `configs/` folders, and what the Hugging Face
//! cache holds.

use super::{Catalog, read_models, text};
use crate::checkpoint::hub;
use crate::checkpoint::{ModelSummary, summarise};
use crate::core::error::Error;
use crate::engine::Source;

/// A model that can be named.
#[derive(Debug)]
pub struct KnownModel {
    /// Its name.
    pub name: String,
    /// Further names of it.
    pub aliases: Vec<String>,
    /// Where it is, unless a file of the place is damaged or missing.
    pub source: Result<Source, Error>,
}

impl KnownModel {
    /// Describes it.
    ///
    /// # Errors
    /// If a file is damaged, missing or of a kind that cannot be read.
    pub fn summarise(&self) -> Result<ModelSummary, Error> {
        self.source.as_ref().map_err(Clone::clone).and_then(summarise)
    }
}

impl Catalog {
    /// All models that have a name, in the order in which names are looked up.
    pub fn known(&self) -> Vec<KnownModel> {
        let mut known = Vec::<KnownModel>::new();
        for root in &self.roots {
            let file = root.join("configs/models.toml");
            let entries = match read_models(&file) {
                Ok(entries) => entries,
                Err(error) => {
                    known.push(KnownModel {
                        name: text(file),
                        aliases: Vec::new(),
                        source: Err(error),
                    });
                    continue;
                }
            };
            for (name, entry) in entries {
                if !known.iter().any(|model| model.name == name) {
                    let source = Ok(entry.source(root));
                    known.push(KnownModel { name, aliases: entry.aliases, source });
                }
            }
        }
        known.extend(self.cache.iter().flat_map(hub::all).map(|(name, source)| KnownModel {
            name: name.to_string(),
            aliases: Vec::new(),
            source,
        }));
        known
    }
}

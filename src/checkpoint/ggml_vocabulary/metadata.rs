//! Reading a vocabulary from the metadata of a GGUF file.

use super::GgmlVocabulary;
use crate::checkpoint::gguf::{Metadata, MetadataValue};
use crate::core::distribution::Token;
use crate::core::error::Error;

/// What the keys begin with.
const VOCABULARY: &str = "tokenizer.ggml.";

impl GgmlVocabulary {
    /// The vocabulary that the metadata of a GGUF file describe.
    ///
    /// # Errors
    /// If a key has a value of another type.
    pub fn read(metadata: &Metadata) -> Result<Self, Error> {
        let key = |name: &str| format!("{VOCABULARY}{name}");
        let text = |name| Ok::<_, Error>(metadata.text(&key(name))?.map(str::to_owned));
        let texts = |name| Ok::<_, Error>(metadata.texts(&key(name))?.unwrap_or_default().to_vec());
        let flag = |name| metadata.truth(&key(name));
        // An id that does not fit belongs to no token; the vocabulary says so.
        let fit = |id: u64| Token::try_from(id).unwrap_or(Token::MAX);
        let id = |name| Ok::<_, Error>(metadata.count(&key(name))?.map(fit));
        Ok(Self {
            model: text("model")?.unwrap_or_default(),
            pre: text("pre")?,
            tokens: texts("tokens")?,
            scores: numbers(metadata, &key("scores"))?.into_iter().map(|x| x as f32).collect(),
            types: numbers(metadata, &key("token_type"))?.into_iter().map(|x| x as i32).collect(),
            merges: texts("merges")?,
            bos: id("bos_token_id")?,
            eos: id("eos_token_id")?,
            eot: id("eot_token_id")?,
            eom: id("eom_token_id")?,
            add_bos: flag("add_bos_token")?,
            add_eos: flag("add_eos_token")?,
            add_space_prefix: flag("add_space_prefix")?,
            name: metadata.text("general.name")?.unwrap_or_default().to_owned(),
            chat_template: metadata.text("tokenizer.chat_template")?.map(str::to_owned),
        })
    }
}

/// A list of numbers, empty if it is missing; what is not finite becomes NaN, which the
/// vocabulary refuses where it matters.
fn numbers(metadata: &Metadata, key: &str) -> Result<Vec<f64>, Error> {
    let number = |value: MetadataValue| value.as_number().unwrap_or(f64::NAN);
    Ok(metadata.scalars(key)?.map_or_else(Vec::new, |list| list.iter().map(number).collect()))
}

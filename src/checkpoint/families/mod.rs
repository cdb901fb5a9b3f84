//! Families of models: each is one file that turns the keys of a `config.json` into the
//! switches of the decoder, and one line of [`FAMILIES`].

mod base;
mod experts;
mod gemma2;
mod gemma3;
mod gemma4;
mod gpt2;
mod gpt_oss;
mod keys;
mod llama;
mod mimo;
mod mistral;
mod mixtral;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod rope;
mod smollm3;

pub(super) use base::windowed_layers;
pub(super) use keys::ConfigKeys;

use crate::core::error::Error;
use crate::engine::decoder::Config;

/// A family of models.
#[derive(Debug)]
struct Family {
    /// The `model_type` of its configurations.
    model_type: &'static str,
    /// From the keys of a configuration to the switches of the decoder.
    config: fn(&ConfigKeys<'_>) -> Result<Config, Error>,
}

/// The key of the text model's table if a model has other parts, as those that see images.
pub(super) const TEXT_MODEL: &str = "text_config";

/// All families.
const FAMILIES: &[Family] = &[
    gemma2::FAMILY,
    gemma3::FAMILY,
    gemma4::FAMILY,
    gpt2::FAMILY,
    gpt_oss::FAMILY,
    llama::FAMILY,
    mimo::FAMILY,
    mistral::FAMILY,
    mixtral::FAMILY,
    olmo2::FAMILY,
    phi3::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3_moe::FAMILY,
    smollm3::FAMILY,
];

/// The decoder that a configuration describes: of the text model, if there are other parts.
pub(super) fn config(keys: &ConfigKeys<'_>) -> Result<Config, Error> {
    let text_model = keys.table(TEXT_MODEL)?;
    // As in transformers, what the whole model says counts.
    let tied = keys.flag("tie_word_embeddings")?;
    let keys = text_model.as_ref().unwrap_or(keys);
    let model_type = keys.text("model_type")?;
    let family = FAMILIES.iter().find(|family| Some(family.model_type) == model_type);
    let family = family.ok_or_else(|| {
        let found = model_type.map_or("missing".to_owned(), |found| format!("\"{found}\""));
        let known = FAMILIES.iter().map(|family| family.model_type).collect::<Vec<_>>();
        let key = keys.path("model_type");
        keys.fault(format!("{key} is {found}; supported are: {}", known.join(", ")))
    })?;
    let config = family.decoder(keys)?;
    keys.required("vocab_size", Some(config.vocab_rows).filter(|&rows| rows > 0))?;
    Ok(Config { tied: tied.unwrap_or(config.tied), ..config })
}

/// The decoder that a configuration of the family `model_type` describes. Without `vocab_size` its
/// tables have no rows: they are another model's.
pub(super) fn config_as(keys: &ConfigKeys<'_>, model_type: &str) -> Result<Config, Error> {
    let family = FAMILIES.iter().find(|family| family.model_type == model_type);
    let family = family.ok_or_else(|| keys.fault(format!("there is no family {model_type}")))?;
    family.decoder(keys)
}

impl Family {
    fn decoder(&self, keys: &ConfigKeys<'_>) -> Result<Config, Error> {
        Ok(Config { model_type: self.model_type.to_owned(), ..(self.config)(keys)? })
    }
}

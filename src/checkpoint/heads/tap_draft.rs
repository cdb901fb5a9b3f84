//! A draft model whose rows of committed tokens also read hidden states of the target. It begins
//! as a draft model, and a trained product adds what the target knows.

use super::files::HeadFiles;
use super::{Format, HeadShape, taps};
use crate::core::error::Error;
use crate::engine::Feedback;
use crate::engine::decoder::{Drafting, FusedNorms, HeadConfig, HeadInput};
use crate::model::Features;

/// The registry entry.
pub(super) const FORMAT: Format = Format { name: "tap_draft", fits, shape };

fn fits(files: &HeadFiles<'_>) -> bool {
    files.keys.text("model_type").is_ok_and(|kind| kind == Some("tap_draft"))
}

fn shape(files: &HeadFiles<'_>) -> Result<Vec<HeadShape>, Error> {
    let tied = files.keys.flag("tie_word_embeddings")?.unwrap_or(false);
    let config = HeadConfig {
        decoder: files.decoder(&files.keys, "llama")?,
        // Its first token has a row, as in the draft model that it was.
        features: Features { first_row: true, ..taps::features(files)? },
        input: HeadInput::Added { fused: FusedNorms::Each },
        own_embedding: true,
        own_head: true,
        last_norm: true,
        feedback: Feedback::Plain,
        ids: None,
        zero_first: false,
        drafting: Drafting::Stepwise,
    };
    let table = if tied { "model.embed_tokens" } else { "lm_head" };
    let names = vec![
        ("embed_tokens", "model.embed_tokens".to_owned()),
        ("layers", "model.layers".to_owned()),
        ("norm", "model.norm".to_owned()),
        ("lm_head", table.to_owned()),
    ];
    Ok(vec![HeadShape { config, names }])
}

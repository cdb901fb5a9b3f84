//! EAGLE-1 and EAGLE-2 heads (Li et al. 2024, arXiv 2401.15077), and others in their layout.

use super::files::HeadFiles;
use super::{Format, HeadShape};
use crate::core::error::Error;
use crate::engine::Feedback;
use crate::engine::decoder::{Biases, Drafting, HeadConfig, HeadInput, JOIN, LayerInput};
use crate::model::{Features, Tap};

/// The registry entry.
pub(super) const FORMAT: Format = Format { name: "eagle", fits, shape };

fn fits(files: &HeadFiles<'_>) -> bool {
    files.weights.has("fc.weight") && files.weights.has("layers.0.self_attn.q_proj.weight")
}

fn shape(files: &HeadFiles<'_>) -> Result<Vec<HeadShape>, Error> {
    let keys = &files.keys;
    let mut decoder = files.decoder(keys, "llama")?;
    decoder.layers[0].input = LayerInput::Plain;
    let biases = keys.flag("qkv_bias")?.unwrap_or(false);
    decoder.biases = Biases { qkv: biases, ..Biases::default() };
    let config = HeadConfig {
        // It reads the state that the target's own head multiplies, and predicts the next one.
        features: Features {
            taps: vec![Tap::Normed],
            width: files.hidden.width,
            ..Features::default()
        },
        input: HeadInput::Joined {
            bias: files.weights.has("fc.bias"),
            normed: false,
            state_first: false,
        },
        own_embedding: files.weights.has("embed_tokens.weight"),
        own_head: false,
        last_norm: false,
        feedback: Feedback::Plain,
        ids: None,
        zero_first: false,
        drafting: Drafting::Stepwise,
        decoder,
    };
    Ok(vec![HeadShape { config, names: vec![(JOIN, "fc".to_owned())] }])
}

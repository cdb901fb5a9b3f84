//! EAGLE-3 (Li et al. 2025, arXiv 2503.01840) and 3.1 (arXiv 2605.09992), as SafeAILab, SpecForge
//! and speculators write them.

use super::files::HeadFiles;
use super::{Format, HeadShape, taps};
use crate::core::error::Error;
use crate::engine::Feedback;
use crate::engine::decoder::{
    Drafting, EMBEDDING_NORM, FC_NORM, FusedNorms, HeadConfig, HeadInput, HeadNorms, LayerInput,
    STATE_NORM,
};

/// The registry entry.
pub(super) const FORMAT: Format = Format { name: "eagle3", fits, shape };

/// The layers of a speculators file.
const LAYERS: &str = "transformer_layer_config";

fn fits(files: &HeadFiles<'_>) -> bool {
    let has = |layer: &str| files.weights.has(&format!("{layer}.hidden_norm.weight"));
    files.weights.has("fc.weight") && (has("midlayer") || has("layers.0"))
}

pub(super) fn shape(files: &HeadFiles<'_>) -> Result<Vec<HeadShape>, Error> {
    let (keys, speculators) = (&files.keys, files.keys.table(LAYERS)?);
    let layers = speculators.as_ref().unwrap_or(keys);
    let first =
        if files.weights.has("midlayer.hidden_norm.weight") { "midlayer" } else { "layers.0" };
    // The norms of queries and keys tell the families apart, also where the type is missing.
    let normed = files.weights.has(&format!("{first}.self_attn.q_norm.weight"));
    let mut decoder = files.decoder(layers, "llama")?;
    decoder.head_norms = normed.then_some(HeadNorms::Each);
    decoder.layers[0].input = LayerInput::SideBySide;
    let width = keys.size("target_hidden_size")?.unwrap_or(files.hidden.width);
    if width != files.hidden.width {
        let target = files.hidden.width;
        let what = "but the target's hidden states have";
        return Err(keys.fault(format!("target_hidden_size is {width}, {what} {target} numbers")));
    }
    let own = keys.size("draft_vocab_size")?.unwrap_or(files.vocab());
    let residual = keys.flag("norm_before_residual")?;
    if residual.is_none() && speculators.is_some() {
        return Err(keys.fault(
            "norm_before_residual is missing, and programs that read such files disagree on what \
             that means: write true or false, as in training",
        ));
    }
    let flag = |key| Ok::<_, Error>(keys.flag(key)?.unwrap_or(false));
    let fused = match (flag("fc_norm")?, flag("norm_before_fc")?) {
        (false, false) => FusedNorms::None,
        (true, false) => FusedNorms::Each,
        (false, true) => FusedNorms::Whole,
        (true, true) => {
            return Err(keys.fault("fc_norm and norm_before_fc are both true: one must be false"));
        }
    };
    let normed_residual = residual.unwrap_or(false);
    let config = HeadConfig {
        decoder,
        features: taps::features(files)?,
        input: HeadInput::SideBySide { fused, normed_residual },
        own_embedding: files.weights.has("embed_tokens.weight"),
        own_head: files.weights.has("lm_head.weight"),
        last_norm: true,
        feedback: feedback(files, speculators.is_some())?,
        ids: files.ids(own)?,
        zero_first: false,
        drafting: Drafting::Stepwise,
    };
    let names = vec![
        (EMBEDDING_NORM, format!("{first}.input_layernorm")),
        (STATE_NORM, format!("{first}.hidden_norm")),
        ("layers.0", first.to_owned()),
        (FC_NORM, (if fused == FusedNorms::Whole { "input_norm" } else { FC_NORM }).to_owned()),
    ];
    Ok(vec![HeadShape { config, names }])
}

/// What is fed back. With `norm_output`, speculators and the engines feed the state after the last
/// norm; SpecForge has the same key for the norm before the head, and feeds the state before it.
fn feedback(files: &HeadFiles<'_>, speculators: bool) -> Result<Feedback, Error> {
    let says = files.keys.flag("norm_output")?.unwrap_or(false);
    match files.settings.feedback {
        Some(setting) => Ok(setting),
        None if says && !speculators => Err(files.keys.fault(
            "norm_output is true, which means another feedback where the head was trained than in \
             engines: name the head in configs/models.toml, with feedback = \"pre\" (SpecForge) or \
             \"post\"",
        )),
        None if says => Ok(Feedback::Normed),
        None => Ok(Feedback::Plain),
    }
}

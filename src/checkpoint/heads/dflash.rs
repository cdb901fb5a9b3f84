//! DFlash (Chen et al. 2026, arXiv 2602.06036) and DSpark, as z-lab, DeepSpec, SpecForge,
//! speculators, transformers and the converter of llama.cpp write them.

use super::block_keys::BlockKeys;
use super::files::HeadFiles;
use super::{Format, HeadShape, taps};
use crate::checkpoint::families;
use crate::core::error::Error;
use crate::engine::Feedback;
use crate::engine::decoder::{
    Ahead, Behind, BlockShape, CONFIDENCE, Confidence, Config, Drafting, FC, HeadConfig, HeadInput,
    Markov, MarkovKind, STATE_NORM, Sight, TensorNames,
};
use crate::model::Features;

/// The registry entry.
pub(super) const FORMAT: Format = Format { name: "dflash", fits, shape };

/// The norm of fused features, by which a block is known; in files of transformers the second one.
const NORMS: [&str; 2] = ["hidden_norm", "encoder.output_norm_enc"];
/// The most rows of a block.
const MOST_ROWS: usize = 64;

fn fits(files: &HeadFiles<'_>) -> bool {
    NORMS.iter().any(|norm| files.weights.has(&format!("{norm}.weight")))
}

fn shape(files: &HeadFiles<'_>) -> Result<Vec<HeadShape>, Error> {
    let keys = BlockKeys::of(files)?;
    keys.refuse_other_models()?;
    let encoder = files.weights.has(&format!("{}.weight", NORMS[1]));
    let mut decoder = families::config_as(&keys.layers, "qwen3")?;
    let sights = sights(files, &keys, encoder, &mut decoder)?;
    decoder.names = TensorNames { sinks: keys.sinks()?, ..TensorNames::HEAD };
    decoder.tied = false;
    decoder.value_scale = keys.number("attention_value_scale")?.unwrap_or(1.0) as f32;
    decoder.embedding_scale = keys.number("input_embedding_scale")?.unwrap_or(1.0) as f32;
    decoder.logit_scale = keys.number("output_multiplier")?.unwrap_or(1.0) as f32;
    decoder.final_softcap = keys.number("final_logit_softcapping")?.map(|cap| cap as f32);
    if decoder.vocab_rows == 0 {
        decoder.vocab_rows = files.vocabularies.1;
    }
    let markov = markov(&keys)?;
    let rows = files.settings.block;
    let rows = rows.map_or_else(|| keys.required_size("block_size", MOST_ROWS), Ok)?;
    let own_embedding = files.weights.has("embed_tokens.weight");
    let tokens = if own_embedding { decoder.vocab_rows } else { files.vocabularies.1 };
    let shape = BlockShape {
        rows,
        mask: keys.mask(tokens)?,
        own_mask: files.weights.has("mask_embedding"),
        anchor_first: keys.anchor_first(markov.is_some())?,
        sights,
        markov,
        confidence: confidence(files, &keys, decoder.hidden, markov)?,
    };
    if shape.predicting().is_empty() {
        return Err(files
            .keys
            .fault("a block of one row predicts nothing: set block to 2 or more"));
    }
    let own = keys.size("draft_vocab_size")?.unwrap_or(files.vocab());
    let estimates = shape.confidence.is_some();
    let config = HeadConfig {
        features: Features { estimates, ..taps::of_block(files, &keys)? },
        input: HeadInput::Context,
        own_embedding,
        own_head: files.weights.has("lm_head.weight"),
        last_norm: true,
        feedback: Feedback::Plain,
        ids: files.ids(own)?,
        zero_first: false,
        drafting: Drafting::Block(shape),
        decoder,
    };
    let fc = if encoder { "encoder.fc" } else { FC };
    let names = vec![(STATE_NORM, NORMS[usize::from(encoder)].to_owned()), (FC, fc.to_owned())];
    Ok(vec![HeadShape { config, names }])
}

/// What rows see, layer by layer. The windows of `decoder` move there.
///
/// Programs agree on layers without windows, but for causality. In layers with a window of w, a row
/// sees the w positions up to its own and nothing after it (z-lab, vLLM, SGLang), or all of the
/// block after it (llama.cpp), w positions on both sides (transformers), or w tokens before the
/// block and the block up to its own row, or all of it (speculators).
fn sights(
    files: &HeadFiles<'_>,
    keys: &BlockKeys<'_>,
    encoder: bool,
    decoder: &mut Config,
) -> Result<Vec<Sight>, Error> {
    let count = decoder.layers.len();
    let forced = keys.forced_windows(count, encoder)?;
    let open = match () {
        () if encoder => true,
        () if keys.speculators => keys.flag("sliding_window_non_causal")?.unwrap_or(false),
        () => forced.as_ref().is_some_and(|forced| forced.open),
    };
    if forced.is_none() {
        keys.check_windows(count)?;
    }
    let windows = decoder.layers.iter_mut().map(|layer| layer.window.take()).collect::<Vec<_>>();
    let windows = forced.map_or(windows, |forced| forced.by_layer);
    let causal = files.settings.causal.map_or_else(|| keys.causal(), |set| Ok(Some(set)))?;
    let past = keys.flag("sliding_window_past")?.unwrap_or(false);
    let sight = |window: Option<usize>| {
        let (behind, ahead) = match window {
            None => (Behind::All, Ahead::All),
            Some(w) if encoder => (Behind::Row(w + 1), Ahead::Rows(w)),
            Some(w) if past => (Behind::Row(w), Ahead::All),
            Some(w) if keys.speculators => (Behind::Block(w), Ahead::All),
            Some(w) => (Behind::Row(w), Ahead::Rows(w - 1)),
        };
        let causal = causal.unwrap_or(window.is_some() && !open);
        Sight { behind, ahead: if causal { Ahead::Nothing } else { ahead } }
    };
    Ok(windows.into_iter().map(sight).collect())
}

fn markov(keys: &BlockKeys<'_>) -> Result<Option<Markov>, Error> {
    let Some(rank) = keys.count("markov_rank")?.filter(|rank| *rank > 0) else { return Ok(None) };
    let kinds = [
        ("vanilla", MarkovKind::Vanilla),
        ("gated", MarkovKind::Gated),
        ("rnn", MarkovKind::Recurrent),
    ];
    let kind = keys.choice("markov_head_type", &kinds)?.unwrap_or(MarkovKind::Vanilla);
    Ok(Some(Markov { kind, rank }))
}

/// Whether there is an estimate of acceptance. Where the keys leave it open, the tensors say so.
fn confidence(
    files: &HeadFiles<'_>,
    keys: &BlockKeys<'_>,
    width: usize,
    markov: Option<Markov>,
) -> Result<Option<Confidence>, Error> {
    let tensor = format!("{CONFIDENCE}.weight");
    let enabled = keys.flag("enable_confidence_head")?;
    if !enabled.unwrap_or_else(|| files.weights.has(&tensor)) {
        return Ok(None);
    }
    let wide = markov.map_or(width, |markov| width + markov.rank);
    let reads = markov.is_some() && files.weights.check(&tensor, &[1, wide]).is_ok();
    let reads_token = keys.flag("confidence_head_with_markov")?.unwrap_or(reads);
    Ok(Some(Confidence { reads_token }))
}

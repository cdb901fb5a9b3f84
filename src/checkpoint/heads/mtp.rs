//! Multi-token prediction (DeepSeek-V3, arXiv 2412.19437): one more layer of the target's own kind,
//! in the target's files or in files of its own.

use super::files::HeadFiles;
use super::{Format, HeadShape};
use crate::checkpoint::families::ConfigKeys;
use crate::core::error::Error;
use crate::engine::Feedback;
use crate::engine::decoder::{Drafting, EMBEDDING_NORM, HeadConfig, HeadInput, JOIN, STATE_NORM};
use crate::model::{Features, Tap};

/// The registry entry of files of its own, as speculators writes them.
pub(super) const FORMAT: Format = Format { name: "mtp", fits, shape };

/// The layer of a speculators file.
const LAYER: &str = "transformer_layer_config";

/// The most layers.
const MOST_LAYERS: usize = 64;

/// What the names around a layer begin with in GGUF files. There, an embedding and a head of its own
/// count if they are there, and without a last norm the target's counts, as in llama.cpp. From other
/// files, the programs that read them take the target's tables.
const GGUF: &str = "blk.{N}.nextn";

/// The names of the tensors around a layer, in one of the layouts.
struct Layout {
    /// What the names begin with; `{N}` stands for the number of the target's layers and of the MTP
    /// layers before it, `{K}` for that of the MTP layers before it.
    around: &'static str,
    /// What the names within the layer begin with.
    layer: &'static str,
    /// The norm of the embedding, that of the state, the product that joins them, and the last norm.
    names: [&'static str; 4],
    state_first: bool,
}

const LAYOUTS: &[Layout] = &[
    Layout {
        around: "model.layers.{N}",
        layer: "model.layers.{N}",
        names: ["enorm", "hnorm", "eh_proj", "shared_head.norm"],
        state_first: false,
    },
    Layout {
        around: GGUF,
        layer: "model.layers.{N}",
        names: ["enorm", "hnorm", "eh_proj", "shared_head_norm"],
        state_first: false,
    },
    Layout {
        around: "mtp",
        layer: "mtp.layers.0",
        names: ["pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"],
        state_first: false,
    },
    Layout {
        around: "mtp_layers.0",
        layer: "mtp_layers.0",
        names: ["token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"],
        state_first: false,
    },
    // MiMo's file of the model concatenates in the other order.
    Layout {
        around: "model.mtp_layers.{K}",
        layer: "model.mtp_layers.{K}",
        names: ["token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"],
        state_first: true,
    },
];

fn fits(files: &HeadFiles<'_>) -> bool {
    found(files).is_some()
}

/// The layout of the files, if they have such a layer.
fn found(files: &HeadFiles<'_>) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.has(files, 0))
}

impl Layout {
    /// Whether there is an MTP layer after `before` others.
    fn has(&self, files: &HeadFiles<'_>, before: usize) -> bool {
        let [_, _, join, _] = self.names;
        let varies = before == 0 || self.around.contains('{');
        let around = numbered(self.around, files.hidden.layers, before);
        varies && files.weights.has(&format!("{around}.{join}.weight"))
    }
}

fn numbered(name: &str, layers: usize, before: usize) -> String {
    name.replace("{N}", &(layers + before).to_string()).replace("{K}", &before.to_string())
}

/// The layers, each for one position of a draft; a single one is used for all positions.
fn shape(files: &HeadFiles<'_>) -> Result<Vec<HeadShape>, Error> {
    let layout = found(files).ok_or_else(|| files.keys.fault("there is no MTP layer"))?;
    let layers = (0..MOST_LAYERS).take_while(|&before| layout.has(files, before));
    layers.map(|before| layer(files, layout, before)).collect()
}

fn layer(files: &HeadFiles<'_>, layout: &Layout, before: usize) -> Result<HeadShape, Error> {
    let keys = &files.keys;
    let own = keys.table(LAYER)?;
    let mut decoder = decoder(files, own.as_ref().unwrap_or(keys))?;
    decoder.layers.truncate(1);
    let named = |name: &str| numbered(name, files.hidden.layers, before);
    let around = named(layout.around);
    let has = |name: &str| files.weights.has(&format!("{name}.weight"));
    let [embedding, head] =
        ["embed_tokens", "shared_head_head"].map(|table| format!("{}.{table}", named(GGUF)));
    let config = HeadConfig {
        decoder,
        features: Features {
            taps: vec![Tap::Normed],
            width: files.hidden.width,
            ..Features::default()
        },
        input: HeadInput::Joined { bias: false, normed: true, state_first: layout.state_first },
        own_embedding: has(&embedding),
        own_head: has(&head),
        last_norm: true,
        feedback: files.settings.feedback.unwrap_or(Feedback::Normed),
        ids: None,
        zero_first: false,
        drafting: Drafting::Stepwise,
    };
    let [token, state, join, last] = layout.names.map(|name| format!("{around}.{name}"));
    let last = if layout.around == GGUF && !has(&last) { "model.norm".to_owned() } else { last };
    let names = vec![
        (EMBEDDING_NORM, token),
        (STATE_NORM, state),
        (JOIN, join),
        ("norm", last),
        ("embed_tokens", embedding),
        ("lm_head", head),
        ("layers.0", named(layout.layer)),
    ];
    Ok(HeadShape { config, names })
}

fn decoder(
    files: &HeadFiles<'_>,
    keys: &ConfigKeys<'_>,
) -> Result<crate::engine::decoder::Config, Error> {
    let family = keys.text("model_type")?.unwrap_or("qwen2");
    files.decoder(keys, family)
}

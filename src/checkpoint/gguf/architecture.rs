//! The architectures whose GGUF files are read, one row each.

use super::metadata::Metadata;
use crate::core::error::Error;

/// The key that names the architecture.
const KEY: &str = "general.architecture";

/// The key of the number of experts, without the architecture's name.
pub(super) const EXPERT_COUNT: &str = "expert_count";

/// What distinguishes the files of an architecture, and what its models compute as far as
/// files do not say so.
#[derive(Debug)]
pub(super) struct Architecture {
    /// Its name in files, with which its keys begin.
    pub(super) name: &'static str,
    /// The `model_type` of transformers.
    pub(super) model_type: &'static str,
    /// The tensors of a layer.
    pub(super) parts: &'static [&'static [LayerPart]],
    /// Those that may have a bias, by their names in GGUF files.
    pub(super) biased: &'static [&'static str],
    /// Whether rotary pairs of queries and keys are neighbours; transformers has them half
    /// a head apart.
    pub(super) neighbours: bool,
    /// Whether weights of norms are stored with the 1 added that transformers adds later.
    pub(super) norms_are_complete: bool,
    /// The key and name of the activation.
    pub(super) activation: (&'static str, &'static str),
    /// Which layers attend to a window.
    pub(super) windows: Windows,
    /// What only some architectures have.
    pub(super) extras: Extras,
    /// What kind of head it is, if it is one: heads draft from hidden states of a target.
    pub(super) head: Option<HeadKind>,
    /// The key of the width of experts, if its feed-forward blocks are sparse.
    pub(super) experts: Option<&'static str>,
}

/// A tensor of every layer.
#[derive(Debug)]
pub(super) struct LayerPart {
    /// Its name in a GGUF file, without number and `.weight`.
    pub(super) gguf: &'static str,
    /// Its name in a Hugging Face checkpoint, where a star stands for the number of an expert.
    pub(super) hf: &'static str,
}

/// The heads that have an architecture of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadKind {
    /// EAGLE-3.
    Eagle3,
    /// Block drafters, DFlash and DSpark.
    Dflash,
}

/// Which layers attend to a window of tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// None.
    No,
    /// All, if the file has a window; the model then has another `model_type`, if one is
    /// given.
    All(Option<&'static str>),
    /// Those that a list names, or all but every n-th.
    AllBut {
        /// This n, unless the file has another; without it the file must have a list or an n.
        every: Option<usize>,
        /// The window, unless the file has another.
        default: Option<usize>,
    },
    /// A file with a window holds a model that is not supported.
    Refused(&'static str),
}

/// What only some architectures have.
#[derive(Debug)]
pub(super) struct Extras {
    /// Attention scores and logits have caps.
    pub(super) attention_cap: bool,
    pub(super) final_cap: bool,
    /// Attention scores are divided by a root that is a key of its own. It is that of the
    /// head's width, but in the model with this number of layers that of the hidden width
    /// per head; files do not have it.
    pub(super) scale_by_width: Option<usize>,
    /// Layers with a window have a rotary embedding of their own, with this base unless the
    /// file has another.
    pub(super) window_theta: Option<f64>,
    /// Every n-th layer has no rotary embedding.
    pub(super) no_rope_every: Option<usize>,
    /// Biases that the file has are keys.
    pub(super) bias_keys: bool,
    /// The last layers may be there for multi-token prediction.
    pub(super) mtp: bool,
    /// The ends of YaRN's ramp are not rounded.
    pub(super) exact_ramp: bool,
}

const fn part(gguf: &'static str, hf: &'static str) -> LayerPart {
    LayerPart { gguf, hf }
}

const QKV: &[LayerPart] = &[
    part("attn_q", "self_attn.q_proj"),
    part("attn_k", "self_attn.k_proj"),
    part("attn_v", "self_attn.v_proj"),
];
const OUTPUT: &[LayerPart] = &[part("attn_output", "self_attn.o_proj")];
const MLP: &[LayerPart] = &[
    part("ffn_gate", "mlp.gate_proj"),
    part("ffn_up", "mlp.up_proj"),
    part("ffn_down", "mlp.down_proj"),
];
const EXPERTS: &[LayerPart] = &[
    part("ffn_gate_inp", "mlp.gate"),
    part("ffn_gate_exps", "mlp.experts.*.gate_proj"),
    part("ffn_up_exps", "mlp.experts.*.up_proj"),
    part("ffn_down_exps", "mlp.experts.*.down_proj"),
];
const EXPERTS_OF_MIXTRAL: &[LayerPart] = &[
    part("ffn_gate_inp", "block_sparse_moe.gate"),
    part("ffn_gate_exps", "block_sparse_moe.experts.*.w1"),
    part("ffn_up_exps", "block_sparse_moe.experts.*.w3"),
    part("ffn_down_exps", "block_sparse_moe.experts.*.w2"),
];
/// Queries, keys and values in one tensor, gate and up projection in another.
const FUSED: &[LayerPart] = &[
    part("attn_qkv", "self_attn.qkv_proj"),
    part("ffn_up", "mlp.gate_up_proj"),
    part("ffn_down", "mlp.down_proj"),
];
const HEAD_NORMS: &[LayerPart] =
    &[part("attn_q_norm", "self_attn.q_norm"), part("attn_k_norm", "self_attn.k_norm")];
/// Of what attention and the feed-forward block read.
const NORMS_BEFORE: &[LayerPart] =
    &[part("attn_norm", "input_layernorm"), part("ffn_norm", "post_attention_layernorm")];
/// Of what they add to the hidden state.
const NORMS_AFTER: &[LayerPart] = &[
    part("post_attention_norm", "post_attention_layernorm"),
    part("post_ffw_norm", "post_feedforward_layernorm"),
];
/// Both; what the feed-forward block reads has another name than in [`NORMS_BEFORE`].
const NORMS_AROUND: &[LayerPart] = &[
    part("attn_norm", "input_layernorm"),
    part("post_attention_norm", "post_attention_layernorm"),
    part("ffn_norm", "pre_feedforward_layernorm"),
    part("post_ffw_norm", "post_feedforward_layernorm"),
];

const EXPERTS_OF_GPT_OSS: &[LayerPart] = &[
    part("ffn_gate_inp", "mlp.router"),
    part("ffn_gate_exps", "mlp.experts.*.gate_proj"),
    part("ffn_up_exps", "mlp.experts.*.up_proj"),
    part("ffn_down_exps", "mlp.experts.*.down_proj"),
];
const NORMS_OF_GPT_OSS: &[LayerPart] = &[
    part("attn_norm", "input_layernorm"),
    part("post_attention_norm", "post_attention_layernorm"),
];
const SINKS_OF_GPT_OSS: &[LayerPart] = &[part("attn_sinks", "self_attn.sinks")];

/// The norm of the state next to the embedding, whose norm is that of a layer's input.
const STATE_NORM: &[LayerPart] = &[part("attn_norm_2", "hidden_norm")];
/// The sinks of attention, which a file may have.
const SINKS: &[LayerPart] = &[part("attn_sinks", "self_attn.attention_sink_bias")];

const SILU: (&str, &str) = ("hidden_act", "silu");
const GELU: (&str, &str) = ("hidden_activation", "gelu_pytorch_tanh");

const NOTHING: Extras = Extras {
    attention_cap: false,
    final_cap: false,
    scale_by_width: None,
    window_theta: None,
    no_rope_every: None,
    bias_keys: false,
    mtp: false,
    exact_ramp: false,
};

/// What most architectures have in common.
const PLAIN: Architecture = Architecture {
    name: "",
    model_type: "",
    parts: &[],
    biased: &[],
    neighbours: false,
    norms_are_complete: false,
    activation: SILU,
    windows: Windows::No,
    extras: NOTHING,
    head: None,
    experts: None,
};

/// The architectures.
const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "llama",
        model_type: "llama",
        parts: &[QKV, OUTPUT, MLP, NORMS_BEFORE],
        biased: &["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"],
        neighbours: true,
        windows: Windows::All(Some("mistral")),
        extras: Extras { bias_keys: true, mtp: true, ..NOTHING },
        ..PLAIN
    },
    Architecture {
        name: "llama",
        model_type: "mixtral",
        parts: &[QKV, OUTPUT, EXPERTS_OF_MIXTRAL, NORMS_BEFORE],
        neighbours: true,
        windows: Windows::All(None),
        experts: Some("feed_forward_length"),
        ..PLAIN
    },
    Architecture {
        name: "qwen2",
        model_type: "qwen2",
        parts: &[QKV, OUTPUT, MLP, NORMS_BEFORE],
        biased: &["attn_q", "attn_k", "attn_v"],
        extras: Extras { mtp: true, ..NOTHING },
        ..PLAIN
    },
    Architecture {
        name: "qwen3",
        model_type: "qwen3",
        parts: &[QKV, HEAD_NORMS, OUTPUT, MLP, NORMS_BEFORE],
        extras: Extras { mtp: true, ..NOTHING },
        ..PLAIN
    },
    Architecture {
        name: "qwen3moe",
        model_type: "qwen3_moe",
        parts: &[QKV, HEAD_NORMS, OUTPUT, EXPERTS, NORMS_BEFORE],
        experts: Some("expert_feed_forward_length"),
        ..PLAIN
    },
    Architecture {
        name: "gemma2",
        model_type: "gemma2",
        parts: &[QKV, OUTPUT, MLP, NORMS_AROUND],
        norms_are_complete: true,
        activation: GELU,
        windows: Windows::AllBut { every: Some(2), default: Some(4096) },
        extras: Extras {
            attention_cap: true,
            final_cap: true,
            scale_by_width: Some(46),
            ..NOTHING
        },
        ..PLAIN
    },
    Architecture {
        name: "gemma3",
        model_type: "gemma3_text",
        parts: &[QKV, HEAD_NORMS, OUTPUT, MLP, NORMS_AROUND],
        norms_are_complete: true,
        activation: GELU,
        windows: Windows::AllBut { every: Some(6), default: None },
        extras: Extras {
            final_cap: true,
            scale_by_width: Some(62),
            window_theta: Some(10_000.0),
            ..NOTHING
        },
        ..PLAIN
    },
    Architecture {
        name: "phi3",
        model_type: "phi3",
        parts: &[FUSED, OUTPUT, NORMS_BEFORE],
        windows: Windows::All(None),
        ..PLAIN
    },
    Architecture {
        name: "olmo2",
        model_type: "olmo2",
        parts: &[QKV, HEAD_NORMS, OUTPUT, MLP, NORMS_AFTER],
        windows: Windows::Refused("OLMo 3"),
        ..PLAIN
    },
    Architecture {
        name: "smollm3",
        model_type: "smollm3",
        parts: &[QKV, OUTPUT, MLP, NORMS_BEFORE],
        neighbours: true,
        extras: Extras { no_rope_every: Some(4), ..NOTHING },
        ..PLAIN
    },
    Architecture {
        name: "gpt-oss",
        model_type: "gpt_oss",
        parts: &[QKV, OUTPUT, EXPERTS_OF_GPT_OSS, NORMS_OF_GPT_OSS, SINKS_OF_GPT_OSS],
        biased: &[
            "attn_q",
            "attn_k",
            "attn_v",
            "attn_output",
            "ffn_gate_inp",
            "ffn_gate_exps",
            "ffn_up_exps",
            "ffn_down_exps",
        ],
        windows: Windows::AllBut { every: Some(2), default: None },
        extras: Extras { exact_ramp: true, ..NOTHING },
        experts: Some("expert_feed_forward_length"),
        ..PLAIN
    },
    Architecture {
        name: "eagle3",
        model_type: "llama",
        parts: &[QKV, OUTPUT, MLP, NORMS_BEFORE, STATE_NORM],
        neighbours: true,
        head: Some(HeadKind::Eagle3),
        ..PLAIN
    },
    Architecture {
        name: "dflash",
        model_type: "qwen3",
        parts: &[QKV, HEAD_NORMS, OUTPUT, MLP, NORMS_BEFORE, SINKS],
        windows: Windows::AllBut { every: None, default: None },
        head: Some(HeadKind::Dflash),
        ..PLAIN
    },
];

impl Architecture {
    /// The architecture that the metadata name.
    pub(super) fn of(metadata: &Metadata) -> Result<&'static Self, Error> {
        let name = metadata.text(KEY)?.ok_or_else(|| metadata.fault(KEY, "is missing"))?;
        let mut known = ARCHITECTURES.iter().filter(|known| known.name == name).peekable();
        if known.peek().is_none() {
            let mut known = ARCHITECTURES.iter().map(|known| known.name).collect::<Vec<_>>();
            known.dedup();
            let known = known.join(", ");
            return Err(metadata.fault(KEY, &format!("is {name:?}; supported are: {known}")));
        }
        let key = format!("{name}.{EXPERT_COUNT}");
        let count = metadata.count(&key)?.unwrap_or(0);
        known.find(|known| known.experts.is_some() == (count > 0)).ok_or_else(|| {
            let which = if count > 0 { "with" } else { "without" };
            let what = format!("is {count}, but {name} models {which} experts are not supported");
            metadata.fault(&key, &what)
        })
    }

    /// All tensors of a layer.
    pub(super) fn layer(&self) -> impl Iterator<Item = &'static LayerPart> {
        self.parts.iter().copied().flatten()
    }
}

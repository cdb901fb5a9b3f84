//! Models with common shapes and random weights, for timing: speed does not depend on
//! the values of the weights.

use super::build::Checkpoint;
use crate::core::error::Error;
use crate::core::registry::UnknownName;
use crate::engine::Settings;
use crate::engine::decoder::{
    Activation, Biases, Config, Experts, HeadSizes, LayerKind, Rope, TensorNames, Tensors,
};
use crate::model::LanguageModel;

/// A shape; the context length is 8192.
#[derive(Debug, Clone, Copy)]
pub struct ModelShape {
    /// Its name: about the number of parameters, or what it is a part of.
    pub name: &'static str,
    /// Width of the hidden states.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward blocks, or of an expert.
    pub intermediate: usize,
    /// Numbers of experts of each layer, of all and of those that a token uses.
    pub experts: Option<[usize; 2]>,
    /// Number of tokens.
    pub vocab: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
}

/// A target and a draft model so small that generating a hundred thousand texts takes
/// seconds.
pub const SMALL_PAIR: [ModelShape; 2] = [
    ModelShape {
        name: "small",
        hidden: 32,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 16,
        intermediate: 48,
        experts: None,
        vocab: 200,
        tied: false,
    },
    ModelShape {
        name: "smaller",
        hidden: 16,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 16,
        intermediate: 32,
        experts: None,
        vocab: 200,
        tied: true,
    },
];

/// The shapes to measure.
pub const SHAPES: &[ModelShape] = &[
    ModelShape {
        name: "15m",
        hidden: 288,
        layers: 6,
        heads: 6,
        kv_heads: 6,
        head_dim: 48,
        intermediate: 768,
        experts: None,
        vocab: 32_000,
        tied: true,
    },
    ModelShape {
        name: "110m",
        hidden: 768,
        layers: 12,
        heads: 12,
        kv_heads: 12,
        head_dim: 64,
        intermediate: 2048,
        experts: None,
        vocab: 32_000,
        tied: true,
    },
    ModelShape {
        name: "1.1b",
        hidden: 2048,
        layers: 22,
        heads: 32,
        kv_heads: 4,
        head_dim: 64,
        intermediate: 5632,
        experts: None,
        vocab: 32_000,
        tied: false,
    },
    // Four layers of Qwen3-30B-A3B, and the same with as many weights as a token uses there.
    ModelShape {
        name: "a3b-sparse",
        hidden: 2048,
        layers: 4,
        heads: 32,
        kv_heads: 4,
        head_dim: 128,
        intermediate: 768,
        experts: Some([128, 8]),
        vocab: 32_000,
        tied: true,
    },
    ModelShape {
        name: "a3b-dense",
        hidden: 2048,
        layers: 4,
        heads: 32,
        kv_heads: 4,
        head_dim: 128,
        intermediate: 6144,
        experts: None,
        vocab: 32_000,
        tied: true,
    },
];

impl ModelShape {
    /// The shape of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self, UnknownName> {
        let found = SHAPES.iter().find(|shape| shape.name == name);
        found.copied().ok_or_else(|| UnknownName::new("shape", name, SHAPES.iter().map(|s| s.name)))
    }

    /// A model of this shape with random weights.
    ///
    /// # Errors
    /// If the settings are inconsistent, or memory cannot be allocated.
    pub fn model(self, settings: &Settings) -> Result<Box<dyn LanguageModel>, Error> {
        let Self { head_dim, intermediate, .. } = self;
        let experts = self.experts.map(|[count, used]| Experts {
            count,
            used,
            intermediate,
            normalised: true,
        });
        let layer = LayerKind { sparse: experts.is_some(), ..LayerKind::PLAIN };
        let config = Config {
            model_type: "llama".to_owned(),
            hidden: self.hidden,
            intermediate: self.intermediate,
            experts,
            heads: HeadSizes { queries: self.heads, keys: self.kv_heads, width: head_dim },
            layers: vec![layer; self.layers],
            per_layer: None,
            layer_scalars: false,
            ropes: vec![Rope::plain(10_000.0, head_dim)],
            names: TensorNames::LLAMA,
            norm_eps: 1e-5,
            layer_norms: false,
            norm_offset: 0.0,
            head_norms: None,
            value_norms: false,
            biases: Biases::default(),
            activation: Activation::Silu,
            embedding_scale: 1.0,
            attention_scale: 1.0 / (head_dim as f32).sqrt(),
            value_scale: 1.0,
            attention_softcap: None,
            logit_scale: 1.0,
            final_softcap: None,
            positions: 8192,
            vocab_rows: self.vocab,
            tied: self.tied,
            learned_positions: false,
            gated: true,
        };
        let checkpoint = Checkpoint {
            name: format!("shape {}", self.name),
            revision: None,
            vocab: config.vocab_rows,
            config,
            eos: Vec::new(),
            unused: Vec::new(),
            notes: Vec::new(),
            tokenizer_sha256: "none".to_owned(),
        };
        checkpoint.build(settings, &self)
    }
}

impl Tensors for ModelShape {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        Ok(random(name, shape))
    }

    fn sha256(&self) -> Result<String, Error> {
        Ok(format!("random {}", self.name))
    }
}

/// Uniform weights, scaled so that matrices preserve the magnitude of their inputs; a
/// function of the name and the shape.
fn random(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut state = name
        .bytes()
        .fold(0x9e37_79b9_7f4a_7c15_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        | 1;
    let scale = match shape {
        [_, inputs] => (3.0 / *inputs as f32).sqrt(),
        _ => return vec![1.0; shape.iter().product()],
    };
    let unit = 1.0 / (1u64 << 31) as f32;
    let weights = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 32) as i32 as f32) * unit * scale
    });
    weights.take(shape.iter().product()).collect()
}

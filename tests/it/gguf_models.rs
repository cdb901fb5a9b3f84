//! Tiny models of every architecture as GGUF files, next to the tensors that they have as
//! Hugging Face checkpoints.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;

use crate::fixtures::{seeded, uniform};
use crate::gguf_support::{Gguf, plain};

/// The architectures that are supported.
pub(crate) const ARCHITECTURES: [&str; 8] =
    ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "smollm3"];

/// A tiny model; no two sizes are equal by chance.
#[derive(Debug, Clone)]
pub(crate) struct TinyModel {
    pub(crate) architecture: &'static str,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) inner: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) width: usize,
    pub(crate) vocab: usize,
    pub(crate) tied: bool,
}

/// A tensor: what GGUF calls it, what Hugging Face calls it, and its shape.
type Named = (String, String, Vec<usize>);

/// The tensors of a Hugging Face checkpoint.
pub(crate) type HfTensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

impl TinyModel {
    pub(crate) fn new(architecture: &'static str) -> Self {
        let tied = true;
        Self {
            architecture,
            layers: 2,
            hidden: 20,
            inner: 28,
            heads: 6,
            kv_heads: 2,
            width: 8,
            vocab: 33,
            tied,
        }
    }

    /// The file, and the tensors as Hugging Face has them.
    pub(crate) fn make(&self) -> (Gguf, HfTensors) {
        let mut rng = seeded(16);
        let mut tensors = HfTensors::new();
        let mut file = self.metadata();
        for (gguf, hf, shape) in self.names() {
            let count = shape.iter().product();
            let weights = (0..count).map(|_| random(&mut rng)).collect::<Vec<_>>();
            let stored = self.stored(&hf, &shape, &weights);
            file = file.with_tensor(plain(&gguf, &shape, &stored));
            tensors.insert(hf, (shape, weights));
        }
        (file, tensors)
    }

    /// The file.
    pub(crate) fn gguf(&self) -> Gguf {
        self.make().0
    }

    /// A key of the metadata.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// A file with the metadata alone.
    fn metadata(&self) -> Gguf {
        let tokens = (0..self.vocab - 3).map(|token| format!("t{token}")).collect::<Vec<_>>();
        let tokens = tokens.iter().map(String::as_str).collect::<Vec<_>>();
        let file = Gguf::default()
            .with("general.architecture", self.architecture)
            .with("tokenizer.ggml.tokens", tokens)
            .with(&self.key("attention.layer_norm_rms_epsilon"), 1e-5f32);
        [
            ("context_length", 640),
            ("embedding_length", self.hidden),
            ("block_count", self.layers),
            ("feed_forward_length", self.inner),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.width),
            ("attention.value_length", self.width),
        ]
        .into_iter()
        .fold(file, |file, (name, size)| file.with(&self.key(name), size as u32))
    }

    /// How the converter of the format's project stores the rows of a tensor: for two
    /// architectures it turns heads of shape `(2, width / 2)` into `(width / 2, 2)`.
    fn stored(&self, hf: &str, shape: &[usize], weights: &[f32]) -> Vec<f32> {
        let swaps = ["llama", "smollm3"].contains(&self.architecture);
        let heads = match hf {
            _ if !swaps => return weights.to_vec(),
            _ if hf.contains(".q_proj.") => self.heads,
            _ if hf.contains(".k_proj.") => self.kv_heads,
            _ => return weights.to_vec(),
        };
        let inputs = shape[1..].iter().product::<usize>();
        side_by_side(weights, [heads, self.width, inputs])
    }

    /// All tensors.
    fn names(&self) -> Vec<Named> {
        let table = vec![self.vocab, self.hidden];
        let named = |gguf: &str, hf: &str, shape: &[usize]| {
            (gguf.to_owned(), hf.to_owned(), shape.to_vec())
        };
        let mut all = vec![
            named("token_embd.weight", "model.embed_tokens.weight", &table),
            named("output_norm.weight", "model.norm.weight", &[self.hidden]),
        ];
        if !self.tied {
            all.push(named("output.weight", "lm_head.weight", &table));
        }
        for layer in 0..self.layers {
            all.extend(self.layer().into_iter().map(|(gguf, hf, shape)| {
                let hf = format!("model.layers.{layer}.{hf}");
                (format!("blk.{layer}.{gguf}"), hf, shape)
            }));
        }
        all
    }

    /// The tensors of a layer.
    fn layer(&self) -> Vec<(&'static str, &'static str, Vec<usize>)> {
        let (hidden, inner) = (self.hidden, self.inner);
        let (q, kv) = (self.heads * self.width, self.kv_heads * self.width);
        let separate = [
            ("attn_q.weight", "self_attn.q_proj.weight", vec![q, hidden]),
            ("attn_k.weight", "self_attn.k_proj.weight", vec![kv, hidden]),
            ("attn_v.weight", "self_attn.v_proj.weight", vec![kv, hidden]),
            ("ffn_gate.weight", "mlp.gate_proj.weight", vec![inner, hidden]),
            ("ffn_up.weight", "mlp.up_proj.weight", vec![inner, hidden]),
        ];
        let fused = [
            ("attn_qkv.weight", "self_attn.qkv_proj.weight", vec![q + 2 * kv, hidden]),
            ("ffn_up.weight", "mlp.gate_up_proj.weight", vec![2 * inner, hidden]),
        ];
        let biases = [
            ("attn_q.bias", "self_attn.q_proj.bias", vec![q]),
            ("attn_k.bias", "self_attn.k_proj.bias", vec![kv]),
            ("attn_v.bias", "self_attn.v_proj.bias", vec![kv]),
        ];
        let [q_norm, k_norm] = match self.architecture {
            "olmo2" => [vec![q], vec![kv]],
            _ => [vec![self.width], vec![self.width]],
        };
        let head_norms = [
            ("attn_q_norm.weight", "self_attn.q_norm.weight", q_norm),
            ("attn_k_norm.weight", "self_attn.k_norm.weight", k_norm),
        ];
        let norm = |gguf, hf| (gguf, hf, vec![hidden]);
        let before = [
            norm("attn_norm.weight", "input_layernorm.weight"),
            norm("ffn_norm.weight", "post_attention_layernorm.weight"),
        ];
        let after = [
            norm("post_attention_norm.weight", "post_attention_layernorm.weight"),
            norm("post_ffw_norm.weight", "post_feedforward_layernorm.weight"),
        ];
        let around = [
            norm("attn_norm.weight", "input_layernorm.weight"),
            norm("ffn_norm.weight", "pre_feedforward_layernorm.weight"),
        ];
        let both = || around.iter().chain(&after).cloned().collect::<Vec<_>>();
        let mut parts = vec![
            ("attn_output.weight", "self_attn.o_proj.weight", vec![hidden, q]),
            ("ffn_down.weight", "mlp.down_proj.weight", vec![hidden, inner]),
        ];
        parts.extend(match self.architecture {
            "phi3" => fused.to_vec(),
            _ => separate.to_vec(),
        });
        parts.extend(match self.architecture {
            "qwen2" => [biases.to_vec(), before.to_vec()].concat(),
            "qwen3" => [head_norms.to_vec(), before.to_vec()].concat(),
            "gemma2" => both(),
            "gemma3" => [head_norms.to_vec(), both()].concat(),
            "olmo2" => [head_norms.to_vec(), after.to_vec()].concat(),
            _ => before.to_vec(),
        });
        parts
    }
}

/// The rows of heads with the two rows of each rotary pair next to each other, as the converter of
/// the format's project stores them.
pub(crate) fn side_by_side(weights: &[f32], [heads, width, inputs]: [usize; 3]) -> Vec<f32> {
    let mut stored = Vec::new();
    for head in 0..heads {
        for pair in 0..width / 2 {
            for side in 0..2 {
                let row = head * width + side * width / 2 + pair;
                stored.extend(&weights[row * inputs..(row + 1) * inputs]);
            }
        }
    }
    stored
}

/// The file with a vocabulary of this many tokens.
pub(crate) fn with_vocabulary(file: Gguf, tokens: usize) -> Gguf {
    let rest = (3..tokens).map(|token| format!("t{token}")).collect::<Vec<_>>();
    let tokens = ["a", "b", "ab"].into_iter().chain(rest.iter().map(String::as_str));
    file.with("tokenizer.ggml.model", "gpt2")
        .with("tokenizer.ggml.pre", "gpt-2")
        .with("tokenizer.ggml.tokens", tokens.collect::<Vec<_>>())
        .with("tokenizer.ggml.merges", vec!["a b"])
}

/// A random weight from −1 to 1.
pub(crate) fn random(rng: &mut ChaCha8Rng) -> f32 {
    (2.0 * uniform(rng) - 1.0) as f32
}

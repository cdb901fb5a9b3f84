//! Tiny models of every architecture as GGUF files, next to the tensors that they have as
//! Hugging Face checkpoints.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;

use crate::fixtures::{seeded, uniform};
use crate::gguf_support::{Gguf, plain};

/// The architectures that are supported; files of Mixtral call theirs llama.
pub(crate) const ARCHITECTURES: [&str; 11] = [
    "llama", "mixtral", "qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "phi3", "olmo2",
    "smollm3", "gpt-oss",
];

/// Numbers of experts of the sparse ones, of all and of those that a row uses.
pub(crate) const EXPERTS: [usize; 2] = [5, 2];

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
        for layer in 0..self.layers {
            for (gguf, hf, shape) in self.experts() {
                let ends = [("weight", &shape[..]), ("bias", &shape[..1])];
                let ends =
                    ends.into_iter().take(if self.architecture == "gpt-oss" { 2 } else { 1 });
                for (end, shape) in ends {
                    let mut all = Vec::new();
                    for expert in 0..EXPERTS[0] {
                        let count = shape.iter().product::<usize>();
                        let weights = (0..count).map(|_| random(&mut rng)).collect::<Vec<_>>();
                        all.extend_from_slice(&weights);
                        let name = hf.replace('*', &expert.to_string());
                        let name = format!("model.layers.{layer}.{name}.{end}");
                        tensors.insert(name, (shape.to_vec(), weights));
                    }
                    let name = format!("blk.{layer}.{gguf}.{end}");
                    let shape = [&[EXPERTS[0]], shape].concat();
                    file = file.with_tensor(plain(&name, &shape, &all));
                }
            }
        }
        (file, tensors)
    }

    /// What the file calls the architecture.
    fn name(&self) -> &'static str {
        if self.architecture == "mixtral" { "llama" } else { self.architecture }
    }

    /// The tensors of experts, where a star stands for their number.
    fn experts(&self) -> Vec<(&'static str, &'static str, [usize; 2])> {
        let [up, down] = [[self.inner, self.hidden], [self.hidden, self.inner]];
        match self.architecture {
            "mixtral" => vec![
                ("ffn_gate_exps", "block_sparse_moe.experts.*.w1", up),
                ("ffn_up_exps", "block_sparse_moe.experts.*.w3", up),
                ("ffn_down_exps", "block_sparse_moe.experts.*.w2", down),
            ],
            "qwen3moe" | "gpt-oss" => vec![
                ("ffn_gate_exps", "mlp.experts.*.gate_proj", up),
                ("ffn_up_exps", "mlp.experts.*.up_proj", up),
                ("ffn_down_exps", "mlp.experts.*.down_proj", down),
            ],
            _ => Vec::new(),
        }
    }

    /// The file.
    pub(crate) fn gguf(&self) -> Gguf {
        self.make().0
    }

    /// A key of the metadata.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.name())
    }

    /// A file with the metadata alone.
    fn metadata(&self) -> Gguf {
        let tokens = (0..self.vocab - 3).map(|token| format!("t{token}")).collect::<Vec<_>>();
        let tokens = tokens.iter().map(String::as_str).collect::<Vec<_>>();
        let file = Gguf::default()
            .with("general.architecture", self.name())
            .with("tokenizer.ggml.tokens", tokens)
            .with(&self.key("attention.layer_norm_rms_epsilon"), 1e-5f32);
        let [experts, used] = if self.experts().is_empty() { [0; 2] } else { EXPERTS };
        let width = if self.name() == "llama" { 0 } else { self.inner };
        let sparse = [
            ("expert_count", experts),
            ("expert_used_count", used),
            ("expert_feed_forward_length", width),
        ];
        let sparse = sparse.into_iter().filter(|(_, size)| experts > 0 && *size > 0);
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
        .chain(sparse)
        .fold(file, |file, (name, size)| file.with(&self.key(name), size as u32))
    }

    /// How the converter of the format's project stores the rows of a tensor: for two
    /// architectures it turns heads of shape `(2, width / 2)` into `(width / 2, 2)`.
    fn stored(&self, hf: &str, shape: &[usize], weights: &[f32]) -> Vec<f32> {
        let swaps = ["llama", "smollm3"].contains(&self.name());
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
        ];
        let down = ("ffn_down.weight", "mlp.down_proj.weight", vec![hidden, inner]);
        let mlp = [
            ("ffn_gate.weight", "mlp.gate_proj.weight", vec![inner, hidden]),
            ("ffn_up.weight", "mlp.up_proj.weight", vec![inner, hidden]),
            down.clone(),
        ];
        let fused = [
            ("attn_qkv.weight", "self_attn.qkv_proj.weight", vec![q + 2 * kv, hidden]),
            ("ffn_up.weight", "mlp.gate_up_proj.weight", vec![2 * inner, hidden]),
            down,
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
        let mut parts = vec![("attn_output.weight", "self_attn.o_proj.weight", vec![hidden, q])];
        let router = |hf| ("ffn_gate_inp.weight", hf, vec![EXPERTS[0], hidden]);
        match self.architecture {
            "phi3" => parts.extend(fused),
            "mixtral" => parts.push(router("block_sparse_moe.gate.weight")),
            "qwen3moe" => parts.push(router("mlp.gate.weight")),
            "gpt-oss" => {
                parts.push(router("mlp.router.weight"));
                parts.push(("ffn_gate_inp.bias", "mlp.router.bias", vec![EXPERTS[0]]));
                parts.push(("attn_output.bias", "self_attn.o_proj.bias", vec![hidden]));
                parts.push(("attn_sinks.weight", "self_attn.sinks", vec![self.heads]));
            }
            _ => parts.extend(mlp),
        }
        if self.architecture != "phi3" {
            parts.extend(separate);
        }
        parts.extend(match self.architecture {
            "qwen2" => [biases.to_vec(), before.to_vec()].concat(),
            "gpt-oss" => [biases.to_vec(), vec![before[0].clone(), after[0].clone()]].concat(),
            "qwen3" | "qwen3moe" => [head_norms.to_vec(), before.to_vec()].concat(),
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

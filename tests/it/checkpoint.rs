//! Writes small random Llama checkpoints in the Hugging Face layout.
//!
//! `Checkpoint { seed: 7, tied: false, ..Checkpoint::default() }.write(&folder)`

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use specdec::engine::{Engine, Settings};

/// Number of tokens: two special ones, 256 bytes and the merges.
pub(crate) const VOCAB: usize = 2 + 256 + MERGES.len();
/// Id of the token that the post-processor prepends.
pub(crate) const BOS: u32 = 0;
/// Id of the token that ends a text.
pub(crate) const EOS: u32 = 1;

const MERGES: &[(&str, &str)] = &[("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n")];

/// The settings of an engine. candle computes on the device that `SPECDEC_TEST_DEVICE`
/// names, such as `cuda:0`, and on the CPU without it.
pub(crate) fn settings_of(engine: Engine) -> Settings {
    let device = env::var("SPECDEC_TEST_DEVICE").ok().filter(|_| engine == Engine::Candle);
    Settings { engine: Some(engine), device, ..Settings::default() }
}

/// The shape and weights of a checkpoint; the default is the smallest shape with grouped
/// heads, a `head_dim` other than hidden / heads, and padding rows.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    /// Seed of the weights.
    pub(crate) seed: u64,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Rows of embedding and head: at least [`VOCAB`]; any beyond are padding.
    pub(crate) vocab_rows: usize,
    /// `max_position_embeddings`.
    pub(crate) positions: usize,
    pub(crate) tied: bool,
    pub(crate) dtype: DType,
    /// Number of weight files; 1 is plain `model.safetensors`.
    pub(crate) shards: usize,
    /// Standard deviation of the logits; larger values give more peaked distributions.
    pub(crate) sharpness: f32,
    /// Keys of `config.json` to add or replace; `null` removes a key.
    pub(crate) config: Value,
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self {
            seed: 1,
            hidden: 32,
            intermediate: 48,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 12,
            vocab_rows: VOCAB + 6,
            positions: 96,
            tied: true,
            dtype: DType::F32,
            shards: 1,
            sharpness: 3.0,
            config: json!({}),
        }
    }
}

impl Checkpoint {
    /// Creates `folder` and writes configuration, tokenizer and weights into it.
    pub(crate) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        write_json(&folder.join("config.json"), &self.config_json());
        write_json(&folder.join("tokenizer.json"), &tokenizer_json());
        let mut tensors = self.tensors().into_iter().collect::<Vec<_>>();
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        if self.shards == 1 {
            let tensors = tensors.into_iter().collect::<HashMap<_, _>>();
            candle_core::safetensors::save(&tensors, folder.join("model.safetensors")).unwrap();
            return;
        }
        let mut weight_map = serde_json::Map::new();
        for (number, shard) in tensors.chunks(tensors.len().div_ceil(self.shards)).enumerate() {
            let file = format!("model-{:05}-of-{:05}.safetensors", number + 1, self.shards);
            for (name, _) in shard {
                weight_map.insert(name.clone(), json!(file));
            }
            let shard = shard.iter().cloned().collect::<HashMap<_, _>>();
            candle_core::safetensors::save(&shard, folder.join(file)).unwrap();
        }
        let index = json!({"metadata": {}, "weight_map": weight_map});
        write_json(&folder.join("model.safetensors.index.json"), &index);
    }

    /// The content of `config.json`.
    pub(crate) fn config_json(&self) -> Value {
        let mut config = json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab_rows,
            "max_position_embeddings": self.positions,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": self.tied,
            "hidden_act": "silu",
            "bos_token_id": BOS,
            "eos_token_id": EOS,
        });
        for (key, value) in self.config.as_object().unwrap() {
            if value.is_null() {
                config.as_object_mut().unwrap().remove(key);
            } else {
                config[key] = value.clone();
            }
        }
        config
    }

    /// The weights by name, in the stored type.
    pub(crate) fn tensors(&self) -> HashMap<String, Tensor> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut random = |shape: &[usize], scale: f32, center: f32| {
            // A sum of four uniform numbers is close enough to a normal one.
            let data = (0..shape.iter().product())
                .map(|_| {
                    let sum = (0..4).map(|_| rng.random::<f32>() - 0.5).sum::<f32>();
                    center + scale * sum / (4.0f32 / 12.0).sqrt()
                })
                .collect::<Vec<_>>();
            let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
            tensor.to_dtype(self.dtype).unwrap()
        };
        let (hidden, inner) = (self.hidden, self.intermediate);
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let matrix = |inputs: usize| 1.0 / (inputs as f32).sqrt();
        let mut tensors = HashMap::new();
        let table = self.sharpness * matrix(hidden);
        let rows = [self.vocab_rows, hidden];
        tensors.insert("model.embed_tokens.weight".to_owned(), random(&rows, table, 0.0));
        if !self.tied {
            tensors.insert("lm_head.weight".to_owned(), random(&rows, table, 0.0));
        }
        tensors.insert("model.norm.weight".to_owned(), random(&[hidden], 0.1, 1.0));
        for layer in 0..self.layers {
            for (name, shape) in [
                ("self_attn.q_proj", [q, hidden]),
                ("self_attn.k_proj", [kv, hidden]),
                ("self_attn.v_proj", [kv, hidden]),
                ("self_attn.o_proj", [hidden, q]),
                ("mlp.gate_proj", [inner, hidden]),
                ("mlp.up_proj", [inner, hidden]),
                ("mlp.down_proj", [hidden, inner]),
            ] {
                let tensor = random(&shape, 1.5 * matrix(shape[1]), 0.0);
                tensors.insert(format!("model.layers.{layer}.{name}.weight"), tensor);
            }
            for name in ["input_layernorm", "post_attention_layernorm"] {
                let tensor = random(&[hidden], 0.1, 1.0);
                tensors.insert(format!("model.layers.{layer}.{name}.weight"), tensor);
            }
        }
        tensors
    }
}

/// Writes a JSON file.
pub(crate) fn write_json(file: &Path, value: &Value) {
    fs::write(file, serde_json::to_string_pretty(value).unwrap()).unwrap();
}

/// A byte-level BPE tokenizer that prepends `<|bos|>`. It also asks for truncation and
/// padding, which must not be applied.
pub(crate) fn tokenizer_json() -> Value {
    let mut vocab = serde_json::Map::new();
    let special = ["<|bos|>", "<|eos|>"].map(str::to_owned);
    let bytes = (0..=255u8).map(|byte| byte_char(byte).to_string());
    let merged = MERGES.iter().map(|(a, b)| format!("{a}{b}"));
    for (id, token) in special.into_iter().chain(bytes).chain(merged).enumerate() {
        vocab.insert(token, json!(id));
    }
    let added = |id: u32, content: &str| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true
        })
    };
    let merges = MERGES.iter().map(|(a, b)| format!("{a} {b}")).collect::<Vec<_>>();
    json!({
        "version": "1.0",
        "truncation": {
            "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
        },
        "padding": {
            "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 1, "pad_type_id": 0, "pad_token": "<|eos|>"
        },
        "added_tokens": [added(BOS, "<|bos|>"), added(EOS, "<|eos|>")],
        "normalizer": null,
        "pre_tokenizer": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|bos|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}}
            ],
            "special_tokens": {
                "<|bos|>": {"id": "<|bos|>", "ids": [BOS], "tokens": ["<|bos|>"]}
            }
        },
        "decoder": {
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
        },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocab, "merges": merges
        }
    })
}

/// The character for a byte in the vocabulary of a byte-level BPE: the byte itself if it is
/// printable, otherwise the next free character from U+0100 on.
fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(256 + rank).unwrap()
}

/// Replaces one tensor of `model.safetensors`; `None` removes it.
pub(crate) fn replace(folder: &Path, name: &str, change: impl Fn(&Tensor) -> Option<Tensor>) {
    let file = folder.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&file, &Device::Cpu).unwrap();
    let old = tensors.remove(name).unwrap();
    tensors.extend(change(&old).map(|new| (name.to_owned(), new)));
    candle_core::safetensors::save(&tensors, &file).unwrap();
}

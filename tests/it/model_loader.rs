//! Folders in the Hugging Face layout: what is read, and what is refused with a one-line
//! message.

use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::core::error::Error;
use specdec::core::sampling::Logits;
use specdec::core::tree::Draft;
use specdec::engine::Source;
use specdec::method::decode::TextStream;
use specdec::model::{Loaded, Role, Want, Work, check_pair, evaluate_one};

use crate::checkpoint::{BOS, Checkpoint, EOS, VOCAB, replace, tokenizer_json, write_json};
use crate::damage_support::says;

fn open(folder: &Path) -> Result<Loaded, Error> {
    load(folder.to_str().unwrap(), Role::Target)
}

/// Writes a checkpoint, lets `spoil` change the folder, and loads it.
fn opened(checkpoint: &Checkpoint, spoil: impl Fn(&Path)) -> Result<Loaded, Error> {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(dir.path());
    spoil(dir.path());
    open(dir.path())
}

fn small() -> Checkpoint {
    Checkpoint::default()
}

/// Asserts that the folder is refused in one line that contains all of `parts`.
#[track_caller]
fn refused(checkpoint: &Checkpoint, spoil: impl Fn(&Path), parts: &[&str]) {
    let text = opened(checkpoint, spoil).unwrap_err().to_string();
    assert!(!text.contains('\n'), "more than one line: {text}");
    says(&text, parts);
}

fn logits(loaded: &Loaded) -> Logits {
    let draft = Draft::empty(VOCAB);
    let mut session = loaded.model.session().unwrap();
    let work =
        Work { session: &mut session, context: &[0, 70, 71], draft: &draft, want: Want::All };
    evaluate_one(&*loaded.model, work).unwrap().rows.remove(0)
}

#[test]
fn model_info_describes_the_checkpoint() {
    let c = Checkpoint { tied: false, ..small() };
    let loaded = opened(&c, |_| ()).unwrap();
    let info = loaded.model.info();
    assert_eq!((info.vocab, info.context_length), (VOCAB, c.positions));
    assert_eq!((info.engine, info.dtype, info.row_invariant), ("native", "f32", true));
    assert_eq!(info.eos, [EOS]);
    let count = c.tensors().values().map(Tensor::elem_count).sum::<usize>();
    assert_eq!(info.parameters, count);
    // Projections of both layers and the head without its padding rows, in f32.
    let layer = 32 * 12 * (4 + 2) * 2 + 3 * 32 * 48;
    assert_eq!(info.bytes_per_token, 4 * (2 * layer + VOCAB * 32));
    assert_eq!(info.sha256.len(), 64);
}

#[test]
fn the_checksum_depends_on_content_and_not_on_folder_or_engine() {
    let sum = |c: &Checkpoint, spoil: &dyn Fn(&Path)| {
        opened(c, spoil).unwrap().model.info().sha256.clone()
    };
    let base = sum(&small(), &|_| ());
    assert_eq!(base, sum(&small(), &|_| ()));
    assert_ne!(base, sum(&Checkpoint { seed: 2, ..small() }, &|_| ()));
    assert_ne!(base, sum(&Checkpoint { config: json!({"rope_theta": 9e3}), ..small() }, &|_| ()));
    let eos = |folder: &Path| {
        write_json(&folder.join("generation_config.json"), &json!({"eos_token_id": 5}));
    };
    assert_ne!(base, sum(&small(), &eos));
    let dir = tempfile::tempdir().unwrap();
    small().write(dir.path());
    let settings = serde_json::from_value(json!({"engine": "candle"})).unwrap();
    let source = Source { settings, ..dir.path().to_str().unwrap().into() };
    let candle = load(source, Role::Target).unwrap();
    assert_eq!(candle.model.info().sha256, base, "the engine does not matter");
}

/// Catches: the candle engine rounds what weights of two bytes are multiplied by, or holds f32.
#[test]
fn candle_holds_weights_of_two_bytes() {
    let with = |folder: &Path, engine: &str, dtype: &str| {
        let settings = json!({"engine": engine, "dtype": dtype});
        let settings = serde_json::from_value(settings).unwrap();
        let source = Source { settings, ..folder.to_str().unwrap().into() };
        let loaded = load(source, Role::Target).unwrap();
        assert_eq!(loaded.model.info().dtype, dtype);
        logits(&loaded)
    };
    for (dtype, name) in [(DType::BF16, "bf16"), (DType::F16, "f16")] {
        let [stored, long] = [dtype, DType::F32].map(|dtype| {
            let folder = tempfile::tempdir().unwrap();
            Checkpoint { dtype, ..small() }.write(folder.path());
            folder
        });
        // The same weights, and on the CPU the same products in f32.
        let of_files = |dtype| with(stored.path(), "candle", dtype);
        assert_eq!(of_files(name), of_files("f32"), "{name}");
        // Weights of f32 are rounded as on the native engine.
        let rounded = with(long.path(), "candle", name);
        let native = with(long.path(), "native", name);
        let exact = with(long.path(), "candle", "f32");
        let away = |other: &Logits| {
            let gaps = (0..VOCAB as u32).map(|id| (rounded.get(id) - other.get(id)).abs());
            gaps.fold(0.0, f64::max)
        };
        assert!(100.0 * away(&native) < away(&exact), "{} {}", away(&native), away(&exact));
    }
}

#[test]
fn sharded_weights_equal_whole_ones() {
    let whole = opened(&small(), |_| ()).unwrap();
    let sharded = opened(&Checkpoint { shards: 3, ..small() }, |_| ()).unwrap();
    assert_eq!(logits(&whole), logits(&sharded));
}

#[test]
fn generation_config_overrides_the_end_tokens() {
    let eos = |config: Value, generation: Option<Value>| {
        let c = Checkpoint { config, ..small() };
        let spoil = |folder: &Path| {
            if let Some(generation) = &generation {
                write_json(&folder.join("generation_config.json"), generation);
            }
        };
        opened(&c, spoil).unwrap().model.info().eos.clone()
    };
    assert_eq!(eos(json!({"eos_token_id": [1, 7]}), None), [1, 7]);
    assert_eq!(eos(json!({"eos_token_id": null}), None), [] as [u32; 0]);
    let both = Some(json!({"eos_token_id": [3, 4, 100_000], "temperature": 0.6}));
    assert_eq!(eos(json!({}), both), [3, 4], "padding rows are not end tokens");
    assert_eq!(eos(json!({}), Some(json!({"temperature": 0.6}))), [EOS]);
}

#[test]
fn encoding_prepends_bos_and_neither_truncates_nor_pads() {
    let codec = opened(&small(), |_| ()).unwrap().codec;
    let text = "in the end: the ñandú";
    let tokens = codec.encode(text).unwrap();
    assert_eq!(tokens[0], BOS);
    assert!(tokens.len() > 4 && tokens.len() < 64, "{tokens:?}");
    assert_eq!(codec.decode(&tokens).unwrap(), text, "special tokens are left out");
    assert_eq!(codec.token_label(BOS), "<|bos|>");
    assert_eq!(codec.token_label(*codec.encode(" the").unwrap().last().unwrap()), " the");
    assert!(codec.decode(&[VOCAB as u32]).unwrap_err().to_string().contains("no token"));
}

#[test]
fn characters_split_over_tokens_are_streamed_whole() {
    let codec = opened(&small(), |_| ()).unwrap().codec;
    let text = "the 🦀 ñ 漢字, in 🦀🦀";
    let mut tokens = codec.encode(text).unwrap();
    // Special tokens add no text, but must not count as part of a character.
    let crab = tokens.iter().position(|&t| codec.token_label(t) == "ð").unwrap();
    for _ in 0..3 {
        tokens.insert(crab, EOS);
    }
    let mut stream = TextStream::new(&*codec);
    for &token in &tokens {
        stream.push(token).unwrap();
        assert!(text.starts_with(stream.text()), "{:?} is not a prefix", stream.text());
    }
    assert_eq!(stream.text(), text);
    stream.finish().unwrap();
    assert_eq!(stream.text(), text);
}

#[test]
fn an_unfinished_character_is_emitted_at_the_end() {
    let codec = opened(&small(), |_| ()).unwrap().codec;
    let tokens = codec.encode("a🦀").unwrap();
    let mut stream = TextStream::new(&*codec);
    for &token in &tokens[..tokens.len() - 1] {
        stream.push(token).unwrap();
    }
    assert_eq!(stream.text(), "a");
    stream.finish().unwrap();
    assert_eq!(stream.text(), "a\u{FFFD}");
}

#[test]
fn models_with_different_tokenizers_cannot_be_paired() {
    let target = opened(&small(), |_| ()).unwrap();
    let same = opened(&Checkpoint { seed: 2, ..small() }, |_| ()).unwrap();
    let paired = |draft: &Loaded| {
        let target = (target.model.info(), &*target.codec);
        check_pair(target, (draft.model.info(), &*draft.codec))
    };
    paired(&same).unwrap();
    let swapped = opened(&small(), |folder| {
        let mut tokenizer = tokenizer_json();
        let vocab = tokenizer["model"]["vocab"].as_object_mut().unwrap();
        vocab.insert("a".into(), json!(67));
        vocab.insert("b".into(), json!(66));
        write_json(&folder.join("tokenizer.json"), &tokenizer);
    });
    let refuse = |draft: &Loaded, part: &str| {
        let error = paired(draft).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    };
    refuse(&swapped.unwrap(), "different tokenizers");
    refuse(&load("toy:mixed", Role::Draft).unwrap(), "must share one vocabulary");
}

#[test]
fn unassigned_token_ids_are_impossible() {
    let loaded = opened(&small(), |folder| {
        let mut tokenizer = tokenizer_json();
        // The token of the last merge moves up by two ids.
        tokenizer["model"]["vocab"]["in"] = json!(VOCAB + 1);
        write_json(&folder.join("tokenizer.json"), &tokenizer);
    });
    let loaded = loaded.unwrap();
    assert_eq!(loaded.model.info().vocab, VOCAB + 2);
    let logits = logits(&loaded);
    for hole in [VOCAB - 1, VOCAB] {
        assert_eq!(logits.get(hole as u32), f64::NEG_INFINITY);
    }
    assert!(logits.get(VOCAB as u32 + 1).is_finite());
}

#[test]
fn missing_files_are_named() {
    let remove =
        |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        refused(
            &small(),
            remove(name),
            &["the folder has no", name, "a model is a GGUF file or a folder"],
        );
    }
    let sharded = Checkpoint { shards: 2, ..small() };
    let shard = "model-00002-of-00002.safetensors";
    refused(&sharded, remove(shard), &[shard]);
    let error = load("no/such/folder", Role::Target).unwrap_err().to_string();
    assert_eq!(error, "model no/such/folder: no such folder");
}

#[test]
fn damaged_files_are_named() {
    let cut = |name: &'static str, keep: usize| {
        move |folder: &Path| {
            let bytes = fs::read(folder.join(name)).unwrap();
            fs::write(folder.join(name), &bytes[..keep.min(bytes.len() - 1)]).unwrap();
        }
    };
    for keep in [0, 4, 100, usize::MAX] {
        let parts = ["model.safetensors: not a complete safetensors file"];
        refused(&small(), cut("model.safetensors", keep), &parts);
    }
    refused(&small(), cut("config.json", 40), &["config.json", "line"]);
    refused(&small(), cut("tokenizer.json", 40), &["tokenizer.json: not a tokenizer"]);
    let index = "model.safetensors.index.json";
    let sharded = Checkpoint { shards: 2, ..small() };
    refused(&sharded, cut(index, 40), &[index]);
    let elsewhere = |folder: &Path| {
        write_json(&folder.join(index), &json!({"weight_map": {"a": "../../secret"}}));
    };
    refused(&sharded, elsewhere, &[index, "not the name of a file"]);
}

#[test]
fn wrong_tensors_are_named() {
    let name = "model.layers.1.mlp.up_proj.weight";
    let file = "model.safetensors";
    refused(&small(), |f| replace(f, name, |_| None), &[file, name, "is missing"]);
    let flat = |f: &Path| replace(f, name, |t| Some(t.flatten_all().unwrap()));
    refused(&small(), flat, &[file, name, "has shape [1536], but config.json asks for [48, 32]"]);
    for poison in [f32::NAN, f32::INFINITY] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let spoil = |f: &Path| {
                replace(f, name, |t| {
                    let bad = Tensor::full(poison, (1, 1), &Device::Cpu).unwrap();
                    let bad = bad.to_dtype(dtype).unwrap();
                    Some(t.slice_assign(&[3..4, 5..6], &bad).unwrap())
                });
            };
            let c = Checkpoint { dtype, ..small() };
            refused(&c, spoil, &[file, name, "NaN or infinite"]);
        }
    }
    let integers = |f: &Path| replace(f, name, |t| Some(t.to_dtype(DType::I64).unwrap()));
    refused(&small(), integers, &[file, name, "I64", "f32, f16, bf16"]);
    let sharded = Checkpoint { shards: 2, config: json!({"num_hidden_layers": 3}), ..small() };
    refused(&sharded, |_| (), &["index.json", "model.layers.2", "is missing"]);
}

#[test]
fn unsupported_configurations_are_refused() {
    let refuse = |config: Value, parts: &[&str]| {
        refused(&Checkpoint { config, ..small() }, |_| (), parts);
    };
    let known =
        "supported are: gemma2, gemma3_text, gemma4_text, gpt2, gpt_oss, llama, mimo, mistral";
    refuse(json!({"model_type": "mamba"}), &["model_type is \"mamba\"", known]);
    refuse(json!({"model_type": null}), &["model_type is missing", known]);
    refuse(json!({"hidden_size": null}), &["config.json", "hidden_size"]);
    refuse(json!({"hidden_size": "wide"}), &["config.json", "hidden_size is \"wide\""]);
    refuse(json!({"hidden_act": "gelu"}), &["hidden_act is \"gelu\"", "one of silu"]);
    refuse(json!({"attention_bias": true}), &["q_proj.bias is missing"]);
    refuse(json!({"mlp_bias": true}), &["gate_proj.bias is missing"]);
    refuse(json!({"quantization_config": {"bits": 4}}), &["quantization_config"]);
    refuse(json!({"num_hidden_layers": 0}), &["num_hidden_layers is 0"]);
    refuse(json!({"num_key_value_heads": 3}), &["num_key_value_heads 3"]);
    refuse(json!({"head_dim": 7}), &["head_dim 7"]);
    refuse(json!({"hidden_size": 34, "head_dim": null}), &["hidden_size 34"]);
    refuse(json!({"vocab_size": 100}), &["tokenizer.json", "vocab_size 100"]);
    refuse(json!({"vocab_size": 1u64 << 40}), &["vocab_size is 1099511627776"]);
    refuse(json!({"rope_theta": -1}), &["rope_theta is -1"]);
    let scaling = |scaling: Value| json!({"rope_scaling": scaling});
    let kinds = "default, linear, llama3, yarn, longrope";
    refuse(scaling(json!({"type": "dynamic", "factor": 2})), &["\"dynamic\"", kinds]);
    refuse(scaling(json!({"type": "yarn", "factor": "two"})), &["rope_scaling.factor is \"two\""]);
    refuse(scaling(json!("linear")), &["rope_scaling is \"linear\"", "a table"]);
    refuse(json!({"partial_rotary_factor": 0.5}), &["partial_rotary_factor 0.5"]);
    let mistral = |key: &str, value: Value| json!({"model_type": "mistral", key: value});
    refuse(mistral("sliding_window", json!(-1)), &["sliding_window is -1"]);
    let qwen = |types: Value| json!({"model_type": "qwen2", "use_sliding_window": true, "layer_types": types});
    refuse(qwen(json!(["full_attention"])), &["layer_types has 1 entries", "is 2"]);
    let kinds = "full_attention, sliding_attention";
    refuse(qwen(json!(["full_attention", "chunked"])), &["names \"chunked\"", kinds]);
    refuse(json!({"num_hidden_layers": 1u64 << 30}), &["num_hidden_layers is 1073741824"]);
    refuse(scaling(json!({"factor": 2})), &["rope_type is missing"]);
    refuse(scaling(json!({"rope_type": "llama3", "factor": 2})), &["lacks low_freq_factor"]);
}

#[test]
fn unavailable_devices_and_engine_settings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    small().write(dir.path());
    let refuse = |settings: Value, parts: &[&str]| {
        let settings = serde_json::from_value(settings).unwrap();
        let source = Source { settings, ..dir.path().to_str().unwrap().into() };
        let text = load(source, Role::Target).unwrap_err().to_string();
        says(&text, parts);
    };
    for name in ["gpu", "cuda", "cuda:x", "metal:0"] {
        refuse(json!({"device": name}), &[name, "allowed are cpu, cuda:N, metal"]);
    }
    if cfg!(not(feature = "cuda")) {
        refuse(json!({"device": "cuda:0"}), &["cuda:0", "build with --features cuda"]);
    }
    if cfg!(not(feature = "metal")) {
        refuse(json!({"device": "metal"}), &["metal", "build with --features metal"]);
    }
    refuse(json!({"engine": "candle", "dtype": "q8_0"}), &["engine = candle", "f32, bf16 or f16"]);
    refuse(
        json!({"engine": "candle", "kv_cache_dtype": "f16"}),
        &["engine = candle", "leave out kv_cache_dtype"],
    );
}

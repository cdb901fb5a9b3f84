//! The fixtures of heads as GGUF files, as the converter of llama.cpp writes them.

use std::fs;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::parity::{expected, folder};
use crate::gguf_models::{side_by_side, with_vocabulary};
use crate::gguf_support::{Gguf, Tensor, plain};

/// What follows the number of a layer, in a Hugging Face checkpoint and in a GGUF file.
const WITHIN: [(&str, &str); 23] = [
    ("input_layernorm", "attn_norm"),
    ("hidden_norm", "attn_norm_2"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.attention_sink_bias", "attn_sinks"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("eh_proj", "nextn.eh_proj"),
    ("enorm", "nextn.enorm"),
    ("hnorm", "nextn.hnorm"),
    ("embed_tokens", "nextn.embed_tokens"),
    ("shared_head.norm", "nextn.shared_head_norm"),
    ("shared_head.head", "nextn.shared_head_head"),
    ("mtp.fc", "nextn.eh_proj"),
    ("mtp.pre_fc_norm_embedding", "nextn.enorm"),
    ("mtp.pre_fc_norm_hidden", "nextn.hnorm"),
    ("mtp.norm", "nextn.shared_head_norm"),
];
/// The names of all other tensors.
const OUTSIDE: [(&str, &str); 12] = [
    ("embed_tokens", "token_embd"),
    ("norm", "output_norm"),
    ("lm_head", "output"),
    ("fc", "fc"),
    ("input_norm", "enc.output_norm"),
    ("hidden_norm", "enc.output_norm"),
    ("encoder.fc", "fc"),
    ("encoder.output_norm_enc", "enc.output_norm"),
    ("markov_head.markov_w1", "markov_w1"),
    ("markov_head.markov_w2", "markov_w2"),
    ("confidence_head.proj", "conf_proj"),
    ("d2t", "d2t"),
];
/// The embedding of a mask, which GGUF files have in the table of embeddings.
const MASK: &str = "mask_embedding";
/// Number of the targets' tokens.
const VOCAB: usize = 96;
/// The number of the type of whole numbers of 64 bits.
pub(super) const I64: u32 = 27;

/// The name of a tensor, without its end; `layers` is the number of the target's layers.
fn renamed(name: &str, layers: usize) -> String {
    let name = name.replace("midlayer.", "layers.0.");
    let name = name.replace("mtp.layers.0.", &format!("layers.{layers}."));
    let name = match name.starts_with("mtp.") {
        true => format!("layers.{layers}.{name}"),
        false => name,
    };
    let name = name.strip_prefix("model.").unwrap_or(&name);
    let of = |list: &[(&str, &str)], name: &str| {
        list.iter().find(|known| known.0 == name).unwrap().1.to_owned()
    };
    let Some(rest) = name.strip_prefix("layers.") else { return of(&OUTSIDE, name) };
    let (number, within) = rest.split_once('.').unwrap();
    format!("blk.{number}.{}", of(&WITHIN, within))
}

/// A list of whole numbers as a tensor.
pub(super) fn whole(name: &str, numbers: &[i64]) -> Tensor {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let shape = vec![numbers.len() as u64];
    Tensor { name: name.to_owned(), shape, kind: I64, bytes, offset: None }
}

/// The configuration of a case.
fn whole_config(case: &str) -> Value {
    let text = fs::read_to_string(folder(case).join("config.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()
}

/// The configuration of a case's layers.
fn config(case: &str) -> Value {
    let config = whole_config(case);
    config.get("transformer_layer_config").cloned().unwrap_or(config)
}

/// The tensors of a case: names, shapes and weights.
fn tensors(case: &str) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let bytes = fs::read(folder(case).join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let floats = stored.iter().filter(|(_, tensor)| tensor.dtype() == Dtype::BF16);
    let weight = |two: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([two[0], two[1]])) << 16);
    let weights = |data: &[u8]| data.chunks_exact(2).map(weight).collect();
    floats.map(|(name, t)| (name.to_owned(), t.shape().to_vec(), weights(t.data()))).collect()
}

/// The keys and tensors that all architectures have. `sides` says whether the rows of rotary pairs
/// lie side by side.
fn file(case: &str, architecture: &str, sides: bool) -> Gguf {
    let config = config(case);
    let size = |key: &str| config[key].as_u64().map(|size| size as usize);
    let (hidden, heads) = (size("hidden_size").unwrap(), size("num_attention_heads").unwrap());
    let kv_heads = size("num_key_value_heads").unwrap();
    let (width, layers) = (size("head_dim").unwrap_or(hidden / heads), size("num_hidden_layers"));
    let mut file = Gguf::default().with("general.architecture", architecture);
    for (key, size) in [
        ("context_length", size("max_position_embeddings").unwrap()),
        ("embedding_length", hidden),
        ("block_count", layers.unwrap()),
        ("feed_forward_length", size("intermediate_size").unwrap()),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("attention.key_length", width),
        ("attention.value_length", width),
        ("rope.dimension_count", width),
        ("vocab_size", size("vocab_size").unwrap_or(VOCAB)),
    ] {
        file = file.with(&format!("{architecture}.{key}"), size as u32);
    }
    let key = format!("{architecture}.attention.layer_norm_rms_epsilon");
    file = file.with(&key, config["rms_norm_eps"].as_f64().unwrap() as f32);
    for (name, shape, mut weights) in tensors(case) {
        if name == MASK {
            continue;
        }
        for (part, heads) in [(".q_proj.", heads), (".k_proj.", kv_heads)] {
            if sides && name.contains(part) {
                weights = side_by_side(&weights, [heads, width, shape[1]]);
            }
        }
        let end = if name.ends_with(".bias") { ".bias" } else { ".weight" };
        let name = renamed(name.strip_suffix(end).unwrap_or(&name), layers.unwrap()) + end;
        file = file.with_tensor(plain(&name, &shape, &weights));
    }
    file
}

/// A case of EAGLE-3. `sides` is true in files as they should be.
pub(super) fn eagle3(case: &str, sides: bool) -> Gguf {
    let own = whole_config(case);
    let flag = |key: &str| own[key].as_bool().unwrap_or(false);
    let expected = expected(case);
    let width = config(&expected.target)["hidden_size"].as_u64().unwrap();
    let taps = serde_json::from_value::<Vec<u32>>(expected.taps).unwrap();
    let mut file = file(case, "eagle3", sides)
        .with("eagle3.target_layers", taps)
        .with("eagle3.target_hidden_size", width as u32)
        .with("eagle3.norm_before_residual", flag("norm_before_residual"))
        .with("eagle3.norm_before_fc", flag("norm_before_fc"));
    if let Some(ids) = expected.ids {
        file = file.with_tensor(d2t(&ids));
    }
    file
}

/// The target's tokens of a head's.
fn d2t(ids: &[u32]) -> Tensor {
    whole("d2t", &ids.iter().copied().map(i64::from).collect::<Vec<_>>())
}

/// A case of a block drafter. Like files of the converter, it has a list of tokens instead of their
/// number. `sides` is false in files as they should be.
pub(super) fn dflash(case: &str, sides: bool) -> Gguf {
    let (own, layers, expected) = (whole_config(case), config(case), expected(case));
    let key = |name: &str| own["dflash_config"].get(name).or(own.get(name));
    let size = |name: &str| key(name).and_then(Value::as_u64).map(|size| size as u32);
    let theta = layers.get("rope_theta").unwrap_or(&layers["rope_parameters"]["rope_theta"]);
    let mut file = with_vocabulary(file(case, "dflash", sides), VOCAB)
        .without("dflash.vocab_size")
        .with("dflash.target_layers", serde_json::from_value::<Vec<u32>>(expected.taps).unwrap())
        .with("dflash.block_size", size("block_size").unwrap())
        .with("dflash.rope.freq_base", theta.as_f64().unwrap() as f32)
        .with("tokenizer.ggml.mask_token_id", size("mask_token_id").unwrap());
    for (name, in_file) in [
        ("attention_value_scale", "attention.value_scale"),
        ("input_embedding_scale", "embedding_scale"),
        ("output_multiplier", "logit_scale"),
        ("final_logit_softcapping", "final_logit_softcapping"),
    ] {
        if let Some(scale) = key(name) {
            file = file.with(&format!("dflash.{in_file}"), scale.as_f64().unwrap() as f32);
        }
    }
    for (name, in_file) in [
        ("is_causal", "attention.causal"),
        ("sample_from_anchor", "sample_from_anchor"),
        ("enable_confidence_head", "has_confidence_head"),
    ] {
        if let Some(flag) = key(name) {
            file = file.with(&format!("dflash.{in_file}"), flag.as_bool().unwrap());
        }
    }
    let windowed = layers["layer_types"].as_array().map_or(vec![true; 2], |types| {
        types.iter().map(|kind| kind == "sliding_attention").collect()
    });
    if windowed.contains(&true) {
        let window =
            size("swa_window_size").or(layers["sliding_window"].as_u64().map(|w| w as u32));
        file = file
            .with("dflash.attention.sliding_window", window.unwrap())
            .with("dflash.attention.sliding_window_pattern", windowed);
    }
    if let Some(ids) = &expected.ids {
        file = file.with_tensor(d2t(ids));
    }
    match tensors(case).into_iter().find(|(name, ..)| name == MASK) {
        Some((.., mask)) => with_tables(file, &expected.target, Some((0, &mask))),
        None => file,
    }
}

/// A file with the tables of its target; the embedding may have another row in place of one.
pub(super) fn with_tables(file: Gguf, target: &str, row: Option<(usize, &[f32])>) -> Gguf {
    let all = tensors(target);
    let named = |name: &str| all.iter().find(|tensor| tensor.0 == name);
    let (_, shape, embedding) = named("model.embed_tokens.weight").unwrap();
    let mut own = embedding.clone();
    if let Some((at, row)) = row {
        own[at * shape[1]..][..shape[1]].copy_from_slice(row);
    }
    let head = named("lm_head.weight").map_or(embedding, |(.., head)| head);
    file.with_tensor(plain("token_embd.weight", shape, &own)).with_tensor(plain(
        "output.weight",
        shape,
        head,
    ))
}

/// A target with one MTP layer.
pub(super) fn mtp(case: &str, architecture: &str) -> Gguf {
    let blocks = config(case)["num_hidden_layers"].as_u64().unwrap() as u32 + 1;
    let file = file(case, architecture, architecture == "llama")
        .with(&format!("{architecture}.block_count"), blocks)
        .with(&format!("{architecture}.nextn_predict_layers"), 1u32);
    with_vocabulary(file, 48)
}

//! The metadata of GGUF files as the configuration of a Hugging Face checkpoint.

use serde_json::{Value, json};

use crate::gguf_models::{ARCHITECTURES, EXPERTS, TinyModel};
use crate::gguf_support::{Encoded, Gguf, checkpoint, plain, refused};

#[track_caller]
fn config(file: &Gguf) -> Value {
    Value::Object(checkpoint(&file.bytes()).unwrap().config().clone())
}

/// What the tiny models of all architectures have in common.
fn common() -> Value {
    json!({
        "hidden_size": 20,
        "intermediate_size": 28,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 33,
        "max_position_embeddings": 640,
        "rms_norm_eps": f64::from(1e-5f32),
        "tie_word_embeddings": true,
    })
}

/// The configuration of a tiny model, given what is not common.
fn with_common(own: Value) -> Value {
    let Value::Object(mut all) = common() else { unreachable!() };
    let Value::Object(own) = own else { unreachable!() };
    all.extend(own);
    Value::Object(all)
}

/// With the keys of sparse feed-forward blocks in the spellings of several families.
fn with_experts(mut own: Value) -> Value {
    let [count, used] = EXPERTS;
    own["num_experts"] = json!(count);
    own["num_local_experts"] = json!(count);
    own["num_experts_per_tok"] = json!(used);
    own["moe_intermediate_size"] = json!(28);
    own["norm_topk_prob"] = json!(true);
    own
}

fn default_rope() -> Value {
    json!({"rope_type": "default", "rope_theta": 10000.0})
}

#[test]
fn every_architecture_has_the_keys_of_its_family() {
    let cases = [
        (
            "llama",
            json!({
                "model_type": "llama", "hidden_act": "silu", "rope_parameters": default_rope(),
                "sliding_window": null, "attention_bias": false, "mlp_bias": false,
            }),
        ),
        (
            "mixtral",
            with_experts(json!({
                "model_type": "mixtral", "hidden_act": "silu", "rope_parameters": default_rope(),
                "sliding_window": null,
            })),
        ),
        (
            "qwen2",
            json!({"model_type": "qwen2", "hidden_act": "silu", "rope_parameters": default_rope()}),
        ),
        (
            "qwen3",
            json!({"model_type": "qwen3", "hidden_act": "silu", "rope_parameters": default_rope()}),
        ),
        (
            "qwen3moe",
            with_experts(json!({
                "model_type": "qwen3_moe", "hidden_act": "silu", "rope_parameters": default_rope(),
            })),
        ),
        (
            "gemma2",
            json!({
                "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh",
                "rope_parameters": default_rope(), "sliding_window": 4096,
                "layer_types": ["sliding_attention", "full_attention"],
                "attn_logit_softcapping": null, "final_logit_softcapping": null,
                "query_pre_attn_scalar": 8,
            }),
        ),
        (
            "gemma3",
            json!({
                "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh",
                "rope_parameters": {
                    "full_attention": default_rope(), "sliding_attention": default_rope(),
                },
                "sliding_window": null, "layer_types": ["full_attention", "full_attention"],
                "final_logit_softcapping": null, "query_pre_attn_scalar": 8,
            }),
        ),
        (
            "phi3",
            json!({
                "model_type": "phi3", "hidden_act": "silu", "rope_parameters": default_rope(),
                "sliding_window": null,
            }),
        ),
        (
            "olmo2",
            json!({"model_type": "olmo2", "hidden_act": "silu", "rope_parameters": default_rope()}),
        ),
        (
            "smollm3",
            json!({
                "model_type": "smollm3", "hidden_act": "silu", "rope_parameters": default_rope(),
                "no_rope_layers": [1, 1],
            }),
        ),
        (
            "gpt-oss",
            with_experts(json!({
                "model_type": "gpt_oss", "hidden_act": "silu", "rope_parameters": default_rope(),
                "sliding_window": null, "layer_types": ["full_attention", "full_attention"],
            })),
        ),
    ];
    assert_eq!(cases.each_ref().map(|case| case.0), ARCHITECTURES);
    for (architecture, own) in cases {
        assert_eq!(config(&TinyModel::new(architecture).gguf()), with_common(own));
    }
}

#[test]
fn sizes_that_a_file_leaves_out_follow_from_others() {
    let model = TinyModel { heads: 4, kv_heads: 4, width: 5, ..TinyModel::new("qwen2") };
    let model = TinyModel { width: 6, hidden: 24, ..model };
    let keys = ["head_count_kv", "key_length", "value_length"];
    let file = keys
        .iter()
        .fold(model.gguf(), |file, key| file.without(&model.key(&format!("attention.{key}"))));
    let found = config(&file);
    assert_eq!((&found["num_key_value_heads"], &found["head_dim"]), (&json!(4), &json!(6)));
    assert_eq!(found["vocab_size"], 33);
    // Whole numbers may have any type, and one per layer if all are equal.
    let all_types: [Encoded; 6] =
        [4u8.into(), 4i8.into(), 4u16.into(), 4i64.into(), vec![4u32, 4].into(), vec![4i32].into()];
    for heads in all_types {
        let file = file.clone().with("qwen2.attention.head_count", heads);
        assert_eq!(config(&file)["num_attention_heads"], 4);
    }
    let untied = TinyModel { tied: false, ..TinyModel::new("qwen2") };
    assert_eq!(config(&untied.gguf())["tie_word_embeddings"], false);
}

#[test]
fn windows_follow_the_rules_of_each_family() {
    let windowed = |model: &TinyModel, window: u32| {
        model.gguf().with(&model.key("attention.sliding_window"), window)
    };
    let key = |file: &Gguf, key: &str| config(file)[key].clone();
    let llama = TinyModel::new("llama");
    assert_eq!(key(&windowed(&llama, 7), "model_type"), "mistral");
    assert_eq!(key(&windowed(&llama, 7), "sliding_window"), 7);
    assert_eq!(key(&windowed(&llama, 0), "model_type"), "llama");
    assert_eq!(key(&windowed(&TinyModel::new("phi3"), 7), "sliding_window"), 7);
    assert_eq!(key(&windowed(&TinyModel::new("phi3"), 0), "sliding_window"), Value::Null);
    let kinds = |file: &Gguf| {
        let types = key(file, "layer_types");
        let types = types.as_array().unwrap().iter().map(|t| &t.as_str().unwrap()[..1]);
        types.collect::<String>()
    };
    let gemma2 = TinyModel { layers: 5, ..TinyModel::new("gemma2") };
    assert_eq!(kinds(&windowed(&gemma2, 9)), "sfsfs");
    assert_eq!(kinds(&windowed(&gemma2, 0)), "fffff");
    assert_eq!(key(&windowed(&gemma2, 9), "sliding_window"), 9);
    let gemma3 = TinyModel { layers: 8, ..TinyModel::new("gemma3") };
    assert_eq!(kinds(&windowed(&gemma3, 9)), "sssssfss");
    let pattern = gemma3.key("attention.sliding_window_pattern");
    let every = windowed(&gemma3, 9).with(&pattern, 3u32);
    assert_eq!(kinds(&every), "ssfssfss");
    let list = vec![false, true, true, false, true, false, false, true];
    assert_eq!(kinds(&windowed(&gemma3, 9).with(&pattern, list)), "fssfsffs");
    for wrong in [Encoded::from(vec![true; 7]), vec![1u32; 8].into(), "all".into()] {
        let file = windowed(&gemma3, 9).with(&pattern, wrong);
        refused(checkpoint(&file.bytes()), &["gemma3.attention.sliding_window_pattern"]);
    }
    let olmo = windowed(&TinyModel::new("olmo2"), 9);
    refused(checkpoint(&olmo.bytes()), &["olmo2.attention.sliding_window is 9", "OLMo 3"]);
    let smollm3 = TinyModel { layers: 9, ..TinyModel::new("smollm3") };
    let flags = config(&smollm3.gguf())["no_rope_layers"].clone();
    assert_eq!(flags, json!([1, 1, 1, 0, 1, 1, 1, 0, 1]));
}

#[test]
fn gemma_has_its_caps_and_its_scale() {
    let gemma =
        TinyModel { layers: 46, hidden: 66, inner: 2, vocab: 4, ..TinyModel::new("gemma2") };
    let file = gemma.gguf().with("gemma2.attn_logit_softcapping", 50f32);
    let found = config(&file.with("gemma2.final_logit_softcapping", 30f32));
    assert_eq!(found["attn_logit_softcapping"], 50.0);
    assert_eq!(found["final_logit_softcapping"], 30.0);
    // The models of 46 and of 62 layers divide by the hidden width per head.
    assert_eq!(found["query_pre_attn_scalar"], 11);
    let gemma3 = TinyModel { layers: 62, architecture: "gemma3", ..gemma };
    assert_eq!(config(&gemma3.gguf())["query_pre_attn_scalar"], 11);
    let other = TinyModel { layers: 46, ..gemma3 };
    assert_eq!(config(&other.gguf())["query_pre_attn_scalar"], 8);
}

#[test]
fn llama_says_whether_it_has_biases() {
    let llama = TinyModel::new("llama");
    let file = llama.gguf().with_tensor(plain("blk.0.attn_output.bias", &[20], &[1.0; 20]));
    assert_eq!(config(&file)["attention_bias"], true);
    assert_eq!(config(&file)["mlp_bias"], false);
    let file = llama.gguf().with_tensor(plain("blk.0.ffn_down.bias", &[20], &[1.0; 20]));
    assert_eq!(config(&file)["attention_bias"], false);
    assert_eq!(config(&file)["mlp_bias"], true);
}

#[test]
fn keys_that_are_missing_or_invalid_are_named() {
    let model = TinyModel::new("qwen3");
    for key in [
        "context_length",
        "embedding_length",
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ] {
        let key = model.key(key);
        let what = format!("model.gguf: metadata key {key} is missing");
        refused(checkpoint(&model.gguf().without(&key).bytes()), &[&what]);
        let what = format!("metadata key {key} is a text, but must be");
        refused(checkpoint(&model.gguf().with(&key, "many").bytes()), &[&what]);
    }
    for key in ["context_length", "embedding_length", "block_count", "attention.key_length"] {
        for size in [0u64, (1 << 30) + 1] {
            let key = model.key(key);
            let what = format!("metadata key {key} is {size}, which is out of range: 1 to");
            refused(checkpoint(&model.gguf().with(&key, size).bytes()), &[&what]);
        }
    }
    let with = |name: &str, value: Encoded| {
        checkpoint(&model.gguf().with(&format!("qwen3.{name}"), value).bytes())
    };
    refused(with("attention.head_count", vec![6u32, 2].into()), &["head_count differs between"]);
    refused(with("attention.head_count", vec!["6"].into()), &["head_count is a list of 1"]);
    refused(with("attention.head_count_kv", 4u32.into()), &["head_count_kv is 4, which does not"]);
    refused(with("attention.value_length", 4u32.into()), &["value_length is 4, but keys have"]);
    refused(
        with("expert_count", 8u32.into()),
        &["qwen3.expert_count is 8, but qwen3 models with experts are not supported"],
    );
    refused(with("attention.causal", false.into()), &["qwen3.attention.causal is false"]);
    let negative = with("attention.layer_norm_rms_epsilon", f32::NAN.into());
    refused(negative, &["layer_norm_rms_epsilon is NaN"]);
    let uneven = model.gguf().without("qwen3.attention.key_length");
    refused(checkpoint(&uneven.bytes()), &["head_count is 6, which does not divide"]);
}

#[test]
fn other_architectures_are_refused_with_those_that_are_known() {
    let file = TinyModel::new("llama").gguf();
    let known = ARCHITECTURES.into_iter().filter(|name| *name != "mixtral");
    let known = known.collect::<Vec<_>>().join(", ");
    for other in ["gpt2", "", "Llama", "a\nb"] {
        let what =
            format!("metadata key general.architecture is {other:?}; supported are: {known}");
        refused(checkpoint(&file.clone().with("general.architecture", other).bytes()), &[&what]);
    }
    let none = file.clone().without("general.architecture");
    refused(checkpoint(&none.bytes()), &["general.architecture is missing"]);
    let number = file.with("general.architecture", 1u8);
    refused(checkpoint(&number.bytes()), &["general.architecture is 1, but must be a text"]);
}

#[test]
fn metadata_that_contradict_tensors_are_refused() {
    let model = TinyModel::new("qwen3");
    for (key, size, what) in [
        ("embedding_length", 21, "is 21, but tensor token_embd.weight has 20 in its place"),
        ("block_count", 3, "is 3, but there are tensors of 2 layers"),
        ("block_count", 1, "is 1, but there are tensors of 2 layers"),
        ("block_count", 1 << 30, "is 1073741824, but there are tensors of 2 layers"),
        ("feed_forward_length", 27, "is 27, but tensor blk.0.ffn_down.weight has 28"),
        ("attention.head_count", 8, "asks for 64 rows of tensor blk.0.attn_q.weight, which has 48"),
        ("attention.head_count_kv", 3, "asks for 24 rows of tensor blk.0.attn_k.weight"),
        ("vocab_size", 32, "is 32, but tensor token_embd.weight has 33"),
    ] {
        let file = model.gguf().with(&model.key(key), size as u32);
        let key = format!("metadata key qwen3.{key} ");
        refused(checkpoint(&file.bytes()), &[&key, what]);
    }
    // One tensor with an absurd number does not confirm as many layers.
    let last = plain("blk.1073741823.attn_norm.weight", &[20], &[1.0; 20]);
    let absurd = model.gguf().with_tensor(last).with("qwen3.block_count", 1u32 << 30);
    let what = "block_count is 1073741824, but there are tensors of 3 layers";
    refused(checkpoint(&absurd.bytes()), &[what]);
    let phi = TinyModel::new("phi3");
    let file = phi.gguf().with("phi3.attention.head_count", 8u32);
    let what = "head_count asks for 96 rows of tensor blk.0.attn_qkv.weight, which has 80";
    refused(checkpoint(&file.bytes()), &[what]);
    let tokens = vec!["x"; 34];
    let file = model.gguf().with("tokenizer.ggml.tokens", tokens);
    let what = "tokenizer.ggml.tokens has 34 tokens, but tensor token_embd.weight 33 rows";
    refused(checkpoint(&file.bytes()), &[what]);
    for name in ["token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight"] {
        let file = model.gguf().without_tensor(name);
        refused(checkpoint(&file.bytes()), &[&format!("tensor {name} is missing")]);
        let file = model.gguf().with_tensor(plain(name, &[20], &[0.5; 20]));
        refused(
            checkpoint(&file.bytes()),
            &[&format!("tensor {name} has shape [20], but must be a matrix")],
        );
    }
    let file = phi.gguf().without_tensor("blk.0.attn_qkv.weight");
    refused(checkpoint(&file.bytes()), &["tensor blk.0.attn_qkv.weight is missing"]);
}

/// What such a tensor is for would be missing from the computation.
#[test]
fn tensors_that_no_such_model_has_are_refused() {
    for (architecture, name) in [
        ("qwen3", "blk.0.attn_q.bias"),
        ("qwen2", "blk.1.attn_output.bias"),
        ("qwen2", "output.bias"),
        ("llama", "blk.0.ffn_gate_exps.weight"),
        ("llama", "blk.0.attn_q_norm.weight"),
        ("llama", "blk.0.attn_sinks.weight"),
        ("llama", "blk.01.attn_q.weight"),
        ("llama", "blk.+1.attn_q.weight"),
        ("phi3", "blk.0.attn_q.weight"),
        ("olmo2", "blk.0.attn_norm.weight"),
        ("gemma3", "v.patch_embd.weight"),
    ] {
        let file = TinyModel::new(architecture).gguf().with_tensor(plain(name, &[8], &[1.0; 8]));
        let what =
            format!("tensor {name} is not supported: no {architecture} model should have it");
        refused(checkpoint(&file.bytes()), &[&what]);
    }
}

/// Catches: a file whose sizes of experts contradict its tensors, or whose experts compute more
/// than is read, is loaded.
#[test]
fn experts_that_contradict_the_file_are_refused() {
    let model = TinyModel::new("qwen3moe");
    let with = |name: &str, value: Encoded| {
        checkpoint(&model.gguf().with(&format!("qwen3moe.{name}"), value).bytes())
    };
    for (key, value, what) in [
        ("expert_count", 6u32, "expert_count is 6, but tensor blk.0.ffn_down_exps.weight has 5"),
        ("expert_count", 0, "expert_count is 0, but qwen3moe models without experts"),
        ("expert_feed_forward_length", 27, "expert_feed_forward_length is 27, but tensor"),
        ("expert_shared_count", 1, "expert_shared_count is 1, but shared experts"),
    ] {
        refused(with(key, value.into()), &[what]);
    }
    let scaled = with("expert_weights_scale", 2.5f32.into());
    refused(scaled, &["expert_weights_scale is 2.5, but scaled weights"]);
    let flat = model.gguf().with_tensor(plain("blk.0.ffn_down_exps.weight", &[5, 20], &[1.0; 100]));
    refused(checkpoint(&flat.bytes()), &["ffn_down_exps.weight", "must have 3 dimensions"]);
    let missing = model.gguf().without_tensor("blk.1.ffn_up_exps.weight");
    let file = checkpoint(&missing.bytes()).unwrap();
    let name = "model.layers.1.mlp.experts.4.up_proj.weight";
    refused(file.check(name, &[28, 20]), &["tensor blk.1.ffn_up_exps.weight is missing"]);
    let past = "model.layers.0.mlp.experts.5.up_proj.weight";
    let file = checkpoint(&model.gguf().bytes()).unwrap();
    refused(file.check(past, &[28, 20]), &["has shape [5, 28, 20], but the metadata ask for"]);
}

/// Catches: YaRN of gpt-oss with rounded ends of its ramp, or windows on other layers.
#[test]
fn files_of_gpt_oss_have_its_windows_and_its_ramp() {
    let model = TinyModel { layers: 3, ..TinyModel::new("gpt-oss") };
    let file = model
        .gguf()
        .with("gpt-oss.attention.sliding_window", 9u32)
        .with("gpt-oss.rope.scaling.type", "yarn")
        .with("gpt-oss.rope.scaling.factor", 32f32)
        .with("gpt-oss.rope.scaling.original_context_length", 20u32);
    let found = config(&file);
    assert_eq!(found["rope_parameters"]["truncate"], json!(false));
    let types = ["sliding_attention", "full_attention", "sliding_attention"];
    assert_eq!(found["layer_types"], json!(types));
    let plain = TinyModel::new("qwen3").gguf().with("qwen3.rope.scaling.type", "yarn");
    let plain = plain.with("qwen3.rope.scaling.factor", 4f32);
    assert_eq!(config(&plain)["rope_parameters"].get("truncate"), None);
}

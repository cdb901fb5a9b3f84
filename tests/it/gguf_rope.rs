//! Rotary embeddings in GGUF files.

use serde_json::{Value, json};

use crate::gguf_models::TinyModel;
use crate::gguf_support::{Gguf, checkpoint, plain, refused};

#[track_caller]
fn rope(file: &Gguf) -> Value {
    checkpoint(&file.bytes()).unwrap().config()["rope_parameters"].clone()
}

#[test]
fn frequencies_have_a_base_and_a_scaling() {
    let model = TinyModel::new("qwen2");
    let base = || model.gguf().with("qwen2.rope.freq_base", 1e6f32);
    let with = |pairs: &[(&str, f32)]| {
        let file = pairs
            .iter()
            .fold(base(), |file, (key, value)| file.with(&format!("qwen2.rope.{key}"), *value));
        move |kind: &str| file.clone().with("qwen2.rope.scaling.type", kind)
    };
    assert_eq!(rope(&base()), json!({"rope_type": "default", "rope_theta": 1e6}));
    let linear = json!({"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0});
    assert_eq!(rope(&with(&[("scaling.factor", 8.0)])("linear")), linear);
    assert_eq!(rope(&base().with("qwen2.rope.scaling.factor", 8f32)), linear);
    assert_eq!(rope(&base().with("qwen2.rope.scale_linear", 8f32)), linear);
    let none = rope(&base());
    for (factor, kind) in [(8.0, "none"), (1.0, "linear"), (0.0, "linear"), (1.0, "yarn")] {
        assert_eq!(rope(&with(&[("scaling.factor", factor)])(kind)), none, "{factor} {kind}");
    }
    assert_eq!(rope(&with(&[])("linear")), none);
    let yarn = json!({
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
        "original_max_position_embeddings": 160,
    });
    let factor = ("scaling.factor", 4.0);
    let original = |file: Gguf| file.with("qwen2.rope.scaling.original_context_length", 160u32);
    assert_eq!(rope(&original(with(&[factor])("yarn"))), yarn);
    let more = [
        ("scaling.yarn_attn_factor", 1.5),
        ("scaling.yarn_beta_fast", 16.0),
        ("scaling.yarn_beta_slow", 2.0),
    ];
    let found = rope(&with(&[&[factor][..], &more].concat())("yarn"));
    assert_eq!(found["original_max_position_embeddings"], 640);
    assert_eq!((&found["attention_factor"], &found["beta_fast"]), (&json!(1.5), &json!(16.0)));
    assert_eq!(found["beta_slow"], 2.0);
}

#[test]
fn values_out_of_range_are_refused_by_key() {
    let file = || TinyModel::new("qwen2").gguf();
    let with = |key: &str, value: f32| {
        checkpoint(&file().with(&format!("qwen2.rope.{key}"), value).bytes())
    };
    refused(with("freq_base", 0.0), &["metadata key qwen2.rope.freq_base is 0, but must be > 0"]);
    refused(with("freq_base", f32::INFINITY), &["qwen2.rope.freq_base is inf"]);
    refused(with("scaling.factor", -2.0), &["qwen2.rope.scaling.factor is -2, but must be > 0"]);
    refused(with("scaling.type", 1.0), &["qwen2.rope.scaling.type is 1, but must be a text"]);
    let dynamic = file().with("qwen2.rope.scaling.type", "dynamic");
    let what = "scaling.type is \"dynamic\"; supported are: none, linear, yarn, longrope";
    refused(checkpoint(&dynamic.bytes()), &[what]);
    for rotated in [3u32, 9, 10] {
        let file = file().with("qwen2.rope.dimension_count", rotated);
        let what = format!("dimension_count is {rotated}, but heads have width 8");
        refused(checkpoint(&file.bytes()), &[&what]);
    }
    // Pairs of neighbours cannot be put in order if only some of a head are rotated.
    let llama = TinyModel::new("llama").gguf().with("llama.rope.dimension_count", 6u32);
    refused(checkpoint(&llama.bytes()), &["llama.rope.dimension_count is 6", "must be this width"]);
}

#[test]
fn a_part_of_a_head_is_a_share_that_gives_it_back() {
    let found = |width: usize, rotated: u32| {
        let model = TinyModel { width, heads: 2, kv_heads: 2, layers: 1, ..TinyModel::new("phi3") };
        let file = model.gguf().with("phi3.rope.dimension_count", rotated);
        rope(&file)["partial_rotary_factor"].clone()
    };
    assert_eq!(found(8, 6), 0.75);
    assert_eq!(found(8, 8), Value::Null);
    // In f64 the share of 30 in 44, times 44, is below 30; others are like it.
    for width in [44, 52, 94, 98] {
        for rotated in (2..width).step_by(2) {
            let share = found(width, rotated as u32).as_f64().unwrap();
            assert_eq!((width as f64 * share) as usize, rotated, "{rotated} of {width}");
        }
    }
}

#[test]
fn factors_of_frequencies_come_from_tensors() {
    let model = TinyModel::new("llama");
    let with = |weights: &[f32]| {
        let shape = [weights.len()];
        model.gguf().with_tensor(plain("rope_freqs.weight", &shape, weights))
    };
    let factors = [1.0, 1.0, 3.3, 8.0];
    let wanted = json!({
        "rope_type": "factors", "rope_theta": 10000.0,
        "factors": [1.0, 1.0, f64::from(3.3f32), 8.0],
    });
    assert_eq!(rope(&with(&factors)), wanted);
    assert_eq!(rope(&with(&factors).with("llama.rope.scaling.type", "none")), wanted);
    let short = checkpoint(&with(&factors[..3]).bytes());
    refused(short, &["tensor rope_freqs.weight has shape [3], but there are 4 frequencies"]);
    let zero = checkpoint(&with(&[1.0, 0.0, 1.0, 1.0]).bytes());
    refused(zero, &["tensor rope_freqs.weight holds the factor 0"]);
    let nan = checkpoint(&with(&[1.0, f32::NAN, 1.0, 1.0]).bytes());
    refused(nan, &["tensor rope_freqs.weight holds NaN"]);
    let both = with(&factors).with("llama.rope.scaling.factor", 2f32);
    refused(checkpoint(&both.bytes()), &["rope.scaling.factor does not go together with tensor"]);
    // They are part of what the hash covers.
    let hash = |file: &Gguf| checkpoint(&file.bytes()).unwrap().sha256().unwrap();
    assert_ne!(hash(&with(&factors)), hash(&with(&[1.0; 4])));
}

#[test]
fn long_and_short_factors_come_from_tensors() {
    let model = TinyModel::new("phi3");
    let (long, short) = ("rope_factors_long.weight", "rope_factors_short.weight");
    let file = model
        .gguf()
        .with("phi3.rope.dimension_count", 6u32)
        .with("phi3.rope.scaling.original_context_length", 160u32)
        .with("phi3.rope.scaling.attn_factor", 1.25f32)
        .with_tensor(plain(long, &[3], &[2.0, 4.0, 8.0]))
        .with_tensor(plain(short, &[3], &[1.0, 1.5, 2.0]));
    let wanted = json!({
        "rope_type": "longrope", "rope_theta": 10000.0,
        "long_factor": [2.0, 4.0, 8.0], "short_factor": [1.0, 1.5, 2.0],
        "original_max_position_embeddings": 160, "attention_factor": 1.25,
        "partial_rotary_factor": 0.75,
    });
    assert_eq!(rope(&file), wanted);
    // For Phi-3 the value outside of the table counts.
    let config = checkpoint(&file.bytes()).unwrap().config().clone();
    assert_eq!(config["original_max_position_embeddings"], 160);
    for missing in [long, short] {
        let file = file.clone().without_tensor(missing);
        refused(checkpoint(&file.bytes()), &[&format!("tensor {missing} is missing")]);
    }
    let typed = model.gguf().with("phi3.rope.scaling.type", "longrope");
    refused(checkpoint(&typed.bytes()), &["tensor rope_factors_long.weight is missing"]);
}

#[test]
fn gemma_3_has_an_embedding_for_layers_with_a_window() {
    let file = TinyModel::new("gemma3")
        .gguf()
        .with("gemma3.rope.freq_base", 1e6f32)
        .with("gemma3.rope.scaling.type", "linear")
        .with("gemma3.rope.scaling.factor", 8f32);
    let full = json!({"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0});
    let local = |theta: f64| json!({"rope_type": "default", "rope_theta": theta});
    let wanted = |theta| json!({"full_attention": full, "sliding_attention": local(theta)});
    assert_eq!(rope(&file), wanted(10_000.0));
    let other = file.with("gemma3.rope.freq_base_swa", 5e3f32);
    assert_eq!(rope(&other), wanted(5_000.0));
}

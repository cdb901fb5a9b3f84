//! Quantised checkpoints that are refused, each with one sentence.

use safetensors::Dtype;
use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::engine::{Settings, Source};
use specdec::model::Role;

use super::folders::{Folder, folders, tiny};
use super::methods::{AWQ, CHANNELS, FP8, GPTQ, Method, PACKED};
use crate::checkpoint::Checkpoint;

/// A command that makes a folder that can be read.
const COMMAND: &str = "dequantize_model as d; d('IN', 'OUT')";

#[track_caller]
fn refused(method: &Method, change: impl FnOnce(&mut Folder), parts: &[&str]) {
    let [mut folder, _] = folders(&tiny(), method);
    change(&mut folder);
    refused_folder(&folder, parts);
}

#[track_caller]
fn refused_folder(folder: &Folder, parts: &[&str]) {
    let place = tempfile::tempdir().unwrap();
    folder.write(place.path());
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let source = Source::from(place.path().to_str().unwrap()).with(settings);
    let error = load(source, Role::Target).err().unwrap().to_string();
    assert!(!error.contains('\n'), "{error}");
    for part in parts {
        assert!(error.contains(part), "no {part}: {error}");
    }
}

/// Refuses a value of a key of the table, or of one of its weights.
#[track_caller]
fn refused_key(method: &Method, key: &str, value: Value, parts: &[&str]) {
    refused(
        method,
        |folder| {
            let keys = folder.keys();
            match keys.pointer_mut("/config_groups/group_0/weights") {
                Some(weights) if weights.get(key).is_some() => weights[key] = value,
                _ => keys[key] = value,
            }
        },
        parts,
    );
}

#[test]
fn unknown_methods_are_refused() {
    let known = "supported are: awq, compressed-tensors, fp8, gptq";
    let refused = |value: Value, parts: &[&str]| refused_key(&FP8, "quant_method", value, parts);
    refused(json!(null), &["quantization_config.quant_method is missing", known]);
    refused(json!("quark"), &["quantization_config.quant_method is \"quark\"", known]);
    refused(json!("bitsandbytes"), &["\"bitsandbytes\"", known, COMMAND]);
    refused(json!(4), &["quantization_config.quant_method is 4, but must be a string"]);
}

#[test]
fn fp8_that_has_no_kernel_is_refused() {
    refused_key(&FP8, "fmt", json!("e5m2"), &["quantization_config.fmt is \"e5m2\"", "e4m3"]);
    let key = "weight_block_size";
    let supported = "[n, m] with a multiple m of 128";
    for sizes in [json!([128, 64]), json!([128]), json!([0, 128]), json!([128, 0])] {
        let what = format!("quantization_config.{key} is {}", sizes.to_string().replace(',', ", "));
        refused_key(&FP8, key, sizes, &[&what, supported]);
    }
    refused_key(&CHANNELS, "format", json!("marlin-24"), &["\"marlin-24\"", "float-quantized"]);
    refused_key(&CHANNELS, "format", json!("int-quantized"), &["format is \"int-quantized\""]);
    refused_key(&CHANNELS, "format", json!(null), &["quantization_config.format is missing"]);
    let weights = "quantization_config.config_groups.group_0.weights.";
    let named = |key: &str| format!("{weights}{key}");
    refused_key(&CHANNELS, "num_bits", json!(4), &[&named("num_bits is 4")]);
    refused_key(&CHANNELS, "type", json!("int"), &[&named("type is \"int\""), "float"]);
    let strategies = "tensor, channel, group, block";
    let what = named("strategy is \"token\"");
    refused_key(&CHANNELS, "strategy", json!("token"), &[&what, strategies]);
    let transforms = json!({"config_groups": {"u": {"type": "hadamard"}}});
    let what = "transformed weights (quantization_config.transform_config)";
    refused_key(&CHANNELS, "transform_config", transforms, &[what]);
    let sparse = json!({"format": "sparse-24-bitmask"});
    let what = "sparsity_config.format is \"sparse-24-bitmask\"";
    refused_key(&CHANNELS, "sparsity_config", sparse, &[what, "dense"]);
}

#[test]
fn fp8_tensors_that_do_not_fit_are_refused() {
    let module = "tensor model.layers.0.mlp.down_proj";
    let remove = |folder: &mut Folder, part: &str| {
        let name = folder.tensor(part).name.clone();
        folder.tensors.retain(|tensor| tensor.name != name);
    };
    let scale = "weight_scale_inv";
    let what = format!("{module}.{scale} is missing");
    refused(&FP8, |folder| remove(folder, scale), &[&what]);
    let what = format!("{module}.weight is missing");
    refused(&FP8, |folder| remove(folder, "weight"), &[&what]);
    let what = format!("{module}.weight_scale has shape [4, 8], but config.json asks for [32, 1]");
    refused(&CHANNELS, |folder| folder.tensor("weight_scale").shape = vec![4, 8], &[&what]);
    let nan = |folder: &mut Folder| folder.tensor("weight").bytes[70] = 0xff;
    refused(&FP8, nan, &[&format!("{module}.weight holds NaN or infinite weights")]);
    let large = |folder: &mut Folder| {
        folder.tensor(scale).bytes = 1e37f32.to_le_bytes().to_vec();
    };
    refused(&FP8, large, &[&format!("{module}.weight holds NaN or infinite weights")]);
    let wide = |folder: &mut Folder| {
        let tensor = folder.tensor("weight");
        (tensor.dtype, tensor.bytes) = (Dtype::BF16, tensor.bytes.repeat(2));
    };
    refused(&FP8, wide, &[&format!("{module}.weight is of type BF16, but must be F8_E4M3")]);
    let small = |folder: &mut Folder| {
        let tensor = folder.tensor(scale);
        (tensor.dtype, tensor.bytes) = (Dtype::F8_E8M0, vec![127]);
    };
    refused(&FP8, small, &[&format!("{module}.{scale} is of type F8_E8M0; supported are: f32")]);
}

#[test]
fn four_bits_in_other_layouts_are_refused() {
    for (method, key) in [(AWQ, "bits"), (GPTQ, "bits"), (PACKED, "num_bits")] {
        refused_key(&method, key, json!(8), &["quantization_config.", &format!("{key} is 8"), "4"]);
        let supported = "supported are: -1, and multiples of 32";
        refused_key(&method, "group_size", json!(16), &["group_size is 16", supported]);
        refused_key(&method, "group_size", json!(-2), &["group_size is -2", "or -1"]);
    }
    refused_key(&GPTQ, "bits", json!(3), &["quantization_config.bits is 3", COMMAND]);
    refused_key(&AWQ, "version", json!("gemv"), &["version is \"gemv\"", "gemm"]);
    refused_key(&AWQ, "backend", json!("llm-awq"), &["backend is \"llm-awq\""]);
    refused_key(&AWQ, "zero_point", json!(false), &["zero_point is false"]);
    let what = "checkpoint_format is \"marlin\"";
    refused_key(&GPTQ, "checkpoint_format", json!("marlin"), &[what, "gptq, gptq_v2"]);
    refused_key(&GPTQ, "is_marlin_format", json!(true), &["is_marlin_format is true"]);
    refused_key(&GPTQ, "rotation", json!("hadamard"), &["rotated weights", "rotation"]);
    refused_key(&PACKED, "strategy", json!("tensor"), &["strategy is \"tensor\"", COMMAND]);
}

#[test]
fn four_bits_that_do_not_fit_are_refused() {
    let module = "tensor model.layers.0.mlp.down_proj";
    // The first input trades its group with the last one.
    let swap = |part: &'static str| move |folder: &mut Folder| folder.tensor(part).bytes[0] = 7;
    let what = format!("{module}.g_idx has input 0 in group 7");
    refused(&GPTQ, swap("g_idx"), &[&what, "desc_act", COMMAND]);
    let what = format!("{module}.weight_g_idx has input 0 in group 7");
    refused(&PACKED, swap("weight_g_idx"), &[&what, "actorder", COMMAND]);
    let below = |folder: &mut Folder| folder.tensor("qzeros").bytes[0] |= 0x0f;
    refused(&GPTQ, below, &[&format!("{module}.qzeros has a zero point"), "gptq_v2"]);
    let shape = |folder: &mut Folder| folder.tensor("weight_shape").bytes[0] = 31;
    let what = format!("{module}.weight_shape is [31, 64], but config.json asks for [32, 64]");
    refused(&PACKED, shape, &[&what]);
    let infinite = |folder: &mut Folder| {
        let bytes = &mut folder.tensor("scales").bytes;
        (bytes[0], bytes[1]) = (0x00, 0x7c);
    };
    refused(&AWQ, infinite, &[&format!("{module}.scales holds NaN or infinite weights")]);
    let wide = |folder: &mut Folder| {
        let tensor = folder.tensor("qweight");
        (tensor.dtype, tensor.bytes) = (Dtype::I64, tensor.bytes.repeat(2));
    };
    refused(&AWQ, wide, &[&format!("{module}.qweight is of type I64, but must be I32")]);
    let turned = |folder: &mut Folder| folder.tensor("qweight").shape.reverse();
    let what = format!("{module}.qweight has shape [4, 64], but config.json asks for [64, 4]");
    refused(&AWQ, turned, &[&what]);
    for (method, part) in [(AWQ, "qweight"), (GPTQ, "qweight"), (PACKED, "weight_packed")] {
        let [folder, _] = folders(&Checkpoint { intermediate: 48, ..tiny() }, &method);
        let what = format!("{module}.{part} has 48 inputs in config.json, not a multiple of 32");
        refused_folder(&folder, &[&what]);
    }
}

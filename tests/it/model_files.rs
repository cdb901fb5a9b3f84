//! Missing models, and model files that are damaged, absurd or change while they are read.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use candle_core::{Device, Tensor};
use serde_json::{Value, json};
use specdec::checkpoint::{Catalog, HubCache, load};
use specdec::engine::{Dtype, Settings, Source};
use specdec::model::Role;

use crate::checkpoint::{Checkpoint, replace, tokenizer_json, write_json};
use crate::cli_support::text;
use crate::damage_support::says;

/// The one-line message with which a checkpoint is refused after `spoil` changed its folder.
#[track_caller]
fn refusal(checkpoint: &Checkpoint, spoil: impl Fn(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(dir.path());
    spoil(dir.path());
    let sentence = load(dir.path().to_str().unwrap(), Role::Target).unwrap_err().to_string();
    assert!(!sentence.contains('\n'), "more than one line: {sentence}");
    sentence
}

#[test]
fn the_error_for_a_missing_model_explains_what_a_model_is() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = Catalog::near(dir.path()).with_cache(HubCache::at(dir.path().join("hub")));
    let absent = |name: &str| catalog.model(name).unwrap_err().to_string();
    let hub = absent("meta-llama/Llama-2-7b");
    says(&hub, &["no such folder", "`hf download meta-llama/Llama-2-7b` downloads it"]);
    says(&absent("https://huggingface.co/meta-llama/Llama-2-7b"), &["not downloaded"]);
    for gguf in ["llama-2-7b.Q4_K_M.gguf", "./models/tiny.GGUF"] {
        says(&absent(gguf), &["no such file"]);
    }
    says(&absent(""), &["unknown model \"\""]);
    let neither = "neither a folder nor a .gguf file; a model is a GGUF file or a folder";
    for (file, part) in [("tiny.gguf", "not a GGUF file"), ("model.safetensors", neither)] {
        let path = dir.path().join(file);
        fs::write(&path, "").unwrap();
        let source = catalog.model(path.to_str().unwrap()).unwrap();
        let sentence = load(source, Role::Draft).unwrap_err().to_string();
        says(&sentence, &[file, part]);
    }
}

#[test]
fn the_error_for_a_folder_in_another_format_explains_what_to_do() {
    let replaced = |missing: &'static str, other: &'static str| {
        refusal(&Checkpoint::default(), move |folder| {
            fs::rename(folder.join(missing), folder.join(other)).unwrap();
        })
    };
    let has = |sentence: &str, missing| says(sentence, &["the folder has no", missing]);
    for (missing, other, what) in [
        ("config.json", "tiny.gguf", "give the path of the GGUF file"),
        ("config.json", "snapshots", "below its snapshots/"),
        ("tokenizer.json", "tekken.json", "/tekken.json').save_pretrained('"),
        ("tokenizer.json", "merges.txt", "/tokenizer.json')\""),
        ("model.safetensors", "consolidated.00.pth", "convert weights in Meta's own layout"),
    ] {
        let sentence = replaced(missing, other);
        has(&sentence, missing);
        says(&sentence, &[what]);
    }
}

#[test]
fn damaged_tokenizers_are_refused_without_a_panic() {
    let whole = serde_json::to_string_pretty(&tokenizer_json()).unwrap();
    let whole = whole.as_bytes();
    for cut in (0..whole.len() - 2).step_by(211) {
        let damaged =
            |folder: &Path| fs::write(folder.join("tokenizer.json"), &whole[..cut]).unwrap();
        says(&refusal(&Checkpoint::default(), damaged), &["tokenizer.json", "not a tokenizer"]);
    }
    // The library panics on a malformed decoder.
    let broken = text(whole).replacen("\"decoder\": {", "\"decoder\": {\"type\": \"Fuse\" ", 1);
    let damaged = |folder: &Path| fs::write(folder.join("tokenizer.json"), &broken).unwrap();
    says(&refusal(&Checkpoint::default(), damaged), &["tokenizer.json", "not a tokenizer"]);
}

#[test]
fn configured_sizes_that_contradict_the_weights_are_refused() {
    let refused = |config: Value| refusal(&Checkpoint { config, ..Checkpoint::default() }, |_| ());
    for key in [
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "vocab_size",
        "max_position_embeddings",
    ] {
        says(&refused(json!({key: 1u64 << 40})), &["config.json", key, "1 to 1073741824"]);
    }
    // The list of layers is made before the weights are looked at.
    let layers = |count: u64| refused(json!({"num_hidden_layers": count}));
    says(&layers(1 << 40), &["config.json", "num_hidden_layers", "1 to 4096"]);
    says(&layers(1 << 12), &["model.layers.2.", "is missing"]);
    let shape = |key: &str| refused(json!({key: 1u64 << 29}));
    says(&shape("hidden_size"), &["model.embed_tokens.weight", "[268, 536870912]"]);
    says(&shape("intermediate_size"), &["mlp.gate_proj", "[536870912, 32]"]);
    says(&shape("vocab_size"), &["model.embed_tokens.weight", "[536870912, 32]"]);
    let last = json!({"vocab_size": 1u64 << 30});
    for (config, part) in [(json!({}), "vocab_size"), (last, "asks for [1073741824, 32]")] {
        let sentence = refusal(&Checkpoint { config, ..Checkpoint::default() }, |folder| {
            let mut tokenizer = tokenizer_json();
            tokenizer["model"]["vocab"]["zz"] = json!((1 << 30) - 1);
            write_json(&folder.join("tokenizer.json"), &tokenizer);
        });
        says(&sentence, &[part]);
    }
}

#[test]
fn configuration_values_of_the_wrong_type_are_named() {
    let refused = |config: Value| refusal(&Checkpoint { config, ..Checkpoint::default() }, |_| ());
    let sentence = refused(json!({"num_attention_heads": "many"}));
    says(&sentence, &["config.json", "num_attention_heads is \"many\"", "a whole number"]);
    says(&refused(json!({"rms_norm_eps": []})), &["rms_norm_eps is []", "a number >= 0"]);
    for wrong in [json!(-1), json!("</s>"), json!(1u64 << 40), json!([1, "b"])] {
        let sentence = refused(json!({"eos_token_id": wrong}));
        says(&sentence, &["config.json", "eos_token_id: expected a token (a whole number >= 0)"]);
    }
}

#[test]
fn folders_and_oversized_files_are_refused_as_configuration() {
    let sentence = refusal(&Checkpoint::default(), |folder| {
        fs::remove_file(folder.join("config.json")).unwrap();
        fs::create_dir(folder.join("config.json")).unwrap();
    });
    says(&sentence, &["config.json", "not a regular file"]);
    let sentence = refusal(&Checkpoint::default(), |folder| {
        let file = fs::File::create(folder.join("config.json")).unwrap();
        file.set_len(1 << 40).unwrap();
    });
    says(&sentence, &["config.json", "larger than 256 MiB"]);
}

#[test]
fn weight_headers_with_overflowing_sizes_are_refused() {
    let sentence = refusal(&Checkpoint::default(), |folder| {
        let most = (1u64 << 61) - 1;
        let sizes = [most; 8].into_iter().chain([7]).enumerate();
        let tensors = sizes.map(|(i, size)| {
            let start = i as u64 * most;
            let offsets = [start, start + size];
            (i.to_string(), json!({"dtype": "U8", "shape": [size], "data_offsets": offsets}))
        });
        let header = Value::Object(tensors.collect()).to_string();
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        fs::write(folder.join("model.safetensors"), file).unwrap();
    });
    let what = format!("0 bytes of tensors; its header describes {}", u64::MAX);
    says(&sentence, &["model.safetensors: not a complete safetensors file", &what]);
}

#[cfg(unix)]
#[test]
fn dangling_links_are_reported() {
    use std::os::unix::fs::symlink;
    let name = "generation_config.json";
    let sentence = refusal(&Checkpoint::default(), |folder| {
        symlink("nowhere", folder.join(name)).unwrap();
    });
    says(&sentence, &[name, "cannot be read"]);
    let name = "model.safetensors";
    let sharded = Checkpoint { shards: 2, ..Checkpoint::default() };
    let sentence = refusal(&sharded, |folder| symlink("nowhere", folder.join(name)).unwrap());
    says(&sentence, &[name, "cannot be read"]);
}

/// Reading `/proc/self/mem` at offset 0 fails, since nothing is mapped there.
#[cfg(target_os = "linux")]
#[test]
fn an_io_error_on_weights_is_not_reported_as_an_incomplete_file() {
    let sentence = refusal(&Checkpoint::default(), |folder| {
        let weights = folder.join("model.safetensors");
        fs::remove_file(&weights).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", weights).unwrap();
    });
    says(&sentence, &["model.safetensors: cannot be read: Input/output error"]);
}

#[test]
fn weights_that_a_dtype_cannot_hold_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    Checkpoint::default().write(dir.path());
    let name = "model.layers.1.mlp.up_proj.weight";
    let load_with = |largest: f32, dtype| {
        let tensor = Tensor::full(-largest, (48, 32), &Device::Cpu).unwrap();
        replace(dir.path(), name, |_| Some(tensor.clone()));
        let settings = Settings { dtype: Some(dtype), ..Settings::default() };
        let source = Source { settings, ..dir.path().to_str().unwrap().into() };
        load(source, Role::Target)
    };
    // 65,520 is the smallest number that f16 rounds to infinity.
    for (dtype, most, too_large) in [
        (Dtype::F16, 65_519.0, 65_520.0),
        (Dtype::Q8_0, 127.0 * 65_519.0, 127.0 * 65_520.0),
        (Dtype::Bf16, 3.39e38, f32::MAX),
    ] {
        load_with(most, dtype).unwrap();
        let sentence = load_with(too_large, dtype).unwrap_err().to_string();
        says(&sentence, &[name, "magnitude", dtype.name(), "another dtype"]);
    }
    load_with(f32::MAX, Dtype::F32).unwrap();
}

#[test]
fn weights_truncated_during_the_read_never_crash() {
    let dir = tempfile::tempdir().unwrap();
    let large = Checkpoint { hidden: 256, intermediate: 1024, layers: 4, ..Checkpoint::default() };
    large.write(dir.path());
    let weights = dir.path().join("model.safetensors");
    let whole = fs::read(&weights).unwrap();
    for attempt in 0..16u32 {
        fs::write(&weights, &whole).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("specdec"));
        command.args(["inspect", "--prompt", "a", "--target"]).arg(dir.path());
        let reader = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(5) * attempt);
        let file = fs::OpenOptions::new().write(true).open(&weights).unwrap();
        file.set_len(u64::from(attempt) * 1000).unwrap();
        let output = reader.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        match output.status.code() {
            Some(0) => assert_eq!(stderr, ""),
            Some(1) => {
                assert_eq!(stderr.lines().count(), 1, "{stderr}");
                says(&stderr, &["error: target: ", "model.safetensors"]);
            }
            _ => panic!("{:?}: {stderr}", output.status),
        }
    }
}

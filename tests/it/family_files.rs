//! What files say of a family beyond its usual configuration, on the checkpoints of
//! `tests/families`.

mod quantised;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::engine::{Dtype, Engine, Settings, Source};
use specdec::model::Role;

use crate::checkpoint::{Checkpoint, settings_of, write_json};
use crate::families::root;
use crate::model_llama::all_rows;

mod sentence_pieces;
pub(crate) mod torch_files;
mod torch_weights;

/// The logits after each of many tokens.
fn logits(folder: &Path, engine: Engine) -> Vec<Vec<f32>> {
    let settings = Settings { threads: Some(1), ..settings_of(engine) };
    let source = Source::from(folder.to_str().unwrap()).with(settings);
    let loaded = load(source, Role::Target).unwrap();
    let tokens = (0..40).map(|i| (i * 7 + 3) % 40).collect::<Vec<_>>();
    all_rows(&*loaded.model, &tokens)
}

fn config(name: &str) -> Value {
    let file = root().join(name).join("config.json");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// The logits of a checkpoint of `tests/families` with other keys.
fn with_keys(name: &str, keys: &Value, engine: Engine) -> Vec<Vec<f32>> {
    let folder = tempfile::tempdir().unwrap();
    for part in ["tokenizer.json", "model.safetensors"] {
        fs::copy(root().join(name).join(part), folder.path().join(part)).unwrap();
    }
    let mut config = config(name);
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    write_json(&folder.path().join("config.json"), &config);
    logits(folder.path(), engine)
}

#[test]
fn mistral_may_name_the_layers_that_have_a_window() {
    for engine in Engine::ALL {
        let of = |keys| with_keys("mistral", &keys, engine);
        let layers = config("mistral")["num_hidden_layers"].as_u64().unwrap() as usize;
        let usual = of(json!({}));
        assert!(of(json!({"layer_types": vec!["sliding_attention"; layers]})) == usual);
        let none = of(json!({"sliding_window": null}));
        assert!(of(json!({"layer_types": vec!["full_attention"; layers]})) == none);
        assert!(usual != none);
    }
}

#[test]
fn a_head_in_the_file_counts_even_if_the_configuration_ties_it() {
    for engine in Engine::ALL {
        let of = |tied| {
            let folder = tempfile::tempdir().unwrap();
            let checkpoint = Checkpoint { tied: false, ..Checkpoint::default() };
            checkpoint.write(folder.path());
            let mut config = checkpoint.config_json();
            config["tie_word_embeddings"] = json!(tied);
            write_json(&folder.path().join("config.json"), &config);
            logits(folder.path(), engine)
        };
        assert!(of(true) == of(false));
    }
}

/// The logits of a checkpoint of `tests/families` as the text model of one that also sees images;
/// `name` gives the tensors' names in that, which says whether the head is tied.
fn wrapped(family: &str, name: impl Fn(&str) -> String, engine: Engine) -> Vec<Vec<f32>> {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root().join(family).join("tokenizer.json"), folder.path().join("tokenizer.json"))
        .unwrap();
    let mut text_config = config(family);
    let end = text_config.as_object_mut().unwrap().remove("eos_token_id");
    let tied = text_config["tie_word_embeddings"].clone();
    text_config["tie_word_embeddings"] = json!(false);
    let whole = json!({
        "model_type": "sees-images", "eos_token_id": end, "tie_word_embeddings": tied,
        "text_config": text_config,
    });
    write_json(&folder.path().join("config.json"), &whole);
    let tensors =
        candle_core::safetensors::load(root().join(family).join("model.safetensors"), &Device::Cpu);
    let mut tensors = tensors
        .unwrap()
        .into_iter()
        .map(|(own, tensor)| (name(&own), tensor))
        .collect::<HashMap<_, _>>();
    let image = Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap();
    tensors.insert("vision_tower.embeddings.weight".to_owned(), image);
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    logits(folder.path(), engine)
}

/// Catches: a text model that lies within a larger model is another model, or is not found.
#[test]
fn text_models_of_models_that_see_images_are_the_same() {
    for engine in Engine::ALL {
        for family in ["gemma3", "gemma4_small", "mistral"] {
            let alone = with_keys(family, &json!({}), engine);
            let before = wrapped(family, |own| format!("language_model.{own}"), engine);
            let inside = |own: &str| match own.strip_prefix("model.") {
                Some(rest) => format!("model.language_model.{rest}"),
                None => own.to_owned(),
            };
            assert!(alone == before && alone == wrapped(family, inside, engine), "{family}");
        }
    }
}

/// Catches: the published configuration of Gemma 3 4B, which leaves most keys out, is refused.
#[test]
fn a_text_model_has_the_defaults_of_its_family() {
    let folder = tempfile::tempdir().unwrap();
    let text_config = json!({
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    });
    let whole =
        json!({"model_type": "gemma3", "eos_token_id": [1, 106], "text_config": text_config});
    write_json(&folder.path().join("config.json"), &whole);
    for part in ["tokenizer.json", "model.safetensors"] {
        fs::copy(root().join("gemma3").join(part), folder.path().join(part)).unwrap();
    }
    let source = Source::from(folder.path().to_str().unwrap());
    let error = load(source, Role::Target).err().unwrap().to_string();
    let shape = "has shape [48, 24], but config.json asks for [262208, 2560]";
    assert!(error.contains(shape), "{error}");
}

/// Catches: a fault of a text model is named as one of the whole model.
#[test]
fn faults_of_a_text_model_are_named_with_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let whole = json!({"model_type": "sees-images", "text_config": {"model_type": "other"}});
    write_json(&folder.path().join("config.json"), &whole);
    for part in ["tokenizer.json", "model.safetensors"] {
        fs::copy(root().join("gemma3").join(part), folder.path().join(part)).unwrap();
    }
    let error = load(Source::from(folder.path().to_str().unwrap()), Role::Target).err().unwrap();
    assert!(error.to_string().contains("text_config.model_type is \"other\""), "{error}");
}

/// Catches: a folder that takes more memory than its files unless asked to; an explicit type
/// that does not count.
#[test]
fn weights_have_the_type_of_their_files_by_default() {
    let dtype = |name: &str, settings: Settings| {
        let source = Source::from(root().join(name).to_str().unwrap()).with(settings);
        load(source, Role::Target).unwrap().model.info().dtype
    };
    for (name, expected) in [("qwen3", "f32"), ("mistral", "bf16"), ("gpt_oss_mxfp4", "stored")] {
        assert_eq!(dtype(name, Settings::default()), expected, "{name}");
        assert_eq!(dtype(name, settings_of(Engine::Candle)), "f32", "{name}");
        let chosen = Settings { dtype: Some(Dtype::Q8_0), ..Settings::default() };
        assert_eq!(dtype(name, chosen), "q8_0", "{name}");
    }
}

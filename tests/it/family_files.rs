//! What files say of a family beyond its usual configuration, on the checkpoints of
//! `tests/families`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::engine::{Engine, Settings, Source};
use specdec::model::Role;

use crate::checkpoint::{Checkpoint, settings_of, write_json};
use crate::families::root;
use crate::model_llama::all_rows;

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

//! Families of models: random small checkpoints with the logits that transformers computes
//! for them (`tests/families`).

mod gemma4;
mod greedy;
mod sparse;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use specdec::checkpoint::load;
use specdec::engine::{Dtype, Engine, Settings, Source};
use specdec::model::{LanguageModel, Role};

use crate::checkpoint::settings_of;
use crate::model_llama::all_rows;
use crate::native::{in_trees, plain, ways_of};

/// A text with the logits after each of its tokens.
#[derive(Deserialize)]
pub(crate) struct Text {
    pub(crate) tokens: Vec<u32>,
    pub(crate) logits: Vec<Vec<f64>>,
}

/// The beginning of a text and its most probable continuation.
#[derive(Deserialize)]
struct Greedy {
    beginning: usize,
    tokens: Vec<u32>,
}

#[derive(Deserialize)]
pub(crate) struct Expected {
    pub(crate) texts: Vec<Text>,
    greedy: Greedy,
}

/// How far logits may be from those computed in f64, as a share of the largest one.
///
/// They result from a chain of about 60 sums, each of which rounding to f32 moves by
/// 6e-8 of its terms. Weights that are stored in bf16 are numbers of bf16, and of f16 but
/// for tiny ones, so these types change nothing. With q8_0 each value of a block moves by
/// up to 1/254 of the largest one, in each of up to 25 products in a row, which add up at
/// worst. Products with blocks of a file quantise values in the same way.
fn tolerance(dtype: Dtype, in_blocks: bool) -> f64 {
    match dtype {
        Dtype::Stored if in_blocks => 0.1,
        Dtype::F32 | Dtype::Bf16 | Dtype::F16 | Dtype::Stored => 1e-5,
        Dtype::Q8_0 => 0.1,
    }
}

/// The types in which the native engine can hold a checkpoint whose logits are known.
fn dtypes(folder: &Path) -> Vec<Dtype> {
    match json(&folder.join("config.json"))["dtype"].as_str() {
        Some("bfloat16") => Dtype::ALL.to_vec(),
        _ => vec![Dtype::F32, Dtype::Q8_0, Dtype::Stored],
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/families")
}

/// The folders of all checkpoints.
pub(crate) fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders =
        entries.filter(|path| path.join("expected.json").exists()).collect::<Vec<_>>();
    folders.sort();
    assert!(folders.len() >= 28, "{folders:?}");
    folders
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

pub(crate) fn expected(folder: &Path) -> Expected {
    serde_json::from_value(json(&folder.join("expected.json"))).unwrap()
}

pub(crate) fn open(folder: &Path, settings: Settings) -> Box<dyn LanguageModel> {
    let source = Source { settings, ..folder.to_str().unwrap().into() };
    load(source, Role::Target).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).model
}

#[track_caller]
fn assert_agrees(model: &dyn LanguageModel, text: &Text, tolerance: f64, what: &str) {
    let rows = all_rows(model, &text.tokens);
    assert_eq!(rows.len(), text.logits.len());
    let largest = text.logits.iter().flatten().fold(0.0, |most: f64, x| most.max(x.abs()));
    for (position, (row, expected)) in rows.iter().zip(&text.logits).enumerate() {
        for (token, (own, expected)) in row.iter().zip(expected).enumerate() {
            let gap = (f64::from(*own) - expected).abs();
            let near = gap <= tolerance * largest;
            assert!(near, "{what}, {position}, {token}: {own} and {expected}: {gap}");
        }
    }
}

#[test]
fn logits_are_those_of_transformers() {
    for folder in folders() {
        let native = dtypes(&folder).into_iter();
        let native = native.map(|dtype| Settings { dtype: Some(dtype), ..Settings::default() });
        for settings in native.chain([settings_of(Engine::Candle)]) {
            let what = format!("{} {settings:?}", folder.display());
            let in_blocks = folder.ends_with("gpt_oss_mxfp4");
            let tolerance = tolerance(settings.dtype.unwrap_or_default(), in_blocks);
            let model = open(&folder, settings);
            for text in expected(&folder).texts {
                if text.tokens.len() <= model.info().context_length {
                    assert_agrees(&*model, &text, tolerance, &what);
                }
            }
        }
    }
}

#[test]
fn older_spellings_mean_the_same() {
    let mut count = 0;
    for folder in folders().iter().filter(|folder| folder.join("config.older.json").exists()) {
        let older = tempfile::tempdir().unwrap();
        for file in ["model.safetensors", "tokenizer.json"] {
            fs::copy(folder.join(file), older.path().join(file)).unwrap();
        }
        fs::copy(folder.join("config.older.json"), older.path().join("config.json")).unwrap();
        let [newer, older] = [folder, older.path()].map(|path| open(path, Settings::default()));
        let text = &expected(folder).texts[0];
        let rows = |model: &dyn LanguageModel| all_rows(model, &text.tokens);
        assert_eq!(rows(&*newer), rows(&*older), "{}", folder.display());
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn logits_have_the_same_bits_for_any_pass_threads_and_isa() {
    for folder in folders() {
        let text = &expected(&folder).texts[0].tokens;
        for dtype in [Dtype::F32, Dtype::Q8_0] {
            let models = ways_of(&folder, &Settings { dtype: Some(dtype), ..Settings::default() });
            let expected = plain(&*models[0].model, text);
            for (way, loaded) in models.iter().enumerate() {
                for seed in 0..2 {
                    for (at, row) in in_trees(&*loaded.model, text, seed) {
                        let folder = folder.display();
                        assert!(row == expected[at], "{folder}, {dtype:?}, {way}, {seed}, {at}");
                    }
                }
            }
        }
    }
}

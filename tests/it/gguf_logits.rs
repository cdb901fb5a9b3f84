//! A model in a GGUF file has the logits that it has as a Hugging Face checkpoint.

mod written;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{Device, Tensor};
use specdec::checkpoint::load;
use specdec::model::{Loaded, Role};

use crate::checkpoint::write_json;
use crate::families::root;
use crate::gguf_models::{ARCHITECTURES, HfTensors, TinyModel, with_vocabulary};
use crate::gguf_support::{Folder, Gguf, checkpoint};
use crate::model_llama::all_rows;

/// As many tokens as the tokenizers of `tests/families` have.
const TOKENS: usize = 48;

/// A tiny model with a vocabulary.
fn model(architecture: &'static str) -> (Gguf, HfTensors) {
    let (file, tensors) = TinyModel { vocab: TOKENS, ..TinyModel::new(architecture) }.make();
    (with_vocabulary(file, TOKENS), tensors)
}

/// Writes the checkpoint that the tensors are of, with the configuration that the file has.
fn write(folder: &Path, file: &Gguf, tensors: HfTensors) {
    let read = checkpoint(&file.bytes()).unwrap();
    write_json(&folder.join("config.json"), &read.config().clone().into());
    fs::copy(root().join("llama/tokenizer.json"), folder.join("tokenizer.json")).unwrap();
    let tensors = tensors.into_iter().map(|(name, (shape, mut weights))| {
        // transformers adds 1 to the norms of these models, files hold the sum.
        if read.norms_are_complete() && name.contains("norm") {
            weights.iter_mut().for_each(|weight| *weight -= 1.0);
        }
        (name, Tensor::from_vec(weights, shape, &Device::Cpu).unwrap())
    });
    let tensors = tensors.collect::<HashMap<_, _>>();
    candle_core::safetensors::save(&tensors, folder.join("model.safetensors")).unwrap();
}

fn open(path: &Path) -> Loaded {
    load(path.to_str().unwrap(), Role::Target).unwrap()
}

#[test]
fn every_architecture_has_the_logits_of_its_checkpoint() {
    let text = (0..40).map(|i| (i * 7 + 3) % TOKENS as u32).collect::<Vec<_>>();
    for architecture in ARCHITECTURES {
        let (file, tensors) = model(architecture);
        let folder = Folder::new();
        let gguf = folder.write("model.gguf", &file.bytes());
        write(folder.path(), &file, tensors);
        let [own, expected] =
            [&gguf, folder.path()].map(|path| all_rows(&*open(path).model, &text));
        let largest = expected.iter().flatten().fold(0.0, |most: f32, x| most.max(x.abs()));
        assert!(largest > 0.1, "{architecture}: {largest}");
        for (own, expected) in own.iter().flatten().zip(expected.iter().flatten()) {
            // Taking 1 off a weight rounds it by 2⁻²⁴ at most; all others are the same.
            let gap = (own - expected).abs();
            assert!(gap <= 1e-5 * largest, "{architecture}: {own} and {expected}");
        }
    }
}

#[test]
fn the_hash_covers_the_file_and_names_do_not_matter() {
    let (file, _) = model("llama");
    let folder = Folder::new();
    let hash = |name: &str, file: &Gguf| {
        open(&folder.write(name, &file.bytes())).model.info().sha256.clone()
    };
    let first = hash("one.gguf", &file);
    assert_eq!(first, hash("two.gguf", &file));
    assert_ne!(first, hash("three.gguf", &file.clone().with("general.name", "other")));
}

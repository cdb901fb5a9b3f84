//! A checkpoint that the package compressed-tensors has written, and the weights that it unpacks
//! (`tests/quantised`).

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::Value;
use specdec::engine::{Dtype, Engine, Settings};

use super::folders::{Folder, Stored};
use super::{open, with};
use crate::checkpoint::settings_of;
use crate::model_llama::all_rows;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quantised/compressed_tensors")
}

fn stored(file: &str) -> Vec<Stored> {
    let bytes = fs::read(root().join(file)).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = tensors.tensors().into_iter().map(|(name, tensor)| {
        Stored::new(name, tensor.dtype(), tensor.shape(), tensor.data().to_vec())
    });
    tensors.collect()
}

/// The same checkpoint with the weights that the package unpacks.
fn unpacked() -> tempfile::TempDir {
    let mut config: Value =
        serde_json::from_slice(&fs::read(root().join("config.json")).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("quantization_config").unwrap();
    let mut tensors = stored("dequantised.safetensors");
    assert_eq!(tensors.len(), 7);
    let plain = |name: &str| name.ends_with("norm.weight") || name.ends_with("embed_tokens.weight");
    tensors.extend(stored("model.safetensors").into_iter().filter(|tensor| plain(&tensor.name)));
    let place = tempfile::tempdir().unwrap();
    Folder { config, tensors }.write(place.path());
    fs::copy(root().join("tokenizer.json"), place.path().join("tokenizer.json")).unwrap();
    place
}

fn rows(folder: &Path, settings: Settings) -> Vec<Vec<f32>> {
    let text = (0..40).map(|i| (i * 7 + 3) % 40).collect::<Vec<_>>();
    all_rows(&*open(folder, settings), &text)
}

/// Catches: a layout is read as the tests write it, but not as the package does.
#[test]
fn weights_are_those_that_the_package_unpacks() {
    let unpacked = unpacked();
    for settings in [with(Dtype::F32), settings_of(Engine::Candle)] {
        let own = rows(&root(), settings.clone());
        assert!(own == rows(unpacked.path(), settings.clone()), "{settings:?}");
    }
}

/// Half of the matrices have values of eight bits, which move logits as q8_0 does
/// (`families::tolerance`).
#[test]
fn logits_with_both_kinds_of_blocks_are_near_those_in_f32() {
    let own = rows(&root(), Settings::default());
    let wanted = rows(&root(), with(Dtype::F32));
    let largest = wanted.iter().flatten().fold(0.0, |most: f32, x| most.max(x.abs()));
    for (own, wanted) in own.iter().flatten().zip(wanted.iter().flatten()) {
        assert!((own - wanted).abs() <= 0.1 * largest, "{own} and {wanted}");
    }
}

//! Checkpoints whose matrices are quantised: the weights that they stand for, and logits with them.

mod damaged;
mod folders;
mod methods;
mod published;
mod refused;

use std::path::Path;

use specdec::checkpoint::{load, summarise};
use specdec::engine::{Dtype, Engine, Settings, Source};
use specdec::model::{LanguageModel, Role};

use self::folders::{Folder, Stored, folders, shape};
use self::methods::{AWQ, FP8, GPTQ, METHODS, Method, PACKED};
use crate::checkpoint::{Checkpoint, VOCAB, settings_of};
use crate::model_llama::all_rows;
use crate::native::{in_trees, plain, ways_of};

/// Many tokens.
fn text() -> Vec<u32> {
    (0..40).map(|i| (i * 31 + 3) % VOCAB as u32).collect()
}

fn open(folder: &Path, settings: Settings) -> Box<dyn LanguageModel> {
    let source = Source::from(folder.to_str().unwrap()).with(settings);
    load(source, Role::Target).unwrap_or_else(|error| panic!("{error}")).model
}

fn rows(folder: &Path, settings: Settings) -> Vec<Vec<f32>> {
    all_rows(&*open(folder, settings), &text())
}

/// Writes a checkpoint as it is quantised, and with the weights that it stands for.
fn written(checkpoint: &Checkpoint, method: &Method) -> [tempfile::TempDir; 2] {
    folders(checkpoint, method).map(|folder| {
        let place = tempfile::tempdir().unwrap();
        folder.write(place.path());
        place
    })
}

fn with(dtype: Dtype) -> Settings {
    Settings { dtype: Some(dtype), threads: Some(1), ..Settings::default() }
}

/// Catches: a bit of a layout is read from another place.
#[test]
fn weights_are_those_that_the_tensors_stand_for() {
    for method in METHODS {
        let [quantised, plain] = written(&shape(), method);
        for settings in [with(Dtype::F32), settings_of(Engine::Candle)] {
            let [own, wanted] =
                [&quantised, &plain].map(|folder| rows(folder.path(), settings.clone()));
            assert!(own == wanted, "{}, {settings:?}", method.name);
        }
    }
}

/// Numbers of eight bits are multiplied by values in f32: products differ by the rounding of their
/// sums, of which a logit has about thirty in a row, each moved by 6e-8 of its terms. Integers of
/// four bits are multiplied by values of eight bits, as in GGUF files: each value of a block moves
/// by up to 1/254 of the largest one, as with q8_0 (`families::tolerance`).
#[test]
fn logits_with_stored_weights_are_near_those_in_f32() {
    for method in METHODS {
        let [quantised, plain] = written(&shape(), method);
        let model = open(quantised.path(), Settings::default());
        assert_eq!(model.info().dtype, "stored", "{}", method.name);
        let own = all_rows(&*model, &text());
        let wanted = rows(plain.path(), with(Dtype::F32));
        let largest = wanted.iter().flatten().fold(0.0, |most: f32, x| most.max(x.abs()));
        let gaps = own.iter().flatten().zip(wanted.iter().flatten()).map(|(a, b)| (a - b).abs());
        let gap = gaps.fold(0.0, f32::max) / largest;
        let most = if method.is_fp8() { 1e-5 } else { 0.1 };
        assert!(0.0 < gap && gap <= most, "{}: {gap:e}", method.name);
    }
}

#[test]
fn logits_have_the_same_bits_for_any_pass_threads_and_isa() {
    for method in [FP8, PACKED, AWQ, GPTQ] {
        let [quantised, _] = written(&shape(), &method);
        let models = ways_of(quantised.path(), &Settings::default());
        let expected = plain(&*models[0].model, &text());
        for (way, loaded) in models.iter().enumerate() {
            for seed in 0..2 {
                for (at, row) in in_trees(&*loaded.model, &text(), seed) {
                    assert!(row == expected[at], "{}, {way}, {seed}, {at}", method.name);
                }
            }
        }
    }
}

/// Catches: a tensor of a quantised matrix is computed with, but not part of the model's hash.
#[test]
fn the_hash_covers_every_tensor_that_counts() {
    for method in METHODS {
        let [folder, _] = folders(&folders::tiny(), method);
        let place = tempfile::tempdir().unwrap();
        let hash = |folder: &Folder| {
            folder.write(place.path());
            let source = Source::from(place.path().to_str().unwrap()).with(with(Dtype::Stored));
            load(source, Role::Target).map(|loaded| loaded.model.info().sha256.clone())
        };
        let first = hash(&folder).unwrap();
        assert_eq!(hash(&folder).unwrap(), first);
        let of_matrix = |tensor: &&Stored| tensor.name.starts_with("model.layers.0.mlp.down_proj.");
        let mut changed = 0;
        for tensor in folder.tensors.iter().filter(of_matrix) {
            let part = tensor.name.rsplit('.').next().unwrap();
            let mut other = folder.clone();
            other.tensor(part).bytes[0] ^= 2;
            match hash(&other) {
                // Values are not rounded, so what would round them is not read.
                Ok(hash) if part == "activation_scale" => assert_eq!(hash, first),
                Ok(hash) => {
                    assert_ne!(hash, first, "{}, {part}", method.name);
                    changed += 1;
                }
                // The shape, and the order of groups.
                Err(_) => assert!(part.ends_with("shape") || part.ends_with("g_idx"), "{part}"),
            }
        }
        assert!(changed >= 2, "{}: {changed}", method.name);
    }
}

/// Catches: a head that is quantised is not seen in a checkpoint whose configuration ties it.
#[test]
fn a_head_may_be_quantised() {
    let checkpoint = Checkpoint { tied: false, ..shape() };
    for method in [FP8, AWQ] {
        let [quantised, plain] = folders(&checkpoint, &method).map(|mut folder| {
            let head = "lm_head.weight";
            let at = folder.tensors.iter().position(|tensor| tensor.name == head).unwrap();
            let Stored { shape, bytes, .. } = folder.tensors.remove(at);
            let weights = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
            let weights = weights.collect::<Vec<_>>();
            let (outputs, inputs) = (shape[0], shape[1]);
            let matrix = folders::Matrix { module: "lm_head", weights: &weights, outputs, inputs };
            let (stored, weights) = (method.quantise)(&matrix);
            match folder.config.get("quantization_config") {
                Some(_) => folder.tensors.extend(stored),
                None => {
                    let tensor =
                        Stored::floats(head.to_owned(), &shape, folders::Float::F32, &weights);
                    folder.tensors.push(tensor);
                }
            }
            folder.config["tie_word_embeddings"] = true.into();
            let place = tempfile::tempdir().unwrap();
            folder.write(place.path());
            place
        });
        let [own, wanted] = [&quantised, &plain].map(|place| rows(place.path(), with(Dtype::F32)));
        assert!(own == wanted, "{}", method.name);
    }
}

/// Catches: the table is not found where a model that also sees images has it.
#[test]
fn the_table_of_a_text_model_counts() {
    for of_whole in [true, false] {
        let [mut folder, plain] = folders(&shape(), &GPTQ);
        let mut whole = serde_json::json!({"model_type": "sees-images"});
        if of_whole {
            let keys = folder.config.as_object_mut().unwrap();
            whole["quantization_config"] = keys.remove("quantization_config").unwrap();
        }
        whole["text_config"] = folder.config;
        folder.config = whole;
        for tensor in &mut folder.tensors {
            let rest = tensor.name.strip_prefix("model.").unwrap();
            tensor.name = format!("model.language_model.{rest}");
        }
        let places = [&folder, &plain].map(|folder| {
            let place = tempfile::tempdir().unwrap();
            folder.write(place.path());
            place
        });
        let [own, wanted] = places.each_ref().map(|place| rows(place.path(), with(Dtype::F32)));
        assert!(own == wanted, "{of_whole}");
    }
}

#[test]
fn one_note_says_that_values_are_not_rounded_to_fp8() {
    for method in METHODS {
        let [quantised, _] = written(&folders::tiny(), method);
        let note = open(quantised.path(), Settings::default()).info().note.clone();
        let count = note.unwrap_or_default().matches("FP8 weights are multiplied by").count();
        assert_eq!(count, usize::from(method.is_fp8()), "{}", method.name);
    }
}

/// Catches: words of 32 bits are counted as weights.
#[test]
fn a_summary_counts_the_weights_that_words_stand_for() {
    for (method, dtype) in [(FP8, "f8_e4m3"), (AWQ, "u4g128"), (PACKED, "u4g32")] {
        let [quantised, plain] = written(&shape(), &method);
        let [own, wanted] = [&quantised, &plain]
            .map(|folder| summarise(&Source::from(folder.path().to_str().unwrap())).unwrap());
        assert_eq!(own.parameters, wanted.parameters);
        assert_eq!(own.dtype, dtype);
        let length = quantised.path().join("model.safetensors").metadata().unwrap().len();
        assert_eq!(own.bytes, length);
    }
}

//! Heads in GGUF files compute what their references do, and other files are refused.

use std::path::{Path, PathBuf};

use specdec::checkpoint::gguf::TensorKind;
use specdec::checkpoint::load;
use specdec::checkpoint::pair::Pair;
use specdec::engine::{Dtype, Settings, Source};
use specdec::model::Role;

use super::gguf_files::{dflash, eagle3, mtp, whole, with_tables};
use super::parity::{CLOSE, Expected, Round, expected, folder, largest, text};
use crate::damage_support::says;
use crate::damage_support::{damage, files};
use crate::fixtures::seeded;
use crate::gguf_support::{Encoded, Folder, Gguf, Tensor, plain};

/// The smallest effect of a wrong reading on a logit, by the page of the fixtures.
pub(super) const WRONG: f64 = 0.01;

fn target() -> PathBuf {
    folder("llama")
}

/// The largest difference from the expected logits of a case.
fn difference(case: &str, file: &Gguf, dtype: Option<Dtype>) -> f64 {
    apart(case, &expected(case).rounds, file, Settings { dtype, ..Settings::default() })
}

/// The largest difference from logits that a case expects.
pub(super) fn apart(case: &str, rounds: &[Round], file: &Gguf, settings: Settings) -> f64 {
    let files = Folder::new();
    let path = files.write("head.gguf", &file.bytes());
    let Expected { target, ids, .. } = expected(case);
    let head = Source::from(text(&path)).with(settings);
    largest(&head, &folder(&target), ids.as_deref(), rounds)
}

#[test]
fn eagle3_files_compute_what_their_references_do() {
    for case in [
        "eagle3_plain",
        "eagle3_safeailab",
        "eagle3_narrow",
        "eagle3_full_vocabulary",
        "eagle3_norm_before_fc",
        "eagle3_norm_before_residual",
    ] {
        let most = difference(case, &eagle3(case, true), None);
        assert!(most < CLOSE, "{case}: {most}");
    }
}

#[test]
fn keys_tensors_and_the_order_of_rows_matter() {
    let case = "eagle3_plain";
    let file = || eagle3(case, true);
    let taps = |taps: [u32; 3]| file().with("eagle3.target_layers", taps.to_vec());
    // The key of older files.
    let older = file().without("eagle3.target_layers");
    let older = older.with("eagle3.extract_layers", vec![2i32, 3, 4]);
    assert!(difference(case, &older, None) < CLOSE);
    let mut ids = expected(case).ids.unwrap().into_iter().map(i64::from).collect::<Vec<_>>();
    ids.rotate_left(1);
    for (what, wrong) in [
        ("each state one layer later", taps([3, 4, 5])),
        ("each state one layer earlier", taps([1, 2, 3])),
        ("states in another order", taps([4, 3, 2])),
        ("rotary pairs half a head apart", eagle3(case, false)),
        ("residual from the norm", file().with("eagle3.norm_before_residual", true)),
        ("tokens in another order", file().with_tensor(whole("d2t", &ids))),
    ] {
        let most = difference(case, &wrong, None);
        assert!(most > WRONG, "{what}: {most}");
    }
}

/// The file with Q8_0 blocks, or with the weights that these stand for.
fn in_blocks(mut file: Gguf, as_weights: bool) -> (Gguf, usize) {
    let mut packed = 0;
    for tensor in &mut file.tensors {
        if tensor.shape.len() != 2 || tensor.shape[1] % 32 != 0 {
            continue;
        }
        packed += 1;
        let (floats, _) = tensor.bytes.as_chunks();
        let floats = floats.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect::<Vec<_>>();
        let blocks = floats.chunks(32).flat_map(q8_0).collect::<Vec<_>>();
        *tensor = match as_weights {
            false => {
                Tensor { kind: TensorKind::Q8_0.id().unwrap(), bytes: blocks, ..tensor.clone() }
            }
            true => {
                let mut weights = Vec::new();
                TensorKind::Q8_0.dequantise(&blocks, &mut weights);
                let shape = tensor.shape.iter().map(|&size| size as usize).collect::<Vec<_>>();
                plain(&tensor.name, &shape, &weights)
            }
        };
    }
    (file, packed)
}

/// 32 weights as a block.
fn q8_0(weights: &[f32]) -> Vec<u8> {
    let most = weights.iter().fold(0.0, |most: f32, weight| most.max(weight.abs()));
    let scale = half::f16::from_f32(most / 127.0);
    let number = |weight: &f32| (weight / scale.to_f32()).round() as i8 as u8;
    scale.to_le_bytes().into_iter().chain(weights.iter().map(number)).collect()
}

#[test]
fn blocks_stay_blocks() {
    let drafter = dflash("dspark_speculators", false);
    let head = tensor(&drafter, "output.weight", "output.weight");
    let drafter = with_tables(drafter, "llama", None).with_tensor(head);
    // All but projections whose rows are no whole blocks: down, and of the drafter also those of
    // attention and of estimates, and the Markov bias.
    for (case, file, number) in [
        ("eagle3_safeailab", eagle3("eagle3_safeailab", true), 8),
        ("dspark_speculators", drafter, 13),
    ] {
        let [(blocks, packed), (weights, _)] =
            [false, true].map(|as_weights| in_blocks(file.clone(), as_weights));
        assert_eq!(packed, number, "{case}");
        let [stored, whole] =
            [None, Some(Dtype::F32)].map(|dtype| difference(case, &blocks, dtype));
        // With f32, the blocks are their weights.
        assert_eq!(whole, difference(case, &weights, None));
        // Eight bits round each weight by up to 1/254 of the largest of its 32, and with `stored`
        // also what it is multiplied by: up to 0.14 here, of logits up to 12.
        assert!(whole > CLOSE && stored != whole && whole.max(stored) < 0.2, "{stored} {whole}");
    }
}

/// The largest difference from the expected logits of a case in its target's file.
fn difference_of_mtp(case: &str, file: &Gguf) -> f64 {
    let files = Folder::new();
    let path = files.write("model.gguf", &file.bytes());
    largest(&Source::from("target:mtp"), &path, None, &expected(case).rounds)
}

#[test]
fn mtp_layers_compute_what_their_references_do() {
    for (case, architecture) in [("mtp_one_layer", "llama"), ("mtp_qwen3", "qwen3")] {
        let file = mtp(case, architecture);
        let most = difference_of_mtp(case, &file);
        assert!(most < CLOSE, "{case}: {most}");
    }
}

pub(super) fn tensor(file: &Gguf, name: &str, new_name: &str) -> Tensor {
    let tensor = file.tensors.iter().find(|tensor| tensor.name == name).unwrap();
    Tensor { name: new_name.to_owned(), ..tensor.clone() }
}

#[test]
fn an_mtp_layer_has_tables_of_its_own_if_they_are_there() {
    let (case, file) = ("mtp_one_layer", mtp("mtp_one_layer", "llama"));
    let [token, head, norm] = ["embed_tokens", "shared_head_head", "shared_head_norm"]
        .map(|name| format!("blk.3.nextn.{name}.weight"));
    // The file has copies of the target's tables.
    let shared = file.clone().without_tensor(&token).without_tensor(&head);
    assert!(difference_of_mtp(case, &shared) < CLOSE);
    for own in [&token, &head] {
        let mut other = tensor(&file, own, own);
        other.bytes.rotate_left(4 * 24);
        let most = difference_of_mtp(case, &file.clone().with_tensor(other));
        assert!(most > WRONG, "{own}: {most}");
    }
    // Without a last norm it is the target's.
    let copy = file.clone().with_tensor(tensor(&file, "output_norm.weight", &norm));
    let most = difference_of_mtp(case, &copy);
    assert!(most > WRONG, "{most}");
    assert_eq!(most, difference_of_mtp(case, &file.without_tensor(&norm)));
}

/// The sentence with which a head is refused.
pub(super) fn refusal(head: &str, target: &Path) -> String {
    let pair = Pair::load(text(target)).unwrap();
    let sentence = pair.with_draft(head).unwrap_err().to_string();
    assert!(!sentence.contains('\n') && sentence.contains(".gguf: "), "{sentence}");
    sentence
}

#[test]
fn the_target_runs_without_its_mtp_layer() {
    let files = Folder::new();
    let layers = |file: &Gguf| {
        let path = files.write("model.gguf", &file.bytes());
        let model = load(text(&path), Role::Target).unwrap().model;
        (model.info().hidden.unwrap().layers, model.info().parameters)
    };
    let file = mtp("mtp_one_layer", "llama");
    // Some files keep the key, and leave the layer out.
    let mut trunk = file.clone();
    trunk.tensors.retain(|tensor| !tensor.name.starts_with("blk.3."));
    let plain = trunk.clone().with("llama.block_count", 3u32).without("llama.nextn_predict_layers");
    let parameters = layers(&plain).1;
    assert_eq!([&file, &trunk, &plain].map(layers), [(3, parameters); 3]);
    let path = files.write("model.gguf", &trunk.bytes());
    let sentence = refusal("target:mtp", &path);
    assert!(sentence.contains("the target's files have no MTP layer"), "{sentence}");
    // Another one is for the next position of a draft.
    let mut two = file.with("llama.block_count", 5u32).with("llama.nextn_predict_layers", 2u32);
    for number in 0..two.tensors.len() {
        let name = two.tensors[number].name.clone();
        if name.starts_with("blk.3.") {
            two.tensors.push(tensor(&two, &name, &name.replace("blk.3.", "blk.4.")));
        }
    }
    let path = text(&files.write("two.gguf", &two.bytes()));
    let pair = Pair::load(path).unwrap().with_draft("target:mtp").unwrap();
    assert_eq!(pair.draft_model().unwrap().info().deepest, Some(2));
}

/// A list without entries.
pub(super) fn nothing() -> Encoded {
    Encoded { kind: 9, bytes: [&4u32.to_le_bytes()[..], &0u64.to_le_bytes()].concat() }
}

#[test]
fn wrong_keys_and_tensors_of_heads_are_named() {
    let good = || eagle3("eagle3_plain", true);
    let key = |name: &str, value: Encoded| {
        let name = format!("eagle3.{name}");
        let mut file = good().without(&name);
        file.pairs.push((name, value));
        file
    };
    let ids = expected("eagle3_plain").ids.unwrap();
    let ids = |change: fn(usize, i64) -> i64| {
        let ids = ids.iter().enumerate().map(|(own, &id)| change(own, i64::from(id)));
        good().with_tensor(whole("d2t", &ids.collect::<Vec<_>>()))
    };
    let d2t = ["tensor d2t does not give each of 40 draft tokens a token of its own below 96"];
    let layers = ["eagle3.target_layers must be a list of whole numbers >= 0 that is not empty"];
    let without = |name: &str| good().without_tensor(name);
    let missing = |name: &str| format!("tensor {name} is missing");
    let files = Folder::new();
    let target = target();
    let check = |file: Gguf, parts: &[&str]| {
        let path = files.write("head.gguf", &file.bytes());
        let sentence = refusal(&text(&path), &target);
        says(&sentence, parts);
        says(&sentence, &["head.gguf: "]);
    };
    check(
        good().without("eagle3.target_layers"),
        &[
            "eagle3.target_layers is missing, and so is extract_layers: one of them must list layers",
        ],
    );
    check(key("target_layers", nothing()), &layers);
    check(key("target_layers", vec![-1i32, 2, 3].into()), &layers);
    check(key("target_layers", vec![2.0f32].into()), &layers);
    check(key("target_layers", 2u32.into()), &["eagle3.target_layers is 2, but must be a list"]);
    check(
        key("target_layers", vec![2u32, 3, 9].into()),
        &["state after 9 layers", "target_layers or extract_layers", "after 0 to 7"],
    );
    check(key("target_layers", vec![2u32, 3].into()), &["tensor fc.weight", "[32, 64]"]);
    check(good().without("eagle3.target_hidden_size"), &["eagle3.target_hidden_size is missing"]);
    check(
        key("target_hidden_size", 33u32.into()),
        &["target_hidden_size is 33, but the target's hidden states have 32 numbers"],
    );
    check(
        key("norm_before_residual", 1u32.into()),
        &["eagle3.norm_before_residual is 1, but must be true or false"],
    );
    check(key("norm_before_fc", true.into()), &[&missing("enc.output_norm.weight")]);
    check(key("block_count", 2u32.into()), &["block_count is 2, but there are tensors of 1"]);
    check(key("embedding_length", 64u32.into()), &["embedding_length is 64", "fc.weight has 32"]);
    check(key("nextn_predict_layers", 1u32.into()), &["nextn_predict_layers is 1, but must be 0"]);
    check(ids(|own, id| id - own as i64), &d2t);
    check(ids(|_, id| id + 3), &d2t);
    check(ids(|_, id| id - 4), &d2t);
    check(ids(|_, _| i64::MIN), &d2t);
    check(
        good().with_tensor(plain("d2t", &[40], &[0.0; 40])),
        &["tensor d2t is of type F32; supported is: I64"],
    );
    check(good().with_tensor(whole("d2t", &[1, 2])), &["tensor output.weight", "[2, 32]"]);
    check(without("output.weight"), &["(in GGUF files output.weight) is missing"]);
    check(without("d2t"), &["draft_vocab_size is 40 and the target has 96 tokens, but tensor d2t"]);
    check(good().with_tensor(whole("fc.weight", &[1; 32])), &["tensor fc.weight has shape [32]"]);
    let mut integers = good();
    let tensor = integers.tensors.iter_mut().find(|tensor| tensor.name == "output_norm.weight");
    *tensor.unwrap() = whole("output_norm.weight", &[1; 32]);
    check(integers, &["tensor output_norm.weight is of type I64; supported are: F32, F16"]);
    for name in
        ["fc.weight", "blk.0.attn_norm_2.weight", "blk.0.attn_q.weight", "output_norm.weight"]
    {
        check(without(name), &[&missing(name)]);
    }
    check(
        good().with_tensor(plain("blk.0.attn_q_norm.weight", &[12], &[1.0; 12])),
        &["tensor blk.0.attn_q_norm.weight is not supported: no eagle3 model should have it"],
    );
}

#[test]
fn a_head_is_no_target_and_only_known_models_have_mtp_layers() {
    let files = Folder::new();
    let load = |file: Gguf| {
        let path = files.write("model.gguf", &file.bytes());
        load(text(&path), Role::Target).unwrap_err().to_string()
    };
    let sentence = load(eagle3("eagle3_plain", true));
    assert!(sentence.contains("this is a head") && sentence.contains("as a draft"), "{sentence}");
    let llama = || mtp("mtp_one_layer", "llama");
    for (file, part) in [
        (
            llama().with("llama.nextn_predict_layers", 4u32),
            "is 4, but must be below block_count, which is 4",
        ),
        (llama().with("llama.nextn_predict_layers", "1"), "is a text, but must be a whole number"),
        (
            llama().without("llama.nextn_predict_layers"),
            "tensor blk.3.nextn.eh_proj.weight is not supported",
        ),
        (llama().without_tensor("blk.2.attn_q.weight"), "tensor blk.2.attn_q.weight is missing"),
    ] {
        let sentence = load(file);
        assert!(sentence.contains(part) && sentence.contains("model.gguf: "), "{sentence}");
    }
}

/// Damaged heads are refused in one sentence or read. Most of the damage hits the header.
#[test]
fn damaged_heads_are_refused_or_read() {
    let mut rng = seeded(43);
    let folder = Folder::new();
    for file in [eagle3("eagle3_plain", true), dflash("dspark_speculators", false)] {
        let (file, mut refused, number) = (file.bytes(), 0, files(500));
        for _ in 0..number {
            let path = folder.write("head.gguf", &damage(&file, 2_500, &mut rng));
            let settings = Settings { threads: Some(1), ..Settings::default() };
            let pair = Pair::load(Source::from(text(&target())).with(settings)).unwrap();
            if let Err(error) = pair.with_draft(text(&path)) {
                let sentence = error.to_string();
                assert!(!sentence.contains('\n') && sentence.contains("head.gguf"), "{sentence}");
                refused += 1;
            }
        }
        assert!(refused > number / 2 && refused < number, "{refused} refused");
    }
}

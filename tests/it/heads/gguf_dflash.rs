//! Block drafters in GGUF files compute what their references do, with the keys that llama.cpp
//! reads, and other files are refused.

use specdec::checkpoint::pair::Pair;
use specdec::engine::{HeadSettings, Settings};
use specdec::model::{ModelInputs, Tap};

use super::blocks::ends_as_expected;
use super::gguf::{WRONG, apart, nothing, refusal, tensor};
use super::gguf_files::{dflash, whole, with_tables};
use super::parity::{CLOSE, Expected, Round, expected, folder, text};
use crate::damage_support::says;
use crate::gguf_support::{Encoded, Folder, Gguf, plain};

/// The rounds of a case, or of a variant of it.
fn rounds(case: &str, variant: &str) -> Vec<Round> {
    let Expected { rounds, mut variants, .. } = expected(case);
    if variant.is_empty() { rounds } else { variants.remove(variant).unwrap() }
}

/// Checks the logits of a file, and returns their largest difference from the case's own.
fn check(case: &str, variant: &str, file: &Gguf) -> f64 {
    let most = difference(case, variant, file);
    assert!(most < CLOSE, "{case}, {variant}: {most}");
    difference(case, "", file)
}

fn difference(case: &str, variant: &str, file: &Gguf) -> f64 {
    apart(case, &rounds(case, variant), file, Settings::default())
}

fn good(case: &str) -> Gguf {
    dflash(case, false)
}

/// Windows leave out no later row of the block, as in llama.cpp.
#[test]
fn block_files_compute_what_their_references_do() {
    for case in ["dflash", "dspark_vanilla", "dspark_specforge", "dspark_speculators"] {
        check(case, "", &good(case));
    }
    for case in ["dflash_muse", "dflash_sinks"] {
        assert!(check(case, "window_past", &good(case)) > WRONG, "{case}");
    }
}

#[test]
fn every_key_of_a_block_changes_its_reading() {
    for (case, key, value, variant) in [
        ("dflash", "attention.causal", true.into(), "causal"),
        ("dflash_sinks", "attention.causal", true.into(), "causal"),
        ("dflash", "block_size", 4u32.into(), "width_4"),
        ("dspark_vanilla", "sample_from_anchor", false.into(), "fill_in"),
        ("dspark_speculators", "sample_from_anchor", true.into(), "anchor_first"),
    ] {
        let most = check(case, variant, &with(case, key, value));
        assert!(most > WRONG, "{case}: {key} changes nothing: {most}");
    }
    // Where the key is missing, a Markov bias says that the anchor drafts first; without one, the
    // key has no effect.
    let silent = |case| good(case).without("dflash.sample_from_anchor");
    assert!(check("dspark_speculators", "anchor_first", &silent("dspark_speculators")) > WRONG);
    check("dflash", "", &with("dflash", "sample_from_anchor", true.into()));
    // A setting counts before the file.
    let head = HeadSettings { causal: Some(true), ..HeadSettings::default() };
    let settings = Settings { head, ..Settings::default() };
    let most = apart("dflash", &rounds("dflash", "causal"), &good("dflash"), settings);
    assert!(most < CLOSE, "{most}");
    // A mask has no embedding but the one in the table.
    let shared = good("dflash_sinks").without_tensor("token_embd.weight");
    let most = difference("dflash_sinks", "window_past", &shared);
    assert!(most > WRONG, "{most}");
}

fn with(case: &str, key: &str, value: Encoded) -> Gguf {
    let key = format!("dflash.{key}");
    let mut file = good(case).without(&key);
    file.pairs.push((key, value));
    file
}

/// llama.cpp applies a scale and a cap of logits with the selector of DFlash2 alone.
#[test]
fn logits_of_a_block_file_have_no_scale_and_no_cap() {
    let (case, scale, cap) = ("dflash_causal", 0.8, 3.5);
    let mut before = expected(case).rounds;
    for row in before.iter_mut().flat_map(|round| &mut round.rows) {
        for logit in &mut row.logits {
            *logit = (*logit / cap).atanh() * cap / scale;
        }
    }
    let difference = |file: &Gguf| apart(case, &before, file, Settings::default());
    let file = good(case);
    for name in ["dflash.logit_scale", "dflash.final_logit_softcapping"] {
        assert!(file.pairs.iter().any(|pair| pair.0 == name), "{name}");
    }
    let most = difference(&file);
    assert!(most < CLOSE, "{most}");
    for key in ["embedding_scale", "attention.causal"] {
        let most = difference(&good(case).without(&format!("dflash.{key}")));
        assert!(most > WRONG, "{key}: {most}");
    }
}

#[test]
fn tensors_of_blocks_and_the_order_of_rows_matter() {
    let case = "dspark_speculators";
    let ids = expected(case).ids.unwrap().into_iter().map(i64::from).collect::<Vec<_>>();
    let ids = [&ids[1..], &ids[..1]].concat();
    let taps = |taps: [u32; 3]| good(case).with("dflash.target_layers", taps.to_vec());
    for (what, wrong) in [
        ("each state one layer later", taps([3, 4, 5])),
        ("states in another order", taps([4, 3, 2])),
        ("rotary pairs side by side", dflash(case, true)),
        ("tokens in another order", good(case).with_tensor(whole("d2t", &ids))),
        ("another mask", good(case).with("tokenizer.ggml.mask_token_id", 1u32)),
        ("another base", good(case).without("dflash.rope.freq_base")),
    ] {
        let most = difference(case, "", &wrong);
        assert!(most > WRONG, "{what}: {most}");
    }
    // Without a matrix of its own, it is the target's, even if there is an embedding.
    let file = with_tables(good("dflash_muse"), "llama", None).without_tensor("output.weight");
    check("dflash_muse", "window_past", &file);
    // The target's tables, which a file may have as well.
    let case = "dspark_vanilla";
    check(case, "", &with_tables(good(case), "qwen3", None));
    for table in ["token_embd.weight", "output.weight"] {
        let mut file = with_tables(good(case), "qwen3", None);
        let mut other = tensor(&file, table, table);
        other.bytes.rotate_left(4 * 24);
        file = file.with_tensor(other);
        let most = difference(case, "", &file);
        assert!(most > WRONG, "{table}: {most}");
    }
}

/// The pair of a case's target and a file.
fn pair(case: &str, file: &Gguf) -> Pair {
    let files = Folder::new();
    let path = files.write("head.gguf", &file.bytes());
    Pair::load(text(&folder(&expected(case).target))).unwrap().with_draft(text(&path)).unwrap()
}

#[test]
fn estimates_of_a_block_file_are_those_of_the_reference() {
    let key = "dflash.has_confidence_head";
    for case in ["dspark_vanilla", "dspark_speculators"] {
        for file in [good(case), good(case).without(key)] {
            assert!(ends_as_expected(case, || pair(case, &file)) > 0);
        }
        let none = pair(case, &good(case).with(key, false));
        let ModelInputs::Features(features) = &none.draft_model().unwrap().info().inputs else {
            panic!("{case} is a head")
        };
        assert!(!features.estimates);
    }
}

#[test]
fn a_block_file_says_what_it_reads_and_how_deep_it_drafts() {
    let case = "dflash";
    // Without a number, a DFlash has 16 rows.
    for (file, deepest) in [(good(case), 5), (good(case).without("dflash.block_size"), 15)] {
        let pair = pair(case, &file);
        let info = pair.draft_model().unwrap().info();
        assert_eq!(info.deepest, Some(deepest));
        assert_eq!(info.inputs.taps(), [1, 3].map(Tap::After));
    }
    // The number of tokens, in files without a list of them.
    let silent = good(case).without("tokenizer.ggml.tokens");
    check(case, "", &silent.with("dflash.vocab_size", 96u32));
}

#[test]
fn wrong_keys_and_tensors_of_block_files_are_named() {
    let files = Folder::new();
    let check = |case: &str, file: Gguf, parts: &[&str]| {
        let path = files.write("head.gguf", &file.bytes());
        let sentence = refusal(&text(&path), &folder(&expected(case).target));
        says(&sentence, parts);
        says(&sentence, &["head.gguf: "]);
    };
    let (plain_case, dspark, sinks) = ("dflash", "dspark_speculators", "dflash_sinks");
    let pattern = "attention.sliding_window_pattern";
    for (case, key, value, part) in [
        (plain_case, "target_layers", nothing(), "must be a list of whole numbers >= 0 that is"),
        (plain_case, "target_layers", vec![1u32, 5].into(), "target_layers), but must read some"),
        (plain_case, "target_layers", vec![1u32].into(), "tensor fc.weight has shape [24, 48]"),
        (plain_case, "block_size", 1u32.into(), "a block of one row predicts nothing"),
        (plain_case, "block_size", 65u32.into(), "block_size is 65, but must be"),
        (plain_case, "attention.causal", 1u32.into(), "is 1, but must be true or false"),
        (plain_case, "attention.scale", 0.25f32.into(), "dflash.attention.scale is 0.25, but must"),
        (plain_case, "hidden_activation", "gelu".into(), "hidden_activation is \"gelu\", but must"),
        (plain_case, "conv_kernel_size", 3u32.into(), "convolutions of DFlash2 are not supported"),
        (plain_case, "selector_rank", 8u32.into(), "selectors of DFlash2 are not supported"),
        (
            plain_case,
            "embedding_scale",
            0f32.into(),
            "dflash.embedding_scale is 0, but must be > 0",
        ),
        (plain_case, "block_count", 3u32.into(), "block_count is 3, but there are tensors of 2"),
        (plain_case, "nextn_predict_layers", 1u32.into(), "is 1, but must be 0"),
        (plain_case, "has_confidence_head", true.into(), "tensor conf_proj.weight is missing"),
        (sinks, pattern, vec![true].into(), "must be a whole number or a list of 2 truth values"),
        (sinks, "attention.value_scale", "1".into(), "is a text, but must be a finite number"),
        (dspark, "has_confidence_head", 1u32.into(), "is 1, but must be true or false"),
    ] {
        check(case, with(case, key, value), &[part]);
    }
    for (case, key, part) in [
        (plain_case, "dflash.target_layers", "dflash.target_layers is missing"),
        (plain_case, "tokenizer.ggml.mask_token_id", "mask_token_id is missing"),
        (plain_case, "tokenizer.ggml.tokens", "dflash.vocab_size is missing, and so is tokenizer"),
        (dspark, "dflash.block_size", "block_size is missing"),
        (sinks, "dflash.attention.sliding_window_pattern", "pattern is missing, but attention."),
    ] {
        check(case, good(case).without(key), &[part]);
    }
    let mask = good(plain_case).with("tokenizer.ggml.mask_token_id", 96u32);
    check(plain_case, mask, &["mask_token_id is 96, but the embedding has 96 rows"]);
    for (case, name) in [
        (plain_case, "fc.weight"),
        (plain_case, "enc.output_norm.weight"),
        (plain_case, "output_norm.weight"),
        (plain_case, "blk.1.attn_q_norm.weight"),
        (sinks, "blk.0.attn_sinks.weight"),
        (sinks, "blk.1.attn_sinks.weight"),
        (dspark, "markov_w2.weight"),
        (dspark, "conf_proj.weight"),
        (dspark, "conf_proj.bias"),
    ] {
        let missing = format!("tensor {name} is missing");
        check(case, good(case).without_tensor(name), &[&missing]);
    }
    for (case, tensor, part) in [
        (plain_case, plain("blk.0.attn_q.bias", &[40], &[0.0; 40]), "no dflash model should have"),
        (plain_case, plain("selector_hidden.weight", &[1], &[0.0]), "no dflash model should have"),
        (dspark, plain("markov_w1.weight", &[96], &[0.0; 96]), "must be a matrix"),
        (dspark, plain("markov_w1.weight", &[96, 1], &[0.0; 96]), "tensor markov_w2.weight has"),
        (dspark, plain("conf_proj.weight", &[1, 32], &[0.0; 32]), "[1, 39] of confidence_head"),
        (dspark, whole("d2t", &[0; 40]), "d2t does not give each of 40 draft tokens a token of"),
        (sinks, plain("blk.0.attn_sinks.weight", &[2], &[0.0; 2]), "attn_sinks.weight has shape"),
    ] {
        check(case, good(case).with_tensor(tensor), &[part]);
    }
    let shared = good(dspark).without_tensor("output.weight");
    check(dspark, shared, &["(in GGUF files output.weight) is missing"]);
    let narrow = good(dspark).without_tensor("d2t");
    check(dspark, narrow, &["draft_vocab_size is 40", "but tensor d2t"]);
}

//! Sparse feed-forward blocks: which experts a row has, and how many a pass needs.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use specdec::core::tree::Draft;
use specdec::engine::{Engine, Settings};
use specdec::model::{Want, Work};

use super::{open, root};
use crate::checkpoint::{settings_of, write_json};
use crate::cli_support::{refuses, stdout};
use crate::experiment_support::rows;
use crate::model_llama::all_rows;
use specdec::measure::rows::RoundRow;

pub(super) type Tensors = HashMap<String, Tensor>;

/// A checkpoint of `tests/families` with other keys and tensors.
pub(super) fn changed(
    name: &str,
    keys: &Value,
    change: impl FnOnce(&mut Tensors),
) -> tempfile::TempDir {
    let (from, folder) = (root().join(name), tempfile::tempdir().unwrap());
    fs::copy(from.join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let mut config = super::json(&from.join("config.json"));
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    write_json(&folder.path().join("config.json"), &config);
    let file = from.join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(file, &Device::Cpu).unwrap();
    change(&mut tensors);
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

fn set(tensors: &mut Tensors, part: &str, value: impl Fn(usize, usize) -> f32) {
    for (_, tensor) in tensors.iter_mut().filter(|(name, _)| name.contains(part)) {
        let (rows, inputs) = tensor.dims2().unwrap();
        let at = |i: usize| value(i / inputs, i % inputs);
        let values = (0..rows * inputs).map(at).collect::<Vec<_>>();
        *tensor = Tensor::from_vec(values, (rows, inputs), &Device::Cpu).unwrap();
    }
}

pub(super) fn logits(folder: &Path, engine: Engine) -> Vec<Vec<f32>> {
    let model = open(folder, Settings { threads: Some(1), ..settings_of(engine) });
    all_rows(&*model, &(0..40).map(|i| (i * 7 + 3) % 40).collect::<Vec<_>>())
}

/// Catches: of equal logits of the router, others than the first experts win.
#[test]
fn of_equal_experts_the_first_ones_count() {
    for engine in Engine::ALL {
        let of = |expert: Option<usize>| {
            let folder = changed("mixtral", &json!({}), |tensors| {
                set(tensors, "block_sparse_moe.gate", |_, _| 0.0);
                if let Some(expert) = expert {
                    let part = format!("experts.{expert}.w2");
                    set(tensors, &part, |row, input| ((row * 5 + input) % 7) as f32 / 9.0);
                }
            });
            logits(folder.path(), engine)
        };
        let usual = of(None);
        assert!(usual != of(Some(0)) && usual != of(Some(1)), "{engine:?}");
        assert!(usual == of(Some(2)) && usual == of(Some(3)), "{engine:?}");
    }
}

/// A model of one layer where token t uses the experts t mod 4 and (t + 1) mod 4.
fn by_token() -> tempfile::TempDir {
    changed("mixtral", &json!({"num_hidden_layers": 1}), |tensors| {
        let of = |token: usize, input: usize| match input {
            _ if input == token % 4 => 2.0,
            _ if input == (token + 1) % 4 => 1.0,
            _ => 0.0,
        };
        set(tensors, "embed_tokens", of);
        set(tensors, "o_proj", |_, _| 0.0);
        set(tensors, "block_sparse_moe.gate", |row, input| f32::from(row == input));
        let norm = tensors.get_mut("model.layers.0.post_attention_layernorm.weight").unwrap();
        *norm = Tensor::ones(norm.shape(), DType::F32, &Device::Cpu).unwrap();
    })
}

/// Catches: experts counted by row instead of by pass, or for one sequence of several.
#[test]
fn the_distinct_experts_of_a_pass_are_counted() {
    let folder = by_token();
    for engine in Engine::ALL {
        let model = open(folder.path(), settings_of(engine));
        let own = model.info().experts.unwrap();
        assert_eq!((own.layers, own.count, own.used), (1, 4, 2));
        // Experts stay bf16 as they are in the file, but for candle.
        let size = if engine == Engine::Native { 2 } else { 4 };
        assert_eq!(own.bytes, size * 3 * 24 * 28);
        assert_eq!(model.info().bytes_with(2.0), model.info().bytes_per_token as f64);
        for texts in [vec![vec![5]], vec![vec![5, 9]], vec![vec![4, 6, 5]], vec![vec![4], vec![6]]]
        {
            let mut sessions = texts.iter().map(|_| model.session().unwrap()).collect::<Vec<_>>();
            let draft = Draft::empty(48);
            let work = texts.iter().zip(&mut sessions);
            let mut work = work
                .map(|(text, session)| Work {
                    session,
                    context: text,
                    draft: &draft,
                    want: Want::All,
                })
                .collect::<Vec<_>>();
            let found = model.evaluate(&mut work).unwrap();
            let of = |texts: &[&Vec<u32>]| {
                let tokens = texts.iter().flat_map(|text| text.iter());
                tokens.flat_map(|t| [t % 4, (t + 1) % 4]).collect::<BTreeSet<_>>().len()
            };
            for (text, found) in texts.iter().zip(found) {
                // On candle each sequence has a pass of its own.
                let all = texts.iter().collect::<Vec<_>>();
                let expected = if engine == Engine::Native { of(&all) } else { of(&[text]) };
                assert_eq!(found.experts, expected, "{engine:?} {texts:?}");
            }
        }
    }
}

/// Catches: a column of experts without passes' experts, or a report without them.
#[test]
fn runs_record_the_experts_of_every_pass() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("p.jsonl"), "{\"id\": \"a\", \"prompt\": \"abcabcabc\"}\n").unwrap();
    let target = root().join("mixtral");
    let text = format!(
        "question = \"How many?\"\ntarget = \"{}\"\nclock = \"virtual\"\nprompts = [\"{}\"]\n\
         max_tokens = 24\nignore_eos = true\n[sweep]\ndrafter = \"prompt_lookup\"\n\
         num_speculative_tokens = [2, 4]\ntemperature = 0\n",
        target.display(),
        path("p.jsonl")
    );
    fs::write(path("e.toml"), text).unwrap();
    stdout(&["run", &path("e.toml"), "--out", &path("out")]);
    let run = fs::read_dir(path("out/e")).unwrap().next().unwrap().unwrap().path();
    let rounds = rows::<RoundRow>(&run, "rounds.csv");
    let by_rows = |m: usize| {
        let of = rounds.iter().filter(|round| round.proposed + 1 == m);
        of.map(|round| round.experts.unwrap()).collect::<Vec<_>>()
    };
    // Three layers with two experts of each row.
    assert!(by_rows(1).iter().all(|&experts| experts == 6));
    let several = rounds.iter().filter(|round| round.proposed > 0);
    let several = several.map(|round| (round.experts.unwrap(), round.proposed + 1));
    let several = several.collect::<Vec<_>>();
    assert!(several.iter().all(|&(experts, m)| (6..=12.min(6 * m)).contains(&experts)));
    assert!(several.iter().any(|&(experts, _)| experts > 6));
    let report = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## Experts"), "{report}");
    let alone = by_rows(1).len();
    // Six experts of three matrices with 24 × 28 weights are far below a megabyte.
    let line = format!("| 1 | {alone} | 2.00 | 2.00 | 0.0 |");
    assert!(report.contains(&line), "{line}: {report}");
    let (three, m) = (by_rows(3), 3);
    let mean = three.iter().sum::<usize>() as f64 / three.len() as f64 / 3.0;
    let random = 4.0 * (1.0 - 0.5f64.powi(m));
    let line = format!("| 3 | {} | {mean:.2} | {random:.2} |", three.len());
    assert!(report.contains(&line), "{line}: {report}");
}

/// Catches: keys of experts that cannot be are taken.
#[test]
fn more_experts_for_a_token_than_there_are_is_refused() {
    let folder = changed("mixtral", &json!({"num_experts_per_tok": 5}), |_| ());
    let target = folder.path().to_str().unwrap();
    let what = "config.json: num_experts_per_tok 5 is more than num_local_experts 4";
    refuses(&["generate", "a", "--target", target, "--drafter", "none"], what);
    let folder = changed("qwen3_moe", &json!({"moe_intermediate_size": 21}), |_| ());
    let target = folder.path().to_str().unwrap();
    refuses(
        &["generate", "a", "--target", target, "--drafter", "none"],
        "tensor model.layers.0.mlp.experts.0.gate_proj.weight has shape [20, 24], but config.json",
    );
}

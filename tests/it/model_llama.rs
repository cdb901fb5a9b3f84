//! The Llama decoders of both engines: against independent implementations, and with
//! against without a cache.

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use specdec::checkpoint::load;
use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, Row};
use specdec::engine::{Engine, Source};
use specdec::model::{Evaluation, LanguageModel, Loaded, Role, Session, Want, Work, evaluate_one};
use specdec_peers::candle_transformers::models::{llama, llama2_c};

use crate::checkpoint::{Checkpoint, VOCAB, settings_of};
use crate::reference;

/// How much two f32 computations of one logit may differ. A logit of these models is at
/// most 10 in magnitude and results from a chain of about 30 sums of at most 50 products;
/// each rounding moves it by about 10 · 6e-8.
pub(crate) const TOLERANCE: f64 = 2e-4;

pub(crate) fn on(engine: Engine, checkpoint: &Checkpoint) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(dir.path());
    let settings = settings_of(engine);
    load(Source { settings, ..dir.path().to_str().unwrap().into() }, Role::Target).unwrap()
}

/// The same model on every engine.
fn engines(checkpoint: &Checkpoint) -> [Box<dyn LanguageModel>; 2] {
    Engine::ALL.map(|engine| on(engine, checkpoint).model)
}

fn random_tokens(rng: &mut impl Rng, count: usize) -> Vec<u32> {
    (0..count).map(|_| rng.random_range(0..VOCAB as u32)).collect()
}

fn tokens(seed: u64, count: usize) -> Vec<u32> {
    random_tokens(&mut ChaCha8Rng::seed_from_u64(seed), count)
}

fn chain(tokens: &[u32]) -> Draft {
    let mut draft = Draft::empty(VOCAB);
    tokens.iter().fold(None, |parent, &t| Some(draft.certain(parent, t)));
    draft
}

fn f32s(evaluation: &Evaluation) -> Vec<&[f32]> {
    let rows = evaluation.rows.iter().map(|logits| match logits {
        Logits::F32(row) => &row[..],
        Logits::F64(_) => panic!("a real model's logits are f32"),
    });
    rows.collect()
}

fn evaluate(
    model: &dyn LanguageModel,
    session: &mut Session,
    context: &[u32],
    draft: &Draft,
    want: Want,
) -> Evaluation {
    evaluate_one(model, Work { session, context, draft, want }).unwrap()
}

/// The logits after every token, from one pass over an empty cache.
pub(crate) fn all_rows(model: &dyn LanguageModel, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut session = model.session().unwrap();
    let draft = chain(&tokens[1..]);
    let evaluation = evaluate(model, &mut session, &tokens[..1], &draft, Want::All);
    f32s(&evaluation).into_iter().map(<[f32]>::to_vec).collect()
}

#[track_caller]
fn assert_near(left: &[f32], right: impl IntoIterator<Item = f64>, what: &str) {
    let mut count = 0;
    for (token, (a, b)) in left.iter().zip(right).enumerate() {
        let gap = (f64::from(*a) - b).abs();
        assert!(gap <= TOLERANCE, "{what}, token {token}: {a} and {b} are {gap} apart");
        count += 1;
    }
    assert_eq!(count, left.len(), "{what}");
}

#[track_caller]
fn assert_rows_near(left: &[f32], right: &[f32], what: &str) {
    assert_near(left, right.iter().map(|&x| f64::from(x)), what);
}

/// Shapes with `hidden = heads · head_dim`, which the stock decoders require.
fn stock_shapes() -> Vec<Checkpoint> {
    let base = Checkpoint { hidden: 48, ..Checkpoint::default() };
    vec![
        Checkpoint { tied: false, ..base.clone() },
        Checkpoint { kv_heads: 4, seed: 2, ..base.clone() },
        Checkpoint { kv_heads: 1, seed: 3, layers: 3, tied: false, ..base },
    ]
}

fn llama3_scaling() -> serde_json::Value {
    json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32
    })
}

#[test]
fn last_row_agrees_with_candle_transformers_llama() {
    let mut shapes = stock_shapes();
    let scaled = json!({"rope_scaling": llama3_scaling()});
    shapes.push(Checkpoint { config: scaled, ..shapes[0].clone() });
    for c in shapes {
        let models = engines(&c);
        let config: llama::LlamaConfig = serde_json::from_value(c.config_json()).unwrap();
        let config = config.into_config(false);
        let weights = VarBuilder::from_tensors(c.tensors(), DType::F32, &Device::Cpu);
        let stock = llama::Llama::load(weights, &config).unwrap();
        for length in [1, 2, 17, 60] {
            let text = tokens(length as u64, length);
            let mut cache = llama::Cache::new(false, DType::F32, &config, &Device::Cpu).unwrap();
            let input = Tensor::new(&text[..], &Device::Cpu).unwrap().unsqueeze(0).unwrap();
            let expected = stock.forward(&input, 0, &mut cache).unwrap();
            let expected = expected.squeeze(0).unwrap().to_vec1::<f32>().unwrap();
            for model in &models {
                let own = all_rows(&**model, &text);
                assert_rows_near(&own[length - 1], &expected[..VOCAB], &format!("{c:?}"));
            }
        }
    }
}

#[test]
fn all_rows_agree_with_candle_transformers_llama2_c() {
    for c in stock_shapes() {
        let models = engines(&c);
        let config = llama2_c::Config {
            dim: c.hidden,
            hidden_dim: c.intermediate,
            n_layers: c.layers,
            n_heads: c.heads,
            n_kv_heads: c.kv_heads,
            vocab_size: c.vocab_rows,
            seq_len: c.positions,
            norm_eps: 1e-5,
        };
        let mut weights = c.tensors();
        if c.tied {
            weights.insert("lm_head.weight".into(), weights["model.embed_tokens.weight"].clone());
        }
        for (name, tensor) in &mut weights {
            if name.contains("q_proj") || name.contains("k_proj") {
                *tensor = interleaved(tensor, c.head_dim);
            }
        }
        let weights = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        let mut cache = llama2_c::Cache::new(false, &config, weights.clone()).unwrap();
        let stock = llama2_c::Llama::load(weights, config).unwrap();
        let text = tokens(5, 40);
        let input = Tensor::new(&text[..], &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let expected = stock.forward(&input, 0, &mut cache).unwrap().squeeze(0).unwrap();
        let expected = expected.to_vec2::<f32>().unwrap();
        for model in &models {
            for (row, (own, expected)) in
                all_rows(&**model, &text).iter().zip(&expected).enumerate()
            {
                assert_rows_near(own, &expected[..VOCAB], &format!("row {row} of {c:?}"));
            }
        }
    }
}

/// Converts from rotate-half order, where entries `i` and `i + d/2` of a head form a pair, to
/// interleaved order, where `2i` and `2i + 1` do.
fn interleaved(matrix: &Tensor, head_dim: usize) -> Tensor {
    let (rows, columns) = matrix.dims2().unwrap();
    matrix
        .reshape((rows / head_dim, 2, head_dim / 2, columns))
        .unwrap()
        .transpose(1, 2)
        .unwrap()
        .reshape((rows, columns))
        .unwrap()
}

#[test]
fn all_rows_agree_with_an_f64_reference_in_every_stored_type() {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for tied in [true, false] {
            // head_dim is 12 with 4 heads and hidden 32, so that it must not be derived from
            // hidden / heads.
            let c = Checkpoint { dtype, tied, seed: 11, ..Checkpoint::default() };
            let text = tokens(6, 50);
            let frequencies = reference::frequencies(c.head_dim, 10_000.0);
            let expected = reference::logits(&c, &frequencies, &text);
            for model in engines(&c) {
                for (row, own) in all_rows(&*model, &text).iter().enumerate() {
                    let expected = expected[row][..VOCAB].iter().copied();
                    assert_near(own, expected, &format!("row {row}, {dtype:?}, tied {tied}"));
                }
            }
        }
    }
}

#[test]
fn rope_settings_are_read_in_both_spellings() {
    let text = tokens(8, 30);
    let base = Checkpoint::default();
    let rows = |config: serde_json::Value| {
        let [native, candle] = engines(&Checkpoint { config, ..base.clone() });
        let rows = all_rows(&*native, &text);
        for (own, other) in rows.iter().zip(all_rows(&*candle, &text)) {
            assert_rows_near(own, &other, "both engines");
        }
        rows
    };
    let reference = |frequencies: Vec<f64>| reference::logits(&base, &frequencies, &text);
    let agree = |own: &[Vec<f32>], expected: &[Vec<f64>]| {
        for (own, expected) in own.iter().zip(expected) {
            assert_near(own, expected[..VOCAB].iter().copied(), "rope");
        }
    };
    let theta = 500.0;
    let other = reference(reference::frequencies(12, theta));
    agree(&rows(json!({"rope_theta": theta})), &other);
    let parameters = json!({"rope_type": "default", "rope_theta": theta});
    agree(&rows(json!({"rope_theta": null, "rope_parameters": parameters})), &other);
    agree(&rows(json!({"rope_theta": theta, "rope_scaling": {"type": "default"}})), &other);
    // Some checkpoints are saved with both keys; the newer one takes precedence.
    let both = json!({"rope_type": "default", "type": "linear", "factor": 2.0});
    agree(&rows(json!({"rope_theta": theta, "rope_scaling": both})), &other);

    let halved = reference::frequencies(12, 10_000.0).iter().map(|f| f / 2.0).collect();
    agree(&rows(json!({"rope_scaling": {"type": "linear", "factor": 2.0}})), &reference(halved));

    let scaled = rows(json!({"rope_scaling": llama3_scaling()}));
    let mut parameters = llama3_scaling();
    parameters["rope_theta"] = json!(10_000.0);
    assert_eq!(scaled, rows(json!({"rope_theta": null, "rope_parameters": parameters})));
    assert_ne!(scaled, rows(json!({})), "the scaling does something");
}

#[test]
fn a_long_prompt_is_prefilled_in_pieces() {
    let c = Checkpoint { positions: 900, ..Checkpoint::default() };
    let text = tokens(9, 700);
    for model in engines(&c) {
        let expected = all_rows(&*model, &text);
        let mut session = model.session().unwrap();
        let nothing = Draft::empty(VOCAB);
        let filled = evaluate(&*model, &mut session, &text[..600], &nothing, Want::Nothing);
        assert_eq!((filled.computed, filled.rows.len()), (600, 0));
        let next = evaluate(&*model, &mut session, &text[..601], &chain(&text[601..]), Want::All);
        assert_eq!(next.computed, 100);
        for (row, own) in f32s(&next).into_iter().enumerate() {
            assert_rows_near(own, &expected[600 + row], &format!("row {row}"));
        }
    }
}

#[test]
fn padding_rows_are_never_returned() {
    let c = Checkpoint { vocab_rows: VOCAB + 250, ..Checkpoint::default() };
    for model in engines(&c) {
        assert_eq!(model.info().vocab, VOCAB);
        let rows = all_rows(&*model, &tokens(1, 5));
        assert!(rows.iter().all(|row| row.len() == VOCAB));
    }
}

#[test]
fn two_sequences_in_one_call_do_not_mix() {
    for model in engines(&Checkpoint::default()) {
        let (a, b) = (tokens(1, 20), tokens(2, 30));
        let mut sessions = [model.session().unwrap(), model.session().unwrap()];
        let [first, second] = &mut sessions;
        let drafts = [chain(&a[10..]), chain(&b[25..])];
        let mut work = [
            Work { session: first, context: &a[..10], draft: &drafts[0], want: Want::All },
            Work {
                session: second,
                context: &b[..25],
                draft: &drafts[1],
                want: Want::Row(Row::after(Some(2))),
            },
        ];
        let evaluations = model.evaluate(&mut work).unwrap();
        for (row, own) in f32s(&evaluations[0]).into_iter().enumerate() {
            assert_rows_near(own, &all_rows(&*model, &a)[9 + row], "first");
        }
        assert_eq!(evaluations[1].rows.len(), 1);
        assert_rows_near(f32s(&evaluations[1])[0], &all_rows(&*model, &b)[27], "second");
    }
}

#[test]
fn a_tree_that_does_not_fit_the_cache_is_refused() {
    let context = tokens(3, 90);
    // Siblings share a position but need a row each: the cache has 96 positions and 64 extra
    // rows.
    let mut draft = Draft::empty(VOCAB);
    for token in 0..71 {
        draft.certain(None, token);
    }
    for model in engines(&Checkpoint::default()) {
        let mut session = model.session().unwrap();
        let (session, context, draft) = (&mut session, &context[..], &draft);
        let work = Work { session, context, draft, want: Want::All };
        let error = evaluate_one(&*model, work).unwrap_err().to_string();
        assert_eq!(
            error,
            "a context of 90 tokens and a draft of 71 do not fit a cache of 160 rows"
        );
    }
}

#[test]
fn a_session_of_another_engine_is_refused() {
    let toy = load("toy:mixed", Role::Target).unwrap().model;
    for model in engines(&Checkpoint::default()) {
        let mut session = toy.session().unwrap();
        let draft = Draft::empty(VOCAB);
        let work = Work { session: &mut session, context: &[1, 2], draft: &draft, want: Want::All };
        let error = evaluate_one(&*model, work).unwrap_err().to_string();
        assert_eq!(error, "not a session of this model");
    }
}

/// A random tree: the parent of every node is a random earlier one or the context.
fn random_tree(rng: &mut impl Rng, nodes: usize) -> Draft {
    let mut draft = Draft::empty(VOCAB);
    for _ in 0..nodes {
        let parent = rng.random_range(0..=draft.len()).checked_sub(1);
        // Few different tokens, so that trees of successive rounds share paths.
        draft.certain(parent, rng.random_range(2..6));
    }
    draft
}

/// Plays a random history on one session: growing drafts, accepted paths,
/// rejections, rollbacks and forks. Every row must agree with a fresh pass over
/// the same tokens.
fn play(model: &dyn LanguageModel, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut session = model.session().unwrap();
    let start = rng.random_range(1..6);
    let mut context = random_tokens(&mut rng, start);
    for _ in 0..8 {
        let nodes = rng.random_range(0..7);
        let draft = random_tree(&mut rng, nodes);
        let some = Row::all(&draft).nth(rng.random_range(0..=draft.len())).unwrap();
        let want = if rng.random() { Want::All } else { Want::Row(some) };
        if rng.random_bool(0.2) {
            session = session.try_clone().unwrap();
        }
        let rows = want.rows(draft.len());
        let evaluation = evaluate(model, &mut session, &context, &draft, want);
        for (row, own) in rows.into_iter().zip(f32s(&evaluation)) {
            let mut text = context.clone();
            text.extend(row.checked_sub(1).map_or_else(Vec::new, |id| draft.tokens_to(id)));
            let fresh = all_rows(model, &text);
            assert_rows_near(own, &fresh[text.len() - 1], &format!("row {row} of {draft:?}"));
        }
        if rng.random_bool(0.15) {
            context.truncate(rng.random_range(1..=context.len()));
        } else {
            if let Some(last) = rng.random_range(0..=draft.len()).checked_sub(1) {
                context.extend(draft.tokens_to(last));
            }
            context.push(rng.random_range(2..6));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_cache_with_any_history_agrees_with_a_fresh_pass(seed in any::<u64>()) {
        thread_local! {
            static MODELS: [Box<dyn LanguageModel>; 2] = engines(&Checkpoint::default());
        }
        MODELS.with(|models| play(&*models[(seed % 2) as usize], seed));
    }
}

//! Gemma 4: layers that attend to the keys and values of others, inputs per layer, and what is
//! refused.

use std::path::Path;

use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::core::tree::{Draft, Row};
use specdec::engine::{Engine, Settings, Source};
use specdec::model::{CacheDtype, Role, Want, Work, evaluate_one};

use super::greedy::drafts_keep_the_text;
use super::sparse::{changed, logits};
use super::{open, root};
use crate::checkpoint::settings_of;
use crate::model_llama::all_rows;

const CHECKPOINTS: [&str; 2] = ["gemma4_small", "gemma4_large"];

/// Whether a tensor belongs to keys and values of the last two of six layers, which share others'.
fn is_unread(name: &str) -> bool {
    let of_layer = ["model.layers.4.self_attn.", "model.layers.5.self_attn."];
    of_layer.iter().any(|layer| name.starts_with(layer))
        && ["k_proj", "v_proj", "k_norm"].iter().any(|part| name.contains(part))
}

/// Catches: tensors that nothing reads are required.
#[test]
fn layers_that_share_keys_need_none_of_their_own() {
    for engine in Engine::ALL {
        let of = |keep: fn(&str) -> bool| {
            let change = |tensors: &mut super::sparse::Tensors| {
                let before = tensors.len();
                tensors.retain(|name, _| keep(name));
                assert!(before == tensors.len() || before == tensors.len() + 6);
            };
            logits(changed("gemma4_small", &json!({}), change).path(), engine)
        };
        assert!(of(|_| true) == of(|name| !is_unread(name)), "{engine:?}");
    }
}

/// Catches: a cache with keys and values of layers that store none, or with heads of another width.
#[test]
fn the_cache_has_room_for_the_keys_that_are_stored() {
    let numbers = [2 * (2 * 8 + 2 * 16), 2 * (2 * 8 + 16)];
    for (name, numbers) in CHECKPOINTS.into_iter().zip(numbers) {
        for engine in Engine::ALL {
            let model = open(&root().join(name), settings_of(engine));
            assert_eq!(model.cache_bytes_per_token(), 2 * 4 * numbers, "{name} {engine:?}");
        }
    }
}

/// Catches: a prefill that ends before the last layer that stores keys and values.
#[test]
fn a_prefill_without_rows_stores_all_keys() {
    let text = (0..40).map(|i| (i * 11 + 5) % 48).collect::<Vec<_>>();
    for name in CHECKPOINTS {
        for engine in Engine::ALL {
            let model = open(&root().join(name), settings_of(engine));
            let (mut session, draft) = (model.session().unwrap(), Draft::empty(48));
            let mut row = |length: usize, want| {
                let work =
                    Work { session: &mut session, context: &text[..length], draft: &draft, want };
                evaluate_one(&*model, work).unwrap().rows.pop()
            };
            assert!(row(25, Want::Nothing).is_none() && row(38, Want::Nothing).is_none());
            let found = row(40, Want::Row(Row::CONTEXT)).unwrap();
            let expected = all_rows(&*model, &text).pop().unwrap();
            for (token, expected) in expected.into_iter().enumerate() {
                let gap = (found.get(token as u32) - f64::from(expected)).abs();
                let most = if engine == Engine::Native { 0.0 } else { 1e-4 };
                assert!(gap <= most, "{name} {engine:?} {token}: {gap}");
            }
        }
    }
}

/// Catches: a row whose bits depend on the other rows of its pass, in any type of cache.
#[test]
fn drafts_change_no_text_of_gemma4() {
    for name in CHECKPOINTS {
        for dtype in CacheDtype::ALL {
            let settings = Settings { kv_cache_dtype: Some(dtype), ..Settings::default() };
            drafts_keep_the_text(
                &*open(&root().join(name), settings),
                &format!("{name} {dtype:?}"),
            );
        }
    }
}

/// Catches: keys that are absent mean something else than in transformers.
#[test]
fn absent_keys_have_the_defaults_of_gemma4() {
    for engine in Engine::ALL {
        let of = |name: &str, keys: Value| logits(changed(name, &keys, |_| ()).path(), engine);
        let ropes = json!({
            "full_attention": {
                "rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        });
        let [stated, absent] = [ropes, Value::Null].map(|ropes| json!({"rope_parameters": ropes}));
        for name in CHECKPOINTS {
            assert!(of(name, stated.clone()) == of(name, absent.clone()), "{name} {engine:?}");
        }
        // The last layer has no window, even if the list says otherwise.
        let kinds =
            ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"];
        let usual = of("gemma4_large", json!({}));
        assert!(of("gemma4_large", json!({"layer_types": kinds})) == usual, "{engine:?}");
    }
    // Without a list, the first five layers of six have a window.
    let what = "model.layers.1.self_attn.q_proj.weight has shape [64, 24], but config.json asks \
                for [32, 24]";
    let keys = json!({"layer_types": null, "per_layer_config": {}, "num_kv_shared_layers": 0});
    refused("gemma4_small", keys, what);
}

#[track_caller]
fn refused(name: &str, keys: Value, what: &str) {
    let folder = changed(name, &keys, |_| ());
    let path: &Path = folder.path();
    let error = load(Source::from(path.to_str().unwrap()), Role::Target).err().unwrap();
    assert!(error.to_string().contains(what), "{error}");
}

/// Catches: keys that change the logits are ignored.
#[test]
fn what_gemma4_cannot_be_is_refused() {
    let refused = |keys: Value, what: &str| refused("gemma4_small", keys, what);
    refused(json!({"enable_moe_block": true}), "enable_moe_block = true is not supported");
    refused(
        json!({"use_bidirectional_attention": "all"}),
        "use_bidirectional_attention is \"all\", but must be one of vision",
    );
    refused(
        json!({"num_kv_shared_layers": 5}),
        "num_kv_shared_layers is 5, which leaves no layer of full_attention to share keys of",
    );
    refused(
        json!({"vocab_size_per_layer_input": 40}),
        "vocab_size_per_layer_input 40 is less than vocab_size 48",
    );
    let listed = |list: Value| json!({"per_layer_config": list});
    refused(listed(json!({"6": {"head_dim": 16}})), "per_layer_config.6 is not supported");
    refused(
        listed(json!({"1": {"sliding_window": 3}})),
        "per_layer_config.1.sliding_window is not supported",
    );
    refused(
        listed(json!({"1": {"head_dim": 16}})),
        "per_layer_config gives layers of full_attention different heads",
    );
    refused(listed(json!({"1": {"head_dim": 15}})), "head_dim 15 is not an even number");
    let full = json!({"rope_type": "proportional", "partial_rotary_factor": 1.5});
    let ropes = |ropes: Value| json!({"rope_parameters": ropes});
    refused(
        ropes(json!({"full_attention": full, "sliding_attention": {}})),
        "partial_rotary_factor 1.5 is more than 1",
    );
    refused(
        ropes(json!({"full_attention": {"rope_type": "proportional"}})),
        "rope_parameters.sliding_attention is missing",
    );
}

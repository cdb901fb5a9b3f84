//! Keys and values in f16 and in q8_0.

use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, Row};
use specdec::engine::{Dtype, Settings};
use specdec::model::{CacheDtype, Want, Work, evaluate_one};

use crate::checkpoint::{Checkpoint, VOCAB};
use crate::families::{expected, folders, open};
use crate::model_llama::all_rows;
use crate::native::{in_trees, plain, ways_of};

fn with(cache_dtype: CacheDtype) -> Settings {
    Settings { dtype: Some(Dtype::F32), kv_cache_dtype: Some(cache_dtype), ..Settings::default() }
}

#[test]
fn logits_have_the_same_bits_for_any_pass_threads_and_isa() {
    for folder in folders() {
        let text = &expected(&folder).texts[0].tokens;
        for dtype in [CacheDtype::F16, CacheDtype::Q8_0] {
            let models = ways_of(&folder, &with(dtype));
            let expected = plain(&*models[0].model, text);
            for (way, loaded) in models.iter().enumerate() {
                for (at, row) in in_trees(&*loaded.model, text, 5) {
                    let folder = folder.display();
                    assert!(row == expected[at], "{folder}, {dtype:?}, {way}, {at}");
                }
            }
        }
    }
}

/// The largest distance between logits, as a share of the largest of those in f32.
fn gap(found: &[Vec<f32>], exact: &[Vec<f32>]) -> f32 {
    let largest = exact.iter().flatten().fold(0.0, |most: f32, x| most.max(x.abs()));
    let pairs = found.iter().flatten().zip(exact.iter().flatten());
    pairs.fold(0.0, |most: f32, (x, exact)| most.max((x - exact).abs())) / largest
}

/// q8_0 moves each number by up to 1/254 of the largest one of its block, for which the bound
/// is that of weights in q8_0; f16 moves each by up to 1/2048 of itself, an eighth of that. Both
/// must be seen, since a cache that ignores its type has no distance.
fn assert_apart(half: f32, eighth: f32, what: &str) {
    assert!(0.0 < half && half < 0.1 / 8.0, "{what}: {half}");
    assert!(half < eighth && eighth < 0.1, "{what}: {eighth}");
}

#[test]
fn logits_are_near_those_of_a_cache_in_f32() {
    for folder in folders() {
        let text = &expected(&folder).texts[0].tokens;
        let rows = |dtype| all_rows(&*open(&folder, with(dtype)), text);
        let exact = rows(CacheDtype::F32);
        let [half, eighth] = [CacheDtype::F16, CacheDtype::Q8_0].map(|d| gap(&rows(d), &exact));
        assert_apart(half, eighth, &folder.display().to_string());
    }
}

/// Blocks of a text of this length become f32 in several parts.
#[test]
fn a_long_text_is_near_that_of_a_cache_in_f32() {
    let folder = tempfile::tempdir().unwrap();
    Checkpoint { positions: 1500, head_dim: 40, ..Checkpoint::default() }.write(folder.path());
    let text = (0..1400).map(|i| (i * 31 + i / 7) % VOCAB as u32).collect::<Vec<_>>();
    let row = |dtype| {
        let model = open(folder.path(), with(dtype));
        let mut session = model.session().unwrap();
        let draft = &Draft::empty(VOCAB);
        let want = Want::Row(Row::CONTEXT);
        let work = Work { session: &mut session, context: &text, draft, want };
        match evaluate_one(&*model, work).unwrap().rows.pop() {
            Some(Logits::F32(row)) => vec![row],
            _ => panic!("a real model's logits are f32"),
        }
    };
    let exact = row(CacheDtype::F32);
    let [half, eighth] = [CacheDtype::F16, CacheDtype::Q8_0].map(|d| gap(&row(d), &exact));
    assert_apart(half, eighth, "1400 tokens");
}

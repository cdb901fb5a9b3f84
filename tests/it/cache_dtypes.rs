//! Keys and values in f16 and in q8_0.

use specdec::model::{CacheDtype, Dtype, Settings};

use crate::families::{expected, folders, open};
use crate::model_llama::all_rows;
use crate::native::{in_trees, plain, ways_of};

fn with(cache_dtype: CacheDtype) -> Settings {
    Settings { dtype: Some(Dtype::F32), kv_cache_dtype: Some(cache_dtype), ..Settings::default() }
}

#[test]
fn logits_have_the_same_bits_in_every_pass_thread_and_instruction_set() {
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

/// The distance from a cache in f32, as a share of the largest logit. q8_0 moves each number by
/// up to 1/254 of the largest one of its block, for which the bound is that of weights in q8_0;
/// f16 moves each by up to 1/2048 of itself, an eighth of that. Both must be seen, since a
/// cache that ignores its type has no distance.
#[test]
fn logits_are_near_those_of_a_cache_in_f32() {
    for folder in folders() {
        let text = &expected(&folder).texts[0].tokens;
        let rows = |dtype| all_rows(&*open(&folder, with(dtype)), text);
        let exact = rows(CacheDtype::F32);
        let largest = exact.iter().flatten().fold(0.0, |most: f32, x| most.max(x.abs()));
        let gap = |dtype| {
            let found = rows(dtype);
            let pairs = found.iter().flatten().zip(exact.iter().flatten());
            pairs.fold(0.0, |most: f32, (x, exact)| most.max((x - exact).abs())) / largest
        };
        let (half, eighth) = (gap(CacheDtype::F16), gap(CacheDtype::Q8_0));
        let folder = folder.display();
        assert!(0.0 < half && half < 0.1 / 8.0, "{folder}: {half}");
        assert!(half < eighth && eighth < 0.1, "{folder}: {eighth}");
    }
}

//! Greedy completions of all families, with and without drafts.

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::sampling::SamplingParams;
use specdec::engine::{Dtype, Engine, Settings};
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::model::LanguageModel;

use super::{dtypes, expected, folders, open};
use crate::checkpoint::settings_of;

/// The most probable tokens after a prompt, as a drafter with K gives them.
fn greedy(
    target: &dyn LanguageModel,
    (drafter, k): (&str, usize),
    prompt: &[u32],
    most: usize,
) -> Vec<u32> {
    let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let spec = MethodSpec {
        drafter: drafter.to_owned(),
        num_speculative_tokens: k,
        sampling,
        ..MethodSpec::default()
    };
    let method = spec.build(Some(target)).unwrap();
    let stop = StopRules::max_tokens(most);
    let mut generation = Generation::new(target, method, prompt, stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    generate(&mut generation, target, &mut chance, &RealClock::default(), &mut NoObserver).unwrap();
    generation.new_tokens().to_vec()
}

/// Catches: a decode step that reads another slot of the cache or has another position than a pass
/// over the whole text.
#[test]
fn greedy_texts_are_those_of_transformers() {
    for folder in folders() {
        let text = expected(&folder).greedy;
        let settings = [Dtype::F32, Dtype::Stored];
        let settings = settings.map(|dtype| Settings { dtype: Some(dtype), ..Settings::default() });
        for settings in settings.into_iter().chain([settings_of(Engine::Candle)]) {
            let what = format!("{} {settings:?}", folder.display());
            // Blocks quantise what they are multiplied by.
            if folder.ends_with("gpt_oss_mxfp4") && settings.dtype == Some(Dtype::Stored) {
                continue;
            }
            let target = open(&folder, settings);
            let most = target.info().context_length.min(text.tokens.len());
            let (prompt, after) = text.tokens[..most].split_at(text.beginning.min(most));
            for method in [("none", 0), ("prompt_lookup", 4)] {
                let found = greedy(&*target, method, prompt, after.len());
                assert_eq!(found, after, "{what} {method:?}");
            }
        }
    }
}

/// Asserts that a model's greedy text is the same with drafts.
pub(super) fn drafts_keep_the_text(target: &dyn LanguageModel, what: &str) {
    let prompt = [1, 7, 8, 9, 7, 8];
    let most = 50.min(target.info().context_length - prompt.len());
    let plain = greedy(target, ("none", 0), &prompt, most);
    assert_eq!(plain.len(), most);
    for method in [("model", 1), ("model", 5), ("prompt_lookup", 4)] {
        assert_eq!(greedy(target, method, &prompt, most), plain, "{what} {method:?}");
    }
}

/// Catches: bits of a row, or a row's experts, that depend on the other rows of its pass.
#[test]
fn drafts_change_no_text() {
    for folder in folders() {
        for dtype in dtypes(&folder) {
            let target = open(&folder, Settings { dtype: Some(dtype), ..Settings::default() });
            drafts_keep_the_text(&*target, &format!("{} {dtype:?}", folder.display()));
        }
    }
}

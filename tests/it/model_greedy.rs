//! On both engines greedy speculative decoding gives the text of plain greedy decoding.

use candle_core::DType;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::sampling::{Logits, SamplingParams};
use specdec::engine::Engine;
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::model::LanguageModel;

use crate::checkpoint::Checkpoint;
use crate::model_llama::{TOLERANCE, all_rows, on};

/// Greedy decoding with a drafter; returns the new tokens.
fn greedy(
    target: &dyn LanguageModel,
    draft: &dyn LanguageModel,
    method: (&str, usize),
) -> Vec<u32> {
    let spec = MethodSpec {
        drafter: method.0.to_owned(),
        num_speculative_tokens: method.1,
        sampling: SamplingParams { temperature: 0.0, ..SamplingParams::default() },
        ..MethodSpec::default()
    };
    let stop = StopRules::max_tokens(60);
    let prompt = [0, 70, 80, 90, 70, 80];
    let method = spec.build(Some(draft)).unwrap();
    let mut generation = Generation::new(target, method, &prompt, stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 1, prompt: "p", repeat: 0 });
    let clock = RealClock::default();
    generate(&mut generation, target, &mut chance, &clock, &mut NoObserver).unwrap();
    generation.new_tokens().to_vec()
}

#[test]
fn speculative_greedy_completions_equal_plain_ones() {
    for (engine, seed) in [(Engine::Native, 1), (Engine::Native, 2), (Engine::Candle, 3)] {
        let target = Checkpoint { seed, ..Checkpoint::default() };
        // A rounded copy of the target often agrees with it, an unrelated model hardly ever.
        let copy = Checkpoint { dtype: DType::BF16, ..target.clone() };
        let unrelated = Checkpoint { seed: 99, tied: false, ..target.clone() };
        let [target, copy, unrelated] = [target, copy, unrelated].map(|c| on(engine, &c).model);
        let plain = greedy(&*target, &*copy, ("none", 0));
        assert_eq!(plain.len(), 60);
        for draft in [&copy, &unrelated] {
            for method in [("model", 1), ("model", 4), ("model", 7), ("prompt_lookup", 4)] {
                let text = greedy(&*target, &**draft, method);
                let Some(at) = plain.iter().zip(&text).position(|(a, b)| a != b) else {
                    assert_eq!(text, plain);
                    continue;
                };
                // A tie may be decided differently only by an engine without row invariance.
                assert_eq!(engine, Engine::Candle, "{method:?} differs from plain at {at}");
                let before = [&[0, 70, 80, 90, 70, 80], &plain[..at]].concat();
                let logits = Logits::F32(all_rows(&*target, &before).pop().unwrap());
                let gap = logits.top2_gap();
                assert!(gap <= 2.0 * TOLERANCE, "{method:?} differs from plain at {at}, gap {gap}");
            }
        }
    }
}

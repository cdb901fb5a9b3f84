//! Greedy speculative text is greedy text.

use candle_core::DType;
use specdec::chance::{Request, Seeded};
use specdec::clock::RealClock;
use specdec::decode::{Blind, Generation, MethodSpec, StopRules, generate};
use specdec::model::LanguageModel;
use specdec::sampling::{Logits, SamplingParams};

use crate::checkpoint::Checkpoint;
use crate::model_llama::{TOLERANCE, all_rows, loaded};

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
    generate(&mut generation, target, &mut chance, &clock, &mut Blind).unwrap();
    generation.new_tokens().to_vec()
}

#[test]
fn speculative_greedy_text_equals_plain_text_up_to_ties() {
    for seed in 1..4 {
        let target = Checkpoint { seed, ..Checkpoint::default() };
        // A coarser copy of the target agrees often, a stranger hardly ever.
        let copy = Checkpoint { dtype: DType::BF16, ..target.clone() };
        let stranger = Checkpoint { seed: 99, tied: false, ..target.clone() };
        let target = loaded(&target).model;
        let drafts = [loaded(&copy).model, loaded(&stranger).model];
        let plain = greedy(&*target, &*drafts[0], ("none", 0));
        assert_eq!(plain.len(), 60);
        for draft in &drafts {
            for method in [("model", 1), ("model", 4), ("model", 7), ("prompt_lookup", 4)] {
                let text = greedy(&*target, &**draft, method);
                let Some(at) = plain.iter().zip(&text).position(|(a, b)| a != b) else {
                    assert_eq!(text, plain);
                    continue;
                };
                let before = [&[0, 70, 80, 90, 70, 80], &plain[..at]].concat();
                let logits = Logits::F32(all_rows(&*target, &before).pop().unwrap());
                let gap = logits.top2_gap();
                assert!(gap <= 2.0 * TOLERANCE, "{method:?} leaves plain at {at}, gap {gap}");
            }
        }
    }
}

//! Approximate verifiers: the distance from the target that a run measures equals the enumerated
//! one.

use specdec::core::params::{Params, Value};
use specdec::core::sampling::{History, Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::verify::{Lenient, Typical, Verifier};
use specdec::model::{LanguageModel, Toy, zoo};
use specdec::proof::{Gap, enumerate, target_distribution};

const PROMPT: &[u32] = &[0, 1, 0];

fn distribution(model: &Toy, params: SamplingParams) -> specdec::core::distribution::Dist {
    let logits = specdec::core::sampling::Logits::F64(model.logits(PROMPT).unwrap().to_vec());
    let history = History { prompt_len: PROMPT.len(), context: PROMPT, drafted: &[] };
    Sampler::new(params).unwrap().distribution(&logits, history).unwrap()
}

/// The total variation between the first token's distribution and the target's, by
/// enumerating one round.
fn enumerated(toy: &str, verifier: &str, key: (&str, f64), sampling: SamplingParams) -> f64 {
    let pair = zoo::toy(toy).unwrap();
    let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
    let spec = MethodSpec {
        verifier: verifier.to_owned(),
        num_speculative_tokens: 1,
        sampling: sampling.clone(),
        params: Params::default().with(key.0, Value::Number(key.1)),
        ..MethodSpec::default()
    };
    let method = spec.build(Some(&draft as &dyn LanguageModel)).unwrap();
    let stop = StopRules::max_tokens(2);
    let generation = Generation::new(&target, method, PROMPT, stop, None).unwrap();
    let found = enumerate(&target, generation, &mut []).unwrap();
    let sampler = Sampler::new(sampling).unwrap();
    Gap::between(&found.dist, &target_distribution(&target, &sampler, PROMPT, 2).unwrap())
        .tv_first_token
}

#[test]
fn next_distribution_has_the_enumerated_distance_to_the_target() {
    let settings = [
        SamplingParams::default(),
        SamplingParams { temperature: 0.7, ..SamplingParams::default() },
        SamplingParams { top_k: 2, ..SamplingParams::default() },
    ];
    let mut largest = 0.0_f64;
    for toy in ["mixed", "close"] {
        for sampling in settings.clone() {
            let pair = zoo::toy(toy).unwrap();
            let p = distribution(&pair.target("t").unwrap(), sampling.clone());
            let q = distribution(&pair.draft("d").unwrap(), sampling.clone());
            let distance = |verifier: &dyn Verifier| {
                p.total_variation(
                    &verifier
                        .next_distribution(&p, &q)
                        .expect("approximate rules know their output distribution"),
                )
            };
            for lenience in [0.2, 0.6, 1.0] {
                let stated = distance(&Lenient { lenience });
                let found = enumerated(toy, "lenient", ("lenience", lenience), sampling.clone());
                assert!((stated - found).abs() < 1e-12, "{toy} {lenience}: {stated} {found}");
                assert!(lenience < 1.0 || stated < 1e-12, "l = 1 is exact: {stated}");
                largest = largest.max(stated);
            }
            for epsilon in [0.05, 0.3] {
                let stated = distance(&Typical { epsilon, delta: 0.6 });
                let found =
                    enumerated(toy, "typical", ("typical_epsilon", epsilon), sampling.clone());
                assert!((stated - found).abs() < 1e-12, "{toy} {epsilon}: {stated} {found}");
                largest = largest.max(stated);
            }
        }
    }
    assert!(largest > 0.1, "nothing here is far from the target");
}

//! Decoding without a KV cache: the same bits in more time.

use specdec::checkpoint::load;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::error::Error;
use specdec::core::params::{Params, Value};
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Logits, SamplingParams};
use specdec::engine::{Settings, Source};
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::model::{CacheDtype, LanguageModel, Role};

use crate::families::root;

/// All logits of a generation.
#[derive(Debug, Default)]
struct AllLogits(Vec<Logits>);

impl Observer for AllLogits {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0.extend_from_slice(event.logits);
        Ok(())
    }
}

fn generated(
    [target, draft]: [&dyn LanguageModel; 2],
    spec: &MethodSpec,
) -> (Vec<u32>, Vec<Logits>, usize) {
    let prompt = [1, 7, 9, 20, 31, 12, 9];
    let method = spec.build(Some(draft)).unwrap();
    let stop = StopRules::max_tokens(24);
    let mut generation = Generation::new(target, method, &prompt, stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 5, prompt: "p", repeat: 0 });
    let mut logits = AllLogits::default();
    let clock = RealClock::default();
    let totals = generate(&mut generation, target, &mut chance, &clock, &mut logits).unwrap();
    (generation.new_tokens().to_vec(), logits.0, totals.target_forwards)
}

#[test]
fn texts_and_logits_have_the_same_bits_without_a_cache() {
    let tree = Params::default().with("tree", Value::Text("2,2,1".to_owned()));
    let methods = [("none", Params::default()), ("model", Params::default()), ("model_tree", tree)];
    let cases = [
        ("llama", CacheDtype::F32),
        ("gemma2", CacheDtype::F16),
        ("qwen3_window", CacheDtype::Q8_0),
    ];
    for (folder, cache_dtype) in cases {
        let source = Source::from(root().join(folder).to_string_lossy().into_owned());
        let with = Settings { kv_cache_dtype: Some(cache_dtype), ..Settings::default() };
        let without = Settings { without_cache: true, ..with.clone() };
        let open =
            |settings: Settings| load(source.clone().with(settings), Role::Target).unwrap().model;
        let (cached, uncached) = (open(with), open(without));
        for (drafter, params) in &methods {
            for temperature in [0.0, 1.0] {
                let sampling = SamplingParams { temperature, ..SamplingParams::NEUTRAL };
                let spec = MethodSpec {
                    drafter: (*drafter).to_owned(),
                    params: params.clone(),
                    sampling,
                    ..MethodSpec::default()
                };
                let same = generated([&*cached, &*cached], &spec);
                assert_eq!(generated([&*uncached, &*uncached], &spec), same, "{folder}, {drafter}");
            }
        }
    }
}

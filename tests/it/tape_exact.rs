//! Forecasts from texts, against the enumeration of the production code.

use specdec::decode::{Generation, MethodSpec, StopRules};
use specdec::exactness::{Probe, enumerate, target_distribution};
use specdec::model::{LanguageModel, ToyPair, zoo};
use specdec::params::{Params, Value};
use specdec::round::RoundEvent;
use specdec::sampling::{Sampler, SamplingParams};
use specdec::tape::{ChainLaw, Forecast, TapeEnd, TapeLength, forecast, log_probs};

/// The most tokens of a text.
const MOST: usize = 5;
/// Sums of some thousand products in f64, taken in another order.
const ROUNDING: f64 = 1e-12;

/// What rounds accept, counting only what becomes part of the text.
#[derive(Debug, Default)]
struct Kept {
    rounds: f64,
    accepted: f64,
    lengths: Vec<f64>,
}

impl Kept {
    fn add(&mut self, accepted: usize, weight: f64) {
        self.rounds += weight;
        self.accepted += weight * accepted as f64;
        self.lengths.resize(self.lengths.len().max(accepted + 1), 0.0);
        self.lengths[accepted] += weight;
    }
}

impl Probe for Kept {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        self.add(event.verdict.path.len().min(event.emitted.len()), weight);
    }
}

/// A pair, how it is sampled, and how drafts are verified.
struct Case {
    pair: ToyPair,
    sampling: SamplingParams,
    draft_temperature: Option<f64>,
    law: ChainLaw,
    k: usize,
}

impl Case {
    fn spec(&self) -> MethodSpec {
        let verifier = match self.law {
            ChainLaw::Token => "rejection",
            ChainLaw::Block => "traversal",
        };
        let params = self.draft_temperature.map_or(Params::default(), |temperature| {
            Params::default().with("draft_temperature", Value::Number(temperature))
        });
        MethodSpec {
            verifier: verifier.to_owned(),
            num_speculative_tokens: self.k,
            sampling: self.sampling,
            params,
            ..MethodSpec::default()
        }
    }

    /// By walking the production rounds through every outcome.
    fn enumerated(&self) -> Kept {
        let (target, draft) = (self.pair.target("p").unwrap(), self.pair.draft("q").unwrap());
        let method = self.spec().build(Some(&draft)).unwrap();
        let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(MOST) };
        let generation = Generation::new(&target, method, &self.pair.prompt, stop, None).unwrap();
        let mut kept = Kept::default();
        enumerate(&target, generation, &mut [&mut kept]).unwrap();
        kept
    }

    /// From all texts and their laws alone, weighed by their probabilities.
    fn forecast(&self) -> Kept {
        let (target, draft) = (self.pair.target("p").unwrap(), self.pair.draft("q").unwrap());
        let sampler = Sampler::new(self.sampling).unwrap();
        let temperature = self.draft_temperature.unwrap_or(self.sampling.temperature);
        let of_draft = Sampler::new(SamplingParams { temperature, ..self.sampling }).unwrap();
        let prompt = &self.pair.prompt;
        let mut kept = Kept::default();
        for (text, mass) in target_distribution(&target, &sampler, prompt, MOST).unwrap() {
            let p = log_probs(&target, &sampler, prompt, &text).unwrap();
            let q = log_probs(&draft, &of_draft, prompt, &text).unwrap();
            let whole = p.iter().sum::<f64>().exp();
            assert!((whole - mass).abs() < ROUNDING, "{text:?}: {whole} and {mass}");
            let ratios = p.iter().zip(q).map(|(p, q)| (q - p).exp()).collect::<Vec<_>>();
            let end = if text.len() == MOST { TapeEnd::Cut } else { TapeEnd::Token };
            let length = TapeLength { tokens: text.len(), end };
            let Forecast { rounds, lengths, .. } = forecast(length, |start, room| {
                self.law.survival(&ratios[start..start + room.min(self.k)])
            });
            assert!((lengths.iter().sum::<f64>() - rounds).abs() < ROUNDING);
            lengths.iter().enumerate().for_each(|(accepted, n)| kept.add(accepted, mass * n));
        }
        kept
    }
}

fn assert_same(case: &Case, name: &str) {
    let (found, expected) = (case.forecast(), case.enumerated());
    let words = format!("{name}, {:?}, K = {}", case.law, case.k);
    assert!((found.rounds - expected.rounds).abs() < ROUNDING, "{words}: rounds");
    assert!((found.accepted - expected.accepted).abs() < ROUNDING, "{words}: accepted");
    for accepted in 0..=case.k {
        let [a, b] = [&found, &expected].map(|kept| kept.lengths.get(accepted).unwrap_or(&0.0));
        assert!((a - b).abs() < ROUNDING, "{words}: rounds that accept {accepted}: {a}, {b}");
    }
}

fn for_laws(mut each: impl FnMut(ChainLaw, usize)) {
    for law in [ChainLaw::Token, ChainLaw::Block] {
        (1..=4).for_each(|k| each(law, k));
    }
}

#[test]
fn forecasts_have_the_rounds_of_the_enumeration() {
    let sampling = SamplingParams::default();
    for number in 0..24 {
        for_laws(|law, k| {
            let pair = zoo::toy(&format!("random-{number}")).unwrap();
            assert_same(&Case { pair, sampling, draft_temperature: None, law, k }, "random");
        });
    }
}

#[test]
fn texts_that_end_have_the_rounds_of_the_enumeration() {
    for name in ["mixed", "close", "apart", "gaps"] {
        for_laws(|law, k| {
            let mut pair = zoo::toy(name).unwrap();
            pair.eos = vec![pair.vocab as u32 - 1];
            pair.prompt = vec![0, 1, 0];
            let sampling = SamplingParams::default();
            assert_same(&Case { pair, sampling, draft_temperature: None, law, k }, name);
        });
    }
}

/// The laws are those after all processors.
#[test]
fn processed_laws_have_the_rounds_of_the_enumeration() {
    let neutral = SamplingParams::default();
    let settings = [
        (SamplingParams { temperature: 0.6, top_k: 2, ..neutral }, None),
        (SamplingParams { top_p: 0.8, repetition_penalty: 1.4, ..neutral }, Some(0.5)),
        (SamplingParams { temperature: 0.0, ..neutral }, None),
    ];
    for (sampling, draft_temperature) in settings {
        for name in ["mixed", "close"] {
            for_laws(|law, k| {
                let pair = zoo::toy(name).unwrap();
                assert_same(&Case { pair, sampling, draft_temperature, law, k }, name);
            });
        }
    }
}

/// A text that is scored in several passes.
#[test]
fn a_long_text_has_the_probabilities_of_single_passes() {
    let pair = zoo::toy("mixed").unwrap();
    let target = pair.target("p").unwrap();
    let sampling = SamplingParams { repetition_penalty: 1.3, ..SamplingParams::default() };
    let sampler = Sampler::new(sampling).unwrap();
    let text = (0..150).map(|i| (7 * i + i / 5) % pair.vocab as u32).collect::<Vec<_>>();
    let all = log_probs(&target, &sampler, &pair.prompt, &text).unwrap();
    for (at, found) in all.iter().enumerate() {
        let before = [&pair.prompt, &text[..at]].concat();
        let one = log_probs(&target, &sampler, &before, &text[at..=at]).unwrap();
        assert_eq!([*found], *one, "{at}");
    }
}

//! Rows of logits in both precisions: invalid values, impossible tokens, penalties, extreme
//! temperatures, and the same distributions for many rows as for each row alone.

use std::sync::atomic::{AtomicUsize, Ordering};

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::distribution::DistError;
use specdec::core::error::Error;
use specdec::core::sampling::{ForEachRow, History, Logits, Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Session, Toy, ToyPair, Work};

use crate::sampling::{PLAIN, distribution, distribution_after, params};

/// Logits in both precisions; dyadic values are the same in both.
fn both(scores: &[f64]) -> [Logits; 2] {
    [Logits::F32(scores.iter().map(|&x| x as f32).collect()), Logits::F64(scores.to_vec())]
}

#[test]
fn nan_and_infinite_logits_are_found_at_every_position() {
    // Rows that end within a vector of lanes, and rows of whole vectors.
    for len in [1, 15, 16, 17, 32, 40] {
        for place in 0..len {
            for (value, all) in [(f64::NAN, false), (f64::INFINITY, false), (f64::NAN, true)] {
                let mut scores = vec![if all { f64::NAN } else { -0.5 }; len];
                scores[place] = value;
                let first = if all { 0 } else { place };
                let greedy = params(|p| p.temperature = 0.0);
                for params in [SamplingParams::NEUTRAL, greedy, params(|p| p.top_p = 0.5)] {
                    for logits in both(&scores) {
                        let found = Sampler::new(params.clone())
                            .unwrap()
                            .distribution(&logits, PLAIN)
                            .unwrap_err();
                        let named =
                            matches!(found, DistError::NotFinite { token, .. } if token == first);
                        assert!(named, "{found:?} of {len}, {place}");
                    }
                }
            }
        }
    }
}

/// Impossible tokens may be anywhere in a row.
#[test]
fn impossible_tokens_have_no_mass_at_any_position() {
    for len in [2, 16, 17, 40] {
        for place in 0..len {
            let mut scores = vec![f64::NEG_INFINITY; len];
            scores[place] = -3.0;
            for logits in both(&scores) {
                for params in [params(|_| ()), params(|p| p.top_k = 2), params(|p| p.top_p = 0.5)] {
                    let dist = Sampler::new(params).unwrap().distribution(&logits, PLAIN).unwrap();
                    assert_eq!(dist.support().collect::<Vec<_>>(), [(place as u32, 1.0)]);
                }
            }
        }
        for logits in both(&vec![f64::NEG_INFINITY; len]) {
            let dist =
                Sampler::new(SamplingParams::default()).unwrap().distribution(&logits, PLAIN);
            assert_eq!(dist.unwrap_err(), DistError::NothingPossible);
        }
    }
    for logits in both(&[]) {
        let dist = Sampler::new(SamplingParams::default()).unwrap().distribution(&logits, PLAIN);
        assert_eq!(dist.unwrap_err(), DistError::Empty);
    }
}

#[test]
fn largest_and_top2_gap_follow_the_order_of_the_logits() {
    let scores = [1.0, 3.0, f64::NEG_INFINITY, 3.0, -2.0, 0.5];
    for logits in both(&scores) {
        assert_eq!((logits.len(), logits.is_empty()), (6, false));
        assert_eq!((logits.get(1), logits.get(4)), (3.0, -2.0));
        assert!(logits.largest(0).is_empty());
        assert_eq!(logits.largest(1), [1]);
        assert_eq!(logits.largest(2), [1, 3], "ties to the lowest id");
        assert_eq!(logits.largest(4), [1, 3, 0, 5]);
        assert_eq!(logits.largest(9), [1, 3, 0, 5, 4], "impossible tokens are left out");
    }
    assert!(both(&[]).iter().all(|logits| logits.is_empty()));
    let gap = |scores: &[f64]| both(scores).map(|logits| logits.top2_gap());
    assert_eq!(gap(&[1.0, 3.5, 2.0]), [1.5; 2]);
    assert_eq!(gap(&[3.5, 2.0, 1.0]), [1.5; 2]);
    assert_eq!(gap(&[1.0, 2.0, 3.5]), [1.5; 2]);
    assert_eq!(gap(&[2.0, 3.0, 3.0]), [0.0; 2], "a tie");
    assert_eq!(gap(&[3.0]), [f64::INFINITY; 2], "only one token is possible");
}

/// All penalties at once on logits of either sign, against the formula; then each alone.
#[test]
fn penalties_match_their_formula_in_both_precisions() {
    let scores = [1.0, -1.0, 0.0, 2.0, -0.5, 0.5];
    let history = History { prompt_len: 2, context: &[0, 1, 1, 4, 3, 9], drafted: &[3, 2] };
    let all = params(|p| {
        (p.repetition_penalty, p.presence_penalty, p.frequency_penalty) = (2.0, 0.25, 0.5);
    });
    // Tokens 0 to 4 were seen; the completion has 1, 4 and 2 once and 3 twice. Token 9 is outside
    // the vocabulary.
    let expected = [0.5, -2.75, -0.75, -0.25, -1.75, 0.5];
    for logits in both(&scores) {
        let dist = Sampler::new(all.clone()).unwrap().distribution(&logits, history).unwrap();
        for (t, x) in expected.iter().enumerate() {
            let found = (dist.p(t as u32) / dist.p(5)).ln() + 0.5;
            // Rows of f32 have its rounding errors.
            assert!((found - x).abs() < 1e-6, "token {t}: {found} is not {x}");
        }
    }
    for change in [
        |p: &mut SamplingParams| p.repetition_penalty = 2.0,
        |p: &mut SamplingParams| p.presence_penalty = 0.5,
        |p: &mut SamplingParams| p.frequency_penalty = 0.5,
    ] {
        let changed = distribution_after(&scores, params(change), history);
        assert!(changed.total_variation(&distribution(&scores, |_| ())) > 0.01, "each acts alone");
    }
}

/// Number of rows that were processed by [`on_threads`].
static SPREAD: AtomicUsize = AtomicUsize::new(0);

/// Runs each row on a separate thread.
fn on_threads(rows: usize, work: &(dyn Fn(usize) + Sync)) {
    SPREAD.fetch_add(rows, Ordering::Relaxed);
    std::thread::scope(|scope| {
        (0..rows).for_each(|row| _ = scope.spawn(move || work(row)));
    });
}

/// A toy whose rows are processed on threads.
#[derive(Debug)]
struct Spread(Toy);

impl LanguageModel for Spread {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.0.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        self.0.evaluate(work)
    }

    fn for_each_row(&self) -> ForEachRow {
        ForEachRow(on_threads)
    }
}

#[test]
fn a_generation_processes_rows_with_the_targets_for_each_row() {
    let even = vec![1.0 / 40_000.0; 40_000];
    let pair = ToyPair::context_free(&even, &even);
    let (target, draft) = (Spread(pair.target("t").unwrap()), pair.draft("d").unwrap());
    let spec = MethodSpec { num_speculative_tokens: 2, ..MethodSpec::default() };
    let method = spec.build(Some(&draft)).unwrap();
    let stop = StopRules::max_tokens(3);
    let mut generation = Generation::new(&target, method, &[0], stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 0, prompt: "", repeat: 0 });
    let clock = VirtualClock::new(VirtualCosts::default());
    let before = SPREAD.load(Ordering::Relaxed);
    generate(&mut generation, &target, &mut chance, &clock, &mut NoObserver).unwrap();
    assert!(SPREAD.load(Ordering::Relaxed) >= before + 3);
}

/// Rows of a draft are turned into distributions together, on one thread or several; each
/// distribution must equal that of the row alone.
#[test]
fn distributions_of_many_rows_equal_those_of_single_rows() {
    for vocab in [8, 40_000] {
        let row = |i: usize| {
            let score = |t: usize| ((t * 7 + i * 3) % 23) as f32 / 4.0;
            Logits::F32((0..vocab).map(score).collect())
        };
        let rows = (0..4).map(row).collect::<Vec<_>>();
        let sequence = [1, 2, 3];
        for params in
            [params(|_| ()), params(|p| p.temperature = 0.0), params(|p| p.presence_penalty = 0.5)]
        {
            let sampler = Sampler::new(params).unwrap().on(ForEachRow(on_threads));
            let history =
                |i: usize| History { prompt_len: 0, context: &sequence[..i.min(3)], drafted: &[] };
            let positions =
                rows.iter().enumerate().map(|(i, r)| (r, history(i))).collect::<Vec<_>>();
            let dists = sampler.distributions(&positions).unwrap();
            assert_eq!(dists.len(), 4);
            for (dist, (row, history)) in dists.iter().zip(&positions) {
                let alone = sampler.distribution(row, *history).unwrap();
                assert_eq!(dist.total_variation(&alone), 0.0);
            }
        }
    }
}

/// One over the largest temperatures is zero in f32.
#[test]
fn the_largest_temperatures_are_nearly_uniform() {
    let logits = Logits::F32(vec![-5.0, f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY, 3.0]);
    let third = 1.0 / 3.0;
    for temperature in [1e46, 1e300, f64::MAX] {
        for top_p in [1.0, 0.999] {
            let params = SamplingParams { temperature, top_p, ..SamplingParams::default() };
            let dist = Sampler::new(params).unwrap().distribution(&logits, PLAIN).unwrap();
            let support = dist.support().collect::<Vec<_>>();
            assert_eq!(support, [(0, third), (2, third), (4, third)], "{temperature}");
        }
    }
}

/// Logits over the smallest temperatures are larger than any f32.
#[test]
fn the_smallest_temperatures_are_nearly_greedy() {
    let logits = Logits::F32(vec![1.0, 3.0, 2.999, -40.0]);
    let history = History { prompt_len: 0, context: &[], drafted: &[] };
    for temperature in [1e-30, 1e-39, 1e-45, 1e-300, f64::MIN_POSITIVE] {
        let params = SamplingParams { temperature, ..SamplingParams::default() };
        let dist = Sampler::new(params).unwrap().distribution(&logits, history).unwrap();
        assert_eq!(dist.support().collect::<Vec<_>>(), [(1, 1.0)], "{temperature}");
    }
}

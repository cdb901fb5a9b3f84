//! From logits to distributions: order, ties, edge cases, and agreement with a reference that uses
//! full sorts.

use proptest::prelude::*;
use specdec::core::distribution::{Dist, DistError};
use specdec::core::sampling::{History, Logits, PROCESSORS, Sampler, SamplingParams};

pub(crate) const PLAIN: History<'static> = History { prompt_len: 0, context: &[], drafted: &[] };

pub(crate) fn params(change: impl FnOnce(&mut SamplingParams)) -> SamplingParams {
    let mut params = SamplingParams::default();
    change(&mut params);
    params
}

pub(crate) fn distribution_after(
    logits: &[f64],
    params: SamplingParams,
    history: History<'_>,
) -> Dist {
    let sampler = Sampler::new(params).unwrap();
    sampler.distribution(&Logits::F64(logits.to_vec()), history).unwrap()
}

pub(crate) fn distribution(logits: &[f64], change: impl FnOnce(&mut SamplingParams)) -> Dist {
    distribution_after(logits, params(change), PLAIN)
}

fn kept(dist: &Dist) -> Vec<u32> {
    dist.support().map(|(t, _)| t).collect()
}

fn logs(probs: &[f64]) -> Vec<f64> {
    probs.iter().map(|p| p.ln()).collect()
}

/// The documented order, with a full sort at every step.
fn reference(logits: &[f64], params: &SamplingParams, history: History<'_>) -> Vec<f64> {
    let mut scores = logits.to_vec();
    let sequence = [history.context, history.drafted].concat();
    for (t, x) in scores.iter_mut().enumerate() {
        let count = |tokens: &[u32]| tokens.iter().filter(|&&u| u as usize == t).count() as f64;
        let new = count(&sequence[history.prompt_len.min(sequence.len())..]);
        if count(&sequence) > 0.0 {
            let r = params.repetition_penalty;
            *x = if *x > 0.0 { *x / r } else { *x * r };
        }
        if new > 0.0 {
            *x -= params.presence_penalty + params.frequency_penalty * new;
        }
    }
    let mut order = (0..scores.len()).collect::<Vec<_>>();
    order.sort_by(|&a, &b| scores[b].partial_cmp(&scores[a]).unwrap().then(a.cmp(&b)));
    let mut probs = vec![0.0; scores.len()];
    if params.temperature == 0.0 {
        probs[order[0]] = 1.0;
        return probs;
    }
    let max = scores[order[0]];
    let weight = |t: usize| ((scores[t] - max) / params.temperature).exp();
    order.retain(|&t| weight(t) > 0.0);
    if params.top_k > 0 {
        order.truncate(params.top_k);
    }
    let total: f64 = order.iter().map(|&t| weight(t)).sum();
    let mut mass = 0.0;
    let mut keep = 0;
    // A sum that misses the bound only by rounding has reached it.
    while keep < order.len() && mass < (params.top_p - 1e-12) * total {
        mass += weight(order[keep]);
        keep += 1;
    }
    if params.top_p < 1.0 {
        order.truncate(keep.max(1));
    }
    order.retain(|&t| weight(t) >= params.min_p);
    let total: f64 = order.iter().map(|&t| weight(t)).sum();
    order.iter().for_each(|&t| probs[t] = weight(t) / total);
    probs
}

#[test]
fn greedy_breaks_ties_by_the_lowest_token() {
    let dist = distribution(&[1.0, 3.0, 3.0, 2.0], |p| p.temperature = 0.0);
    assert_eq!(kept(&dist), [1]);
    // Zero of either sign is the same logit.
    assert_eq!(kept(&self::distribution(&[-0.0, 0.0], |p| p.temperature = 0.0)), [0]);
}

#[test]
fn top_k_breaks_ties_by_the_lowest_token() {
    let logits = [0.0, 1.0, 0.0, 0.0, 1.0];
    assert_eq!(kept(&distribution(&logits, |p| p.top_k = 3)), [0, 1, 4]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_k = 1)), [1]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_k = 9)), [0, 1, 2, 3, 4]);
    assert_eq!(kept(&distribution(&[-0.0, 0.0, -0.0], |p| p.top_k = 1)), [0]);
}

#[test]
fn top_p_keeps_the_token_that_crosses_the_bound() {
    let logits = logs(&[0.5, 0.3, 0.1, 0.1]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 0.5)), [0]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 0.51)), [0, 1]);
    // 0.5 + 0.3 + 0.1 rounds to just below 0.9 and has reached it all the same.
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 0.9)), [0, 1, 2]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 0.91)), [0, 1, 2, 3]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 1e-300)), [0]);
    let renormalised = distribution(&logits, |p| p.top_p = 0.8);
    assert!((renormalised.p(0) - 0.625).abs() < 1e-15);
}

#[test]
fn min_p_is_relative_to_the_most_probable() {
    let logits = logs(&[0.5, 0.3, 0.125, 0.075]);
    assert_eq!(kept(&distribution(&logits, |p| p.min_p = 0.2)), [0, 1, 2]);
    assert_eq!(kept(&distribution(&logits, |p| p.min_p = 1.0)), [0]);
    assert_eq!(kept(&distribution(&logs(&[0.4, 0.4, 0.2]), |p| p.min_p = 1.0)), [0, 1]);
}

#[test]
fn processors_run_in_the_documented_order() {
    let keys = PROCESSORS.iter().map(|p| p.setting.key).collect::<Vec<_>>();
    assert_eq!(keys[3..], ["temperature", "top_k", "top_p", "min_p"]);
    let logits = logs(&[0.4, 0.3, 0.2, 0.1]);
    // Top-k first: of the two tokens it leaves, the first holds 0.57 of the mass
    // and reaches 0.55 alone; of all four it holds 0.4 only.
    let both = distribution(&logits, |p| (p.top_k, p.top_p) = (2, 0.55));
    assert_eq!(kept(&both), [0]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 0.55)), [0, 1]);
    // Temperature first: sharpened, the first token alone reaches top-p.
    assert_eq!(kept(&distribution(&logits, |p| (p.temperature, p.top_p) = (0.2, 0.7))), [0]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_p = 0.7)), [0, 1]);
}

#[test]
fn penalties_see_prompt_and_completion_as_documented() {
    let logits = [1.0, -1.0, 2.0, 0.5];
    // Token 2 occurs twice in the completion, token 1 once more in the prompt.
    let history = History { prompt_len: 2, context: &[0, 1, 1, 2, 2], drafted: &[] };
    let scores = |change: fn(&mut SamplingParams)| {
        let dist = distribution_after(&logits, params(change), history);
        // Relative to token 3, which never occurred.
        (0..3).map(|t| (dist.p(t) / dist.p(3)).ln() + 0.5).collect::<Vec<_>>()
    };
    let near = |found: Vec<f64>, expected: [f64; 3]| {
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-12, "{found:?} is not {expected:?}");
        }
    };
    near(scores(|p| p.repetition_penalty = 2.0), [0.5, -2.0, 1.0]);
    near(scores(|p| p.presence_penalty = 0.5), [1.0, -1.5, 1.5]);
    near(scores(|p| p.frequency_penalty = 0.5), [1.0, -1.5, 1.0]);
}

#[test]
fn penalties_count_drafted_tokens_like_committed_ones() {
    let logits = [1.0, -1.0, 2.0, 0.5];
    let strict = params(|p| {
        (p.repetition_penalty, p.presence_penalty, p.frequency_penalty) = (1.3, 0.4, 0.7);
    });
    let committed = History { prompt_len: 1, context: &[0, 2, 2, 1], drafted: &[] };
    let drafted = History { prompt_len: 1, context: &[0, 2], drafted: &[2, 1] };
    let stale = History { prompt_len: 1, context: &[0, 2], drafted: &[] };
    let dist = |history| distribution_after(&logits, strict.clone(), history);
    assert_eq!(dist(committed).total_variation(&dist(drafted)), 0.0);
    assert!(dist(committed).total_variation(&dist(stale)) > 0.05);
}

#[test]
fn invalid_logits_are_refused() {
    for params in
        [SamplingParams::default(), params(|p| p.temperature = 0.0), params(|p| p.top_k = 1)]
    {
        let dist = |logits: Vec<f64>| {
            Sampler::new(params.clone())
                .unwrap()
                .distribution(&Logits::F64(logits), PLAIN)
                .unwrap_err()
        };
        assert!(matches!(dist(vec![0.0, f64::NAN]), DistError::NotFinite { token: 1, .. }));
        assert!(matches!(dist(vec![f64::INFINITY, 0.0]), DistError::NotFinite { token: 0, .. }));
        assert_eq!(dist(vec![f64::NEG_INFINITY; 2]), DistError::NothingPossible);
        assert_eq!(dist(vec![]), DistError::Empty);
    }
    let one = distribution(&[f64::NEG_INFINITY, 0.0], |_| {});
    assert_eq!((one.p(0), one.p(1)), (0.0, 1.0), "-inf is probability zero");
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let key = |params: SamplingParams| Sampler::new(params).unwrap_err().key;
    assert_eq!(key(params(|p| p.temperature = -0.1)), "temperature");
    assert_eq!(key(params(|p| p.temperature = f64::NAN)), "temperature");
    assert_eq!(key(params(|p| p.temperature = f64::INFINITY)), "temperature");
    assert_eq!(key(params(|p| p.top_p = 0.0)), "top_p");
    assert_eq!(key(params(|p| p.top_p = -0.5)), "top_p");
    assert_eq!(key(params(|p| p.min_p = 1.1)), "min_p");
    assert_eq!(key(params(|p| p.top_p = 1.5)), "top_p");
    assert_eq!(key(params(|p| p.min_p = -0.1)), "min_p");
    assert_eq!(key(params(|p| p.repetition_penalty = 0.0)), "repetition_penalty");
    assert_eq!(key(params(|p| p.repetition_penalty = -1.0)), "repetition_penalty");
    assert_eq!(key(params(|p| p.repetition_penalty = f64::INFINITY)), "repetition_penalty");
    assert_eq!(key(params(|p| p.presence_penalty = f64::INFINITY)), "presence_penalty");
    assert_eq!(key(params(|p| p.frequency_penalty = f64::NAN)), "frequency_penalty");
}

#[test]
fn the_last_stage_equals_the_sampling_distribution() {
    let all = SamplingParams {
        temperature: 0.8,
        top_k: 3,
        top_p: 0.9,
        min_p: 0.1,
        repetition_penalty: 1.2,
        presence_penalty: 0.1,
        frequency_penalty: 0.1,
        ..SamplingParams::default()
    };
    let sampler = Sampler::new(all).unwrap();
    let logits = Logits::F64(vec![1.0, 0.5, 0.2, -0.3, 0.9]);
    let history = History { prompt_len: 1, context: &[0, 4], drafted: &[1] };
    let stages = sampler.stages(&logits, history).unwrap();
    let names = stages.iter().map(|s| s.name).collect::<Vec<_>>();
    assert_eq!(names, ["softmax", "penalties", "temperature", "top_k", "top_p", "min_p"]);
    let last = &stages[stages.len() - 1].dist;
    assert_eq!(last.total_variation(&sampler.distribution(&logits, history).unwrap()), 0.0);
}

#[test]
fn a_large_vocabulary_matches_the_full_sort_reference() {
    // A fixed integer hash gives scores like those of a real model: 150k
    // values on a coarse grid, so that ties cross every boundary.
    let score = |i: u64| {
        let h =
            (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i << 7)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((h >> 40) % 4096) as f32 / 256.0 - 8.0
    };
    let logits = (0..151_936).map(score).collect::<Vec<f32>>();
    let wide = logits.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    for change in [
        |_: &mut SamplingParams| (),
        |p: &mut SamplingParams| p.top_k = 50,
        |p: &mut SamplingParams| p.top_p = 0.9,
        |p: &mut SamplingParams| p.min_p = 0.05,
        |p: &mut SamplingParams| (p.temperature, p.top_k, p.top_p) = (0.7, 1000, 0.95),
        |p: &mut SamplingParams| (p.top_k, p.min_p) = (20, 0.5),
        // More tokens than there are blocks of scores.
        |p: &mut SamplingParams| p.top_k = 5000,
        |p: &mut SamplingParams| (p.temperature, p.min_p) = (2.0, 0.001),
        |p: &mut SamplingParams| (p.temperature, p.top_p, p.min_p) = (5.0, 0.99, 0.01),
        |p: &mut SamplingParams| p.temperature = 0.0,
    ] {
        let params = params(change);
        let sampler = Sampler::new(params.clone()).unwrap();
        let dist = sampler.distribution(&Logits::F32(logits.clone()), PLAIN).unwrap();
        let expected = reference(&wide, &params, PLAIN);
        for (t, &p) in expected.iter().enumerate() {
            // Weights are computed in f32: the exponent, at most 16 here, is
            // rounded three times (6e-8 each), the exponential adds 2e-7.
            assert!((dist.p(t as u32) - p).abs() <= 4e-6 * p, "{params:?}: token {t}");
        }
    }
}

/// Sums of many weights round differently in every order, and the kept set must not
/// depend on it.
#[test]
fn rounding_does_not_change_the_top_p_set() {
    let n = 1000;
    let weight = |t: u64| (t.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 + 1e6;
    let mut weights = (0..n).map(weight).collect::<Vec<_>>();
    let mut sorted = weights.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let total = sorted.iter().sum::<f64>();
    for size in (50..n as usize).step_by(50) {
        weights.rotate_left(50);
        let share = sorted[..size].iter().sum::<f64>() / total;
        assert_eq!(distribution(&logs(&weights), |p| p.top_p = share).support().count(), size);
    }
}

#[test]
fn the_largest_share_below_one_keeps_tokens_of_every_size() {
    let logits = (0..5000).map(|t| f64::from(t % 50) / -5.0).collect::<Vec<_>>();
    let all = distribution(&logits, |p| p.top_p = 1.0 - f64::EPSILON / 2.0);
    assert_eq!(all.support().count(), 5000);
}

/// Only differences of scores count, however large the scores are.
#[test]
fn a_constant_added_to_all_scores_changes_nothing() {
    let scores = [0.0, -1.5, 2.0, 0.25];
    for change in [|_: &mut SamplingParams| (), |p: &mut SamplingParams| p.top_p = 0.9] {
        let params = params(change);
        let shifted = |by: f64| {
            let scores = scores.map(|x| x + by);
            let narrow = Logits::F32(scores.map(|x| x as f32).to_vec());
            [Logits::F64(scores.to_vec()), narrow]
                .map(|logits| {
                    Sampler::new(params.clone()).unwrap().distribution(&logits, PLAIN).unwrap()
                })
                .map(|dist| dist.support().collect::<Vec<_>>())
        };
        assert_eq!(shifted(1000.0), shifted(0.0));
        assert_eq!(shifted(-1000.0), shifted(0.0));
    }
}

/// A neutral setting drops nothing, not even the least probable token.
#[test]
fn neutral_settings_drop_nothing() {
    let logits = [0.0, -40.0, -1.0, -30.0];
    assert_eq!(kept(&distribution(&logits, |p| p.top_k = 4)), [0, 1, 2, 3]);
    assert_eq!(kept(&distribution(&logits, |p| p.top_k = 3)), [0, 2, 3]);
    assert_eq!(kept(&distribution(&logits, |p| p.min_p = 1e-30)), [0, 1, 2, 3]);
    assert_eq!(kept(&distribution(&logits, |_| ())), [0, 1, 2, 3]);
}

/// A stage is listed if it may change something, and only then.
#[test]
fn only_stages_that_may_change_something_are_listed() {
    let logits = Logits::F64(vec![1.0, 0.5, 0.2, -0.3, 0.9]);
    let history = History { prompt_len: 1, context: &[0, 4], drafted: &[1] };
    let names = |change: fn(&mut SamplingParams)| {
        let sampler = Sampler::new(params(change)).unwrap();
        assert_eq!(sampler.params(), &params(change));
        let stages = sampler.stages(&logits, history).unwrap();
        let last = &stages[stages.len() - 1].dist;
        assert_eq!(last.total_variation(&sampler.distribution(&logits, history).unwrap()), 0.0);
        stages.into_iter().map(|stage| stage.name).collect::<Vec<_>>()
    };
    assert_eq!(names(|_| ()), ["softmax"]);
    assert_eq!(names(|p| p.presence_penalty = 0.1), ["softmax", "penalties"]);
    assert_eq!(names(|p| p.temperature = 0.5), ["softmax", "temperature"]);
    // Greedy decoding leaves nothing to truncate.
    assert_eq!(names(|p| (p.temperature, p.top_k) = (0.0, 2)), ["softmax", "temperature"]);
    assert_eq!(names(|p| p.top_k = 2), ["softmax", "top_k"]);
    assert_eq!(names(|p| p.top_p = 0.5), ["softmax", "top_p"]);
    assert_eq!(names(|p| p.min_p = 0.5), ["softmax", "min_p"]);
}

/// Scores on a grid with ties, some impossible.
fn scores() -> impl Strategy<Value = Vec<f64>> {
    let score = prop_oneof![
        6 => (-12i32..12).prop_map(|n| f64::from(n) / 4.0),
        3 => -3.0..3.0f64,
        1 => Just(f64::NEG_INFINITY),
    ];
    proptest::collection::vec(score, 1..200).prop_map(|mut scores| {
        // At least one token is possible.
        scores[0] = scores[0].max(-3.0);
        scores
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn distributions_match_the_full_sort_reference(
        scores in scores(),
        temperature in prop_oneof![Just(0.0), Just(1.0), 0.3..2.0f64],
        top_k in prop_oneof![Just(0usize), 1usize..12, 12usize..200],
        top_p in prop_oneof![Just(1.0), 0.05..1.0f64, Just(0.9)],
        min_p in prop_oneof![Just(0.0), 0.0..0.9f64],
        penalties in prop_oneof![Just((1.0, 0.0, 0.0)), (0.5..2.0f64, -0.5..1.0f64, 0.0..1.0f64)],
        sequence in proptest::collection::vec(0u32..40, 1..8),
        split in 0usize..8,
    ) {
        let params = SamplingParams {
            temperature, top_k, top_p, min_p,
            repetition_penalty: penalties.0,
            presence_penalty: penalties.1,
            frequency_penalty: penalties.2,
            ..SamplingParams::default()
        };
        let (context, drafted) = sequence.split_at(split.min(sequence.len()));
        let history = History { prompt_len: context.len() / 2, context, drafted };
        let dist = distribution_after(&scores, params.clone(), history);
        for (t, p) in reference(&scores, &params, history).into_iter().enumerate() {
            prop_assert!((dist.p(t as u32) - p).abs() < 1e-12, "token {}: {} is not {}", t, dist.p(t as u32), p);
        }
    }
}

//! Intervals compared with Student's tables, with cases computed by hand, and on populations with a
//! known true value.

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::measure::rows::RoundRow;
use specdec::measure::statistics::*;

use crate::fixtures::uniform;
use crate::statistics::{round, sample};

#[track_caller]
fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() < tolerance, "{a} is not {b}");
}

/// The mean of these values, as a ratio of sums.
fn mean(values: &[f64]) -> Ratio {
    Ratio::of(values.iter().map(|x| ([*x], [1.0])))
}

#[test]
fn student_quantiles_match_the_tables() {
    for (df, t) in [(7.0, 2.3646), (10.0, 2.2281), (15.0, 2.1314), (47.0, 2.0117)] {
        // The tables have four decimals.
        close(student(df), t, 1e-4);
    }
}

#[test]
fn a_symmetric_sample_has_students_interval() {
    // Eight prompts, alternately 10 % below and above: x = ±0.1 / 8.
    let values = [0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1];
    let Interval { lo, hi } = mean(&values).interval().unwrap();
    let error = 0.1 / 7_f64.sqrt();
    close(lo, (-2.36458 * error).exp(), 1e-5);
    close(hi, (2.36458 * error).exp(), 1e-5);
}

#[test]
fn skewness_lengthens_one_side_and_shortens_neither() {
    let values = [1.0, 1.0, 1.0, 1.1, 1.1, 1.2, 1.4, 3.0];
    let Interval { lo, hi } = mean(&values).interval().unwrap();
    let truth = mean(&values).value().unwrap();
    let x = mean(&values).influences();
    let error = (x.iter().map(|x| x * x).sum::<f64>() * 8.0 / 7.0).sqrt();
    // Where it lengthens a side, Hall's transformation of T = (mean − truth) / error at
    // that end gives Student's quantile.
    let skewness = x.iter().map(|x| x.powi(3)).sum::<f64>()
        / 8.0
        / (x.iter().map(|x| x * x).sum::<f64>() / 8.0).powf(1.5);
    let above = -(hi / truth).ln() / error;
    let hall = above
        + skewness * (2.0 * above * above + 1.0) / (6.0 * 8_f64.sqrt())
        + skewness.powi(2) * above.powi(3) / (27.0 * 8.0);
    close(hall, -student(7.0), 1e-9);
    assert!(above < -1.2 * student(7.0), "{above}");
    close((truth / lo).ln() / error, student(7.0), 1e-9);
}

#[test]
fn few_prompts_have_no_interval() {
    let values = |n: usize| (0..n).map(|i| 1.0 + 0.1 * (i % 3) as f64).collect::<Vec<_>>();
    assert_eq!(mean(&values(MIN_PROMPTS - 1)).interval(), None);
    assert!(mean(&values(MIN_PROMPTS)).interval().is_some());
    // A prompt that does not contribute to the denominator does not count.
    let mut prompts = values(MIN_PROMPTS).into_iter().map(|x| ([x], [1.0])).collect::<Vec<_>>();
    prompts[0] = ([0.0], [0.0]);
    assert_eq!(Ratio::of(prompts).interval(), None);
    // Only a positive ratio has a logarithm.
    assert_eq!(mean(&[0.0; 20]).interval(), None);
    assert_eq!(mean(&[0.0; 20]).value(), Some(0.0));
}

#[test]
fn constant_samples_have_no_interval_and_ratios_are_capped() {
    // A lack of spread is not certainty, not even if sums are rounded.
    assert_eq!(mean(&[2.0; 10]).interval(), None);
    let alike = (1..=10).map(|i| ([0.3 * f64::from(i)], [0.1 * f64::from(i)]));
    assert_eq!(Ratio::of(alike).interval(), None);
    let wide = [0.2, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    assert!(mean(&wide).interval().unwrap().hi > 1.0);
    assert_eq!(mean(&wide).at_most_one().interval().unwrap().hi, 1.0);
}

/// Nine generations of four rounds, each round repeated `times` times.
fn samples(times: usize) -> Vec<Sample> {
    let prompt = |i: usize| {
        let accepted = |j: usize| if j <= i % 4 { 3 } else { i % 3 };
        let overlap_sum = 0.1 * i as f64;
        let rounds = (0..4).map(|j| RoundRow { overlap_sum, ..round(3, accepted(j)) });
        let rounds = rounds.flat_map(|round| vec![round; times]).collect();
        sample(&format!("p{i}"), 1.0, rounds)
    };
    (0..9).map(prompt).collect()
}

#[test]
fn tau_is_one_plus_the_accepted_tokens_per_round() {
    let accepted = samples(1).into_iter().map(|s| s.rounds.iter().map(|r| r.accepted as f64).sum());
    let accepted = accepted.collect::<Vec<f64>>();
    let rate = Ratio::of(accepted.iter().map(|a| ([*a], [4.0])));
    let tau = block_efficiency(&samples(1));
    close(tau.value().unwrap(), 1.0 + rate.value().unwrap(), 1e-12);
    close(tau.interval().unwrap().lo, 1.0 + rate.interval().unwrap().lo, 1e-12);
}

#[test]
fn more_rounds_of_the_same_prompts_do_not_shorten_intervals() {
    let interval = |samples: &[Sample]| {
        let tau = block_efficiency(samples).interval().unwrap();
        let alpha = alpha(samples).unwrap().interval().unwrap();
        [tau.lo, tau.hi, alpha.lo, alpha.hi]
    };
    let few = interval(&samples(1));
    // Counting rounds or generations instead of prompts would give shorter intervals.
    interval(&samples(16)).iter().zip(few).for_each(|(a, b)| close(*a, b, 1e-12));
    let mut repeated = samples(1);
    repeated.extend(samples(1).into_iter().map(|s| Sample { repeat: 1, ..s }));
    interval(&repeated).iter().zip(few).for_each(|(a, b)| close(*a, b, 1e-12));
    // The interval that results from counting rounds.
    let each = samples(16);
    let wrong = Ratio::of(rounds(&each).map(|r| ([r.accepted as f64], [1.0]))).interval().unwrap();
    assert!(wrong.hi - wrong.lo < 0.5 * (few[1] - few[0]));
}

#[test]
fn survival_ratios_match_the_survival_curve_and_have_intervals() {
    let ratios = survival_ratios(&samples(1));
    let curve = Survival::of(rounds(&samples(1))).curve();
    assert_eq!(ratios.len(), 3);
    for (ratio, survival) in ratios.iter().zip(curve) {
        close(ratio.value().unwrap(), survival, 1e-12);
        let Interval { lo, hi } = ratio.interval().unwrap();
        assert!(0.0 < lo && lo < survival && survival < hi && hi <= 1.0);
    }
}

/// Catches: bounds rise, as where too few prompts reach a position for an interval of its own.
#[test]
fn bounds_of_survival_never_rise() {
    // Every draft survives position 1, which therefore has no interval, and too few prompts for an
    // interval reach position 3.
    let rounds = |i: usize| {
        let accepted = |j: usize| if i < 6 { 4 - j % 2 } else { 1 };
        (0..4).map(|j| round(4, accepted(j))).collect()
    };
    let samples = (0..14).map(|i| sample(&format!("p{i}"), 1.0, rounds(i))).collect::<Vec<_>>();
    let ratios = survival_ratios(&samples);
    let own = ratios.iter().map(Ratio::interval).collect::<Vec<_>>();
    assert!(own[0].is_none() && own[1].is_some() && own[2].is_none() && own[3].is_none());
    let bounds = survival_intervals(&ratios);
    let [first, second] = [bounds[0], bounds[1]];
    assert_eq!((first.lo, first.hi), (second.lo, 1.0), "what bounds S(2) bounds S(1)");
    assert_eq!(Some(second), own[1]);
    for later in &bounds[2..] {
        assert_eq!((later.lo, later.hi), (0.0, second.hi));
    }
}

#[test]
fn speedup_intervals_pair_both_sides_of_each_prompt() {
    // Prompts differ a thousandfold, but their ratios only by 2 %: unpaired sides would
    // give a wide interval.
    let names = (0..10).map(|i| format!("p{i}")).collect::<Vec<_>>();
    let time = |i: usize| 10f64.powi(i as i32 % 4);
    let side = |factor: fn(usize) -> f64| {
        let sample =
            |(i, name): (usize, &String)| sample(name, factor(i) * time(i), vec![round(0, 0)]);
        names.iter().enumerate().map(sample).collect::<Vec<_>>()
    };
    let (plain, cell) = (side(|_| 2.0), side(|i| 1.0 + 0.02 * (i % 2) as f64));
    let interval = speedup_interval(&pair_by_prompt(&plain, &cell)).unwrap();
    assert!(1.9 < interval.lo && interval.hi < 2.1, "{interval:?}");
    // The same samples on both sides have no spread at all.
    assert_eq!(block_efficiency_ratio(&samples(1), &samples(1)).interval(), None);
}

/// 48 prompts, as in the committed runs; accepted tokens per round and times are both
/// skewed to the right.
fn population() -> Vec<([f64; 2], [f64; 2])> {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut normal = || (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0;
    let prompt = |_| {
        let tokens = 20.0 * (0.5 * normal()).exp();
        let plain = 64.0 * (0.05 * normal()).exp();
        ([plain, tokens], [64.0, tokens * (0.3 * normal() + 0.3 * normal().abs()).exp()])
    };
    (0..48).map(prompt).collect()
}

type Make = fn(&Ratio) -> Option<Interval>;

/// The share of intervals from `prompts` prompts that cover the true value of the population.
fn coverage(population: &Ratio, prompts: usize, draws: usize, interval: Make) -> f64 {
    let truth = population.value().unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let covered = (0..draws).filter(|_| {
        let drawn = (0..prompts).map(|_| rng.next_u64() as usize % population.prompts());
        let drawn = population.resample(&drawn.collect::<Vec<_>>());
        interval(&drawn).is_some_and(|i| i.lo <= truth && truth <= i.hi)
    });
    covered.count() as f64 / draws as f64
}

/// Percentile intervals from 200 resamples, which `Ratio::interval` replaces.
fn percentile(drawn: &Ratio) -> Option<Interval> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let resample = |_| {
        let prompts = (0..drawn.prompts()).map(|_| rng.next_u64() as usize % drawn.prompts());
        drawn.resample(&prompts.collect::<Vec<_>>()).value()
    };
    let mut values = (0..200).filter_map(resample).collect::<Vec<_>>();
    values.sort_by(f64::total_cmp);
    Some(Interval { lo: quantile(&values, 0.025)?, hi: quantile(&values, 0.975)? })
}

/// The interval if the sums come from different prompts.
fn unpaired(drawn: &Ratio) -> Option<Interval> {
    let columns = drawn.terms().map(|(_, sum)| sum.to_vec()).collect::<Vec<_>>();
    let turn = |j: usize, i: usize| columns[j][(i + j) % drawn.prompts()];
    let prompt = |i| ([turn(0, i), turn(1, i)], [turn(2, i), turn(3, i)]);
    Ratio::of((0..drawn.prompts()).map(prompt)).interval()
}

#[test]
fn intervals_have_their_nominal_coverage() {
    const DRAWS: usize = 4000;
    let ratio = Ratio::of(population());
    // Four standard errors of a share of 95 %.
    let noise = 4.0 * f64::sqrt(0.95 * 0.05 / DRAWS as f64);
    for (prompts, least, most) in [(8, 0.92, 1.0), (16, 0.93, 0.97), (48, 0.93, 0.97)] {
        let share = coverage(&ratio, prompts, DRAWS, Ratio::interval);
        assert!((least - noise..=most + noise).contains(&share), "{prompts} prompts: {share}");
    }
    // The percentile bootstrap covers too rarely.
    let share = coverage(&ratio, 8, 1000, percentile);
    let noise = 4.0 * f64::sqrt(0.9 * 0.1 / 1000.0);
    assert!(share < 0.92 - noise, "percentiles cover {share}");
    // Unpaired intervals are too wide and cover nearly always.
    let share = coverage(&ratio, 16, DRAWS, unpaired);
    assert!(share > 0.99, "unpaired intervals cover {share}");
}

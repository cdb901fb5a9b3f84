//! Measures of two runs: pairing, ratios, sign-flip tests with every pattern, Holm.

use std::sync::Arc;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::measure::statistics::{
    Acceptance, CellOfRun, ContrastFinding, MOST_EXACT, Measure, PairedPrompts, PairedTime,
    Pairing, PromptWork, Rounds, Sample, contrasts, pair_runs, randomised, sign_flip,
};

use crate::fixtures::uniform;

/// Number of random sign patterns of a single test.
const FLIPS: usize = 9_999;

/// Catches: half of the patterns are missing; only patterns that are more extreme count; the test
/// is one-sided.
#[test]
fn every_sign_pattern_is_counted_once() {
    // Of +++ and its opposite alone the sum is as far from zero: 2 of 8 patterns.
    let three = randomised(&[0.1, 0.3, 0.2], 0).unwrap();
    assert_eq!((three.p, three.exact, three.signs), (0.25, true, 3));
    // ±1 ± 2 ± 1 reaches 2 in absolute value in 6 of 8 patterns.
    assert_eq!(randomised(&[1.0, 2.0, -1.0], 0).unwrap().p, 0.75);
    assert_eq!(randomised(&[-1.0, -2.0, 1.0], 0).unwrap().p, 0.75);
    // n differences of one sign: 2 of 2^n.
    for n in [1, 8, MOST_EXACT] {
        assert_eq!(randomised(&vec![0.01; n], 0).unwrap().p, 0.5_f64.powi(n as i32 - 1));
    }
    let none = randomised(&[0.0; 5], 0).unwrap();
    assert_eq!((none.p, none.signs, none.mean), (1.0, 0, 0.0));
    assert_eq!(randomised(&[], FLIPS), None);
}

#[test]
fn many_differences_are_sampled_and_p_is_never_zero() {
    let many = randomised(&[0.01; MOST_EXACT + 1], FLIPS).unwrap();
    // Two of 2^17 patterns are as extreme: none of 9999 draws is expected to be.
    assert!(!many.exact && many.p <= 2.0 / (FLIPS + 1) as f64 && many.p > 0.0);
    // Counting and drawing agree up to five standard errors of a share.
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let logs = (0..MOST_EXACT).map(|_| uniform(&mut rng) - 0.4).collect::<Vec<_>>();
    let exact = randomised(&logs, FLIPS).unwrap().p;
    let drawn = sign_flip(&logs, FLIPS).unwrap();
    let error = (exact * (1.0 - exact) / FLIPS as f64).sqrt();
    assert!((exact - drawn).abs() < 5.0 * error, "{exact} is not {drawn}");
}

#[test]
fn tests_of_equal_runs_keep_their_level() {
    // Both runs have the same skewed noise: p is at most 5 % about 5 % of the time, whether
    // patterns are counted (12 prompts) or drawn (24).
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    for (prompts, runs) in [(12, 600), (24, 400)] {
        let alarms = (0..runs).filter(|_| {
            let mut time = || (2.0 * uniform(&mut rng)).exp();
            let cell = (0..prompts).map(|_| [work(time(), 10), work(time(), 10)]);
            let found = contrasts(&[cell.collect()], Measure::TimePerToken);
            found[0].unwrap().test.p <= 0.05
        });
        let share = alarms.count() as f64 / f64::from(runs);
        // Four standard errors.
        let error = (0.05 * 0.95 / f64::from(runs)).sqrt();
        assert!((share - 0.05).abs() < 4.0 * error, "{share} of {runs}");
    }
}

/// Work that took a time, with an equally long one of plain decoding, and accepted 6 of 10
/// tokens in 4 rounds.
fn work(us: f64, tokens: usize) -> PromptWork {
    PromptWork {
        acceptance: Acceptance { rounds: 4, proposed: 10, accepted: 6, ..Acceptance::default() },
        us,
        tokens,
        against_plain: PairedTime {
            plain_us: 20.0,
            plain_tokens: tokens,
            us,
            tokens,
            ..PairedTime::default()
        },
    }
}

/// Twelve prompts of different difficulty whose times have the factor `slower` in the second
/// run.
fn cell(slower: f64) -> PairedPrompts {
    let us = |i: usize| 10.0 + i as f64;
    // Without any scatter there is no interval.
    let factor = |i: usize| slower * (1.0 + 1e-3 * (i % 3) as f64);
    (0..12).map(|i| [work(us(i), 10), work(us(i) * factor(i), 10)]).collect()
}

/// Catches: the ratio is upside down.
#[test]
fn a_factor_that_was_put_in_is_found_with_its_direction() {
    let found = |measure| contrasts(&[cell(1.2)], measure)[0].unwrap();
    let time = found(Measure::TimePerToken);
    assert!((time.ratio.unwrap() / 1.2 - 1.001).abs() < 1e-4, "{time:?}");
    let interval = time.interval.unwrap();
    assert!(interval.lo > 1.199 && interval.lo < 1.2013 && interval.hi < 1.203, "{interval:?}");
    assert_eq!((time.test.p, time.finding()), (2.0 / 4096.0, ContrastFinding::Larger));
    let speedup = found(Measure::Speedup);
    assert!((speedup.ratio.unwrap() * time.ratio.unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(speedup.finding(), ContrastFinding::Smaller);
    let rounds = found(Measure::BlockEfficiency);
    assert_eq!((rounds.values, rounds.test.p), ([2.5, 2.5], 1.0));
    assert_eq!(rounds.finding(), ContrastFinding::Equal);
    assert_eq!(found(Measure::AcceptanceRate).values, [0.6, 0.6]);
}

/// Catches: speedups leave out the time of plain decoding.
#[test]
fn a_machine_that_is_slower_as_a_whole_changes_no_speedup() {
    let slower = |[first, second]: [PromptWork; 2]| {
        let times = PairedTime { plain_us: 1.2 * 20.0, ..second.against_plain };
        [first, PromptWork { against_plain: times, ..second }]
    };
    let prompts = cell(1.2).into_iter().map(slower).collect::<Vec<_>>();
    let speedup = contrasts(&[prompts], Measure::Speedup)[0].unwrap();
    // The prompts scatter by a thousandth.
    assert!((speedup.ratio.unwrap() - 1.0).abs() < 2e-3, "{speedup:?}");
}

/// Catches: p is not adjusted for the number of cells.
#[test]
fn holm_counts_the_cells_that_have_the_measure() {
    let none = vec![[PromptWork::default(); 2]; 12];
    let found = contrasts(&[cell(1.2), none, cell(0.8), cell(1.1)], Measure::TimePerToken);
    assert!(found[1].is_none());
    let first = found[0].unwrap();
    assert_eq!((first.tests, first.adjusted), (3, 3.0 * first.test.p));
    assert_eq!(found[2].unwrap().finding(), ContrastFinding::Smaller);
}

/// Catches: too few prompts count as enough for several cells.
#[test]
fn few_prompts_cannot_show_a_difference() {
    let few = contrasts(&[cell(1.2)[..7].to_vec()], Measure::TimePerToken)[0].unwrap();
    assert_eq!((few.finding(), few.interval), (ContrastFinding::TooFew, None));
    let enough = contrasts(&[cell(1.2)[..8].to_vec()], Measure::TimePerToken)[0].unwrap();
    assert_eq!(enough.finding(), ContrastFinding::Larger);
    // In two cells the adjustment doubles 1/128.
    let eight = cell(1.2)[..8].to_vec();
    let two = contrasts(&[eight.clone(), eight], Measure::TimePerToken);
    assert_eq!(two[0].unwrap().finding(), ContrastFinding::TooFew);
}

#[test]
fn prompts_and_sums_that_disagree_are_mixed() {
    // Nineteen prompts are slower by a tenth; the last, a hundred times as long, is faster.
    let mut prompts = vec![[work(10.0, 10), work(11.0, 10)]; 19];
    prompts.push([work(10_000.0, 10), work(8_000.0, 10)]);
    let found = contrasts(&[prompts], Measure::TimePerToken)[0].unwrap();
    assert!(found.test.mean > 0.0 && found.ratio.unwrap() < 1.0);
    assert_eq!(found.finding(), ContrastFinding::Mixed);
}

#[test]
fn prompts_without_any_accepted_token_count_by_difference() {
    let without = |accepted| PromptWork {
        acceptance: Acceptance { rounds: 4, proposed: 10, accepted, ..Acceptance::default() },
        ..PromptWork::default()
    };
    let prompts = (0..10).map(|i| [without(0), without(1 + i % 2)]).collect::<Vec<_>>();
    let found = contrasts(&[prompts], Measure::AcceptanceRate)[0].unwrap();
    assert_eq!((found.prompts, found.ratio, found.finding()), (10, None, ContrastFinding::Larger));
}

fn sample(prompt: &str, repeat: u32, us: f64, timed: bool) -> Sample {
    Sample {
        timed_with: Arc::from(prompt),
        prompt: Arc::from(prompt),
        original: Arc::from(prompt),
        category: Arc::from("c"),
        repeat,
        new_tokens: 10,
        behind_end: 0,
        looped: 0,
        thinking: None,
        target_forwards: 5,
        draft_forwards: 0,
        prefill_us: 1.0,
        decode_us: us,
        elapsed_us: us,
        first_divergence: None,
        text: 0,
        beam: None,
        rounds: Box::new(Rounds::default()),
        timed,
    }
}

/// The paired decode times of prompt "a" in both runs.
fn times(first: &[Sample], second: &[Sample], pairing: Pairing) -> Option<[f64; 2]> {
    let run = |samples| CellOfRun { samples, baseline: samples };
    let paired = pair_runs([run(first), run(second)], pairing, |prompt| prompt != "left out");
    assert!(!paired.contains_key("left out"));
    paired.get("a").map(|works| works.map(|work| work.us))
}

/// Catches: generations without a partner count; a time counts that only one run has; repeats are
/// paired although the seeds differ.
#[test]
fn timed_generations_are_paired_by_prompt_and_repeat() {
    let first = [
        sample("a", 0, 1.0, true),
        sample("a", 1, 10.0, true),
        sample("a", 2, 100.0, true),
        sample("left out", 0, 1.0, true),
    ];
    // The repeat 0 was disturbed, and 2 is missing.
    let second =
        [sample("a", 1, 20.0, true), sample("a", 0, 2.0, false), sample("left out", 0, 1.0, true)];
    let paired = times(&first, &second, Pairing::PromptAndRepeat);
    assert_eq!(paired, Some([10.0, 20.0]));
    assert_eq!(times(&first, &second, Pairing::Prompt), Some([111.0, 20.0]));
    assert_eq!(times(&first, &second[2..], Pairing::Prompt), None);
}

/// Catches: copies of a prompt count as prompts; only the first run's plan says which they are.
#[test]
fn copies_of_a_prompt_are_one_pair() {
    let run = |known: bool| {
        let copy = Sample { original: Arc::from("a"), ..sample("b", 0, 3.0, true) };
        let copy = if known { copy } else { sample("b", 0, 3.0, true) };
        [sample("a", 0, 1.0, true), copy]
    };
    for known in [[true, true], [false, true], [true, false]] {
        let runs = known.map(run);
        assert_eq!(times(&runs[0], &runs[1], Pairing::PromptAndRepeat), Some([4.0, 4.0]));
    }
}

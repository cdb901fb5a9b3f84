//! Significance tests of paired times, compared with cases computed by hand.

use std::collections::BTreeMap;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::measure::statistics::{
    LEVEL, PairedTime, against_tuned, flips, holm, log_ratios, sign_flips, speedup,
};

use crate::fixtures::uniform;

/// Number of sign patterns of a single test.
const FLIPS: usize = 9_999;

/// Equal numbers of tokens on both sides.
fn pair(plain_us: f64, us: f64) -> PairedTime {
    PairedTime { plain_us, plain_tokens: 10, plain_passes: 10, us, tokens: 10, passes: 10 }
}

/// The p-value of some pairs.
fn sign_flip(pairs: &[PairedTime], flips: usize) -> Option<f64> {
    specdec::measure::statistics::sign_flip(&log_ratios(pairs), flips)
}

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() < tolerance, "{a} is not {b}");
}

#[test]
fn the_sign_flip_test_counts_patterns_that_are_as_extreme() {
    // Three pairs of one sign: of 8 patterns only +++ and --- are as extreme. The tolerance
    // is five standard errors of a share over 9999 flips.
    let tolerance = 5.0 * f64::sqrt(0.25 * 0.75 / FLIPS as f64);
    let three = [pair(1.1, 1.0), pair(1.3, 1.0), pair(1.2, 1.0)];
    close(sign_flip(&three, FLIPS).unwrap(), 0.25, tolerance);
    // The other direction is as extreme.
    let slower = three.map(|p| pair(p.us, p.plain_us));
    assert_eq!(sign_flip(&slower, FLIPS), sign_flip(&three, FLIPS));
    // With forty pairs of one sign, no random pattern is as extreme again.
    close(sign_flip(&vec![pair(1.01, 1.0); 40], FLIPS).unwrap(), 1.0 / (FLIPS + 1) as f64, 1e-12);
    assert_eq!(sign_flip(&[pair(1.0, 1.0); 4], FLIPS), Some(1.0));
    assert_eq!(sign_flip(&[], FLIPS), None);
}

#[test]
fn the_sign_flip_test_keeps_its_level() {
    // Both sides have the same noise: p must be below 5 % about 5 % of the time.
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let runs = 400;
    let alarms = (0..runs).filter(|_| {
        let mut time = || 1.0 + uniform(&mut rng);
        let pairs = (0..20).map(|_| pair(time(), time())).collect::<Vec<_>>();
        sign_flip(&pairs, FLIPS).unwrap() < 0.05
    });
    let share = alarms.count() as f64 / runs as f64;
    // Four standard errors of a share of 5 % over 400 runs.
    close(share, 0.05, 4.0 * f64::sqrt(0.05 * 0.95 / runs as f64));
}

#[test]
fn significance_after_holm_is_reachable_for_any_number_of_tests() {
    assert_eq!(flips(1), FLIPS);
    let tests = vec![vec![pair(1.01, 1.0); 40]; 120];
    let found = sign_flips(&tests);
    assert!(found.iter().all(|test| test.is_some_and(|t| t.possible && t.differs())));
    // With the patterns of a single test none of them could become significant.
    assert!(tests.len() as f64 / (FLIPS + 1) as f64 > LEVEL);
}

#[test]
fn a_test_without_pairs_is_left_out_of_holms_correction() {
    let found = sign_flips(&[vec![], vec![pair(1.01, 1.0); 8]]);
    assert_eq!(found[0], None);
    assert!(found[1].is_some_and(|test| test.possible && test.p == test.adjusted));
}

#[test]
fn the_mean_log_ratio_follows_most_prompts_not_the_total_time() {
    // Nineteen of twenty prompts are slower by a tenth; the last outweighs them in time.
    let mut pairs = vec![pair(1.0, 1.1); 19];
    pairs.push(pair(200.0, 160.0));
    let test = sign_flips(&[pairs.clone()])[0].unwrap();
    assert!(test.differs());
    close(test.mean_log, (1.25_f64.ln() - 19.0 * 1.1_f64.ln()) / 20.0, 1e-12);
    assert!(test.mean_log < 0.0 && speedup(&pairs).unwrap() > 1.0);
}

#[test]
fn holm_adjustment_matches_values_computed_by_hand() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.5]);
    for (a, b) in adjusted.iter().zip([0.04, 0.09, 0.09, 0.5]) {
        close(*a, b, 1e-12);
    }
    assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

/// Times by prompt over a baseline of 8 µs.
fn times(us: [f64; 4]) -> BTreeMap<&'static str, PairedTime> {
    ["a", "b", "c", "d"].into_iter().zip(us).map(|(prompt, us)| (prompt, pair(8.0, us))).collect()
}

#[test]
fn a_prompt_is_compared_with_the_length_tuned_on_other_prompts() {
    // The first fixed length is much faster on a and c, the second somewhat faster on b and d.
    let fixed = [times([1.0, 5.0, 2.0, 6.0]), times([7.0, 3.0, 8.0, 4.0])];
    let policy = times([2.0, 2.0, 2.0, 2.0]);
    let held = against_tuned(&fixed, &policy);
    // a and c are compared with the best length on b and d, and the other way round.
    let expected = [("a", 7.0), ("b", 5.0), ("c", 8.0), ("d", 6.0)];
    assert_eq!(held, expected.map(|(prompt, us)| (prompt, pair(us, 2.0))).into());
    close(speedup(held.values()).unwrap(), 26.0 / 8.0, 1e-12);
}

#[test]
fn equally_fast_fixed_lengths_do_not_bias_the_comparison() {
    // Two lengths are equally fast overall, each faster on one pair of prompts: whichever is
    // chosen must not count against the policy or in its favour.
    let fixed = [times([4.0, 4.0, 6.0, 6.0]), times([6.0, 6.0, 4.0, 4.0])];
    let held = against_tuned(&fixed, &times([5.0; 4]));
    close(speedup(held.values()).unwrap(), 1.0, 1e-12);
}

#[test]
fn a_fixed_length_never_beats_the_tuned_fixed_length() {
    let fixed = [times([3.0; 4]), times([4.0; 4])];
    close(speedup(against_tuned(&fixed, &fixed[0]).values()).unwrap(), 1.0, 1e-12);
    close(speedup(against_tuned(&fixed, &fixed[1]).values()).unwrap(), 0.75, 1e-12);
    assert!(against_tuned(&[], &fixed[0]).is_empty());
}

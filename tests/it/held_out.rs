//! Costs fitted to the rounds of half of the prompts, and their predictions of speedups on the
//! other half.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::measure::rows::{Calibration, PassCost, Recalibration, RoundRow};
use specdec::measure::statistics::{
    CostKeys, CostModel, HeldOutCell, PartCost, Rounds, RowSums, Sample, TimeSums, add_rows,
    halves, held_out,
};
use specdec::run::report::load;

use crate::fixtures::uniform;
use crate::report::{reported, summary, written};
use crate::synthetic::{Rows, Synthetic};

/// Rounding of sums of a few thousand terms.
const ROUNDING: f64 = 1e-9;

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{a} is not {b}");
}

/// The sums of rounds given as (rows, context, µs of the target's pass).
fn sums(rounds: &[(usize, usize, f64)]) -> Vec<RowSums> {
    let mut list = Vec::new();
    for &(rows, context, target) in rounds {
        let times = TimeSums { target, ..TimeSums::default() };
        add_rows(&mut list, RowSums::of(rows, context, times));
    }
    list
}

fn fitted(rounds: &[(usize, usize, f64)]) -> PartCost {
    PartCost::fit(&sums(rounds), |times| times.target).unwrap()
}

/// 30 rounds of each number of rows at contexts from 40 to 98.
fn rounds_of(rows: &[usize], us: impl Fn(usize, usize) -> f64) -> Vec<(usize, usize, f64)> {
    let contexts = || (0..30).map(|i| 40 + 2 * i);
    let each = rows.iter().flat_map(|&n| contexts().map(move |context| (n, context)));
    each.map(|(n, context)| (n, context, us(n, context))).collect()
}

/// Catches: no slope, or a slope that starts at context 0 in every round.
#[test]
fn a_time_linear_in_the_context_at_every_row_count_is_recovered() {
    let level = |rows: usize| [0.0, 100.0, 103.0, 110.0, 140.0, 141.0][rows];
    let time = |rows: usize, context: usize| level(rows) + 0.25 * context as f64;
    let cost = fitted(&rounds_of(&[1, 2, 3, 4, 5], time));
    for rows in 1..=5 {
        for context in [0, 64, 1000] {
            close(cost.us(rows, context as f64), time(rows, context), ROUNDING);
        }
    }
}

/// Catches: levels are not interpolated.
#[test]
fn between_and_beyond_the_knots_a_time_is_linear_in_the_rows() {
    let time = |rows: usize, _: usize| [0.0, 10.0, 20.0, 0.0, 60.0][rows];
    let mut rounds = rounds_of(&[1, 2, 4], time);
    // Nineteen rounds do not make a knot, but affect the adjacent knots.
    close(fitted(&rounds).us(3, 64.0), 40.0, ROUNDING);
    close(fitted(&rounds).us(6, 64.0), 100.0, ROUNDING);
    rounds.extend((0..19).map(|i| (3, 60 + i, 40.0)));
    close(fitted(&rounds).us(3, 64.0), 40.0, ROUNDING);
    close(fitted(&rounds).us(0, 64.0), 10.0, ROUNDING);
    // With few rounds there is one level.
    let few = fitted(&[(3, 50, 8.0), (3, 50, 10.0), (2, 50, 9.0)]);
    close(few.us(1, 50.0), 9.0, ROUNDING);
    close(few.us(7, 90.0), 9.0, ROUNDING);
}

#[test]
fn the_fit_has_the_least_squares_of_all_candidates_near_it() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let rounds = (0..400).map(|i| {
        let (rows, context) = (1 + i % 3, 30 + i / 4);
        (rows, context, (10 * rows) as f64 + 0.1 * context as f64 + 5.0 * uniform(&mut rng))
    });
    let rounds = rounds.collect::<Vec<_>>();
    let cost = fitted(&rounds);
    let squares = |shift: f64, tilt: f64, rows: usize| {
        let residual = |&(n, context, us): &(usize, usize, f64)| {
            let own = if n == rows { shift } else { 0.0 };
            us - cost.us(n, context as f64) - own - tilt * (context as f64 - 80.0)
        };
        rounds.iter().map(|round| residual(round).powi(2)).sum::<f64>()
    };
    let least = squares(0.0, 0.0, 1);
    for (shift, tilt, rows) in [(0.01, 0.0, 1), (-0.01, 0.0, 2), (0.01, 0.0, 3), (0.0, 1e-4, 1)] {
        assert!(squares(shift, tilt, rows) > least);
        assert!(squares(-shift, -tilt, rows) > least);
    }
    let predicted = sums(&rounds).iter().map(|own| cost.sum_us(own)).sum::<f64>();
    close(predicted, rounds.iter().map(|round| round.2).sum(), ROUNDING);
}

#[test]
fn a_single_context_says_nothing_about_other_contexts() {
    let cost = fitted(&[(1, 64, 5.0), (1, 64, 7.0), (2, 64, 9.0)]);
    assert_eq!(cost.us(1, 64.0), cost.us(1, 4096.0));
    assert!(PartCost::fit(&[], |times| times.target).is_none());
}

#[test]
fn many_row_counts_have_sixteen_knots_with_the_ends_among_them() {
    let rows = (1..=60).collect::<Vec<_>>();
    let cost = fitted(&rounds_of(&rows, |rows, _| 3.0 * rows as f64));
    for rows in [1, 2, 30, 60, 61] {
        close(cost.us(rows, 69.0), 3.0 * rows as f64, 1e-6);
    }
}

/// Catches: prompts are halved without regard to categories.
#[test]
fn halves_alternate_within_each_category() {
    let prompts = ["a1", "b1", "a2", "a3", "b2", "a4"].map(|prompt| (prompt, &prompt[..1]));
    let expected = [("a1", 0), ("a2", 1), ("a3", 0), ("a4", 1), ("b1", 0), ("b2", 1)];
    assert_eq!(halves(prompts), BTreeMap::from(expected));
}

/// A generation of 20 rounds with K drafted tokens, half of which are accepted.
fn sample(prompt: usize, k: usize, slower: f64) -> Sample {
    let mut rounds = Rounds::default();
    let emitted = 1 + k / 2;
    let mut decode_us = 0.0;
    for round in 0..20 {
        let context_tokens = 30 + 5 * prompt + emitted * round;
        let target_us = slower * ((1000 + 50 * k) as f64 + 0.5 * context_tokens as f64);
        let row = RoundRow {
            cell: String::new(),
            prompt: String::new(),
            repeat: 0,
            round: round as u64,
            context_tokens,
            proposed: k,
            depth: k,
            accepted: k / 2,
            emitted,
            truncated: false,
            reached: k,
            overlap_sum: 0.0,
            forks: k,
            ceiling_sum: None,
            tv_sum: None,
            residual_fallbacks: 0,
            draft_forwards: k,
            draft_us: slower * 100.0 * k as f64,
            target_us,
            verify_us: slower * 20.0,
            other_us: slower * 5.0,
            accepted_raw: None,
            experts: None,
        };
        decode_us += row.draft_us + row.target_us + row.verify_us + row.other_us;
        assert!(rounds.add(&row));
    }
    Sample {
        prompt: Arc::from(format!("p{prompt}").as_str()),
        original: Arc::from(format!("p{prompt}").as_str()),
        timed_with: Arc::from(format!("p{prompt}").as_str()),
        category: Arc::from("c"),
        repeat: 0,
        new_tokens: 20 * emitted,
        behind_end: 0,
        looped: 0,
        thinking: None,
        target_forwards: 20,
        draft_forwards: 20 * k,
        prefill_us: 0.0,
        decode_us,
        elapsed_us: decode_us,
        first_divergence: None,
        text: 0,
        beam: None,
        rounds: Box::new(rounds),
        timed: true,
    }
}

/// The gaps of a cell with K = 4 on prompts whose rounds are slower by these factors.
fn gaps(slower: impl Fn(usize) -> f64, prompts: usize) -> Option<[f64; 2]> {
    let names = (0..prompts).map(|p| format!("p{p}")).collect::<Vec<_>>();
    let plain = (0..prompts).map(|p| sample(p, 0, 1.0)).collect::<Vec<_>>();
    let own = (0..prompts).map(|p| sample(p, 4, slower(p))).collect::<Vec<_>>();
    let keys = |name: &str| CostKeys { passes: name.to_owned(), parts: name.to_owned() };
    let cells = [
        HeldOutCell { keys: keys("none"), baseline: 0, samples: &plain },
        HeldOutCell { keys: keys("model"), baseline: 0, samples: &own },
    ];
    let found = held_out(&cells, &halves(names.iter().map(|name| (name.as_str(), "c"))));
    assert_eq!(found[0], None, "a baseline has no speedup");
    found[1].map(|found| found.gaps)
}

/// Catches: costs are judged on the prompts that they were fitted to; plain decoding is predicted
/// by the costs of the drafter.
#[test]
fn a_half_is_predicted_from_the_costs_of_the_other() {
    for gap in gaps(|_| 1.0, 8).unwrap() {
        close(gap, 0.0, ROUNDING);
    }
    // The prompts of the second half are a quarter slower: costs of the first half predict a
    // quarter too much there, and those of the second half too little on the first.
    let [first, second] = gaps(|prompt| if prompt % 2 == 1 { 1.25 } else { 1.0 }, 12).unwrap();
    // The context shifts the mean a little between the halves.
    close(first, 0.25, 1e-3);
    close(second, -0.2, 1e-3);
    assert_eq!(gaps(|_| 1.0, 7), None, "three prompts of a half are too few");
}

#[test]
fn costs_of_an_unknown_key_are_unknown() {
    let keys = CostKeys { passes: "a".to_owned(), parts: "b".to_owned() };
    let rows = sums(&[(1, 50, 10.0)]);
    let model = CostModel::fit([(&keys, &rows[..])]);
    assert_eq!(model.sum_us(&keys, &rows), Some(10.0));
    let other_parts = CostKeys { parts: "c".to_owned(), ..keys.clone() };
    let other_passes = CostKeys { passes: "c".to_owned(), ..keys };
    assert_eq!(model.sum_us(&other_parts, &rows), None);
    assert_eq!(model.sum_us(&other_passes, &rows), None);
}

/// Measured and predicted speedups of the cells with a draft model. (Simulated verification takes
/// the same time with and without a draft, unlike real verification.)
fn predictions(rows: &Rows) -> Vec<(f64, f64)> {
    let folder = written(rows);
    let rows = summary(&load(folder.path()).unwrap());
    let rows = rows.iter().filter(|row| row.drafter == "model");
    rows.filter_map(|row| Some((row.speedup?, row.predicted_speedup?))).collect()
}

#[test]
fn a_report_predicts_speedups_despite_a_wrong_calibration() {
    let mut rows = Synthetic::large().rows();
    // The memory was slower before the sweep: calibrated speedups are wrong.
    rows.calibration.passes.iter_mut().for_each(|pass| pass.us *= 1.0 + 0.2 * pass.rows as f64);
    let found = predictions(&rows);
    assert_eq!(found.len(), 18);
    for (speedup, predicted) in found {
        // Rounds have uniform noise of ±1.5 % of T and drafting, some 600 of them per half.
        assert!((speedup / predicted - 1.0).abs() < 0.005, "{speedup} is not {predicted}");
    }
    let (folder, text) = reported(&rows);
    assert!(text.contains("## Predicted and measured") && text.contains("With the target in f32"));
    assert!(text.contains("## Calibrated and measured"));
    let figure = fs::read_to_string(folder.path().join("figures/residuals.svg")).unwrap();
    assert!(figure.contains("costs of the other half") && figure.contains("calibrated costs"));
    // With few prompts there is no prediction, but a calibrated speedup.
    let few = Synthetic::tiny().rows();
    assert!(predictions(&few).is_empty());
    let (folder, text) = reported(&few);
    assert!(!text.contains("## Predicted and measured") && text.contains("## Calibrated"));
    assert!(!folder.path().join("figures/residuals.svg").exists());
}

/// Catches: the first calibration counts in the median of the later ones.
#[test]
fn calibrations_between_blocks_replace_the_first_one() {
    let pass = |rows, us| PassCost { rows, us, ..PassCost::default() };
    let again = |one, two| Recalibration { block: 8, passes: vec![pass(1, one), pass(2, two)] };
    let first = Calibration {
        passes: vec![pass(1, 100.0), pass(2, 120.0), pass(3, 130.0)],
        ..Calibration::default()
    };
    let sweep = [again(300.0, 500.0), again(200.0, 900.0), again(210.0, 700.0)];
    let us = |calibration: &Calibration| {
        calibration.passes.iter().map(|pass| pass.us).collect::<Vec<_>>()
    };
    assert_eq!(us(&first.during(&sweep)), [210.0, 700.0, 130.0]);
    assert_eq!(us(&first.during(&sweep[..2])), [250.0, 700.0, 130.0]);
    assert_eq!(first.during(&[]), first);
}

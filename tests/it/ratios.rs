//! The ratios from which intervals follow have the values that are published next to them.

use std::sync::Arc;

use specdec::measure::rows::RoundRow;
use specdec::measure::statistics::*;

use crate::fixtures::near;
use crate::statistics::{round, sample};

/// Catches: the variance of a sum of n terms instead of that of n prompts.
#[test]
fn the_variance_of_a_logarithm_is_that_of_a_sample() {
    // The mean of 1, 2 and 3: prompts add −1/6, 0 and 1/6 to its logarithm.
    let mean = |values: &[f64]| Ratio::of(values.iter().map(|x| ([*x], [1.0])));
    near(mean(&[1.0, 2.0, 3.0]).log_variance().unwrap(), 2.0 / 36.0 * 3.0 / 2.0);
    assert_eq!(mean(&[2.0, 2.0]).log_variance(), None, "no spread");
    assert_eq!(mean(&[2.0]).log_variance(), None, "one prompt");
}

/// Two prompts that differ in everything.
fn cell() -> [Sample; 2] {
    let known = |row: RoundRow, overlap: f64, ceiling: f64, tv: f64| {
        let (ceiling_sum, tv_sum) = (Some(ceiling), Some(tv));
        RoundRow { overlap_sum: overlap, ceiling_sum, tv_sum, ..row }
    };
    let first = vec![known(round(3, 3), 2.5, 2.7, 0.1), known(round(3, 0), 0.4, 0.6, 0.3)];
    let second = vec![known(round(2, 1), 1.2, 1.3, 0.2), known(round(0, 0), 0.0, 0.0, 0.0)];
    [sample("a", 500.0, first), sample("b", 300.0, [second.clone(), second].concat())]
}

/// Catches: a ratio has another denominator than its value, or drops a term.
#[test]
fn intervals_are_those_of_the_published_ratios() {
    let cell = cell();
    let sums = acceptance(&cell);
    let value = |ratio: Option<Ratio>| ratio.unwrap().value().unwrap();
    // 2.5 + 0.4 + 2 · 1.2 over 3 + 1 + 2 · 2 forks; 3 + 2 accepted tokens in 6 rounds.
    near(value(alpha(&cell)), 5.3 / 8.0);
    near(value(tv(&cell)), 0.8 / 11.0);
    near(value(Some(block_efficiency(&cell))), 11.0 / 6.0);
    let published = [sums.alpha(), sums.share_of_ceiling(), sums.tv(), sums.block_efficiency()];
    published
        .into_iter()
        .zip([5.3 / 8.0, 5.0 / 5.9, 0.8 / 11.0, 11.0 / 6.0])
        .for_each(|(a, b)| near(a.unwrap(), b));
    // 50 µs per token in plain decoding of 11 tokens in "a", and of 4 in "b".
    let plain =
        [sample("a", 550.0, vec![round(0, 0); 11]), sample("b", 200.0, vec![round(0, 0); 4])];
    let pairs = pair_by_prompt(&plain, &cell);
    let expected = (750.0 / 15.0) / (800.0 / 11.0);
    near(speedup(pairs.values()).unwrap(), expected);
    near(speedup_ratio(&pairs).value().unwrap(), expected);
    // Five tokens in two rounds of "a", which is the only prompt that both sides have.
    near(block_efficiency_ratio(&cell, &plain[..1]).value().unwrap(), 5.0 / 2.0);
}

/// Catches: the prompts of a batch, which share their times, count as several.
#[test]
fn prompts_that_were_decoded_together_are_one_entry() {
    let with = |name: &str| Arc::<str>::from(name);
    let mut cell = cell();
    cell[1].timed_with = with("a");
    let pairs = pair_by_prompt(&cell, &cell);
    assert_eq!(pairs.keys().copied().collect::<Vec<_>>(), ["a"]);
    assert_eq!((pairs["a"].us, pairs["a"].tokens, pairs["a"].passes), (800.0, 11, 6));
}

/// Catches: all machines weigh the same; the spread is a variance.
#[test]
fn machines_weigh_as_much_as_their_errors_allow() {
    let logs = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.2, 0.6, 0.5];
    let logs = logs.iter().enumerate().map(|(i, log)| (*log, 0.002 * (1 + i * i) as f64));
    let logs = logs.collect::<Vec<_>>();
    let found = random_effects(&logs).unwrap();
    // Paule and Mandel: with the weights 1 / (error + spread²), the squares sum to m − 1.
    let weighted = |of: &dyn Fn(f64) -> f64| {
        logs.iter().map(|(log, error)| of(*log) / (error + found.spread.powi(2))).sum::<f64>()
    };
    let (weight, mean) = (weighted(&|_| 1.0), found.ratio.ln());
    near(weighted(&|log| log) / weight, mean);
    near(weighted(&|log| (log - mean).powi(2)) / 8.0, 1.0);
    near(found.interval.hi.ln() - mean, student(8.0) / weight.sqrt());
    near(mean - found.interval.lo.ln(), student(8.0) / weight.sqrt());
}

/// Catches: both runs are compared with the plain decoding of the first.
#[test]
fn a_speedup_is_over_the_plain_decoding_of_its_own_run() {
    let plain = |us: f64| [sample("a", us, vec![round(0, 0); 4])];
    let (first, second, cell) =
        (plain(400.0), plain(600.0), [sample("a", 200.0, vec![round(3, 3)])]);
    let run = |baseline| CellOfRun { samples: &cell, baseline };
    let paired = pair_runs([run(&first), run(&second)], Pairing::PromptAndRepeat, |_| true);
    assert_eq!(paired["a"].map(|work| work.against_plain.plain_us), [400.0, 600.0]);
    let found = contrasts(&[paired.into_values().collect()], Measure::Speedup)[0].unwrap();
    assert_eq!((found.values, found.ratio), ([2.0, 3.0], Some(1.5)));
}

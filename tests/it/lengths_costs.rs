//! Draft length policies that learn from times, in simulations with known costs.

use std::time::Duration;

use specdec::core::round::RoundTimes;
use specdec::method::length::DraftLength;

use crate::lengths::{EVEN, confident, drafted, observe, policy};

/// A world in which every token is kept with probability alpha, a draft pass takes c
/// seconds, and a target pass one second plus `row` per row.
#[derive(Debug, Clone, Copy)]
struct World {
    alpha: f64,
    c: f64,
    row: f64,
}

impl World {
    /// Tokens per second with a fixed length: (1 − α^(n+1)) / (1 − α) over the time.
    fn rate(&self, n: usize) -> f64 {
        (1.0 - self.alpha.powi(n as i32 + 1))
            / (1.0 - self.alpha)
            / self.times(n).total().as_secs_f64()
    }

    fn best(&self, most: usize) -> usize {
        (1..=most).max_by(|&a, &b| self.rate(a).total_cmp(&self.rate(b))).unwrap_or(0)
    }

    fn times(&self, n: usize) -> RoundTimes {
        let seconds = Duration::from_secs_f64;
        RoundTimes {
            draft: seconds(self.c * n as f64),
            target: seconds(1.0 + self.row * (n as f64 + 1.0)),
            ..RoundTimes::default()
        }
    }

    /// The drafted lengths of `rounds` rounds. The uniform numbers fill [0, 1) evenly, so that
    /// counts are close to their expectation.
    fn run(&self, policy: &mut dyn DraftLength, rounds: usize) -> Vec<usize> {
        let lengths = (1..=rounds).map(|round| {
            let n = drafted(policy, &[0.7, 0.1, 0.1, 0.1]);
            let u = (round as f64 * 0.618_033_988_749_894_9).fract();
            let kept = ((1.0 - u).ln() / self.alpha.ln()) as usize;
            observe(policy, &confident(&vec![0.7; n]), kept.min(n), self.times(n));
            n
        });
        lengths.collect()
    }
}

#[test]
fn ucb_tries_every_length_once_and_then_mostly_the_best() {
    let mut policy = policy("ucb", 12, &[]);
    // At most three tokens are kept: longer drafts only cost time.
    let world = World { alpha: 0.8, c: 0.1, row: 0.0 };
    let lengths = (0..2000).map(|_| {
        let n = drafted(&mut *policy, &EVEN);
        observe(&mut *policy, &confident(&vec![0.5; n]), n.min(3), world.times(n));
        n
    });
    let lengths = lengths.collect::<Vec<_>>();
    assert_eq!(lengths[..4], [12, 6, 3, 1]);
    let rate = |n: usize| (n.min(3) as f64 + 1.0) / world.times(n).total().as_secs_f64();
    for n in [12, 6, 1] {
        // An arm with a reward lower than the best by a share d is taken in round t only if it has
        // fewer than 2 ln t / d² rounds.
        let short = 1.0 - rate(n) / rate(3);
        let most = 2.0 * 2000_f64.ln() / short.powi(2) + 1.0;
        let times = lengths.iter().filter(|&&other| other == n).count();
        assert!(times >= 5 && times as f64 <= most, "{n}: {times} of at most {most}");
    }
}

#[test]
fn ucb_takes_the_largest_bound_in_any_unit_of_time() {
    let world = World { alpha: 0.8, c: 0.1, row: 0.0 };
    for unit in [1e-4, 1.0] {
        let mut policy = policy("ucb", 8, &[]);
        // Lengths in the order of first trial, each with its rounds, tokens and seconds.
        let mut arms = [8, 4, 2, 1].map(|n| (n, 0.0_f64, 0.0_f64, 0.0_f64));
        for round in 0..500 {
            // Auer et al. 2002, figure 1, with the best mean as the unit of reward.
            let best = arms.iter().map(|arm| arm.2 / arm.3).fold(0.0, f64::max);
            let all = f64::from(round);
            let bound =
                |arm: &(_, f64, f64, f64)| arm.2 / arm.3 / best + (2.0 * all.ln() / arm.1).sqrt();
            let expected = arms.iter().position(|arm| arm.1 == 0.0).unwrap_or_else(|| {
                (0..4).max_by(|&a, &b| bound(&arms[a]).total_cmp(&bound(&arms[b]))).unwrap()
            });
            let n = drafted(&mut *policy, &EVEN);
            assert_eq!(n, arms[expected].0, "round {round}");
            // Times vary from round to round, so that no bounds are equal by chance.
            let seconds = unit * (world.times(n).total().as_secs_f64() + 1e-3 * all.sin());
            let target = Duration::from_secs_f64(seconds);
            let times = RoundTimes { target, ..RoundTimes::default() };
            observe(&mut *policy, &confident(&vec![0.5; n]), n.min(3), times);
            let arm = &mut arms[expected];
            arm.1 += 1.0;
            arm.2 += n.min(3) as f64 + 1.0;
            arm.3 += target.as_secs_f64();
        }
    }
}

#[test]
fn ucb_comes_near_the_best_length_in_tokens_per_second() {
    for world in [
        World { alpha: 0.9, c: 0.02, row: 0.0 },
        World { alpha: 0.6, c: 0.1, row: 0.05 },
        World { alpha: 0.3, c: 0.3, row: 0.0 },
    ] {
        let lengths = world.run(&mut *policy("ucb", 16, &[]), 20_000);
        let best = [16, 8, 4, 2, 1].map(|n| world.rate(n)).into_iter().fold(0.0, f64::max);
        let tokens = |n: usize| world.rate(n) * world.times(n).total().as_secs_f64();
        let time = lengths.iter().map(|&n| world.times(n).total().as_secs_f64()).sum::<f64>();
        let reached = lengths.iter().map(|&n| tokens(n)).sum::<f64>() / time;
        // UCB1's regret in units of the best reward is 8 ln t / d per worse arm: for four
        // arms that are worse by a tenth, 3200 of 20000 rounds.
        assert!(reached > 0.84 * best, "{world:?}: {reached} of {best}");
        let taken = |n: usize| lengths.iter().filter(|&&other| other == n).count();
        let most = [16, 8, 4, 2, 1].into_iter().max_by_key(|&n| taken(n)).unwrap();
        assert_eq!(world.rate(most), best, "{world:?}");
    }
}

/// The best constant lengths by alpha (rows) and c (columns) if rows cost nothing.
const BEST: [(f64, [usize; 5]); 5] = [
    (0.5, [5, 4, 3, 2, 1]),
    (0.6, [7, 6, 4, 3, 2]),
    (0.7, [9, 8, 6, 4, 3]),
    (0.8, [14, 11, 8, 6, 4]),
    (0.9, [24, 19, 13, 10, 7]),
];

#[test]
fn optimal_stopping_settles_on_the_best_constant_length() {
    for (alpha, best) in BEST {
        for (c, best) in [0.01, 0.02, 0.05, 0.1, 0.2].into_iter().zip(best) {
            let world = World { alpha, c, row: 0.0 };
            // Two lengths are equally good at alpha = 0.5, c = 0.2.
            let is_best = |n: usize| world.rate(n) >= world.rate(world.best(64)) - 1e-12;
            assert!(is_best(best));
            let lengths = world.run(&mut *policy("optimal_stopping", 32, &[]), 4000);
            let last = &lengths[3900..];
            assert!(last.iter().all(|&n| is_best(n)), "{world:?}: {last:?}, not {best}");
        }
    }
}

#[test]
fn optimal_stopping_stops_earlier_when_rows_cost() {
    for (row, c) in [(0.05, 0.02), (0.1, 0.02), (0.2, 0.05)] {
        let world = World { alpha: 0.8, c, row };
        let free = World { row: 0.0, ..world };
        let lengths = world.run(&mut *policy("optimal_stopping", 32, &[]), 4000);
        assert!(world.best(64) < free.best(64));
        assert!(lengths[3900..].iter().all(|&n| n == world.best(64)), "{world:?}");
    }
}

#[test]
fn optimal_stopping_ends_after_an_unlikely_token() {
    let mut policy = policy("optimal_stopping", 8, &[]);
    let world = World { alpha: 0.5, c: 0.1, row: 0.0 };
    for round in 0..400 {
        // Confident tokens are always kept, others once in ten rounds.
        let sure = 1 + round % 3;
        let draft = confident(&[&vec![0.9; sure][..], &[0.3]].concat());
        let kept = sure + usize::from(round % 10 == 0);
        observe(&mut *policy, &draft, kept, world.times(sure + 1));
    }
    let mut continues = |probs: &[f64]| policy.go_deeper(&confident(probs));
    assert!(continues(&[]) && continues(&[0.9]) && continues(&[0.9; 5]));
    assert!(!continues(&[0.3]) && !continues(&[0.9, 0.9, 0.3]) && !continues(&[0.3, 0.9]));
    assert!(!continues(&[0.9; 8]), "no more than K");
}

#[test]
fn optimal_stopping_always_drafts_at_least_one_token() {
    let mut policy = policy("optimal_stopping", 8, &[]);
    let world = World { alpha: 0.0, c: 1.0, row: 0.5 };
    // Nothing is kept and everything is expensive, but it takes two rounds to learn that.
    for observed in 0..6 {
        assert!(policy.go_deeper(&confident(&[])), "{observed} rounds");
        assert_eq!(policy.go_deeper(&confident(&[1.0])), observed < 2, "{observed} rounds");
        let n = 1 + observed % 2;
        observe(&mut *policy, &confident(&vec![1.0; n]), 0, world.times(n));
    }
}

#[test]
fn a_row_costs_its_share_of_a_pass_if_all_drafts_are_equal() {
    let mut policy = policy("optimal_stopping", 8, &[]);
    let world = World { alpha: 0.0, c: 0.01, row: 0.0 };
    let draft = confident(&[1.0, 0.3, 0.3]);
    (0..2).for_each(|_| observe(&mut *policy, &draft, 1, world.times(3)));
    // A round yields 2 tokens in 1.03 s. One more drafted token costs 0.01 s and a row, which
    // is 1 s / 4: as much as 0.50 tokens. With the prior, the most confident class was kept
    // 3.4 of 4 times and all classes 9 of 14 times; the product is 0.55.
    assert!(policy.go_deeper(&confident(&[1.0])));
}

//! Pairwise selection: few cells that cover all pairs of factors.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// A small subset of `cells` that contains every pair of factors in `cells`. Greedily takes the
/// cell with the most new pairs; among equals, the one with the most outcomes.
pub(super) fn pairwise<C: Clone>(
    cells: &[C],
    outcomes: fn(&C) -> usize,
    factors: fn(&C) -> Vec<String>,
) -> Vec<C> {
    let mut numbers = BTreeMap::new();
    let mut pairs_of = |cell: &C| {
        let factors = factors(cell).into_iter().enumerate();
        let numbered = factors.map(|factor| {
            let next = numbers.len();
            *numbers.entry(factor).or_insert(next)
        });
        pairs(&numbered.collect::<Vec<_>>())
    };
    let pairs = cells.iter().map(&mut pairs_of).collect::<Vec<_>>();
    let mut open = pairs.iter().flatten().copied().collect::<HashSet<_>>();
    // A cell never gains pairs, so its former count is an upper bound, and most cells need no
    // recount.
    let mut bounds = pairs.iter().map(Vec::len).collect::<Vec<_>>();
    let mut order = (0..cells.len()).collect::<Vec<_>>();
    order.sort_by_cached_key(|&i| (Reverse(outcomes(&cells[i])), Reverse(i)));
    let mut chosen = Vec::new();
    while !open.is_empty() {
        let mut best = (0, 0);
        for &i in &order {
            if bounds[i] > best.0 {
                bounds[i] = pairs[i].iter().filter(|pair| open.contains(*pair)).count();
                if bounds[i] > best.0 {
                    best = (bounds[i], i);
                }
            }
        }
        for pair in &pairs[best.1] {
            open.remove(pair);
        }
        chosen.push(best.1);
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|i| cells[i].clone()).collect()
}

fn pairs(numbers: &[usize]) -> Vec<(usize, usize)> {
    let rest = |i| numbers[i + 1..].iter().map(move |&b| (numbers[i], b));
    (0..numbers.len()).flat_map(rest).collect()
}

//! The tree shape with the largest expected number of accepted tokens, for every size.
//!
//! Let `P_r` be the probability that the r-th sibling is kept, given that its parent
//! is. A tree then yields `F = Σ over nodes of the product of P_rank on the path`
//! accepted tokens in expectation. For non-increasing P, the best tree of n nodes
//! consists of the nodes with the n largest products, which a best-first search finds
//! (Chen et al. 2024, Sequoia, arXiv 2402.12374, Sec. 3.1, use dynamic programming).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A node of a planned tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Planned {
    /// The parent; `None` for the context.
    pub parent: Option<usize>,
    /// Distance from the context.
    pub depth: usize,
    /// The probability that it is kept.
    pub value: f64,
}

/// A candidate for the next node; the largest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    /// The bits of its value, which have the order of the values, since none is negative.
    value: u64,
    /// Order of creation: among equal values the oldest candidate comes first.
    age: Reverse<usize>,
    parent: Option<usize>,
    rank: usize,
    depth: usize,
}

/// The best tree of at most `nodes` nodes and depth `depth`, nodes with the largest
/// values first: its first n nodes are the best tree of n nodes.
pub(super) fn best_tree(by_rank: &[f64], nodes: usize, depth: usize) -> Vec<Planned> {
    let mut heap = BinaryHeap::new();
    let mut age = 0;
    let mut open = |heap: &mut BinaryHeap<Open>, parent, rank: usize, level, base: f64| {
        if let Some(p) = by_rank.get(rank).filter(|&&p| p > 0.0 && level <= depth) {
            age += 1;
            let (value, age) = ((base * p).to_bits(), Reverse(age));
            heap.push(Open { value, age, parent, rank, depth: level });
        }
    };
    let mut tree = Vec::<Planned>::new();
    open(&mut heap, None, 0, 1, 1.0);
    while tree.len() < nodes {
        let Some(best) = heap.pop() else { break };
        let id = tree.len();
        let value = f64::from_bits(best.value);
        tree.push(Planned { parent: best.parent, depth: best.depth, value });
        let base = best.parent.map_or(1.0, |parent| tree[parent].value);
        open(&mut heap, best.parent, best.rank + 1, best.depth, base);
        open(&mut heap, Some(id), 0, best.depth + 1, value);
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest expected number of accepted tokens with `nodes` nodes below a node,
    /// by trying every way to distribute them among the ranks.
    fn best_by_sharing(by_rank: &[f64], rank: usize, nodes: usize, depth: usize) -> f64 {
        if rank == by_rank.len() || nodes == 0 || depth == 0 {
            return 0.0;
        }
        let with = |k: usize| {
            let child = by_rank[rank] * (1.0 + best_by_sharing(by_rank, 0, k - 1, depth - 1));
            child + best_by_sharing(by_rank, rank + 1, nodes - k, depth)
        };
        (1..=nodes).map(with).fold(0.0, f64::max)
    }

    #[test]
    fn ties_between_nodes_go_to_the_older_one() {
        let parents = |by_rank: &[f64], depth| {
            best_tree(by_rank, 12, depth).into_iter().map(|node| node.parent).collect::<Vec<_>>()
        };
        let levels = [0, 1, 0, 1, 2, 3, 4, 5, 2, 3].map(Some);
        assert_eq!(parents(&[0.5, 0.5], 9), [&[None, None], &levels[..]].concat());
        // A sibling that is never kept is not proposed.
        assert_eq!(parents(&[0.5, 0.0], 2), [None, Some(0)]);
    }

    #[test]
    fn best_first_growth_matches_the_brute_force_optimum() {
        for by_rank in [&[0.6, 0.2, 0.1][..], &[0.9, 0.05], &[0.5, 0.5], &[0.3, 0.3, 0.3, 0.1]] {
            for nodes in 0..9 {
                for depth in 1..5 {
                    let tree = best_tree(by_rank, nodes, depth);
                    let value = tree.iter().map(|node| node.value).sum::<f64>();
                    let best = best_by_sharing(by_rank, 0, nodes, depth);
                    // Sums of at most 8 products of at most 5 factors.
                    assert!((value - best).abs() < 1e-14, "{by_rank:?} {nodes} {depth}");
                }
            }
        }
    }
}

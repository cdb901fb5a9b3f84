//! Sparse feed-forward blocks: of many experts, a router chooses a few for every row (Shazeer et
//! al. 2017, arXiv 1701.06538).

use std::cmp::Ordering;

/// The experts of a layer whose feed-forward block is sparse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Experts {
    /// Number of experts.
    pub count: usize,
    /// Number of experts that a row uses, at most all.
    pub used: usize,
    /// Width of an expert.
    pub intermediate: usize,
    /// Whether the weights of the experts of a row sum to one; otherwise all experts' do.
    pub normalised: bool,
}

/// An expert of a row, and how much its output counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Choice {
    pub expert: u32,
    pub weight: f32,
}

impl Experts {
    /// The experts of a row, ascending, by the router's logits. The largest logits win, and of
    /// equal ones those of the first experts. `exp` replaces numbers by their exponentials.
    pub(crate) fn choose(&self, logits: &[f32], exp: impl FnOnce(&mut [f32])) -> Vec<Choice> {
        let mut order = (0..logits.len()).collect::<Vec<_>>();
        if self.used < order.len() {
            let falling = |&a: &usize, &b: &usize| order_of(logits, a, b);
            order.select_nth_unstable_by(self.used, falling);
            order.truncate(self.used);
        }
        order.sort_unstable();
        let largest = order.iter().map(|&expert| logits[expert]).fold(f32::MIN, f32::max);
        let mut shares = if self.normalised {
            order.iter().map(|&expert| logits[expert] - largest).collect::<Vec<_>>()
        } else {
            logits.iter().map(|logit| logit - largest).collect()
        };
        exp(&mut shares);
        let total = shares.iter().sum::<f32>();
        let weight = |(place, expert): (usize, usize)| {
            let share = shares[if self.normalised { place } else { expert }];
            Choice { expert: expert as u32, weight: share / total }
        };
        order.into_iter().enumerate().map(weight).collect()
    }
}

/// Larger logits come first; NaN, which ends in an error, before all of them.
fn order_of(logits: &[f32], a: usize, b: usize) -> Ordering {
    // Zeros of both signs are equal.
    let [x, y] = [a, b].map(|expert| logits[expert] + 0.0);
    y.total_cmp(&x).then(a.cmp(&b))
}

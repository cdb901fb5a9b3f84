//! Bets against exactness.
//!
//! If x was drawn from p, b(x)/p(x) has mean at most 1 for every distribution b that depends on the
//! past alone. So Π (1 + λ (b/p − 1)) with λ in [0, 1] is a non-negative supermartingale: it ever
//! exceeds c with probability at most 1/c (Ville 1939; Waudby-Smith and Ramdas 2024, arXiv
//! 2010.09686). If x was drawn from (1 − λ) p + λ b, the inverse of the product is such a
//! supermartingale, which gives an upper bound on λ.

/// Number of strengths that a bet is split over.
pub(super) const STRENGTHS: usize = 28;

/// Strength number `at`: a share of the bug in an otherwise exact decoder, from 1 down, three per
/// octave.
pub(super) fn strength(at: usize) -> f64 {
    f64::powf(2.0, -(at as f64) / 3.0)
}

/// The wealth of a bet on one bug.
#[derive(Debug, Clone, Default)]
pub struct Wealth {
    logs: [f64; STRENGTHS],
    least: [f64; STRENGTHS],
    /// The logarithm of the largest wealth so far of a bet that is split over all strengths.
    best: f64,
}

impl Wealth {
    /// Bets on a token, where `ratio` is b/p.
    pub fn bet(&mut self, ratio: f64) {
        for (at, (log, least)) in self.logs.iter_mut().zip(&mut self.least).enumerate() {
            *log += (strength(at) * (ratio - 1.0)).ln_1p();
            *least = least.min(*log);
        }
        self.best = self.best.max(self.log());
    }

    /// The logarithm of the wealth of a bet that is split over all strengths.
    pub fn log(&self) -> f64 {
        log_mean_exp(&self.logs)
    }

    /// The logarithm of its largest wealth so far.
    pub fn best(&self) -> f64 {
        self.best
    }

    /// The share of the bug under which the tokens are most probable; 0 if exactness explains them
    /// best.
    pub fn strength(&self) -> f64 {
        let best = self.logs.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.filter(|(_, log)| **log > 0.0).map_or(0.0, |(at, _)| strength(at))
    }

    /// The smallest share that the tokens refute at a level, together with all larger ones; `None`
    /// if they refute none.
    pub fn bound(&self, level: f64) -> Option<f64> {
        let refuted = self.least.iter().take_while(|least| -**least >= (1.0 / level).ln()).count();
        refuted.checked_sub(1).map(strength)
    }
}

pub(super) fn log10(natural: f64) -> f64 {
    natural / std::f64::consts::LN_10
}

/// log of the mean of e^x.
pub fn log_mean_exp(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY || logs.is_empty() {
        return f64::NEG_INFINITY;
    }
    let sum = logs.iter().map(|log| (log - most).exp()).sum::<f64>();
    most + (sum / logs.len() as f64).ln()
}

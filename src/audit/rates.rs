//! Whether impossible tokens are more frequent than in completions without speculation.
//!
//! Rounding differences cause some: at temperature 0 the second-best token (an argmax flip), else
//! one just outside the support. One flip may cause others, since a loop repeats its tie. So each
//! completion counts up to its first impossible token. Let m be the probability of these events if
//! each is predicted from those before, and L that at a constant rate θ; m₀, L₀ and θ₀ are those
//! without speculation. m m₀ / L L₀ is a non-negative martingale at the true rates. Dividing by the
//! largest L L₀ with θ ≤ θ₀ makes it smaller, so it ever exceeds c with probability at most 1/c
//! (Wasserman, Ramdas and Balakrishnan 2020, arXiv 1912.11436). If rates differ between independent
//! tokens, a given number of them has less spread counts than at the mean rate (Hoeffding 1956), so
//! the mean of the e-value, a convex function of the count, is smaller.

use super::impossible::ImpossibleToken;
use super::tokens::TokenAudit;
use super::wealth::log_mean_exp;

/// The gaps beyond which tokens count as impossible: the stated one, four times as much, and so on.
const GAPS: i32 = 7;

/// The logarithm of the e-value against impossible tokens that are no more frequent than without
/// speculation. The stake is split over several gaps, because rounding may reverse larger ones than
/// the stated `tie`.
pub(super) fn log_excess(own: &TokenAudit, plain: &TokenAudit, tie: f64) -> f64 {
    let gaps = (0..GAPS).map(|step| tie * 4_f64.powi(step));
    let logs = gaps.map(|gap| {
        let [own, plain] = [own, plain].map(|audit| FirstImpossible::of(audit, gap));
        log_more_frequent(own, plain)
    });
    log_mean_exp(&logs.collect::<Vec<_>>())
}

/// The gap that two completions without speculation reach, so that it is no single mistake; at
/// least the stated one.
pub(super) fn shown_tie(plain: &TokenAudit, tie: f64) -> f64 {
    let finite = plain.impossible.iter().filter(|token| token.gap.is_finite());
    let mut largest = finite
        .collect::<Vec<_>>()
        .chunk_by(|a, b| a.sequence == b.sequence)
        .map(|tokens| tokens.iter().map(|token| token.gap).fold(0.0, f64::max))
        .collect::<Vec<_>>();
    largest.sort_by(|a, b| b.total_cmp(a));
    largest.get(1).map_or(tie, |gap| gap.max(tie))
}

/// The tokens of completions up to their first impossible ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FirstImpossible {
    /// How many completions have an impossible token.
    events: usize,
    tokens: usize,
}

impl FirstImpossible {
    /// Those of an audit. Tokens with a larger gap than this one are impossible.
    fn of(audit: &TokenAudit, gap: f64) -> Self {
        let wide = audit.impossible.iter().filter(|token| token.gap > gap);
        let wide = wide.collect::<Vec<_>>();
        let firsts = wide.chunk_by(|a, b| a.sequence == b.sequence).map(|tokens| tokens[0]);
        // A sequence that is still being read ends with its last token.
        let behind = |first: &ImpossibleToken| {
            audit.lengths.get(first.sequence).map_or(0, |length| length - first.at - 1)
        };
        let behind = firsts.map(behind).collect::<Vec<_>>();
        Self { events: behind.len(), tokens: audit.tokens - behind.iter().sum::<usize>() }
    }

    fn rate(self) -> f64 {
        self.events as f64 / self.tokens.max(1) as f64
    }

    /// The logarithm of the probability of these events if each token is one with probability
    /// `rate`.
    fn log_probability(self, rate: f64) -> f64 {
        let of = |count: usize, rate: f64| if count > 0 { count as f64 * rate.ln() } else { 0.0 };
        of(self.events, rate) + of(self.tokens - self.events, 1.0 - rate)
    }

    /// The logarithm of the probability of these events if each is predicted from those before: of
    /// n tokens, e of them events, the next one is an event with probability (e + 0.1)/(n + 0.6).
    /// This is the mixture over all rates by Beta(0.1, 0.5), which prefers small ones.
    fn log_predicted(self) -> f64 {
        let rising =
            |from: f64, steps: usize| (0..steps).map(|step| (from + step as f64).ln()).sum::<f64>();
        rising(0.1, self.events) + rising(0.5, self.tokens - self.events) - rising(0.6, self.tokens)
    }
}

/// The logarithm of the e-value against events that are no more frequent than in `plain`.
fn log_more_frequent(own: FirstImpossible, plain: FirstImpossible) -> f64 {
    let both =
        FirstImpossible { events: own.events + plain.events, tokens: own.tokens + plain.tokens };
    let most = if own.rate() > plain.rate() {
        both.log_probability(both.rate())
    } else {
        own.log_probability(own.rate()) + plain.log_probability(plain.rate())
    };
    own.log_predicted() + plain.log_predicted() - most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean over all completions is at most 1 at every pair of rates that is to be refuted.
    /// Catches: events are predicted from those to come; equal rates are the only ones that count
    /// as exact; the likelihood is that of one arm.
    #[test]
    fn a_rate_that_is_not_larger_wins_nothing() {
        const TOKENS: usize = 12;
        let choose =
            |n: usize, k: usize| (0..k).fold(1.0, |all, i| all * (n - i) as f64 / (i + 1) as f64);
        let each = |rate: f64| {
            (0..=TOKENS).map(move |events| {
                let arm = FirstImpossible { events, tokens: TOKENS };
                (arm, choose(TOKENS, events) * arm.log_probability(rate).exp())
            })
        };
        let rates = [0.001, 0.02, 0.1, 0.5, 0.97];
        for (at, &rate) in rates.iter().enumerate() {
            for &plain_rate in &rates[at..] {
                let pairs =
                    each(rate).flat_map(|own| each(plain_rate).map(move |plain| (own, plain)));
                let mean =
                    pairs.map(|((own, p), (plain, q))| p * q * log_more_frequent(own, plain).exp());
                let mean = mean.sum::<f64>();
                assert!(mean <= 1.0, "{rate} and {plain_rate}: {mean}");
            }
        }
    }

    /// Catches: a sequence of predictions that are not probabilities.
    #[test]
    fn predictions_are_probabilities() {
        for (events, tokens) in [(0, 0), (0, 9), (3, 9), (9, 9)] {
            let now = FirstImpossible { events, tokens };
            let next = [0, 1].map(|event| {
                FirstImpossible { events: events + event, tokens: tokens + 1 }.log_predicted().exp()
            });
            assert!((next[0] + next[1] - now.log_predicted().exp()).abs() < 1e-15);
        }
    }

    /// Completions of a draft against plain ones of which one has an impossible token.
    /// Catches: events without any in the plain completions win nothing; an excess that goes the
    /// other way wins.
    #[test]
    fn a_larger_rate_wins() {
        let arm = |events, tokens| FirstImpossible { events, tokens };
        assert!(log_more_frequent(arm(12, 120), arm(1, 750)) > 1e4_f64.ln());
        assert!(log_more_frequent(arm(12, 700), arm(0, 768)) > 100_f64.ln());
        assert!(log_more_frequent(arm(1, 700), arm(0, 768)) < 3_f64.ln());
        assert!(log_more_frequent(arm(1, 750), arm(12, 120)) < 0.0);
        assert!(log_more_frequent(arm(12, 120), arm(12, 120)) < 0.0);
    }
}

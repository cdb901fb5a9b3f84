//! Whether the probabilities of a tape can belong to its tokens.

use std::fmt;

use serde::Serialize;

use crate::tapes::tape::Tape;

/// Evidence against the probabilities of a drafter or of the target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForecastDoubt {
    /// Index of the drafter on the tape.
    pub drafter: usize,
    /// Index of the sampling setting on the tape.
    pub sampling: usize,
    /// The mean of q/p over all tokens.
    pub mean: f64,
    /// log₁₀ of the wealth of bets on a mean above 1.
    pub log10_wealth: f64,
}

/// The bets: shares of the wealth that are staked on every token.
const STAKES: [f64; 3] = [0.01, 0.05, 0.2];
/// log₁₀ of the wealth that correct probabilities reach in at most one of a million tapes (Ville's
/// inequality).
const LOG10_LIMIT: f64 = 6.0;

/// Drafters whose q/p is too large. If a token was drawn from p, q/p has mean at most 1 given the
/// past, so bets on a larger mean lose on average. Permuted or foreign probabilities win them.
pub fn doubts(tape: &Tape) -> Vec<ForecastDoubt> {
    let of = |(drafter, sampling): (usize, usize)| {
        let (mut wealth, mut sum, mut tokens) = ([0.0; STAKES.len()], 0.0, 0.0);
        let sequences =
            tape.sequences.iter().enumerate().filter(|(_, sequence)| sequence.sampling == sampling);
        for (number, sequence) in sequences {
            let score = tape.score(drafter, number);
            let log_q = score.and_then(|score| score.log_q.as_ref());
            for (q, p) in log_q.into_iter().flatten().zip(sequence.log_p.iter().flatten()) {
                let ratio = (q - p).exp();
                sum += ratio;
                tokens += 1.0;
                let bets = wealth.iter_mut().zip(STAKES);
                for (wealth, stake) in bets {
                    *wealth += (stake * (ratio - 1.0)).ln_1p();
                }
            }
        }
        let best = wealth.into_iter().fold(f64::NEG_INFINITY, f64::max);
        // The mean of the wealths is at least the largest divided by their number.
        let log10_wealth = (best - (STAKES.len() as f64).ln()) / std::f64::consts::LN_10;
        ForecastDoubt { drafter, sampling, mean: sum / tokens, log10_wealth }
    };
    let samplings = 0..tape.header.samplings.len();
    let each = |drafter| samplings.clone().map(move |sampling| (drafter, sampling));
    let all = (0..tape.drafters.len()).flat_map(each).map(of);
    // NaN means that there was nothing to bet on.
    all.filter(|doubt| doubt.log10_wealth > LOG10_LIMIT).collect()
}

impl fmt::Display for ForecastDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "q/p has mean {:.2}, but at most 1 is possible if the completions were drawn from p \
             (bets on it won 10^{:.0} times their stake): log p or log q belong to other tokens, \
             other sampling settings or another model",
            self.mean, self.log10_wealth
        )
    }
}

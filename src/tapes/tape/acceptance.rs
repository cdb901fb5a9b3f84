//! How far drafts survive, given the completion.

use crate::core::distribution::{Dist, Token};

/// The acceptance rule of a verifier, for chains whose tokens are drawn from q. R_i is the
/// probability that at least i tokens survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcceptanceRule {
    /// Rejection sampling, token by token (Leviathan et al. 2022, arXiv 2211.17192, algorithm
    /// 1): R_i = Π min(1, q/p).
    Token,
    /// Block verification (Sun et al. 2024, arXiv 2403.10444, algorithm 2): R_i = min(R_{i−1},
    /// Π q/p). Of all exact rules for one chain, none accepts more in a round.
    Block,
    /// Draws a token from the target and compares it with the drafted one: R_i = Π q.
    Match,
    /// Target and draft race with the same position-keyed noise (Daliri et al. 2024, arXiv
    /// 2408.07978, one list): R_i = Π 1 / Σ_y max(p(y), q(y)·p(x)/q(x)).
    Race,
}

/// The odds of a token of the completion, which a draft may propose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenOdds {
    /// q(x): the probability that a draft continues with it.
    pub q: f64,
    /// q(x) / p(x).
    pub ratio: f64,
    /// The probability that the draft's race, too, picks x, given that the target's did; none if
    /// unknown.
    pub race: Option<f64>,
}

impl TokenOdds {
    /// The odds of a token, from the distributions at its position.
    pub(crate) fn at(p: &Dist, q: &Dist, token: Token) -> Self {
        let (own, other) = (p.p(token), q.p(token));
        let ratio = if own > 0.0 { other / own } else { 0.0 };
        Self { q: other, ratio, race: Some(race_won(p, q, token)) }
    }

    /// The odds of a token, from the logarithms of its probabilities.
    pub(crate) fn of_logs(log_p: f64, log_q: f64) -> Self {
        // The target cannot draw such a token. If a completion has one all the same, no draft of it
        // is accepted.
        let ratio = if log_p > f64::NEG_INFINITY { (log_q - log_p).exp() } else { 0.0 };
        Self { q: log_q.exp(), ratio, race: None }
    }
}

/// How far a probability may exceed 1, since other programs take logarithms in f32.
pub(super) const ROUNDING: f64 = 1e-5;

/// Whether a number may be a probability that was rounded.
pub(super) fn is_probability(p: f64) -> bool {
    (0.0..=1.0 + ROUNDING).contains(&p)
}

/// The probability that the draft's race picks x, given that the target's did:
/// 1 / Σ_y max(p(y), q(y)·p(x)/q(x)).
///
/// With exponential noise E, p picks x if E(x)·p(y)/p(x) < E(y) for all other y. Both pick x with
/// probability 1 / Σ_y max(p(y)/p(x), q(y)/q(x)), and p picks it with probability p(x).
pub(super) fn race_won(p: &Dist, q: &Dist, token: Token) -> f64 {
    let (own, other) = (p.p(token), q.p(token));
    if own == 0.0 || other == 0.0 {
        return 0.0;
    }
    let sum = p.zip(q, |p, q| p.max(q * own / other)).into_iter().sum::<f64>();
    (1.0 / sum).min(1.0)
}

impl AcceptanceRule {
    /// All rules.
    pub const ALL: [Self; 4] = [Self::Token, Self::Block, Self::Match, Self::Race];

    /// The registered verifier that decides by this rule on a chain.
    pub fn verifier(self) -> &'static str {
        match self {
            Self::Token => "rejection",
            Self::Block => "traversal",
            Self::Match => "token_match",
            Self::Race => "gumbel",
        }
    }

    /// R_1, …, R_n: the probabilities that at least 1, …, n tokens of a draft survive. `tokens` are
    /// those of the completion from the first drafted one on.
    pub fn survival(
        self,
        tokens: impl IntoIterator<Item = TokenOdds>,
    ) -> impl Iterator<Item = f64> {
        let (mut survival, mut product) = (1.0f64, 1.0);
        tokens.into_iter().map(move |TokenOdds { q, ratio, race }| {
            product *= ratio;
            survival = match self {
                Self::Token => survival * ratio.min(1.0),
                Self::Block => survival.min(product),
                Self::Match => survival * q,
                Self::Race => survival * race.unwrap_or(0.0),
            };
            survival
        })
    }
}

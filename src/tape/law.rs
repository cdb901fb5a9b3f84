//! How far drafts survive, given the text.

use crate::distribution::{Dist, Token};

/// A rule for chains whose tokens are drawn from q.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChainLaw {
    /// Rejection sampling, token by token (Leviathan et al. 2022, arXiv 2211.17192, algorithm
    /// 1): R_i = Π min(1, q/p).
    Token,
    /// Block verification (Sun et al. 2024, arXiv 2403.10444, algorithm 2): R_i = min(R_{i−1},
    /// Π q/p). Of all exact rules for one chain, none accepts more in a round.
    Block,
    /// A token of the target's is drawn and compared with the drafted one: R_i = Π q.
    Match,
    /// Target and draft race with the same position-keyed noise (Daliri et al. 2024, arXiv
    /// 2408.07978, one list): R_i = Π 1 / Σ_y max(p(y), q(y)·p(x)/q(x)).
    Race,
}

/// A token of the text, as a draft sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenOdds {
    /// q(x): the probability that a draft continues with it.
    pub q: f64,
    /// q(x) / p(x).
    pub ratio: f64,
    /// The probability that q wins x, too, in a race that p has won with it; none if that is
    /// not known.
    pub race: Option<f64>,
}

impl TokenOdds {
    /// Those of a token, from the laws at its place.
    pub(crate) fn at(p: &Dist, q: &Dist, token: Token) -> Self {
        let (own, other) = (p.p(token), q.p(token));
        let ratio = if own > 0.0 { other / own } else { 0.0 };
        Self { q: other, ratio, race: Some(race_won(p, q, token)) }
    }
}

/// The probability that q wins x in a race that p has won with it: 1 / Σ_y max(p(y), q(y)·p(x)/q(x)).
///
/// With exponential noise E, p wins x if E(x)·p(y)/p(x) < E(y) for all other y. Both win it with
/// probability 1 / Σ_y max(p(y)/p(x), q(y)/q(x)); that p does has probability p(x).
pub(super) fn race_won(p: &Dist, q: &Dist, token: Token) -> f64 {
    let (own, other) = (p.p(token), q.p(token));
    if own == 0.0 || other == 0.0 {
        return 0.0;
    }
    let sum = p.zip(q, |p, q| p.max(q * own / other)).into_iter().sum::<f64>();
    (1.0 / sum).min(1.0)
}

impl ChainLaw {
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

    /// R_1, …, R_n: the probabilities that at least so many tokens of a draft survive; `tokens`
    /// are those of the text from the first drafted one on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_verification_makes_up_for_a_bad_token_with_good_ones_before() {
        let survival = |law: ChainLaw, ratios: &[f64]| {
            let odds = ratios.iter().map(|&ratio| TokenOdds { q: ratio / 8.0, ratio, race: None });
            law.survival(odds).collect::<Vec<_>>()
        };
        let ratios = [2.0, 0.25, 4.0, 0.5];
        assert_eq!(survival(ChainLaw::Token, &ratios), [1.0, 0.25, 0.25, 0.125]);
        assert_eq!(survival(ChainLaw::Block, &ratios), [1.0, 0.5, 0.5, 0.5]);
        assert_eq!(survival(ChainLaw::Match, &ratios[..2]), [0.25, 0.0078125]);
        for law in ChainLaw::ALL {
            assert_eq!(survival(law, &[0.0, 3.0]), [0.0, 0.0]);
        }
    }
}

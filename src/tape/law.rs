//! How far drafts survive, given the text.

/// A rule for chains whose tokens are drawn from q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainLaw {
    /// Rejection sampling, token by token (Leviathan et al. 2022, arXiv 2211.17192, algorithm
    /// 1).
    Token,
    /// Block verification (Sun et al. 2024, arXiv 2403.10444, algorithm 2): of all exact rules
    /// for one chain, none accepts more in a round.
    Block,
}

impl ChainLaw {
    /// R_1, …, R_n: the probabilities that at least so many tokens of a draft survive, from the
    /// q/p of the text's tokens from the first drafted one on.
    pub fn survival(self, ratios: &[f64]) -> Vec<f64> {
        let (mut survival, mut product) = (1.0f64, 1.0);
        let next = |&ratio: &f64| {
            product *= ratio;
            survival = match self {
                Self::Token => survival * ratio.min(1.0),
                Self::Block => survival.min(product),
            };
            survival
        };
        ratios.iter().map(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_verification_makes_up_for_a_bad_token_with_good_ones_before() {
        let ratios = [2.0, 0.25, 4.0, 0.5];
        assert_eq!(ChainLaw::Token.survival(&ratios), [1.0, 0.25, 0.25, 0.125]);
        assert_eq!(ChainLaw::Block.survival(&ratios), [1.0, 0.5, 0.5, 0.5]);
        assert_eq!(ChainLaw::Token.survival(&[0.0, 3.0]), [0.0, 0.0]);
        assert_eq!(ChainLaw::Block.survival(&[0.0, 3.0]), [0.0, 0.0]);
    }
}

//! The exact joint distribution of two tokens of a model with a large vocabulary: in bins, by one
//! plain pass per first token.
//!
//! If at most [`BINS`] tokens are possible in a context, each has its own bin. Otherwise tokens are
//! sorted by p/q, the target's probability over the draft's, and divided into bins of about equal
//! p. Mistakes of acceptance or of the residual move mass along p/q, and so between bins. Bins
//! depend on the models alone, not on sampled completions.

use super::joint::JointDistribution;
use super::reading::Reading;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;

/// Number of bins of a token.
const BINS: usize = 8;

/// The bin of each token of the vocabulary; none for impossible tokens.
type Bins = Vec<Option<u8>>;

/// The joint distribution of the bins of two tokens, and the bins.
#[derive(Debug)]
pub(super) struct TwoTokens {
    pub(super) dist: JointDistribution,
    first: Bins,
    /// By the first token; empty if that is impossible.
    second: Vec<Bins>,
}

impl TwoTokens {
    /// The distribution from the target's logits. The draft model's logits only determine the order
    /// of the tokens.
    pub(super) fn of(target: &mut Reading<'_>, draft: &mut Reading<'_>) -> Result<Self, Error> {
        let mut after = |completion: &[Token]| {
            let p = target.distribution(completion)?;
            let bins = bins(&p, &draft.distribution(completion)?);
            Ok::<_, Error>((p, bins))
        };
        let (p, first) = after(&[])?;
        let (mut dist, mut second) = (JointDistribution::new(), vec![Bins::new(); p.vocab()]);
        for (x, p) in p.support() {
            let (next, bins) = after(&[x])?;
            for (y, p_next) in next.support() {
                let pair = [first[x as usize], bins[y as usize]];
                *dist.entry(pair.map(number).to_vec()).or_insert(0.0) += p * p_next;
            }
            second[x as usize] = bins;
        }
        Ok(Self { dist, first, second })
    }

    /// The bins of the first two tokens of a completion.
    pub(super) fn bins(&self, completion: &[Token]) -> Vec<Token> {
        let (x, y) = (completion[0] as usize, completion[1] as usize);
        [self.first[x], self.second[x].get(y).copied().flatten()].map(number).to_vec()
    }
}

/// The bin as a token id. Impossible tokens share a separate id.
fn number(bin: Option<u8>) -> Token {
    bin.map_or(Token::MAX, Token::from)
}

fn bins(p: &Dist, q: &Dist) -> Bins {
    let mut tokens = p.support().collect::<Vec<_>>();
    let own_bins = tokens.len() <= BINS;
    tokens.sort_by(|a, b| (a.1 * q.p(b.0)).total_cmp(&(b.1 * q.p(a.0))));
    let (mut bins, mut before) = (vec![None; p.vocab()], 0.0);
    for (place, (token, p)) in tokens.into_iter().enumerate() {
        let bin = if own_bins { place } else { (before * BINS as f64) as usize };
        bins[token as usize] = Some(bin.min(BINS - 1) as u8);
        before += p;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_tokens_get_a_bin_each_and_many_share_bins_of_equal_mass() {
        let few = Dist::from_probs(vec![0.5, 0.0, 0.25, 0.25]).unwrap();
        let other = Dist::from_probs(vec![0.25, 0.25, 0.25, 0.25]).unwrap();
        // By p/q: 1, 1 and 2; ties stay in order.
        assert_eq!(bins(&few, &other), [Some(2), None, Some(0), Some(1)]);
        let many = Dist::from_weights(vec![1.0; 64]).unwrap();
        let rising = Dist::from_weights((1..=64).map(f64::from).collect()).unwrap();
        let bins = bins(&many, &rising);
        for bin in 0..BINS as u8 {
            assert_eq!(bins.iter().filter(|b| **b == Some(bin)).count(), 8);
        }
        // The draft gives the last tokens the largest q, so they have the smallest p/q.
        assert_eq!((bins[63], bins[0]), (Some(0), Some(7)));
    }
}

//! Probability distributions over the vocabulary.
//!
//! A [`Dist`] is checked once, on construction, and is then known to be finite, non-negative and
//! normalised. Its storage is private: weights of all tokens, in f64 for toy models and in f32 for
//! real ones, or a short list of `(token, probability)` pairs after truncation. All sums are taken
//! in f64, in a fixed order.

mod support;
mod weights;

use thiserror::Error;

use self::support::Support;
use self::weights::sum;
pub(crate) use self::weights::{BLOCK, Blocks, Number, TokenWeights};

/// A token id.
pub type Token = u32;

/// The largest deviation from 1 of a mass given in f64. 4096 rounding errors of 1.1e-16
/// stay below 5e-13, so a deviation above this tolerance is the caller's mistake.
const MASS_TOLERANCE: f64 = 1e-9;

/// Why a vector is not a probability distribution.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DistError {
    /// The vector has no entry.
    #[error("a probability distribution needs at least one token")]
    Empty,
    /// An entry is NaN or infinite.
    #[error("token {token} has the value {value}, which is not a finite number")]
    NotFinite {
        /// The first offending token.
        token: usize,
        /// Its value.
        value: f64,
    },
    /// A token is not one of the vocabulary.
    #[error("token {token} lies outside a vocabulary of {vocab}")]
    Outside {
        /// The first offending token.
        token: usize,
        /// Number of tokens.
        vocab: usize,
    },
    /// An entry is negative.
    #[error("token {token} has the negative probability {value}")]
    Negative {
        /// The first offending token.
        token: usize,
        /// Its value.
        value: f64,
    },
    /// The entries do not sum to one.
    #[error("the probabilities sum to {mass}, not to 1")]
    Mass {
        /// The sum that was found.
        mass: f64,
    },
    /// The entries are finite, but their sum is not.
    #[error("the weights are too large to be summed")]
    TooLarge,
    /// No token is possible: every logit is −inf, or every weight is zero.
    #[error("every logit is -inf: no token is possible")]
    NothingPossible,
    /// The controls of a request leave no token.
    #[error(
        "no token is left by grammar, allowed_token_ids, bad_words and min_tokens together: \
         allow more, or allow an end token"
    )]
    NothingAllowed,
    /// A grammar cannot be followed.
    #[error("the grammar cannot be followed any further: {0}")]
    Grammar(String),
}

/// A probability distribution over tokens `0..vocab`.
#[derive(Debug, Clone)]
pub struct Dist {
    vocab: usize,
    storage: Storage,
}

#[derive(Debug, Clone)]
pub(crate) enum Storage {
    Double(TokenWeights<f64>),
    Single(TokenWeights<f32>),
    /// Ascending token ids, positive probabilities.
    Sparse(Vec<(Token, f64)>),
}

impl Dist {
    /// A distribution from explicit probabilities.
    ///
    /// # Errors
    /// If an entry is negative or not finite, or the mass differs from one by
    /// more than 1e-9.
    pub fn from_probs(probs: Vec<f64>) -> Result<Self, DistError> {
        let weights = TokenWeights::new(probs)?;
        let mass = weights.mass();
        if (mass - 1.0).abs() > MASS_TOLERANCE {
            return Err(DistError::Mass { mass });
        }
        Ok(Self { vocab: weights.len(), storage: Storage::Double(weights.into_probs()) })
    }

    /// A distribution proportional to f64 weights.
    ///
    /// # Errors
    /// If a weight is negative or not finite, or all are zero.
    pub fn from_weights(weights: Vec<f64>) -> Result<Self, DistError> {
        Self::proportional(weights)
    }

    /// A distribution proportional to f32 weights, kept as they are; the normaliser is
    /// their sum in f64.
    ///
    /// # Errors
    /// If a weight is negative or not finite, or all are zero.
    pub fn from_weights_f32(weights: Vec<f32>) -> Result<Self, DistError> {
        Self::proportional(weights)
    }

    /// The distribution proportional to a measure, and the mass of the measure. `None`
    /// if the mass is zero, or if the weights are not a measure.
    pub fn from_measure(weights: Vec<f64>) -> Option<(Self, f64)> {
        let weights = TokenWeights::new(weights).ok()?;
        let mass = weights.mass();
        let dist = Self { vocab: weights.len(), storage: Storage::Double(weights) };
        (mass > 0.0).then_some((dist, mass))
    }

    /// The distribution proportional to weights that have been summed.
    pub(crate) fn from_weights_of<T: Number>(weights: TokenWeights<T>) -> Self {
        Self { vocab: weights.len(), storage: T::store(weights) }
    }

    fn proportional<T: Number>(weights: Vec<T>) -> Result<Self, DistError> {
        let weights = TokenWeights::new(weights)?;
        if weights.mass() <= 0.0 {
            return Err(DistError::NothingPossible);
        }
        Ok(Self::from_weights_of(weights))
    }

    /// A distribution proportional to the weights of a few tokens. The weights of a
    /// repeated token are added; all other tokens have probability zero.
    ///
    /// # Errors
    /// If a weight is negative or not finite, a token lies outside the
    /// vocabulary, or no weight is positive.
    pub fn sparse(vocab: usize, mut entries: Vec<(Token, f64)>) -> Result<Self, DistError> {
        entries.sort_by_key(|&(token, _)| token);
        for &(token, value) in &entries {
            let token = token as usize;
            if token >= vocab {
                return Err(DistError::Outside { token, vocab });
            }
            check_weight(token, value)?;
        }
        entries.dedup_by(|next, kept| {
            let twice = next.0 == kept.0;
            kept.1 += if twice { next.1 } else { 0.0 };
            twice
        });
        entries.retain(|&(_, w)| w != 0.0);
        let mass: f64 = entries.iter().map(|&(_, w)| w).sum();
        if !mass.is_finite() {
            return Err(DistError::TooLarge);
        }
        if mass <= 0.0 {
            return Err(DistError::NothingPossible);
        }
        for entry in &mut entries {
            entry.1 /= mass;
        }
        Ok(Self { vocab, storage: Storage::Sparse(entries) })
    }

    /// The distribution that always yields `token`.
    ///
    /// # Panics
    /// If `token` lies outside the vocabulary: an unchecked token id is a bug in the
    /// caller.
    pub fn one_hot(vocab: usize, token: Token) -> Self {
        assert!((token as usize) < vocab, "token {token} outside a vocabulary of {vocab}");
        Self { vocab, storage: Storage::Sparse(vec![(token, 1.0)]) }
    }

    /// Number of tokens the distribution ranges over.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Probability of `token`; zero outside the vocabulary.
    pub fn p(&self, token: Token) -> f64 {
        match &self.storage {
            Storage::Double(weights) => weights.p(token),
            Storage::Single(weights) => weights.p(token),
            Storage::Sparse(entries) => entries
                .binary_search_by_key(&token, |&(t, _)| t)
                .map_or(0.0, |found| entries[found].1),
        }
    }

    /// The tokens of positive probability with their probabilities, ascending.
    pub fn support(&self) -> impl Iterator<Item = (Token, f64)> + '_ {
        match &self.storage {
            Storage::Double(weights) => Support::Double(weights.support()),
            Storage::Single(weights) => Support::Single(weights.support()),
            Storage::Sparse(entries) => Support::Sparse(entries.iter().copied()),
        }
    }

    /// `value(p(x), q(x))` of every token, the basis of residuals and overlaps.
    pub fn zip(&self, q: &Dist, value: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        match (&self.storage, &q.storage) {
            (Storage::Double(p), Storage::Double(q)) => p.zip(q, value),
            (Storage::Single(p), Storage::Single(q)) => p.zip(q, value),
            _ => {
                let mut both = vec![(0.0, 0.0); self.vocab];
                for (t, p) in self.support() {
                    both[t as usize].0 = p;
                }
                for (t, q) in q.support() {
                    if let Some(pair) = both.get_mut(t as usize) {
                        pair.1 = q;
                    }
                }
                both.into_iter().map(|(p, q)| value(p, q)).collect()
            }
        }
    }

    /// `overlap(p, q) = Σ_x min(p(x), q(x)) = 1 − TV(p, q)`: the probability
    /// that a token drafted from `q` is kept by rejection sampling against `p`
    /// (Leviathan et al. 2023, arXiv 2211.17192, Cor. 3.6).
    pub fn overlap(&self, q: &Dist) -> f64 {
        if self.is_sparse() || q.is_sparse() {
            let (few, many) = if self.is_sparse() { (self, q) } else { (q, self) };
            return few.joined(many).map(|(_, p, q)| p.min(q)).sum();
        }
        sum(&self.zip(q, f64::min))
    }

    /// Total variation distance `½ Σ_x |p(x) − q(x)|`.
    pub fn total_variation(&self, q: &Dist) -> f64 {
        let vocab = self.vocab.max(q.vocab) as Token;
        0.5 * (0..vocab).map(|t| (self.p(t) - q.p(t)).abs()).sum::<f64>()
    }

    /// The distribution of the correction token after a rejection: `norm((p − q)⁺)`.
    /// `None` if the residual has no mass; in exact arithmetic this happens only for
    /// `p = q`, where nothing is ever rejected.
    pub fn residual(&self, q: &Dist) -> Option<Dist> {
        self.residual_of(q, 1.0)
    }

    /// As [`Self::residual`], with q multiplied by a factor.
    pub fn residual_of(&self, q: &Dist, factor: f64) -> Option<Dist> {
        let excess = |p: f64, q: f64| (p - factor * q).max(0.0);
        if self.is_sparse() {
            let entries = self.joined(q).map(|(t, p, q)| (t, excess(p, q)));
            return Self::sparse(self.vocab, entries.collect()).ok();
        }
        Self::from_weights(self.zip(q, excess)).ok()
    }

    /// Shannon entropy in nats.
    pub fn entropy(&self) -> f64 {
        -self.support().map(|(_, p)| p * p.ln()).sum::<f64>()
    }

    /// The most probable token; ties go to the lowest id.
    pub fn argmax(&self) -> Token {
        let mut best = (0, f64::NEG_INFINITY);
        for (t, p) in self.support() {
            if p > best.1 {
                best = (t, p);
            }
        }
        best.0
    }

    /// The most probable tokens, at most `count`, by descending probability; ties go to
    /// the lowest id.
    pub fn most_probable(&self, count: usize) -> Vec<Token> {
        let mut ranked = self.support().collect::<Vec<_>>();
        let order = |a: &(Token, f64), b: &(Token, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if count < ranked.len() {
            ranked.select_nth_unstable_by(count, order);
            ranked.truncate(count);
        }
        ranked.sort_unstable_by(order);
        ranked.into_iter().map(|(token, _)| token).collect()
    }

    /// The token whose interval of the cumulative distribution contains `u ∈ [0, 1)`.
    /// Tokens of probability zero are never returned.
    pub fn quantile(&self, u: f64) -> Token {
        let entries = match &self.storage {
            Storage::Double(weights) => return weights.quantile(u),
            Storage::Single(weights) => return weights.quantile(u),
            Storage::Sparse(entries) => entries,
        };
        let mut sum = 0.0;
        let found = entries.iter().find(|(_, p)| {
            sum += p;
            sum > u
        });
        // Rounding may leave the total at or just below u; then the last possible token
        // is the right one.
        found.or(entries.last()).map_or(0, |&(token, _)| token)
    }

    /// The tokens of positive probability with their probabilities here and in `q`,
    /// ascending.
    fn joined<'d>(&'d self, q: &'d Dist) -> impl Iterator<Item = (Token, f64, f64)> + 'd {
        let mut rest = match &q.storage {
            Storage::Sparse(entries) => entries.as_slice(),
            Storage::Double(_) | Storage::Single(_) => &[],
        };
        self.support().map(move |(token, p)| {
            if !q.is_sparse() {
                return (token, p, q.p(token));
            }
            // Both lists ascend, so one walk over the other finds all of its entries.
            let before = rest.iter().take_while(|&&(other, _)| other < token).count();
            rest = &rest[before..];
            let found = rest.first().filter(|&&(other, _)| other == token);
            (token, p, found.map_or(0.0, |&(_, q)| q))
        })
    }

    fn is_sparse(&self) -> bool {
        matches!(self.storage, Storage::Sparse(_))
    }
}

fn check_weight(token: usize, value: f64) -> Result<(), DistError> {
    if !value.is_finite() {
        return Err(DistError::NotFinite { token, value });
    }
    if value < 0.0 {
        return Err(DistError::Negative { token, value });
    }
    Ok(())
}

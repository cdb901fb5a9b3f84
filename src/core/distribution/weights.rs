//! Weights of all tokens, and the sums that a distribution over them needs.
//!
//! Sums are taken in f64, in blocks: sixteen lanes within a block, then block
//! after block. The order is fixed, so a distribution has the same bits on every
//! processor.

use super::{DistError, Storage, Token, check_weight};
use crate::core::lanes::{Isa, IsaKind, Kernel, LANES};

/// Number of tokens per block of sums. Drawing a token scans one block instead of the whole
/// vocabulary.
pub(crate) const BLOCK: usize = 256;

/// `p(x) = values[x] / norm`.
#[derive(Debug, Clone)]
pub(crate) struct TokenWeights<T> {
    values: Vec<T>,
    /// Sums of all weights up to the end of each block; the last is the mass.
    ends: Vec<f64>,
    norm: f64,
}

/// Weights block by block, with their sums.
#[derive(Debug)]
pub(crate) struct Blocks<T> {
    values: Vec<T>,
    ends: Vec<f64>,
}

/// The number type of stored weights.
pub(crate) trait Number: Copy + Into<f64> + Send + Sync + 'static {
    /// Wraps weights of this type as storage of a distribution.
    fn store(weights: TokenWeights<Self>) -> Storage;
}

impl Number for f32 {
    fn store(weights: TokenWeights<Self>) -> Storage {
        Storage::Single(weights)
    }
}

impl Number for f64 {
    fn store(weights: TokenWeights<Self>) -> Storage {
        Storage::Double(weights)
    }
}

impl<T: Number> Blocks<T> {
    /// No weights yet, with room for `len`.
    pub(crate) fn with_capacity(len: usize) -> Self {
        let ends = Vec::with_capacity(len.div_ceil(BLOCK));
        Self { values: Vec::with_capacity(len), ends }
    }

    /// Adds the next [`BLOCK`] weights, or the remaining ones.
    #[inline(always)]
    pub(crate) fn push(&mut self, block: &[T]) {
        self.values.extend_from_slice(block);
        self.ends.push(self.ends.last().copied().unwrap_or(0.0) + block_sum(block));
    }

    /// The weights. At least one must be positive, and none negative or infinite.
    pub(crate) fn into_weights(self) -> TokenWeights<T> {
        let Self { values, ends } = self;
        let norm = ends.last().copied().unwrap_or(0.0);
        TokenWeights { values, ends, norm }
    }
}

impl<T: Number> TokenWeights<T> {
    /// Weights of at least one token; the norm is their mass.
    ///
    /// # Errors
    /// If a weight is negative or not finite, there are no weights, or their sum is not finite.
    pub(super) fn new(values: Vec<T>) -> Result<Self, DistError> {
        let mut ends = Vec::with_capacity(values.len().div_ceil(BLOCK));
        let sound = IsaKind::active().run(BlockSums { values: &values, ends: &mut ends });
        let mass = ends.last().copied().ok_or(DistError::Empty)?;
        // A sum is finite only if all its terms are.
        if !sound || !mass.is_finite() {
            let weights = values.iter().map(|&w| w.into()).enumerate();
            for (token, weight) in weights {
                check_weight(token, weight)?;
            }
            return Err(DistError::TooLarge);
        }
        Ok(Self { values, ends, norm: mass })
    }

    /// The same weights, used as probabilities without normalisation.
    pub(super) fn into_probs(self) -> Self {
        Self { norm: 1.0, ..self }
    }

    /// The sum of all weights.
    pub(crate) fn mass(&self) -> f64 {
        self.ends.last().copied().unwrap_or(0.0)
    }

    /// The weights by token.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Probability of a token; zero outside the vocabulary.
    pub(super) fn p(&self, token: Token) -> f64 {
        self.values.get(token as usize).map_or(0.0, |&w| w.into() / self.norm)
    }

    /// Tokens of positive probability, ascending.
    pub(super) fn support(&self) -> impl Iterator<Item = (Token, f64)> + '_ {
        let all = (0..).zip(&self.values).map(|(token, &w)| (token, w.into()));
        all.filter(|&(_, w)| w > 0.0).map(|(token, w)| (token, w / self.norm))
    }

    /// See [`super::Dist::quantile`].
    pub(super) fn quantile(&self, u: f64) -> Token {
        let bound = u * self.mass();
        // If rounding makes the bound equal to the mass, the last block with any weight
        // is the right one.
        let reaching = self.ends.partition_point(|&end| end <= bound);
        let block = reaching.min(self.ends.partition_point(|&end| end < self.mass()));
        let mut sum = block.checked_sub(1).map_or(0.0, |before| self.ends[before]);
        let mut last = 0;
        for (token, &w) in self.values.iter().enumerate().skip(block * BLOCK).take(BLOCK) {
            let w = w.into();
            if w > 0.0 {
                sum += w;
                last = token as Token;
                if sum > bound {
                    break;
                }
            }
        }
        last
    }

    /// `value(p(x), q(x))` of every token.
    pub(super) fn zip(&self, q: &Self, value: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        Pairs { p: self, q, value }.collect()
    }
}

/// The sum of values in blocks, in the same order as a distribution's mass.
pub(super) fn sum(values: &[f64]) -> f64 {
    let mut sums = Vec::new();
    IsaKind::active().run(BlockSums { values, ends: &mut sums });
    sums.last().copied().unwrap_or(0.0)
}

/// Sums of blocks; returns whether no weight is negative.
struct BlockSums<'a, T> {
    values: &'a [T],
    ends: &'a mut Vec<f64>,
}

impl<T: Number> Kernel for BlockSums<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<I: Isa>(self, _: I) -> bool {
        let (mut total, mut sound) = (0.0, true);
        for block in self.values.chunks(BLOCK) {
            for &w in block {
                let w: f64 = w.into();
                sound &= w >= 0.0;
            }
            total += block_sum(block);
            self.ends.push(total);
        }
        sound
    }
}

/// The sum of a block, in sixteen lanes.
#[inline(always)]
fn block_sum<T: Number>(block: &[T]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = block.as_chunks::<LANES>();
    for part in whole {
        for (lane, &w) in lanes.iter_mut().zip(part) {
            *lane += w.into();
        }
    }
    for (lane, &w) in lanes.iter_mut().zip(rest) {
        *lane += w.into();
    }
    lanes.iter().sum()
}

/// Computes a value for every token from its two probabilities.
struct Pairs<'a, T, F> {
    p: &'a TokenWeights<T>,
    q: &'a TokenWeights<T>,
    value: F,
}

impl<T: Number, F: Fn(f64, f64) -> f64> Pairs<'_, T, F> {
    fn collect(self) -> Vec<f64> {
        IsaKind::active().run(self)
    }
}

impl<T: Number, F: Fn(f64, f64) -> f64> Kernel for Pairs<'_, T, F> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn run<I: Isa>(self, _: I) -> Vec<f64> {
        let Pairs { p, q, value } = self;
        let pairs = p.values.iter().zip(&q.values);
        pairs.map(|(&a, &b)| value(a.into() / p.norm, b.into() / q.norm)).collect()
    }
}

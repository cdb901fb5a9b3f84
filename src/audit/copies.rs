//! Completions that repeat another one. They are no further observations: if they counted, every
//! deviation that chance causes would count several times.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::core::distribution::{Dist, Token};

/// A completion whose probability has a smaller logarithm does not occur twice by chance: two draws
/// are equal and that improbable with a probability below e^-40 = 4e-18.
const IMPROBABLE: f64 = -40.0;

/// The completions that were read, and the number of those that repeat one of them.
#[derive(Debug, Clone, Default)]
pub struct Copies {
    /// Number of copies.
    pub count: usize,
    sources: BTreeSet<u64>,
    improbable: BTreeSet<Vec<Token>>,
    /// The completion that is being read, and the logarithm of its probability.
    completion: Vec<Token>,
    log: f64,
}

impl Copies {
    /// Whether a completion is a copy, which it then counts. `source` is what determines a
    /// completion, such as its prompt and seed, if that is known; completions with the same source
    /// are copies, and those with different ones are not. Without a source, equal completions are
    /// copies if they are improbable.
    pub fn is_copy(&mut self, source: Option<impl Hash>, tokens: &[Token]) -> bool {
        let copy = match source {
            Some(source) => {
                let mut hasher = DefaultHasher::new();
                source.hash(&mut hasher);
                !self.sources.insert(hasher.finish())
            }
            None => self.improbable.contains(tokens),
        };
        self.count += usize::from(copy);
        copy
    }

    /// Reads the next part of a completion.
    pub(super) fn read(&mut self, part: &[Token], dists: &[Dist]) {
        self.completion.extend(part);
        self.log += part.iter().zip(dists).map(|(&token, dist)| dist.p(token).ln()).sum::<f64>();
    }

    /// Ends the completion.
    pub(super) fn end(&mut self) {
        let completion = std::mem::take(&mut self.completion);
        if std::mem::take(&mut self.log) < IMPROBABLE {
            self.improbable.insert(completion);
        }
    }
}

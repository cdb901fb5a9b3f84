//! What a draft model predicts along a sequence and where a draft diverges from it, as draft length
//! policies see it.

use serde::{Deserialize, Serialize};

use super::forecast::TapeEnd;

/// What draft length policies see of a draft model's drafts. Each pair is the probability that the
/// model gives to a token and the entropy, in nats, of its distribution there. For a greedy draft,
/// both are at temperature 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftBeliefs {
    /// The largest K that they cover.
    pub most: usize,
    /// For each token of the completion: the pair of that token.
    pub along: Vec<[f64; 2]>,
    /// For each token of the completion: the pairs of a draft that diverges there, drawn once; none
    /// if no draft can. If the last token ended the completion, a last entry has none.
    pub behind: Vec<Vec<[f64; 2]>>,
}

/// What policies see of a draft that begins at some token of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawnBeliefs<'t> {
    along: &'t [[f64; 2]],
    behind: &'t [[f64; 2]],
}

impl DraftBeliefs {
    /// A draft that begins at token `start` and follows the sequence for `followed` tokens.
    pub fn drawn(&self, start: usize, followed: usize) -> DrawnBeliefs<'_> {
        let along = self.along.get(start..start + followed).unwrap_or_default();
        DrawnBeliefs { along, behind: self.behind.get(start + followed).map_or(&[], |at| at) }
    }

    /// Checks that they fit a completion of `tokens` tokens.
    pub(super) fn check(&self, tokens: usize, end: TapeEnd) -> Result<(), String> {
        let behind = tokens + usize::from(end == TapeEnd::Token);
        if (self.along.len(), self.behind.len()) != (tokens, behind) {
            return Err(format!(
                "\"beliefs\" has {} and {} entries where {tokens} and {behind} are expected",
                self.along.len(),
                self.behind.len()
            ));
        }
        // Probabilities are sums in f64, which may round to slightly more than 1.
        let good =
            |[p, h]: &[f64; 2]| (0.0..=1.0 + 1e-9).contains(p) && (0.0..=f64::MAX).contains(h);
        match self.along.iter().chain(self.behind.iter().flatten()).find(|pair| !good(pair)) {
            None => Ok(()),
            Some([p, h]) => Err(format!("\"beliefs\" has a probability of {p}, an entropy of {h}")),
        }
    }
}

impl DrawnBeliefs<'_> {
    /// The probability of the draft's token number `at`, and the entropy there; `None` if nothing
    /// was drawn.
    pub fn get(&self, at: usize) -> Option<[f64; 2]> {
        let behind = || self.behind.get(at - self.along.len());
        self.along.get(at).or_else(behind).copied()
    }
}

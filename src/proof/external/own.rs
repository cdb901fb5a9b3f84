//! The verifiers of this crate behind the interface of external ones.

use std::ops::Range;
use std::rc::Rc;

use super::round::{ExternalChance, ExternalRound, ExternalVerifier};
use crate::core::chance::{Chance, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::tree::{Draft, Origin};
use crate::method::verify::Verifier;

/// A verifier of this crate with the interface of external verifiers, for chains of sampled tokens.
#[derive(Debug, Clone, Copy)]
pub struct OwnVerifier<V>(pub V);

impl<V: Verifier> ExternalVerifier for OwnVerifier<V> {
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error> {
        let dist = |row: &Vec<f64>| {
            Dist::from_probs(row.clone()).map_err(Error::distribution("a row of the round"))
        };
        let targets = round.p.iter().map(dist).collect::<Result<Vec<_>, _>>()?;
        let mut draft = Draft::empty(round.vocab());
        let mut last = None;
        for (&token, q) in round.draft.iter().zip(&round.q) {
            last = Some(draft.forge(last, token, Origin::Sampled(Rc::new(dist(q)?))));
        }
        let mut asked = AskedChance { chance, failed: None };
        let verdict = self.0.verify(&draft, &targets, &mut asked);
        match asked.failed {
            Some(error) => Err(error),
            None => Ok(verdict
                .path
                .iter()
                .map(|&node| draft.node(node).token)
                .chain([verdict.next])
                .collect()),
        }
    }
}

/// A [`Chance`] that requests its choices from an [`ExternalChance`].
struct AskedChance<'c> {
    chance: &'c mut dyn ExternalChance,
    /// The first error, which [`Chance`] cannot return.
    failed: Option<Error>,
}

impl std::fmt::Debug for AskedChance<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskedChance").field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl AskedChance<'_> {
    fn choose(&mut self, weights: &[f64]) -> usize {
        self.chance.choose(weights).unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            0
        })
    }
}

impl Chance for AskedChance<'_> {
    fn begin_round(&mut self, _round: u64) {}

    fn bernoulli(&mut self, _site: Site, p: f64) -> bool {
        if p <= 0.0 || p >= 1.0 {
            return p >= 1.0;
        }
        self.choose(&[p, 1.0 - p]) == 0
    }

    fn categorical(&mut self, _site: Site, dist: &Dist) -> Token {
        let (tokens, weights) = dist.support().unzip::<_, _, Vec<_>, Vec<_>>();
        tokens[self.choose(&weights)]
    }

    /// Without noise that depends on the position, because an external draft does not share it.
    fn race(&mut self, position: usize, _lists: Range<usize>, dist: &Dist) -> Token {
        self.categorical(
            Site { purpose: crate::core::chance::Purpose::Target, node: position },
            dist,
        )
    }
}

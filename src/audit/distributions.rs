//! The distributions at the tokens of a sequence.

use crate::bugs::PositionDists;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::tapes::tape::TokenOdds;

/// The distributions of [`PositionDists`] at consecutive positions of a sequence. Each list has one
/// distribution for each token.
#[derive(Debug, Clone)]
pub struct SequenceDists {
    /// The target's after all processors.
    pub target: Vec<Dist>,
    /// The target's without processors.
    pub raw_target: Option<Vec<Dist>>,
    /// The draft model's after its processors.
    pub draft: Option<Vec<Dist>>,
    /// The draft model's without processors.
    pub raw_draft: Option<Vec<Dist>>,
}

/// The distributions at the position before a part of a sequence.
#[derive(Debug)]
pub(super) struct PreviousDists {
    target: Dist,
    draft: Option<Dist>,
}

impl SequenceDists {
    /// The distributions at position `at`; `first` are those of the position before the first.
    pub(super) fn position<'l>(
        &'l self,
        at: usize,
        first: Option<&'l PreviousDists>,
    ) -> PositionDists<'l> {
        let dist = |dists: &'l Option<Vec<Dist>>, at: usize| dists.as_ref().map(|dists| &dists[at]);
        let (before, draft_before) = match at.checked_sub(1) {
            Some(last) => (Some(&self.target[last]), dist(&self.draft, last)),
            None => {
                (first.map(|dists| &dists.target), first.and_then(|dists| dists.draft.as_ref()))
            }
        };
        PositionDists {
            target: &self.target[at],
            raw_target: dist(&self.raw_target, at),
            before,
            draft: dist(&self.draft, at),
            draft_before,
            raw_draft: dist(&self.raw_draft, at),
        }
    }

    /// Those at the last position, for the part that follows.
    pub(super) fn last(&self) -> Option<PreviousDists> {
        let draft = self.draft.as_ref().and_then(|dists| dists.last()).cloned();
        Some(PreviousDists { target: self.target.last()?.clone(), draft })
    }

    /// The odds that drafts of these tokens are accepted; empty without a draft model.
    pub(super) fn odds<'l>(&'l self, tokens: &'l [Token]) -> impl Iterator<Item = TokenOdds> + 'l {
        let dists = self.target.iter().zip(self.draft.iter().flatten());
        dists.zip(tokens).map(|((p, q), &token)| TokenOdds::at(p, q, token))
    }

    /// Checks that each of these tokens has a distribution, and that all share one vocabulary.
    pub(super) fn check(&self, tokens: &[Token]) -> Result<(), Error> {
        let vocab = self.target.first().map_or(0, Dist::vocab);
        let named = [
            ("raw target", &self.raw_target),
            ("draft", &self.draft),
            ("raw draft", &self.raw_draft),
        ];
        let others = named.into_iter().filter_map(|(of, dists)| Some((of, dists.as_ref()?)));
        for (of, dists) in [("target", &self.target)].into_iter().chain(others) {
            if dists.len() != tokens.len() {
                let (dists, tokens) = (dists.len(), tokens.len());
                let why = format!("{dists} {of} distributions for {tokens} tokens");
                return Err(Error::input(why));
            }
            if let Some(other) = dists.iter().find(|dist| dist.vocab() != vocab) {
                let other = other.vocab();
                let why = format!("a {of} distribution has {other} tokens and not {vocab}");
                return Err(Error::input(why));
            }
        }
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            let why = format!("token {token} lies outside the vocabulary of {vocab} tokens");
            return Err(Error::input(why));
        }
        Ok(())
    }
}

//! The laws of a token's place, which known bugs mix up.

use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::tape::TokenOdds;

/// The laws of a place in a text, given the tokens before it.
#[derive(Debug, Clone, Copy)]
pub struct PlaceLaws<'l> {
    /// The target's, after all processors: what an exact decoder draws from.
    pub target: &'l Dist,
    /// The target's without any processor; none if there is no processor.
    pub raw_target: Option<&'l Dist>,
    /// The target's at the place before; none at the first.
    pub before: Option<&'l Dist>,
    /// The draft model's, after its processors, if it is known.
    pub draft: Option<&'l Dist>,
    /// The draft model's at the place before; none at the first, or without a draft model.
    pub draft_before: Option<&'l Dist>,
    /// The draft model's without any processor; none if there is none, or no draft model.
    pub raw_draft: Option<&'l Dist>,
}

/// The laws of consecutive tokens of a text, as [`PlaceLaws`] has them of one; each list has a law
/// for each token.
#[derive(Debug, Clone)]
pub struct TextLaws {
    /// The target's, after all processors.
    pub target: Vec<Dist>,
    /// The target's without any.
    pub raw_target: Option<Vec<Dist>>,
    /// The draft model's, after its processors.
    pub draft: Option<Vec<Dist>>,
    /// The draft model's without any.
    pub raw_draft: Option<Vec<Dist>>,
}

/// The laws of the place before a part.
#[derive(Debug)]
pub(super) struct LawsBefore {
    target: Dist,
    draft: Option<Dist>,
}

impl TextLaws {
    /// The laws of the token with this number; `first` are those of the place before the first.
    pub(super) fn place<'l>(&'l self, at: usize, first: Option<&'l LawsBefore>) -> PlaceLaws<'l> {
        let law = |laws: &'l Option<Vec<Dist>>, at: usize| laws.as_ref().map(|laws| &laws[at]);
        let (before, draft_before) = match at.checked_sub(1) {
            Some(last) => (Some(&self.target[last]), law(&self.draft, last)),
            None => (first.map(|laws| &laws.target), first.and_then(|laws| laws.draft.as_ref())),
        };
        PlaceLaws {
            target: &self.target[at],
            raw_target: law(&self.raw_target, at),
            before,
            draft: law(&self.draft, at),
            draft_before,
            raw_draft: law(&self.raw_draft, at),
        }
    }

    /// Those of the last token, for the part that follows.
    pub(super) fn last(&self) -> Option<LawsBefore> {
        let draft = self.draft.as_ref().and_then(|laws| laws.last()).cloned();
        Some(LawsBefore { target: self.target.last()?.clone(), draft })
    }

    /// What a draft's tokens would be accepted with if they are these; empty without a draft model.
    pub(super) fn odds<'l>(&'l self, tokens: &'l [Token]) -> impl Iterator<Item = TokenOdds> + 'l {
        let laws = self.target.iter().zip(self.draft.iter().flatten());
        laws.zip(tokens).map(|((p, q), &token)| TokenOdds::at(p, q, token))
    }

    /// Whether there is one law for each of these tokens, all over their vocabulary.
    pub(super) fn check(&self, tokens: &[Token]) -> Result<(), Error> {
        let vocab = self.target.first().map_or(0, Dist::vocab);
        let named = [
            ("raw target", &self.raw_target),
            ("draft", &self.draft),
            ("raw draft", &self.raw_draft),
        ];
        let others = named.into_iter().filter_map(|(of, laws)| Some((of, laws.as_ref()?)));
        for (of, laws) in [("target", &self.target)].into_iter().chain(others) {
            if laws.len() != tokens.len() {
                let (laws, tokens) = (laws.len(), tokens.len());
                return Err(Error::input(format!("{laws} {of} laws for {tokens} tokens")));
            }
            if let Some(other) = laws.iter().find(|law| law.vocab() != vocab) {
                let other = other.vocab();
                return Err(Error::input(format!("a {of} law has {other} tokens and not {vocab}")));
            }
        }
        match tokens.iter().find(|&&token| token as usize >= vocab) {
            Some(token) => Err(Error::input(format!("token {token} is none of {vocab} tokens"))),
            None => Ok(()),
        }
    }
}

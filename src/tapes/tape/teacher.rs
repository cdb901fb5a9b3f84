//! A model that reads sequences instead of generating them: teacher-forced passes over many tokens.

use super::format::TapeSequence;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{History, Logits, Sampler};
use crate::core::tree::{Draft, MAX_NODES};
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};

/// Tokens per pass. A pass gives the rows after its context and after each token of a chain, so the
/// last token needs no node in the chain.
pub(super) const PART: usize = MAX_NODES + 1;

/// A model with a session, which reads one sequence after another.
#[derive(Debug)]
pub struct Teacher<'a> {
    model: &'a dyn LanguageModel,
    session: Session,
}

impl<'a> Teacher<'a> {
    /// A teacher with this model.
    ///
    /// # Errors
    /// If the model cannot open a session.
    pub fn new(model: &'a dyn LanguageModel) -> Result<Self, Error> {
        Ok(Self { session: model.session()?, model })
    }

    /// The model.
    pub fn model(&self) -> &'a dyn LanguageModel {
        self.model
    }

    /// The logits of each token of `part`, given `context` and the tokens of `part` before it;
    /// `part` has at most [`PART`] tokens.
    ///
    /// # Errors
    /// If the context is empty or the model fails.
    pub(crate) fn logits(
        &mut self,
        context: &[Token],
        part: &[Token],
    ) -> Result<Vec<Logits>, Error> {
        let Some((_, known)) = part.split_last() else { return Ok(Vec::new()) };
        let mut draft = Draft::empty(self.model.info().vocab);
        let mut last = None;
        for &token in known {
            last = Some(draft.certain(last, token));
        }
        let work = Work { session: &mut self.session, context, draft: &draft, want: Want::All };
        Ok(evaluate_one(self.model, work)?.rows)
    }
}

/// The distributions at the positions of a part, from their logits.
///
/// # Errors
/// If logits define no distribution; `of` names their model.
pub(crate) fn distributions(
    sampler: &Sampler,
    (prompt_len, context): (usize, &[Token]),
    part: &[Token],
    logits: &[Logits],
    of: &str,
) -> Result<Vec<Dist>, Error> {
    let history = |at: usize| History { prompt_len, context, drafted: &part[..at] };
    let rows = logits.iter().enumerate().map(|(at, row)| (row, history(at))).collect::<Vec<_>>();
    sampler.distributions(&rows).map_err(Error::distribution(of))
}

/// Goes through a completion part by part: `see` gets the context of a part, and the part.
pub(crate) fn parts(
    sequence: &TapeSequence,
    mut see: impl FnMut(&[Token], &[Token]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut context = sequence.prompt_tokens.clone();
    for part in sequence.tokens.chunks(PART) {
        see(&context, part)?;
        context.extend_from_slice(part);
    }
    Ok(())
}

/// Goes through the tokens of a prompt except the first: `see` gets each with its logits.
///
/// # Errors
/// If the model fails, or those of `see`.
#[cfg(feature = "serve")]
pub(crate) fn prompt_rows(
    model: &dyn LanguageModel,
    prompt: &[Token],
    mut see: impl FnMut(Token, &Logits) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut teacher = Teacher::new(model)?;
    let mut begin = 1.min(prompt.len());
    for part in prompt[begin..].chunks(PART) {
        for (&token, row) in part.iter().zip(&teacher.logits(&prompt[..begin], part)?) {
            see(token, row)?;
        }
        begin += part.len();
    }
    Ok(())
}

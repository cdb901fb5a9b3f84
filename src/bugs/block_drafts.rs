//! Drafters of blocks that record another distribution than the one from which they drew, or end a
//! draft where they must not.
//!
//! A block's distribution at a depth depends on the context, the depth and the token before. So what
//! is recorded can be wrong in ways that a model which drafts token by token does not have.

use std::rc::Rc;

use super::drafters::{Forgery, drawn_once};
use super::mutant::{CASE, Case, Mutant, RIGHT, on_paper};
use super::{BUG, Bug};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{History, Sampler};
use crate::core::tree::{Draft, Origin};
use crate::method::draft::{Drafter, MakeDrafter, Pausing, Round};
use crate::model::{LanguageModel, Row, Want, Work, block_text, evaluate_one};

/// The distributions of a block after a context.
struct BlockRows<'r> {
    model: &'r dyn LanguageModel,
    sampler: &'r Sampler,
    context: &'r [Token],
}

impl BlockRows<'_> {
    /// The distribution after drafted tokens, with the bias of the last one or without.
    fn after(&self, drafted: &[Token], bias: bool) -> Result<Dist, Error> {
        let text = block_text(self.context, drafted, bias);
        let (mut session, draft) = (self.model.session()?, Draft::empty(self.model.info().vocab));
        let want = Want::Row(Row::CONTEXT);
        let work = Work { session: &mut session, context: &text, draft: &draft, want };
        let rows = evaluate_one(self.model, work)?.rows;
        let history = History { prompt_len: text.len(), context: &text, drafted: &[] };
        let fault = Error::distribution("the draft model");
        self.sampler.distribution(&rows[0], history).map_err(fault)
    }
}

/// Draws the token after drafted ones.
type Draw = fn(&BlockRows<'_>, &[Token], Site, &mut dyn Chance) -> Result<Forgery, Error>;

/// A drafter of blocks.
#[derive(Debug)]
struct BlockForger<'a> {
    model: &'a dyn LanguageModel,
    sampler: Sampler,
    draw: Draw,
    /// Whether the draft ends before a token, given this token.
    ends_before: fn(Token) -> bool,
}

impl<'a> Drafter<'a> for BlockForger<'a> {
    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let (model, context) = (self.model, round.context);
            let rows = BlockRows { model, sampler: &self.sampler, context };
            let mut draft = Draft::empty(round.vocab);
            let mut drafted = Vec::new();
            while round.go_deeper(&draft) {
                let site = Site { purpose: Purpose::Draft, node: draft.len() };
                let drawn = (self.draw)(&rows, &drafted, site, round.chance)?;
                let token = drawn.token();
                if (self.ends_before)(token) {
                    break;
                }
                let parent = draft.len().checked_sub(1);
                draft.forge(parent, token, Origin::Sampled(drawn.recorded()));
                drafted.push(token);
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(Self { sampler: self.sampler.clone(), ..*self }))
    }
}

const NEVER: fn(Token) -> bool = |_| false;

const fn forging(case: Case, drafter: MakeDrafter) -> Mutant {
    Mutant { case: Case { rule: None, ..case }, drafter, ..RIGHT }
}

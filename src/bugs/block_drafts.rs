//! Drafters of blocks that record another distribution than the one from which they drew, or end a
//! draft where they must not.
//!
//! A block's distribution at a depth depends on the context, the depth and the token before. So what
//! is recorded can be wrong in ways that a model which drafts token by token does not have.

use std::rc::Rc;

use super::drafters::{Forgery, drawn_once};
use super::mutant::{CASE, Case, DraftOf, Mutant, RIGHT, on_paper};
use super::{BUG, Bug};
use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{History, Sampler};
use crate::core::tree::{Draft, Origin, Row};
use crate::method::draft::{Drafter, DrafterParams, MakeDrafter, Pausing, Round};
use crate::model::{LanguageModel, Want, Work, block_text, evaluate_one};

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
                let Forgery { tokens, recorded } =
                    (self.draw)(&rows, &drafted, site, round.chance)?;
                let kept = tokens.first().copied().filter(|token| !(self.ends_before)(*token));
                let Some(token) = kept else { break };
                let parent = draft.len().checked_sub(1);
                draft.forge(parent, token, Origin::Sampled(recorded));
                drafted.push(token);
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(Self { sampler: self.sampler.clone(), ..*self }))
    }
}

fn forger<'a>(
    params: &DrafterParams<'a, '_>,
    draw: Draw,
    ends_before: fn(Token) -> bool,
) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
    let model = params.model("block")?;
    Ok(Box::new(BlockForger { model, sampler: params.sampler.clone(), draw, ends_before }))
}

/// The tokens drawn without a mistake.
const RIGHT_DRAW: Draw = |rows, drafted, site, chance| {
    let dist = rows.after(drafted, true)?;
    Ok(drawn_once(&dist, dist.clone(), site, chance))
};

/// Three drafted tokens: from the third on, the depth and the token before are not the context alone.
const DEEP: Case = Case { k: 3, tokens: 4, rule: None, ..CASE };

/// A correct drafter of blocks.
pub(super) const RIGHT_BLOCK_DRAFT: Mutant = Mutant {
    case: DEEP,
    draft: Some(TABLE),
    drafter: |params| forger(params, RIGHT_DRAW, |_| false),
    ..RIGHT
};

/// A block's rows are read from the table of the pair's draft model.
const TABLE: DraftOf = |pair, _| Ok(Box::new(pair.draft("draft")?));

const fn wrong(case: Case, drafter: MakeDrafter) -> Bug {
    Bug { mutant: Some(Mutant { case, draft: Some(TABLE), drafter, ..RIGHT }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "block_bias_not_recorded",
        summary: "a block's tokens are drawn with the bias of the token before, and verified without",
        ..wrong(DEEP, |params| {
            let draw: Draw = |rows, drafted, site, chance| {
                let (used, asked) = (rows.after(drafted, true)?, rows.after(drafted, false)?);
                Ok(drawn_once(&used, asked, site, chance))
            };
            forger(params, draw, |_| false)
        })
    },
    Bug {
        name: "block_bias_of_argmax",
        summary: "a block's bias is that of the most probable token before, and the drafts are verified \
                  as if it were that of the drawn one",
        seen: "llama.cpp, DSpark with sampled drafts",
        ..wrong(DEEP, |params| {
            let draw: Draw = |rows, drafted, site, chance| {
                let mut greedy = Vec::new();
                for _ in drafted {
                    greedy.push(rows.after(&greedy, true)?.argmax());
                }
                let (used, asked) = (rows.after(&greedy, true)?, rows.after(drafted, true)?);
                Ok(drawn_once(&used, asked, site, chance))
            };
            forger(params, draw, |_| false)
        })
    },
    Bug {
        name: "block_narrower",
        summary: "drafts are drawn from a narrower block than the one whose q they are verified with",
        seen: "dflash 0.1.0 narrows its block near the end of a text",
        ..wrong(DEEP, |params| {
            let draw: Draw = |rows, drafted, site, chance| {
                // Of what stands for the tokens in between, one mask is missing.
                let narrow = &drafted[drafted.len().min(1)..];
                let (used, asked) = (rows.after(narrow, true)?, rows.after(drafted, true)?);
                Ok(drawn_once(&used, asked, site, chance))
            };
            forger(params, draw, |_| false)
        })
    },
    Bug {
        name: "q_renormalised_after_draw",
        summary: "q is cut to the drawn token and the less probable ones after the draw, and \
                  renormalised",
        ..wrong(DEEP, |params| {
            let draw: Draw = |rows, drafted, site, chance| {
                let drawn = drawn_once(
                    &rows.after(drafted, true)?,
                    rows.after(drafted, true)?,
                    site,
                    chance,
                );
                let most = drawn.tokens.first().map_or(1.0, |token| drawn.recorded.p(*token));
                let tokens = 0..drawn.recorded.vocab() as Token;
                let cut =
                    tokens.map(|t| drawn.recorded.p(t)).map(|p| if p > most { 0.0 } else { p });
                let recorded = Dist::from_weights(cut.collect()).map(Rc::new);
                Ok(Forgery { recorded: recorded.unwrap_or(drawn.recorded), tokens: drawn.tokens })
            };
            forger(params, draw, |_| false)
        })
    },
    Bug {
        name: "length_from_next_confidence",
        summary: "a draft ends before a token if the confidence of the one after it is low",
        seen: "DSpark, app. A",
        // The confidence after token 0 is high, after token 1 low. So token 0 is drafted with
        // probability 0.5 and accepted, and otherwise the target draws: 0.5 + 0.5 × 0.7 = 0.85.
        ..wrong(on_paper(&[0.7, 0.3], &[0.5, 0.5], 0.85 - 0.7), |params| {
            forger(params, RIGHT_DRAW, |token| token == 1)
        })
    },
];

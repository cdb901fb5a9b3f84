//! A draft model that is itself accelerated, exactly, by prompt lookup.
//!
//! The lookup guesses the draft model's next tokens, and one pass of the draft model computes the
//! distributions after all of them. Every drafted token is drawn from the draft model's
//! distribution; the guess only decides how many of these distributions one pass yields. The rows
//! after the first drawn token that differs from the guess are useless. The drafts are the same,
//! token for token, as those of the drafter `model`, but take fewer passes.

use super::prompt_lookup::{MATCH, MAX, MIN, PromptLookup};
use super::reader::Reader;
use super::{BuildDrafter, Drafter, Pausing, Round, with_draft_sampling};
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape, NodeId, Row};

const GUESSED: Param = Param::count(
    "cascade_tokens",
    3,
    1..=64,
    "tokens that the lookup guesses for each pass of the draft model",
);

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "cascade",
    aliases: &["staged"],
    params: with_draft_sampling!(GUESSED, MAX, MIN, MATCH),
    summary: "the draft model, sped up by prompt lookup: the same drafts in fewer passes",
    paper: "Chen et al. 2023, CS Drafting, arXiv 2312.11462; Spector and Re 2023, arXiv 2308.04623",
    build: BuildDrafter {
        needs_model: true,
        shape: |params| PromptLookup::check(params).map(|()| DraftShape::SAMPLED),
        make: |params| {
            let reader = Reader::new(params.model("cascade")?, params.sampler.clone())?;
            let lookup = PromptLookup::new(params.params);
            let guessed = params.params.count(&GUESSED);
            Ok(Box::new(Cascade { reader, lookup, guessed }))
        },
    },
};

#[derive(Debug)]
struct Cascade<'a> {
    reader: Reader<'a>,
    lookup: PromptLookup,
    guessed: usize,
}

impl Cascade<'_> {
    /// The draft so far, extended by the tokens that the lookup predicts.
    fn guess(&self, round: &Round<'_, '_>, draft: &Draft) -> Draft {
        let drafted = draft.nodes().iter().map(|node| node.token);
        let sequence = round.context.iter().copied().chain(drafted).collect::<Vec<_>>();
        let mut guess = draft.clone();
        let mut parent = draft.len().checked_sub(1);
        let room = round.limit.saturating_sub(draft.len() + 1).min(self.guessed);
        let Some(next) = self.lookup.find(&sequence) else { return guess };
        for at in next..next + room {
            // Past the end of the sequence, the copy continues with the tokens just copied.
            let token = sequence.get(at).copied();
            let token = token.unwrap_or_else(|| guess.node(at - round.context.len()).token);
            parent = Some(guess.certain(parent, token));
        }
        guess
    }
}

impl<'a> Drafter<'a> for Cascade<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        Some(&mut self.reader)
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.reader.limit(round)?;
            let mut draft = Draft::empty(round.vocab);
            let mut parent: Option<NodeId> = None;
            let mut worth = true;
            while worth && round.go_deeper(&draft) {
                let mut guess = self.guess(round, &draft);
                let rows = Row::all(&guess).skip(draft.len()).collect::<Vec<_>>();
                for prediction in self.reader.predict(round, &mut guess, rows).await? {
                    worth = round.is_worth(&prediction);
                    if !worth {
                        break;
                    }
                    let drawn = round.draw_predicted(&mut draft, parent, &prediction);
                    parent = Some(drawn);
                    let guessed = guess.nodes().get(drawn).map(|node| node.token);
                    if guessed != Some(draft.node(drawn).token) || !round.go_deeper(&draft) {
                        break;
                    }
                }
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let reader = self.reader.try_clone()?;
        Ok(Box::new(Self { reader, lookup: self.lookup, guessed: self.guessed }))
    }
}

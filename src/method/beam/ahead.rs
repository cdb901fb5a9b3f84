//! Computes the rows of logits after the live beams, several per pass.
//!
//! A beam's pass computes the row after its tokens and, with a drafter, the rows after drafted
//! continuations. A beam whose later tokens were drafted needs no pass: its row is already known,
//! with the same bits on a row-invariant engine. Nothing is accepted or rejected, so drafts change
//! only the number of passes.

use std::cell::RefCell;
use std::rc::Rc;

use crate::core::chance::Chance;
use crate::core::clock::{Clock, Who};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Logits;
use crate::core::tree::{Draft, NodeId};
use crate::method::decode::{Method, room_for};
use crate::method::draft::{Drafter, PassDesk, Round, at_once};
use crate::method::length::DraftLength;
use crate::model::{LanguageModel, Session, Want, Work, evaluate_one};

/// The row after a beam, in the pass that computed it.
#[derive(Debug, Clone)]
pub(super) struct RowAhead {
    pass: Rc<BeamPass>,
    node: Option<NodeId>,
}

#[derive(Debug)]
struct BeamPass {
    draft: Draft,
    rows: Vec<Logits>,
}

impl RowAhead {
    /// The logits after the beam's last token.
    pub(super) fn logits(&self) -> &Logits {
        &self.pass.rows[self.node.map_or(0, |id| id + 1)]
    }

    /// The row after one more token, if that token was drafted here.
    pub(super) fn after(&self, token: Token) -> Option<Self> {
        let mut nodes = self.pass.draft.nodes().iter();
        let node = nodes.position(|n| n.parent == self.node && n.token == token)?;
        Some(Self { pass: Rc::clone(&self.pass), node: Some(node) })
    }
}

/// Computes rows, with a cache and a drafter for every beam.
#[derive(Debug)]
pub(super) struct Passes<'a> {
    target: &'a dyn LanguageModel,
    slots: Vec<Slot<'a>>,
    prompt_len: usize,
    /// The maximum number of tokens of prompt and completion together.
    most: usize,
    target_forwards: usize,
    draft_forwards: usize,
}

/// The session and the drafter of a beam.
#[derive(Debug)]
struct Slot<'a> {
    session: Rc<RefCell<Session>>,
    drafter: Box<dyn Drafter<'a> + 'a>,
    length: Box<dyn DraftLength>,
}

/// A beam that needs a row.
#[derive(Debug)]
pub(super) struct Wanted<'w> {
    /// The beam's slot; beams do not share slots.
    pub(super) slot: usize,
    /// The prompt and the beam's tokens.
    pub(super) context: Vec<Token>,
    /// The place for the computed row.
    pub(super) row: &'w mut Option<RowAhead>,
}

impl<'a> Passes<'a> {
    /// Computes the prompt once, for `beams` slots that share it.
    pub(super) fn new(
        target: &'a dyn LanguageModel,
        mut method: Method<'a>,
        (prompt, most): (&[Token], usize),
        beams: usize,
        clock: &dyn Clock,
    ) -> Result<Self, Error> {
        let expected = room_for(prompt.len(), most - prompt.len());
        method.drafter.expect(expected)?;
        let mut session = target.session()?;
        session.keep(method.drafter.taps(), target.info())?;
        let head = &prompt[..prompt.len() - 1];
        if !head.is_empty() {
            let draft = &Draft::empty(target.info().vocab);
            let work = Work { session: &mut session, context: head, draft, want: Want::Nothing };
            clock.forward(Who::Target, evaluate_one(target, work)?.computed);
        }
        let session = Rc::new(RefCell::new(session));
        let desk = PassDesk::new(prompt, Some(Rc::clone(&session)));
        method.drafter.prefill(&desk, clock)?;
        let mut first = Slot { session, drafter: method.drafter, length: method.length };
        let others = (1..beams).map(|_| first.share()).collect::<Result<Vec<_>, _>>()?;
        let mut slots = std::iter::once(first).chain(others).collect::<Vec<_>>();
        for slot in &mut slots {
            slot.session.borrow_mut().expect(expected)?;
        }
        let prompt_len = prompt.len();
        Ok(Self { target, slots, prompt_len, most, target_forwards: 0, draft_forwards: 0 })
    }

    /// Passes of the target and of the drafter's model so far.
    pub(super) fn forwards(&self) -> (usize, usize) {
        (self.target_forwards, self.draft_forwards)
    }

    /// Copies the computed rows of the slot `from` to the slot `to`.
    pub(super) fn copy(&mut self, from: usize, to: usize) -> Result<(), Error> {
        let [from, to] = self
            .slots
            .get_disjoint_mut([from, to])
            .map_err(|_| Error::engine("a beam cannot take its own slot"))?;
        to.session.borrow_mut().copy_from(&mut from.session.borrow_mut())
    }

    /// Computes the wanted rows and the rows of drafts after them.
    pub(super) fn compute(
        &mut self,
        wanted: &mut [Wanted<'_>],
        chance: &mut dyn Chance,
        clock: &dyn Clock,
    ) -> Result<(), Error> {
        wanted.sort_by_key(|beam| beam.slot);
        let mut drafts = Vec::with_capacity(wanted.len());
        for (number, beam) in (self.target_forwards..).zip(wanted.iter()) {
            // Each draft is a separate round, because a site may be used once per round.
            chance.begin_round(number as u64);
            drafts.push(self.draft(beam, chance, clock)?);
        }
        let mut places = wanted.iter().map(|beam| beam.slot).peekable();
        let own = self.slots.iter().enumerate().filter(|(i, _)| places.next_if_eq(i).is_some());
        let mut sessions = own.map(|(_, slot)| slot.session.borrow_mut()).collect::<Vec<_>>();
        let each = sessions.iter_mut().zip(wanted.iter()).zip(&drafts);
        let works = each.map(|((session, beam), draft)| Work {
            session,
            context: &beam.context,
            draft,
            want: Want::All,
        });
        let evaluations = self.target.evaluate(&mut works.collect::<Vec<_>>())?;
        self.target_forwards += evaluations.len();
        for ((beam, draft), evaluation) in wanted.iter_mut().zip(drafts).zip(evaluations) {
            clock.forward(Who::Target, evaluation.computed);
            let pass = Rc::new(BeamPass { draft, rows: evaluation.rows });
            *beam.row = Some(RowAhead { pass, node: None });
        }
        Ok(())
    }

    fn draft(
        &mut self,
        beam: &Wanted<'_>,
        chance: &mut dyn Chance,
        clock: &dyn Clock,
    ) -> Result<Draft, Error> {
        let slot = &mut self.slots[beam.slot];
        // The row after the last token of a completion of maximum length is not needed.
        let room = self.most.saturating_sub(beam.context.len() + 1);
        let sizes = (self.prompt_len, self.target.info().vocab);
        let desk = PassDesk::new(&beam.context, Some(Rc::clone(&slot.session)));
        // What beams do with an end token is decided from the target's rows.
        let mut round = Round::new(&desk, sizes, &mut *slot.length, chance);
        round.limit = room.min(round.limit);
        let draft = at_once(slot.drafter.propose(&mut round), &desk, clock)?;
        self.draft_forwards += round.forwards;
        Ok(draft.at(beam.context.len()))
    }
}

impl Slot<'_> {
    /// Another slot that shares the computed prompt.
    fn share(&mut self) -> Result<Self, Error> {
        Ok(Self {
            session: Rc::new(RefCell::new(self.session.borrow_mut().share(usize::MAX)?)),
            drafter: self.drafter.try_clone()?,
            length: self.length.clone(),
        })
    }
}

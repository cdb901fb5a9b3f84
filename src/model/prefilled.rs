//! One prefill for many generations: a model whose sessions begin with the same tokens.

use std::cell::{Cell, OnceCell, RefCell};
use std::time::Duration;

use super::{
    Evaluation, LanguageModel, ModelInfo, ModelInputs, Session, Tap, Want, Work, evaluate_one,
};
use crate::core::clock::{Clock, Who};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::core::tree::Draft;

/// A model that computes a prefix when its first session is opened, and gives every
/// session a copy of the result, or a share in it. Its sessions behave like those of the model itself, but
/// a pass finds the prefix computed.
#[derive(Debug)]
pub struct Prefilled<'a> {
    model: &'a dyn LanguageModel,
    who: Who,
    prefix: &'a [Token],
    clock: &'a dyn Clock,
    /// A session that holds the prefix, and the time that its computation took.
    computed: OnceCell<(RefCell<Session>, Duration)>,
    opened: Cell<u32>,
    /// Whether sessions share the prefix, or have copies.
    shares: bool,
    /// What its sessions expect.
    expected: usize,
    /// The hidden states that its sessions keep.
    taps: &'a [Tap],
}

impl<'a> Prefilled<'a> {
    /// `model`, which plays the role `who`, with sessions that begin with `prefix`;
    /// `clock` times its computation. With an empty prefix it is the model itself.
    pub fn new(
        model: &'a dyn LanguageModel,
        who: Who,
        prefix: &'a [Token],
        clock: &'a dyn Clock,
    ) -> Self {
        let (computed, opened) = (OnceCell::new(), Cell::new(0));
        Self { model, who, prefix, clock, computed, opened, shares: false, expected: 0, taps: &[] }
    }

    /// A draft model as [`Self::new`] makes one; a head as it is, since its rows need the target's
    /// hidden states.
    pub fn draft(model: &'a dyn LanguageModel, prefix: &'a [Token], clock: &'a dyn Clock) -> Self {
        let alone = model.info().inputs == ModelInputs::Tokens;
        Self::new(model, Who::Draft, if alone { prefix } else { &[] }, clock)
    }

    /// The same with sessions that keep the hidden states that a drafter reads.
    #[must_use]
    pub fn keeping(self, drafter: Option<&'a dyn LanguageModel>) -> Self {
        let taps = drafter.map_or(&[][..], |drafter| drafter.info().inputs.taps());
        Self { taps, ..self }
    }

    /// The same with sessions that expect `tokens` tokens, see [`Session::expect`].
    #[must_use]
    pub fn expecting(self, tokens: usize) -> Self {
        Self { expected: tokens, ..self }
    }

    /// The same with sessions that keep the prefix once for all, where the engine can.
    #[must_use]
    pub fn sharing(self) -> Self {
        Self { shares: true, ..self }
    }

    /// The time for which the sessions opened so far would have computed their prefixes,
    /// had each done so itself: as long as the first one did.
    pub fn charged(&self) -> Duration {
        self.computed.get().map_or(Duration::ZERO, |(_, time)| *time * self.opened.get())
    }

    /// Computes the prefix in a session of its own.
    fn compute(&self) -> Result<(RefCell<Session>, Duration), Error> {
        let mut session = self.model.session()?;
        session.expect(self.expected)?;
        session.keep(self.taps, self.model.info())?;
        let start = self.clock.now();
        let work = Work {
            session: &mut session,
            context: self.prefix,
            draft: &Draft::empty(self.model.info().vocab),
            want: Want::Nothing,
        };
        let rows = evaluate_one(self.model, work)?.computed;
        self.clock.forward(self.who, rows);
        Ok((RefCell::new(session), self.clock.now() - start))
    }
}

impl LanguageModel for Prefilled<'_> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn session(&self) -> Result<Session, Error> {
        if self.prefix.is_empty() {
            return self.model.session();
        }
        let (session, _) = match self.computed.get() {
            Some(computed) => computed,
            None => {
                let computed = self.compute()?;
                self.computed.get_or_init(|| computed)
            }
        };
        self.opened.set(self.opened.get() + 1);
        if self.shares {
            session.borrow_mut().share(usize::MAX)
        } else {
            session.borrow().try_clone()
        }
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        self.model.evaluate(work)
    }

    fn identity(&self) -> *const () {
        self.model.identity()
    }

    fn threads(&self, rows: usize) -> usize {
        self.model.threads(rows)
    }

    fn for_each_row(&self) -> ForEachRow {
        self.model.for_each_row()
    }
}

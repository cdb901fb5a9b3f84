//! The passes that are timed.

use std::cell::RefCell;
use std::rc::Rc;

use super::DRAFTED;
use super::sample::Task;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::tree::Draft;
use crate::model::{
    Evaluation, LanguageModel, ModelInputs, Session, Tap, Want, Work, evaluate_one,
};

/// Where a pass is timed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchPlace {
    /// Context tokens of each sequence, including its first row.
    pub context: usize,
    /// Sequences in the pass.
    pub batch: usize,
    /// Whether they share their context, or have a cache of their own each.
    pub shared: bool,
}

impl BenchPlace {
    pub(super) fn alone(context: usize) -> Self {
        Self { context, batch: 1, shared: false }
    }
}

/// Checks that a model has room for `context` tokens and `more` tokens after them.
pub(crate) fn check_room(
    model: &dyn LanguageModel,
    context: usize,
    more: usize,
) -> Result<(), Error> {
    let info = model.info();
    let most = info.context_length.saturating_sub(more);
    if (1..=most).contains(&context) {
        return Ok(());
    }
    Err(Error::input(format!(
        "--context {context}: allowed is 1 to {most}, since model {} has {} positions and {more} \
         tokens follow",
        info.name, info.context_length
    )))
}

/// `length` tokens of the model's vocabulary. Their values do not affect its speed, unless they choose
/// experts.
pub(crate) fn text(model: &dyn LanguageModel, length: usize) -> Vec<Token> {
    (0..length).map(|i| (i * 7 + 3) as Token % model.info().vocab as Token).collect()
}

/// Sequences at a place. All passes that are timed there use the same, since caches of long
/// contexts are large.
#[derive(Debug, Clone)]
pub(crate) struct BenchSequences<'a> {
    model: &'a dyn LanguageModel,
    text: Rc<[Token]>,
    sessions: Rc<RefCell<Vec<Session>>>,
}

impl<'a> BenchSequences<'a> {
    /// Sequences that hold the context but for its last token, which is computed once.
    pub(crate) fn new(model: &'a dyn LanguageModel, place: BenchPlace) -> Result<Self, Error> {
        let text = text(model, place.context);
        let held = &text[..place.context - 1];
        let mut first = model.session()?;
        if !held.is_empty() {
            read(model, &mut first, held)?;
        }
        let copies = (1..place.batch).map(|_| match place.shared {
            true => first.share(held.len()),
            false => first.try_clone(),
        });
        let copies = copies.collect::<Result<Vec<_>, _>>()?;
        let sessions = [first].into_iter().chain(copies).collect();
        Ok(Self { model, text: text.into(), sessions: Rc::new(RefCell::new(sessions)) })
    }

    /// The same sequences, which keep three hidden states of every token, as for a head.
    pub(crate) fn keeping_states(self) -> Result<Self, Error> {
        let info = self.model.info();
        let layers = info.hidden.map_or(0, |hidden| hidden.layers);
        let taps = [layers / 4, layers / 2, layers - layers / 4].map(Tap::After);
        for session in &mut *self.sessions.borrow_mut() {
            session.keep(&taps, info)?;
        }
        Ok(self)
    }

    /// A task that runs a pass of `rows` rows of each sequence. The first of them is the last of
    /// its context tokens.
    pub(crate) fn pass(&self, rows: usize) -> Task<'a> {
        let mut pass = self.evaluations(rows);
        Box::new(move || pass().map(drop))
    }

    /// The distinct experts that such a pass needs, summed over the layers.
    pub(super) fn experts(&self, rows: usize) -> Result<usize, Error> {
        Ok(self.evaluations(rows)()?.first().map_or(0, |found| found.experts))
    }

    fn evaluations(&self, rows: usize) -> impl FnMut() -> Result<Vec<Evaluation>, Error> + use<'a> {
        let Self { model, text, sessions } = self.clone();
        let mut draft = Draft::empty(model.info().vocab);
        (1..rows).fold(None, |parent, i| Some(draft.certain(parent, text[i % text.len()])));
        move || {
            let (text, draft) = (&text[..], &draft);
            let mut sessions = sessions.borrow_mut();
            let work = sessions.iter_mut().map(|session| {
                // Discards what the previous pass computed.
                session.rewind(&text[..text.len() - 1])?;
                supply(model, session, (text.len() - 1, 1));
                Ok(Work { session, context: text, draft, want: Want::All })
            });
            model.evaluate(&mut work.collect::<Result<Vec<_>, Error>>()?)
        }
    }
}

/// A task that runs the draft passes of a round: [`DRAFTED`] passes of one row of each sequence.
pub(super) fn drafting(draft: &dyn LanguageModel, place: BenchPlace) -> Result<Task<'_>, Error> {
    let mut one = BenchSequences::new(draft, place)?.pass(1);
    Ok(Box::new(move || (0..DRAFTED).try_for_each(|_| one())))
}

/// Reads a prompt in an empty sequence.
pub(crate) fn prefill(model: &dyn LanguageModel, length: usize) -> Result<(), Error> {
    read(model, &mut model.session()?, &text(model, length))
}

fn read(model: &dyn LanguageModel, session: &mut Session, context: &[Token]) -> Result<(), Error> {
    supply(model, session, (0, context.len()));
    let draft = Draft::empty(model.info().vocab);
    evaluate_one(model, Work { session, context, draft: &draft, want: Want::Nothing }).map(drop)
}

/// Hands features to a head: zeros, which do not affect its speed, for `tokens` tokens from slot
/// `first` on.
fn supply(model: &dyn LanguageModel, session: &mut Session, (first, tokens): (usize, usize)) {
    if let ModelInputs::Features(features) = &model.info().inputs {
        session.supply(first, &vec![0.0; tokens * features.width]);
    }
}

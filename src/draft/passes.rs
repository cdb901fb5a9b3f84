//! A draft as a computation that pauses when it needs a model's pass, so that several sequences can
//! share passes.

use std::cell::RefCell;
use std::fmt;
use std::future::{self, Future};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::clock::{Clock, Who};
use crate::distribution::Token;
use crate::error::Error;
use crate::model::{Evaluation, LanguageModel, Session, Want, Work};
use crate::tree::{Draft, Row};

/// A computation, by default of a draft, that pauses when it needs a pass.
#[must_use]
pub struct Pausing<'f, T = Draft>(Pin<Box<dyn Future<Output = Result<T, Error>> + 'f>>);

impl<T> fmt::Debug for Pausing<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pausing")
    }
}

impl<'f, T> Pausing<'f, T> {
    /// Wraps a computation.
    pub fn new(computation: impl Future<Output = Result<T, Error>> + 'f) -> Self {
        Self(Box::pin(computation))
    }

    /// Runs to the end, or until it has requested a pass at its [`PassDesk`].
    pub fn resume(&mut self) -> Option<Result<T, Error>> {
        match Pin::new(self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(made) => Some(made),
            Poll::Pending => None,
        }
    }

    /// The result without a [`PassDesk`]: passes run immediately.
    ///
    /// # Errors
    /// Those of the computation.
    pub fn at_once(mut self) -> Result<T, Error> {
        self.resume().unwrap_or_else(|| Err(Error::engine("a draft waits for a pass")))
    }
}

impl<T> Future for Pausing<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

/// The desk at which a sequence's draft requests passes that other sequences may share.
#[derive(Debug, Default)]
pub struct PassDesk<'a> {
    wanted: RefCell<Option<WantedPass<'a>>>,
    made: RefCell<Option<Evaluation>>,
}

/// A pass that a draft needs.
#[derive(Debug)]
pub struct WantedPass<'a> {
    /// The model.
    pub model: &'a dyn LanguageModel,
    /// The model's session.
    pub session: Rc<RefCell<Session>>,
    /// Its committed tokens.
    pub context: Vec<Token>,
    /// The draft so far.
    pub draft: Draft,
    /// The requested rows.
    pub rows: Vec<Row>,
}

impl<'a> PassDesk<'a> {
    /// Requests a pass and waits for its result.
    pub(super) async fn pass(&self, wanted: WantedPass<'a>) -> Evaluation {
        self.wanted.replace(Some(wanted));
        let made = || self.made.take().map_or(Poll::Pending, Poll::Ready);
        future::poll_fn(|_| made()).await
    }

    /// Takes the requested pass, if there is one.
    pub fn wanted(&self) -> Option<WantedPass<'a>> {
        self.wanted.take()
    }

    /// Hands over the result of the requested pass.
    pub fn give(&self, made: Evaluation) {
        self.made.replace(Some(made));
    }
}

/// Runs the requested passes: one per model, shared by all drafts that need it.
///
/// # Errors
/// If a model fails.
pub fn make_passes(desks: &[PassDesk<'_>], clock: &dyn Clock) -> Result<(), Error> {
    let wanted = desks.iter().filter_map(|desk| Some((desk, desk.wanted()?)));
    let mut wanted = wanted.collect::<Vec<_>>();
    while let Some(model) = wanted.first().map(|(_, pass)| pass.model) {
        let own = |pass: &WantedPass<'_>| pass.model.identity() == model.identity();
        let (together, others) = wanted.into_iter().partition::<Vec<_>, _>(|(_, pass)| own(pass));
        let mut sessions = together.iter().map(|(_, pass)| pass.session.borrow_mut());
        let mut sessions = sessions.by_ref().collect::<Vec<_>>();
        let work = sessions.iter_mut().zip(&together).map(|(session, (_, pass))| Work {
            session,
            context: &pass.context,
            draft: &pass.draft,
            want: Want::Rows(&pass.rows),
        });
        let made = model.evaluate(&mut work.collect::<Vec<_>>())?;
        clock.forward(Who::Draft, made.iter().map(|made| made.computed).sum());
        together.iter().zip(made).for_each(|((desk, _), made)| desk.give(made));
        drop(sessions);
        wanted = others;
    }
    Ok(())
}

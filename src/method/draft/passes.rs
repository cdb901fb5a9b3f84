//! A draft as a computation that pauses when it needs a model's pass, so that several sequences can
//! share passes.

use std::cell::{RefCell, RefMut};
use std::future::{self, Future};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::core::clock::{Clock, Who};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::tree::{Draft, Row};
use crate::model::{Evaluation, LanguageModel, Session, Want, Work};

/// A computation, by default of a draft, that pauses when it needs a pass.
///
/// A drafter alternates between passes of its model and decisions on what they return. As an object
/// with a method per pass it would be a state machine of its own, with its loops turned inside out.
/// As an `async` block it is straight-line code: each `await` of a pass is a place where it may
/// wait for the drafts of other sequences, so that one pass serves all of them. Nothing else is
/// ever awaited, and there is no executor: `complete` resumes every draft until it has ended or
/// asks for a pass, runs the passes, and begins again.
pub type Pausing<'f, T = Draft> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'f>>;

/// The result of a computation, with passes that no other sequence shares. `desk` is that of its
/// [`Round`].
///
/// # Errors
/// Those of the computation.
///
/// [`Round`]: super::Round
pub fn at_once<T>(
    computation: Pausing<'_, T>,
    desk: &Rc<PassDesk<'_, '_>>,
    clock: &dyn Clock,
) -> Result<T, Error> {
    Drafting::new(desk, computation).at_once(clock)
}

/// The desk at which a sequence's draft requests passes that other sequences may share.
#[derive(Debug)]
pub struct PassDesk<'a, 'c> {
    context: &'c [Token],
    target: Option<Rc<RefCell<Session>>>,
    wanted: RefCell<Option<DraftPass<'a>>>,
    made: RefCell<Option<Result<DraftPass<'a>, Error>>>,
}

/// A pass that a draft needs.
#[derive(Debug)]
pub(super) struct DraftPass<'a> {
    pub(super) model: &'a dyn LanguageModel,
    pub(super) session: Rc<RefCell<Session>>,
    /// The draft so far, which the drafter lends to the pass.
    pub(super) draft: Draft,
    /// Number of tokens at the beginning of the context that have no row.
    pub(super) skipped: usize,
    /// The requested rows.
    pub(super) rows: Vec<Row>,
    /// Empty until the pass has been made.
    pub(super) found: Evaluation,
}

impl<'a, 'c> PassDesk<'a, 'c> {
    /// A desk for the drafts after these tokens; `target` is the sequence of the target, which has
    /// computed all of them but the last. Only heads read it.
    pub fn new(context: &'c [Token], target: Option<Rc<RefCell<Session>>>) -> Rc<Self> {
        Rc::new(Self { context, target, wanted: RefCell::default(), made: RefCell::default() })
    }

    /// The target's sequence.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn target(&self) -> Result<RefMut<'_, Session>, Error> {
        let session = self.target.as_ref().map(|target| target.borrow_mut());
        session.ok_or_else(no_target)
    }

    /// The same, to be shared with a pass.
    pub(super) fn shared_target(&self) -> Result<Rc<RefCell<Session>>, Error> {
        self.target.clone().ok_or_else(no_target)
    }

    /// The sequence's committed tokens.
    pub fn context(&self) -> &'c [Token] {
        self.context
    }

    /// Requests a pass and waits for its result.
    pub(super) async fn pass(&self, wanted: DraftPass<'a>) -> Result<DraftPass<'a>, Error> {
        self.wanted.replace(Some(wanted));
        future::poll_fn(|_| self.made.take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

fn no_target() -> Error {
    Error::setting("a head drafts only where the target runs, too")
}

/// A computation with its desk.
pub(crate) struct Drafting<'f, 'a, T> {
    desk: Rc<PassDesk<'a, 'f>>,
    computation: Pausing<'f, T>,
    end: Option<Result<T, Error>>,
}

impl<'f, 'a, T> Drafting<'f, 'a, T> {
    pub(crate) fn new(desk: &Rc<PassDesk<'a, 'f>>, computation: Pausing<'f, T>) -> Self {
        Self { desk: Rc::clone(desk), computation, end: None }
    }

    pub(crate) fn at_once(self, clock: &dyn Clock) -> Result<T, Error> {
        let end = complete(vec![self], clock).pop();
        end.unwrap_or_else(|| Err(Error::engine("a draft has no end")))
    }

    /// Runs to the end, or until a pass is requested, which is returned with its desk.
    fn resume(&mut self) -> Option<Requested<'_, 'a>> {
        if self.end.is_some() {
            return None;
        }
        match self.computation.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => {
                self.end = Some(end);
                None
            }
            Poll::Pending => Some(Requested { pass: self.desk.wanted.take()?, desk: &self.desk }),
        }
    }
}

/// A requested pass, and the desk to which it goes.
struct Requested<'d, 'a> {
    desk: &'d PassDesk<'a, 'd>,
    pass: DraftPass<'a>,
}

/// Runs drafts to their ends, in passes that they share.
pub(crate) fn complete<T>(
    mut drafts: Vec<Drafting<'_, '_, T>>,
    clock: &dyn Clock,
) -> Vec<Result<T, Error>> {
    while drafts.iter().any(|draft| draft.end.is_none()) {
        let mut requested = drafts.iter_mut().filter_map(Drafting::resume).collect::<Vec<_>>();
        while let Some(first) = requested.first() {
            let model = first.pass.model.identity();
            let own = |request: &Requested<'_, '_>| request.pass.model.identity() == model;
            let together;
            (together, requested) = requested.into_iter().partition(own);
            make_pass(together, clock);
        }
    }
    drafts.into_iter().filter_map(|draft| draft.end).collect()
}

/// Runs one pass of a model for all drafts that have requested it; if it fails, it fails for all.
fn make_pass(requested: Vec<Requested<'_, '_>>, clock: &dyn Clock) {
    match evaluate(&requested) {
        Ok(evaluations) => {
            clock.forward(Who::Draft, evaluations.iter().map(|one| one.computed).sum());
            for (Requested { desk, mut pass }, found) in requested.into_iter().zip(evaluations) {
                pass.found = found;
                desk.made.replace(Some(Ok(pass)));
            }
        }
        Err(error) => {
            for request in requested {
                request.desk.made.replace(Some(Err(error.clone())));
            }
        }
    }
}

fn evaluate(requested: &[Requested<'_, '_>]) -> Result<Vec<Evaluation>, Error> {
    let Some(model) = requested.first().map(|first| first.pass.model) else { return Ok(vec![]) };
    let mut sessions = Vec::with_capacity(requested.len());
    for request in requested {
        sessions.push(request.pass.session.borrow_mut());
    }
    let mut work = Vec::with_capacity(requested.len());
    for (session, Requested { desk, pass }) in sessions.iter_mut().zip(requested) {
        let want = Want::Rows(&pass.rows);
        let context = &desk.context[pass.skipped..];
        work.push(Work { session, context, draft: &pass.draft, want });
    }
    model.evaluate(&mut work)
}

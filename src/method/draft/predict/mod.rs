//! Predictors: what gives q at a row.
//!
//! A draft model reads tokens alone. A head also reads hidden states of the target. Drafters take
//! any predictor, since what differs is only what a row depends on.

mod first_layers;
mod head;
mod model;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use self::first_layers::FirstLayers;
use self::head::Head;
use self::model::DraftModel;
use super::PassDesk;
use crate::core::error::Error;
use crate::model::{LanguageModel, ModelInputs, Session, Tap};

/// A model that gives q, with its sequence.
pub(super) trait Predictor<'a>: fmt::Debug {
    /// The model that computes the rows.
    fn model(&self) -> &'a dyn LanguageModel;

    /// Its sequence, unless it is the target's.
    fn session(&self) -> Option<Rc<RefCell<Session>>>;

    /// The hidden states of the target that it reads.
    fn taps(&self) -> &'a [Tap];

    /// Number of tokens at the beginning of a text that have no row.
    fn skipped(&self) -> usize;

    /// Whether the target holds what the first row after the desk's context reads. A beam may have
    /// tokens that its sequence has not computed yet.
    ///
    /// # Errors
    /// If the target's sequence fails.
    fn is_ready(&self, desk: &PassDesk<'a, '_>) -> Result<bool, Error> {
        let _ = desk;
        Ok(true)
    }

    /// Called before a pass over the first `tokens` tokens of the desk's context.
    ///
    /// # Errors
    /// If the target lacks what the predictor reads.
    fn prepare(&mut self, desk: &PassDesk<'a, '_>, tokens: usize) -> Result<(), Error>;

    /// An independent copy.
    ///
    /// # Errors
    /// If the sequence cannot be copied.
    fn try_clone(&self) -> Result<Box<dyn Predictor<'a> + 'a>, Error>;
}

/// The predictor that a model is.
///
/// # Errors
/// If the model cannot open a session.
pub(super) fn predictor<'a>(
    model: &'a dyn LanguageModel,
) -> Result<Box<dyn Predictor<'a> + 'a>, Error> {
    let session = || Ok::<_, Error>(Rc::new(RefCell::new(model.session()?)));
    Ok(match &model.info().inputs {
        ModelInputs::Tokens => Box::new(DraftModel { model, session: session()? }),
        ModelInputs::Features(features) => Box::new(Head { model, session: session()?, features }),
        ModelInputs::FirstLayers(taps) => Box::new(FirstLayers { model, taps }),
    })
}

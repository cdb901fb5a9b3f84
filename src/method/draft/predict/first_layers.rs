//! Early exit: the target's own first layers, in the target's sequence (Elhoushi et al. 2024,
//! LayerSkip, arXiv 2404.16710).

use std::cell::RefCell;
use std::rc::Rc;

use super::{PassDesk, Predictor};
use crate::core::error::Error;
use crate::model::{LanguageModel, Session, Tap};

/// The first layers of a target. It has no sequence of its own: its rows are the target's, and the
/// pass that verifies a draft continues from them.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstLayers<'a> {
    pub(super) model: &'a dyn LanguageModel,
    pub(super) taps: &'a [Tap],
}

impl<'a> Predictor<'a> for FirstLayers<'a> {
    fn model(&self) -> &'a dyn LanguageModel {
        self.model
    }

    fn session(&self) -> Option<Rc<RefCell<Session>>> {
        None
    }

    fn taps(&self) -> &'a [Tap] {
        self.taps
    }

    fn skipped(&self) -> usize {
        0
    }

    fn prepare(&mut self, _desk: &PassDesk<'a, '_>, _tokens: usize) -> Result<(), Error> {
        Ok(())
    }

    fn try_clone(&self) -> Result<Box<dyn Predictor<'a> + 'a>, Error> {
        Ok(Box::new(*self))
    }
}

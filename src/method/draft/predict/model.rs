//! A draft model, which reads tokens alone.

use std::cell::RefCell;
use std::rc::Rc;

use super::{PassDesk, Predictor};
use crate::core::error::Error;
use crate::model::{LanguageModel, Session, Tap};

/// A draft model. Its session reconciles itself with the committed tokens, so no bookkeeping of
/// accepted tokens is needed here.
#[derive(Debug)]
pub(super) struct DraftModel<'a> {
    pub(super) model: &'a dyn LanguageModel,
    pub(super) session: Rc<RefCell<Session>>,
}

impl<'a> Predictor<'a> for DraftModel<'a> {
    fn model(&self) -> &'a dyn LanguageModel {
        self.model
    }

    fn session(&self) -> Option<Rc<RefCell<Session>>> {
        Some(Rc::clone(&self.session))
    }

    fn taps(&self) -> &'a [Tap] {
        &[]
    }

    fn skipped(&self) -> usize {
        0
    }

    fn prepare(&mut self, _desk: &PassDesk<'a, '_>, _tokens: usize) -> Result<(), Error> {
        Ok(())
    }

    fn try_clone(&self) -> Result<Box<dyn Predictor<'a> + 'a>, Error> {
        let session = Rc::new(RefCell::new(self.session.borrow().try_clone()?));
        Ok(Box::new(Self { model: self.model, session }))
    }
}

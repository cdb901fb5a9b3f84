//! A head, which reads hidden states of the target.
//!
//! The row of a committed token reads the target's hidden states of the token before it. These are
//! known for every committed token: when a round begins, the target has computed all tokens but the
//! last. The rows of drafted tokens continue from the head's own states, so they are computed again,
//! with the target's, once the tokens are accepted ([`Session::of_head`]).

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use super::{PassDesk, Predictor};
use crate::core::error::Error;
use crate::model::{Features, HeadFault, LanguageModel, Session, Tap};

/// A head with its sequence.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) model: &'a dyn LanguageModel,
    pub(super) session: Rc<RefCell<Session>>,
    pub(super) features: &'a Features,
}

impl<'a> Predictor<'a> for Head<'a> {
    fn model(&self) -> &'a dyn LanguageModel {
        self.model
    }

    fn session(&self) -> Option<Rc<RefCell<Session>>> {
        Some(Rc::clone(&self.session))
    }

    fn taps(&self) -> &'a [Tap] {
        &self.features.taps
    }

    fn skipped(&self) -> usize {
        usize::from(!self.features.first_row)
    }

    fn is_ready(&self, desk: &PassDesk<'a, '_>) -> Result<bool, Error> {
        desk.target()?.reaches(desk.context(), desk.context().len() - 1)
    }

    /// Hands the features of tokens to the head that it has no row of, and at least that of the
    /// last one: a pass computes it in any case.
    fn prepare(&mut self, desk: &PassDesk<'a, '_>, tokens: usize) -> Result<(), Error> {
        let (text, skipped) = (desk.context(), self.skipped());
        let Some(own) = text.get(skipped..tokens).filter(|own| !own.is_empty()) else {
            return Ok(());
        };
        let mut session = self.session.borrow_mut();
        if self.features.fault == Some(HeadFault::RejectedRowsKept) {
            session.keep_rejected(own);
        }
        let first = session.holds(own).min(own.len() - 1);
        // The feature of row i is that of the token before it, of which a text's first one has none.
        let (from, to) = (first + skipped, own.len() + skipped);
        let zeros = if from == 0 { self.features.width } else { 0 };
        let mut features = vec![0.0; zeros];
        let read = from.saturating_sub(1)..to - 1;
        features.extend(desk.target()?.states(text, read, &self.features.taps)?);
        if let Some(fault) = self.features.fault {
            self.spoil(fault, desk, (from..to, &mut features))?;
        }
        session.supply(first, &features);
        Ok(())
    }

    fn try_clone(&self) -> Result<Box<dyn Predictor<'a> + 'a>, Error> {
        let session = Rc::new(RefCell::new(self.session.borrow().try_clone()?));
        Ok(Box::new(Self { model: self.model, session, features: self.features }))
    }
}

impl Head<'_> {
    /// Makes the head's mistake, if it is in the features of these tokens.
    fn spoil(
        &self,
        fault: HeadFault,
        desk: &PassDesk<'_, '_>,
        (tokens, features): (Range<usize>, &mut [f32]),
    ) -> Result<(), Error> {
        let Features { width, taps, .. } = self.features;
        let (earlier, last) = features.split_at_mut(features.len() - width);
        match fault {
            HeadFault::PromptFeaturesMissing if tokens.start == self.skipped() => earlier.fill(0.0),
            HeadFault::FeatureStale if tokens.end > 2 => {
                let before = tokens.end - 3..tokens.end - 2;
                last.copy_from_slice(&desk.target()?.states(desk.context(), before, taps)?);
            }
            _ => {}
        }
        Ok(())
    }
}

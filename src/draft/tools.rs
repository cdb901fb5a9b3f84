//! What drafters may be made of besides their settings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::ngram_lm::Counts;
use crate::model::{Codec, LanguageModel, ModelError};

/// Models and texts that a drafter may use; what is absent is refused by the
/// drafters that need it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tools<'a> {
    /// The draft model.
    pub draft: Option<&'a dyn LanguageModel>,
    /// The target, for drafters that look at the answer.
    pub target: Option<&'a dyn LanguageModel>,
    /// Texts that drafters learn from.
    pub texts: Option<&'a Texts<'a>>,
}

/// Counted text files, each read once.
#[derive(Debug)]
pub struct Texts<'a> {
    codec: &'a dyn Codec,
    counted: RefCell<BTreeMap<(String, usize), Rc<Counts>>>,
}

impl<'a> Texts<'a> {
    /// Texts in the target's tokens.
    pub fn new(codec: &'a dyn Codec) -> Self {
        Self { codec, counted: RefCell::default() }
    }

    fn counts(&self, file: &str, order: usize) -> Result<Rc<Counts>, ModelError> {
        let key = (file.to_owned(), order);
        if let Some(counts) = self.counted.borrow().get(&key) {
            return Ok(Rc::clone(counts));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|e| ModelError::new(format!("ngram_text = {file}: cannot be read: {e}")))?;
        let tokens = self.codec.encode(&text)?;
        let mut counts = Counts::new(order);
        // No more than n tokens are looked at.
        let ends = (0..tokens.len()).map(|at| &tokens[(at + 1).saturating_sub(order)..=at]);
        ends.for_each(|end| counts.add(end));
        let counts = Rc::new(counts);
        self.counted.borrow_mut().insert(key, Rc::clone(&counts));
        Ok(counts)
    }
}

impl Tools<'_> {
    /// The n-grams of a text file.
    pub(super) fn counts(&self, file: &str, order: usize) -> Result<Rc<Counts>, ModelError> {
        let texts = self.texts.ok_or_else(|| {
            ModelError::new(format!("ngram_text = {file}: there is no tokenizer to read it with"))
        })?;
        texts.counts(file, order)
    }
}

//! What drafters may be made of besides their settings.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
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

/// Reads a text file; the error is a sentence that names it.
pub type ReadText = fn(&Path) -> Result<String, String>;

/// Text files, each read once: what is hashed is what is counted.
#[derive(Debug)]
pub struct Texts<'a> {
    codec: &'a dyn Codec,
    read_text: ReadText,
    read: RefCell<BTreeMap<String, Rc<str>>>,
    counted: RefCell<BTreeMap<(String, usize), Rc<Counts>>>,
}

impl<'a> Texts<'a> {
    /// Texts in the target's tokens, read by `read_text`.
    pub fn new(codec: &'a dyn Codec, read_text: ReadText) -> Self {
        Self { codec, read_text, read: RefCell::default(), counted: RefCell::default() }
    }

    /// The content of a file; a file that changes later does not change it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn content(&self, file: &str) -> Result<Rc<str>, ModelError> {
        if let Some(text) = self.read.borrow().get(file) {
            return Ok(Rc::clone(text));
        }
        let text = (self.read_text)(Path::new(file))
            .map_err(|e| ModelError::new(format!("ngram_text cannot be read: {e}")))?;
        let text = Rc::<str>::from(text);
        self.read.borrow_mut().insert(file.to_owned(), Rc::clone(&text));
        Ok(text)
    }

    fn counts(&self, file: &str, order: usize) -> Result<Rc<Counts>, ModelError> {
        let key = (file.to_owned(), order);
        if let Some(counts) = self.counted.borrow().get(&key) {
            return Ok(Rc::clone(counts));
        }
        let text = self.content(file)?;
        // An empty prompt has a token, an empty text has none.
        let tokens = if text.is_empty() { Vec::new() } else { self.codec.encode(&text)? };
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

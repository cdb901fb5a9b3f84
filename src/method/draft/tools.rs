//! Models and text files that drafters are built from.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use super::ngram_lm::Counts;
use crate::core::error::Error;
use crate::model::{Codec, LanguageModel};

/// Models and text files that a drafter may use. Building a drafter fails if it needs a missing
/// one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tools<'a> {
    /// The draft model.
    pub draft: Option<&'a dyn LanguageModel>,
    /// The target, for drafters that read its distribution.
    pub target: Option<&'a dyn LanguageModel>,
    /// Text files for drafters that count n-grams.
    pub texts: Option<&'a Texts<'a>>,
}

/// Reads a text file; the error is a sentence that names it.
pub type ReadText = fn(&Path) -> Result<String, Error>;

/// Text files. Each is read once, so the content that is hashed is the content that is
/// counted.
#[derive(Debug)]
pub struct Texts<'a> {
    codec: &'a dyn Codec,
    read_text: ReadText,
    read: RefCell<BTreeMap<String, Rc<str>>>,
    counted: RefCell<BTreeMap<(String, usize), Rc<Counts>>>,
}

impl<'a> Texts<'a> {
    /// No files yet; they will be read by `read_text` and tokenised by `codec`.
    pub fn new(codec: &'a dyn Codec, read_text: ReadText) -> Self {
        Self { codec, read_text, read: RefCell::default(), counted: RefCell::default() }
    }

    /// The content of a file, read on the first call; later changes of the file have no
    /// effect.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn content(&self, file: &str) -> Result<Rc<str>, Error> {
        if let Some(text) = self.read.borrow().get(file) {
            return Ok(Rc::clone(text));
        }
        let text = (self.read_text)(Path::new(file))
            .map_err(|e| Error::setting(format!("ngram_text cannot be read: {e}")))?;
        let text = Rc::<str>::from(text);
        self.read.borrow_mut().insert(file.to_owned(), Rc::clone(&text));
        Ok(text)
    }

    fn counts(&self, file: &str, order: usize) -> Result<Rc<Counts>, Error> {
        let key = (file.to_owned(), order);
        if let Some(counts) = self.counted.borrow().get(&key) {
            return Ok(Rc::clone(counts));
        }
        let text = self.content(file)?;
        // The codec encodes an empty text as one token, but it contains none.
        let tokens = if text.is_empty() { Vec::new() } else { self.codec.encode(&text)? };
        let mut counts = Counts::new(order);
        // `Counts::add` uses the last n tokens only.
        let ends = (0..tokens.len()).map(|at| &tokens[(at + 1).saturating_sub(order)..=at]);
        for end in ends {
            counts.add(end);
        }
        let counts = Rc::new(counts);
        self.counted.borrow_mut().insert(key, Rc::clone(&counts));
        Ok(counts)
    }
}

impl Tools<'_> {
    pub(super) fn counts(&self, file: &str, order: usize) -> Result<Rc<Counts>, Error> {
        let texts = self.texts.ok_or_else(|| {
            Error::setting(format!("ngram_text = {file}: no tokenizer is available to read it"))
        })?;
        texts.counts(file, order)
    }
}

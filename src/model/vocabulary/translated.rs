//! A draft model in the ids of a target with another vocabulary.

use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::SharedVocabulary;
use super::translation::Translation;
use super::translator::Translator;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::model::{Codec, Evaluation, KvCache, LanguageModel, ModelInfo, Session, Work};

/// A draft model that reads the target's contexts in its own tokens and whose rows are in the
/// target's ids, with every token impossible that the two do not share.
///
/// A session keeps the translation of its context, so a round encodes the end of the text
/// alone, and the model's own session keeps what has not changed of its tokens. A text that
/// is longer than the draft model's context is cut at its beginning.
///
/// Source: Timor et al. 2025, arXiv 2502.05202, Algorithm 4.
#[derive(Debug)]
pub struct TranslatedModel {
    inner: Box<dyn LanguageModel>,
    info: ModelInfo,
    translator: Rc<Translator>,
}

impl TranslatedModel {
    /// The draft model `inner` with the tokenizer `own` for a target with the tokenizer
    /// `codec`. It reads contexts as text.
    ///
    /// # Errors
    /// If a tokenizer does not say what its tokens stand for, or no token is shared.
    pub fn new(
        (target, codec): (&ModelInfo, &dyn Codec),
        (inner, own): (Box<dyn LanguageModel>, Arc<dyn Codec>),
    ) -> Result<Self, Error> {
        Ok(Self::by(Translator::of_texts(codec, own)?, target, inner))
    }

    /// The draft model `inner` for a target whose numbers stand for the same tokens, up to the
    /// smaller number of tokens and except control tokens. It reads contexts as they are, without
    /// the tokens that it lacks.
    ///
    /// # Errors
    /// If a tokenizer does not say what its tokens stand for, or other tokens differ; the first
    /// that does is named.
    pub fn prefix(
        (target, codec): (&ModelInfo, &dyn Codec),
        (inner, own): (Box<dyn LanguageModel>, Arc<dyn Codec>),
    ) -> Result<Self, Error> {
        Ok(Self::by(Translator::of_numbers((target, codec), (inner.info(), &*own))?, target, inner))
    }

    fn by(translator: Translator, target: &ModelInfo, inner: Box<dyn LanguageModel>) -> Self {
        let (shared, draft) = (translator.shared.len(), inner.info());
        let note = format!(
            "drafts the {shared} tokens that its {} have in common with the target's {}",
            draft.vocab, target.vocab
        );
        let note = draft.note.iter().cloned().chain([note]).collect::<Vec<_>>().join("; ");
        let info = ModelInfo {
            vocab: target.vocab,
            context_length: target.context_length,
            eos: target.eos.clone(),
            tokenizer_sha256: target.tokenizer_sha256.clone(),
            note: Some(note),
            hidden: None,
            ..draft.clone()
        };
        Self { inner, info, translator: Rc::new(translator) }
    }

    /// The tokens that can be drafted.
    pub fn shared(&self) -> &SharedVocabulary {
        &self.translator.shared
    }

    /// The same model with another idea of what is shared, for known-wrong methods.
    ///
    /// # Errors
    /// If its translations are in use already.
    pub(crate) fn forge(self, shared: SharedVocabulary) -> Result<Self, Error> {
        let translator = Rc::into_inner(self.translator);
        let translator = translator.ok_or_else(|| Error::engine("the model has sessions"))?;
        Ok(Self { translator: Rc::new(Translator { shared, ..translator }), ..self })
    }
}

impl LanguageModel for TranslatedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let cache = TranslatedCache {
            session: self.inner.session()?,
            translation: Translation::default(),
            translator: Rc::clone(&self.translator),
            positions: self.inner.info().context_length,
        };
        // The session inside counts the rows. Its text is about as long as that outside.
        Ok(Session::new(Box::new(cache), self.inner.info().context_length, 0))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let Translator { shared, filler, .. } = &*self.translator;
        let vocab = self.inner.info().vocab;
        let mut parts = Vec::with_capacity(work.len());
        for Work { session, context, draft, want } in work {
            let cache = session.cache().as_any().downcast_mut::<TranslatedCache>();
            let cache = cache.ok_or_else(|| Error::engine("not a session of this model"))?;
            let (session, context) = cache.read(context, draft.depth());
            let draft = shared.draft(draft, (context.len(), vocab), *filler);
            parts.push((session, context, draft, want.clone()));
        }
        let own = parts.iter_mut().map(|(session, context, draft, want)| Work {
            session,
            context,
            draft,
            want: want.clone(),
        });
        let mut evaluations = self.inner.evaluate(&mut own.collect::<Vec<_>>())?;
        for row in evaluations.iter_mut().flat_map(|evaluation| &mut evaluation.rows) {
            *row = shared.row(row);
        }
        Ok(evaluations)
    }

    fn threads(&self, rows: usize) -> usize {
        self.inner.threads(rows)
    }

    fn for_each_row(&self) -> ForEachRow {
        self.inner.for_each_row()
    }
}

/// The draft model's session, and the text that it has read.
#[derive(Debug)]
struct TranslatedCache {
    session: Session,
    translation: Translation,
    translator: Rc<Translator>,
    /// The length of the draft model's context.
    positions: usize,
}

impl TranslatedCache {
    /// The session and its own tokens for a context, with room for `depth` more.
    fn read(&mut self, context: &[Token], depth: usize) -> (&mut Session, Cow<'_, [Token]>) {
        let tokens = self.translation.of(context, &self.translator);
        let head = &self.translator.head;
        let head = if tokens.starts_with(head) { head.len() } else { 0 };
        (&mut self.session, end_of(tokens, self.positions, depth, head))
    }
}

/// The tokens that a context of `positions` is given: all of them, or the first `head` and
/// as many of the last ones as leave room for `depth` more. A quarter of the context is
/// cut at a time, so that the rows of the rest need not be computed in every round.
fn end_of(tokens: &[Token], positions: usize, depth: usize, head: usize) -> Cow<'_, [Token]> {
    let (quarter, room) = ((positions / 4).max(1), positions.saturating_sub(depth));
    let Some(excess) = tokens.len().checked_sub(room).filter(|excess| *excess > 0) else {
        return Cow::Borrowed(tokens);
    };
    let cut = (head + excess.next_multiple_of(quarter)).min(tokens.len() - 1);
    Cow::Owned([&tokens[..head.min(cut)], &tokens[cut..]].concat())
}

impl KvCache for TranslatedCache {
    /// The session outside holds no rows to be moved.
    fn copy_row(&mut self, _from: usize, _to: usize) -> Result<(), Error> {
        Err(Error::engine("the rows of a translated model are in its own session"))
    }

    fn expect(&mut self, slots: usize) -> Result<(), Error> {
        self.session.expect(slots)
    }

    fn try_clone(&self, _slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self {
            session: self.session.try_clone()?,
            translation: self.translation.clone(),
            translator: Rc::clone(&self.translator),
            positions: self.positions,
        }))
    }

    fn key(&self, _slots: usize) -> Vec<u8> {
        self.session.state_key()
    }

    fn rewind(&mut self, context: &[Token]) -> Result<(), Error> {
        let (session, tokens) = self.read(context, 0);
        session.rewind(&tokens)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

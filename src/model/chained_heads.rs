//! Heads in a row, one for each position of a draft: head k continues from the states of head
//! k − 1 (DeepSeek-V3, arXiv 2412.19437, section 2.2).
//!
//! Row j of head 0 has the token after the one whose feature it reads. Row j of head k has the
//! token k later, and reads the state of row j of head k − 1. So its last row has the last drafted
//! token, and each head has a sequence of its own, in which drafted tokens come after committed
//! ones. Rows of drafted tokens that are accepted stay as they are: what they read was known.

use std::any::Any;

use super::{
    Evaluation, Features, KvCache, LanguageModel, ModelInfo, ModelInputs, Session, Want, Work,
    evaluate_one,
};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::core::tree::{Draft, Row};

/// Heads of one target, each of which predicts one token more.
#[derive(Debug)]
pub(crate) struct ChainedHeads {
    heads: Vec<Box<dyn LanguageModel>>,
    info: ModelInfo,
    features: Features,
}

impl ChainedHeads {
    /// A chain of at least one head.
    ///
    /// # Errors
    /// If there is none, or the first one is no head.
    pub(crate) fn new(heads: Vec<Box<dyn LanguageModel>>) -> Result<Self, Error> {
        let first = heads.first().map(|head| head.info().clone());
        let Some(info @ ModelInfo { inputs: ModelInputs::Features(own), .. }) = &first else {
            return Err(Error::engine("a chain begins with a head"));
        };
        let features = own.clone();
        let parameters = heads.iter().map(|head| head.info().parameters).sum();
        let deepest = Some(heads.len());
        Ok(Self { info: ModelInfo { deepest, parameters, ..info.clone() }, heads, features })
    }

    /// The row after a node, or after the context: that of the head for its depth.
    fn row(&self, work: &mut Work<'_>, row: usize) -> Result<Evaluation, Error> {
        let path = row.checked_sub(1).map_or_else(Vec::new, |node| work.draft.tokens_to(node));
        let text = [work.context, &path].concat();
        let mut computed = 0;
        for level in 0..path.len() {
            let part = &text[level..level + work.context.len()];
            computed += self.level(work, (level, part), Want::Nothing)?.computed;
        }
        let last = self.level(work, (path.len(), &text[path.len()..]), Want::Row(Row::CONTEXT))?;
        Ok(Evaluation { computed: computed + last.computed, ..last })
    }

    /// The rows of committed tokens, of every head that has one.
    fn read(&self, work: &mut Work<'_>) -> Result<Evaluation, Error> {
        let mut computed = 0;
        for level in 0..self.heads.len().min(work.context.len()) {
            let part = &work.context[level..];
            computed += self.level(work, (level, part), Want::Nothing)?.computed;
        }
        Ok(Evaluation { computed, ..Evaluation::default() })
    }

    /// Evaluates a head over its part of a text.
    fn level(
        &self,
        work: &mut Work<'_>,
        (level, context): (usize, &[Token]),
        want: Want<'_>,
    ) -> Result<Evaluation, Error> {
        let head = self.heads.get(level).ok_or_else(|| Error::engine("a draft is too deep"))?;
        let first = work.session.of_chain(level)?.holds(context).min(context.len() - 1);
        let mut features = Vec::new();
        for slot in first..context.len() {
            let feature = match level.checked_sub(1) {
                None => work.session.supplied_at(slot),
                Some(before) => work.session.of_chain(before)?.states_at(slot),
            };
            let missing = || Error::engine(format!("row {slot} of head {level} has no feature"));
            features.extend_from_slice(feature.ok_or_else(missing)?);
        }
        let draft = Draft::empty(self.info.vocab);
        let session = work.session.of_chain(level)?;
        session.supply(first, &features);
        evaluate_one(&**head, Work { session, context, draft: &draft, want })
    }

    fn evaluate_one(&self, work: &mut Work<'_>) -> Result<Evaluation, Error> {
        let wanted = work.want.rows(work.draft.len());
        if wanted.is_empty() {
            let read = self.read(work)?;
            work.session.holds_exactly(work.context);
            return Ok(read);
        }
        let mut all = Evaluation::default();
        for row in wanted {
            let found = self.row(work, row)?;
            all.rows.extend(found.rows);
            all.computed += found.computed;
        }
        work.session.holds_exactly(work.context);
        Ok(all)
    }
}

impl LanguageModel for ChainedHeads {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let sessions = self.heads.iter().map(|head| head.session());
        let cache = ChainCache { sessions: sessions.collect::<Result<_, _>>()? };
        let positions = self.info.context_length;
        Ok(Session::new(Box::new(cache), usize::MAX, positions).of_head(&self.features, 0))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        work.iter_mut().map(|work| self.evaluate_one(work)).collect()
    }

    fn threads(&self, rows: usize) -> usize {
        self.heads.first().map_or(1, |head| head.threads(rows))
    }

    fn for_each_row(&self) -> ForEachRow {
        self.heads.first().map_or_else(ForEachRow::default, |head| head.for_each_row())
    }
}

/// The sequences of the heads.
#[derive(Debug)]
struct ChainCache {
    sessions: Vec<Session>,
}

impl Session {
    /// The sequence of head `level` in one of a chain.
    fn of_chain(&mut self, level: usize) -> Result<&mut Self, Error> {
        let cache = self.cache_of::<ChainCache>()?;
        cache.sessions.get_mut(level).ok_or_else(|| Error::engine("a chain lacks a sequence"))
    }
}

impl KvCache for ChainCache {
    /// The sequence outside holds no rows to be moved.
    fn copy_row(&mut self, _from: usize, _to: usize) -> Result<(), Error> {
        Err(Error::engine("the rows of a chain are in its heads' sequences"))
    }

    fn expect(&mut self, slots: usize) -> Result<(), Error> {
        self.sessions.iter_mut().try_for_each(|session| session.expect(slots))
    }

    fn try_clone(&self, _slots: usize) -> Result<Box<dyn KvCache>, Error> {
        let sessions = self.sessions.iter().map(Session::try_clone);
        Ok(Box::new(Self { sessions: sessions.collect::<Result<_, _>>()? }))
    }

    fn key(&self, _slots: usize) -> Vec<u8> {
        self.sessions.iter().flat_map(Session::state_key).collect()
    }

    fn rewind(&mut self, context: &[Token]) -> Result<(), Error> {
        let each = self.sessions.iter_mut().enumerate();
        for (level, session) in each {
            session.rewind(context.get(level..).unwrap_or_default())?;
        }
        Ok(())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

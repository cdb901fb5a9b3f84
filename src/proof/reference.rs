//! The draft model of a toy pair as the decode loop uses it, and its rows read directly from the
//! tables as the reference.

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::model::{LanguageModel, Role, Toy, ToyDrafts, ToyPair, TranslatedModel, block_text};

/// Rows of logits, computed without a session, a cache or a draft.
pub trait TableRows: std::fmt::Debug {
    /// The logits after a context and tokens drafted after it.
    ///
    /// # Errors
    /// If the table has no such context.
    fn after(&self, context: &[Token], drafted: &[Token]) -> Result<Vec<f64>, Error>;
}

impl TableRows for Toy {
    fn after(&self, context: &[Token], drafted: &[Token]) -> Result<Vec<f64>, Error> {
        Ok(self.logits(&[context, drafted].concat())?.to_vec())
    }
}

/// The draft model of `pair` for `target`. It uses the target's token ids if the pair has two
/// vocabularies.
///
/// # Errors
/// If a table is invalid.
pub fn draft_model(pair: &ToyPair, target: &Toy) -> Result<Box<dyn LanguageModel>, Error> {
    let draft = pair.drafter("draft")?;
    if pair.vocabulary().is_same() {
        return Ok(draft);
    }
    let target = (target.info(), &*pair.codec(Role::Target));
    Ok(Box::new(TranslatedModel::new(target, (draft, pair.codec(Role::Draft)))?))
}

/// The expected rows of [`draft_model`], from the tables and the words alone.
///
/// # Errors
/// If a table is invalid.
pub fn draft_rows(pair: &ToyPair) -> Result<Box<dyn TableRows>, Error> {
    let draft = pair.draft("draft")?;
    let block = |draft, markov| Box::new(RowsOfBlock { draft, markov });
    Ok(match pair.words {
        None if pair.drafts == ToyDrafts::Block => block(draft, true),
        None if pair.drafts == ToyDrafts::Parallel => block(draft, false),
        None => Box::new(draft),
        Some([target, own]) => Box::new(TranslatedRows { draft, target: target.0, own: own.0 }),
    })
}

/// The rows of a block.
#[derive(Debug)]
struct RowsOfBlock {
    draft: Toy,
    markov: bool,
}

impl TableRows for RowsOfBlock {
    fn after(&self, context: &[Token], drafted: &[Token]) -> Result<Vec<f64>, Error> {
        self.draft.after(&block_text(context, drafted, self.markov), &[])
    }
}

/// The rows of a draft model with its own words.
#[derive(Debug)]
struct TranslatedRows {
    draft: Toy,
    /// The target's words and the draft's, by id.
    target: &'static [&'static str],
    own: &'static [&'static str],
}

impl TableRows for TranslatedRows {
    fn after(&self, context: &[Token], drafted: &[Token]) -> Result<Vec<f64>, Error> {
        let own = |word: &str| self.own.iter().position(|other| *other == word);
        let drafted = drafted.iter().filter_map(|&t| own(self.target[t as usize]));
        let sequence = self.read(context).into_iter().chain(drafted.map(|own| own as Token));
        let logits = self.draft.logits(&sequence.collect::<Vec<_>>())?;
        let shared = |word: &&str| own(word).map_or(f64::NEG_INFINITY, |at| logits[at]);
        let row = self.target.iter().map(shared).collect::<Vec<_>>();
        if row.iter().any(|&logit| logit > f64::NEG_INFINITY) {
            return Ok(row);
        }
        let alike = |word: &&str| if own(word).is_some() { 0.0 } else { f64::NEG_INFINITY };
        Ok(self.target.iter().map(alike).collect())
    }
}

impl TranslatedRows {
    /// The context in the draft's words: always the longest word that comes next. Letters at which
    /// no word begins are skipped.
    fn read(&self, context: &[Token]) -> Vec<Token> {
        let text = context.iter().map(|&t| self.target[t as usize]).collect::<String>();
        let (mut tokens, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let fits = |&own: &usize| text[at..].starts_with(self.own[own]);
            let longest = (0..self.own.len()).filter(fits).max_by_key(|&own| self.own[own].len());
            tokens.extend(longest.map(|own| own as Token));
            at += longest.map_or(1, |own| self.own[own].len());
        }
        tokens
    }
}

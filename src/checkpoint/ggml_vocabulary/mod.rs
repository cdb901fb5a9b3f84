//! The vocabularies of GGUF files (`tokenizer.ggml.*`) as tokenizers.
//!
//! A text has the tokens that llama.cpp gives it, with these exceptions:
//! - No string in a text becomes a control token, unless special tokens are allowed.
//! - Of two user-defined tokens that overlap in a text, the one that begins first is found.
//! - A row of the model that a converter called `[PAD…]` belongs to no token.
//! - A byte without a token is an error; it is not left out.
//! - Where llama.cpp writes the pattern of a pre-tokenizer otherwise than the model's own
//!   tokenizer does, the latter counts.

mod around;
mod byte_level;
mod escaped;
mod merges;
mod metadata;
mod names;
mod pre_tokenizers;
mod score_greedy;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use tokenizers::Tokenizer;

use self::around::around;
use self::names::{TokenNames, cut};
use super::chat::TemplateSource;
use super::hf::{Dialect, HfTokenizer, Marks};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::UnknownName;
use crate::model::Codec;

/// The supported values of `tokenizer.ggml.model`.
const MODELS: &[&str] = &["gpt2", "llama", "gemma4"];

/// The vocabulary in a GGUF file: the values of its keys `tokenizer.ggml.*`.
///
/// A key that is missing is an empty list or `None`.
#[derive(Debug, Clone, Default)]
pub struct GgmlVocabulary {
    /// `model`: `gpt2` (byte-level BPE), `llama` (SentencePiece) or `gemma4`.
    pub model: String,
    /// `pre`: how byte-level BPE splits a text into words.
    pub pre: Option<String>,
    /// `tokens`: their names, by id.
    pub tokens: Vec<String>,
    /// `scores`: by id; SentencePiece merges into the token with the highest score first.
    pub scores: Vec<f32>,
    /// `token_type`, by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
    /// 6 byte.
    pub types: Vec<i32>,
    /// `merges`: two names with a space between them, the merge that comes first first.
    pub merges: Vec<String>,
    /// `bos_token_id`: the token before every text.
    pub bos: Option<Token>,
    /// `eos_token_id`: the token that ends a text.
    pub eos: Option<Token>,
    /// `eot_token_id`: the token that ends a turn.
    pub eot: Option<Token>,
    /// `eom_token_id`: the token that ends a message.
    pub eom: Option<Token>,
    /// `add_bos_token`: whether the token before every text is part of a prompt.
    pub add_bos: Option<bool>,
    /// `add_eos_token`: whether the token that ends a text is part of a prompt.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`: whether a space is put before a text.
    pub add_space_prefix: Option<bool>,
    /// `general.name`, by which llama.cpp knows that the tokens of Phi-3 remove the white
    /// space after them.
    pub name: String,
    /// `tokenizer.chat_template`: how a conversation becomes a prompt.
    pub chat_template: Option<String>,
}

/// A tokenizer of the library, and what it does not do by itself.
pub(super) type Made = (Tokenizer, Option<Box<dyn Dialect>>);

impl GgmlVocabulary {
    /// The codec of this vocabulary, which comes from `file`. With `special_tokens`, texts
    /// may contain control tokens.
    ///
    /// # Errors
    /// One sentence that names the file and the key at fault.
    pub fn codec(&self, file: &Path, special_tokens: bool) -> Result<Arc<dyn Codec>, Error> {
        Ok(Arc::new(self.tokenizer(file, self.tokens.len(), special_tokens)?))
    }

    /// The tokenizer of this vocabulary, for a model with `rows` embeddings.
    ///
    /// # Errors
    /// As [`Self::codec`], or if there are more tokens than rows.
    pub(super) fn tokenizer(
        &self,
        file: &Path,
        rows: usize,
        special_tokens: bool,
    ) -> Result<HfTokenizer, Error> {
        let names = TokenNames::read(self).map_err(|why| Error::file(file, why))?;
        let marks = self.marks(&names).map_err(|why| Error::file(file, why))?;
        let rows = (rows, "the number of rows of token_embd.weight is");
        let make = || self.make(&names, &marks);
        let chat = self.chat(file, &names);
        HfTokenizer::build(file, make, rows, marks.clone(), special_tokens, chat)
    }

    /// The chat template, with the names of the tokens that begin and end a text.
    fn chat(&self, file: &Path, names: &TokenNames) -> TemplateSource {
        let tokens = [("bos_token", self.bos(names)), ("eos_token", self.eos(names))];
        let name =
            |(key, id): (&str, Option<Token>)| Some((key.to_owned(), names.name(id?)?.into()));
        let tokens = tokens.into_iter().filter_map(name).collect();
        TemplateSource::File { file: file.to_owned(), template: self.chat_template.clone(), tokens }
    }

    fn make(&self, names: &TokenNames, marks: &Marks) -> Result<Made, String> {
        let (tokenizer, dialect, begins): (_, Box<dyn Dialect>, _) = match self.model.as_str() {
            "gpt2" => {
                let pre = pre_tokenizers::named(self.pre.as_deref().unwrap_or("default"))?;
                let (tokenizer, dialect) = byte_level::make(self, names, pre)?;
                (tokenizer, Box::new(dialect), pre.begins)
            }
            "llama" => {
                let (tokenizer, dialect) = escaped::by_scores(self, names, true)?;
                (tokenizer, Box::new(dialect), true)
            }
            "gemma4" => {
                let (tokenizer, dialect) = escaped::by_ranks(self, names)?;
                (tokenizer, Box::new(dialect), true)
            }
            other => {
                let known = MODELS.iter().copied();
                let unknown = UnknownName::new("tokenizer.ggml.model", &cut(other), known);
                return Err(unknown.to_string());
            }
        };
        self.finish((tokenizer, dialect), names, begins, marks.begin)
    }

    /// A tokenizer that gives a text the tokens of SentencePiece, where no neighbours make a
    /// control token.
    pub(super) fn sentence_piece(&self) -> Result<Made, String> {
        let names = TokenNames::read(self)?;
        let (tokenizer, dialect) = escaped::by_scores(self, &names, false)?;
        self.finish((tokenizer, Box::new(dialect)), &names, true, self.bos)
    }

    /// Adds the tokens that are found in texts by their names, and those around every text.
    fn finish(
        &self,
        (mut tokenizer, dialect): (Tokenizer, Box<dyn Dialect>),
        names: &TokenNames,
        begins: bool,
        bos: Option<Token>,
    ) -> Result<Made, String> {
        let added = names.added(&self.name);
        tokenizer.add_tokens(added).map_err(|e| format!("tokenizer.ggml.tokens: {e}"))?;
        let bos = (self.add_bos.unwrap_or(begins), bos);
        let eos = (self.add_eos.unwrap_or(false), self.eos(names));
        let around = around(names, bos, eos)?;
        tokenizer.with_post_processor(around);
        Ok((tokenizer, Some(dialect)))
    }

    /// The tokens that begin and end texts.
    fn marks(&self, names: &TokenNames) -> Result<Marks, String> {
        let (bos, eos) = (self.bos(names), self.eos(names));
        let ends = [("eos_token_id", eos), ("eot_token_id", self.eot), ("eom_token_id", self.eom)];
        for (key, id) in [("bos_token_id", bos)].iter().chain(&ends) {
            id.map_or(Ok(()), |id| names.check(key, id))?;
        }
        let mut end = ends.into_iter().filter_map(|(_, id)| id).collect::<Vec<_>>();
        end.extend(names.ends());
        end.sort_unstable();
        end.dedup();
        Ok(Marks::of(bos, end))
    }

    fn bos(&self, names: &TokenNames) -> Option<Token> {
        self.bos.or_else(|| self.usual(1, names))
    }

    fn eos(&self, names: &TokenNames) -> Option<Token> {
        self.eos.or_else(|| self.usual(2, names))
    }

    /// A token that has the same id in most files with SentencePiece, so that some leave
    /// it out.
    fn usual(&self, id: Token, names: &TokenNames) -> Option<Token> {
        (self.model == "llama" && names.name(id).is_some()).then_some(id)
    }
}

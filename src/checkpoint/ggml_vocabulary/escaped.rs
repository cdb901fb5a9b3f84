//! SentencePiece and what works like it: tokens are text in which spaces are written as
//! U+2581, and a character without a token becomes one token per byte.

use std::collections::HashMap;

use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    Model, ModelWrapper, Result as TokenizerResult, SplitDelimiterBehavior, Tokenizer,
};

use super::names::{NORMAL, TokenNames, TokenUse};
use super::score_greedy::{ScoreGreedy, byte_name};
use super::{Dialect, GgmlVocabulary, merges};
use crate::checkpoint::alphabet::SPACE;
use crate::core::distribution::Token;
use crate::model::Spelling;

/// A tokenizer that merges by scores, and the text of its tokens. `into_all` says whether
/// neighbours may make control tokens and those of bytes.
pub(super) fn by_scores(
    vocabulary: &GgmlVocabulary,
    names: &TokenNames,
    into_all: bool,
) -> Result<(Tokenizer, EscapedText), String> {
    let mut scores = scores(vocabulary)?;
    for (score, kind) in scores.iter_mut().zip(&vocabulary.types) {
        if !into_all && *kind != NORMAL {
            *score = f32::NAN;
        }
    }
    let vocab = names.vocab();
    let bytes = byte_tokens(|name| vocab.get(name).copied())?;
    let model = BPE::builder().vocab_and_merges(vocab, Vec::new());
    let model = model.build().map_err(|e| e.to_string())?;
    let spaced = vocabulary.add_space_prefix.unwrap_or(true);
    let merging = Merging::Scores(Box::new(ScoreGreedy { scores, bytes }));
    Ok((tokenizer(model, spaced)?, EscapedText::new(names, spaced, merging)))
}

/// A tokenizer that merges by the ranks of merges within a line, and the text of its
/// tokens.
pub(super) fn by_ranks(
    vocabulary: &GgmlVocabulary,
    names: &TokenNames,
) -> Result<(Tokenizer, EscapedText), String> {
    let fail = |e: tokenizers::Error| e.to_string();
    let vocab = names.vocab();
    byte_tokens(|name| vocab.get(name).copied())?;
    let merges = merges::read(&vocabulary.merges, &vocab)?;
    let model = BPE::builder().vocab_and_merges(vocab, merges).byte_fallback(true);
    let mut tokenizer = tokenizer(model.build().map_err(fail)?, false)?;
    let lines = SplitPattern::Regex("\n+".to_owned());
    let lines = Split::new(lines, SplitDelimiterBehavior::Isolated, false).map_err(fail)?;
    tokenizer.with_pre_tokenizer(Some(lines));
    Ok((tokenizer, EscapedText::new(names, false, Merging::Ranks)))
}

fn scores(vocabulary: &GgmlVocabulary) -> Result<Vec<f32>, String> {
    let (scores, tokens) = (&vocabulary.scores, vocabulary.tokens.len());
    if scores.len() < tokens {
        let scores = scores.len();
        return Err(format!("tokenizer.ggml.scores has {scores} values for {tokens} tokens"));
    }
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(format!("tokenizer.ggml.scores: the score of token {id} is not a number"));
    }
    // A negative zero is not less than zero.
    Ok(scores.iter().map(|score| score + 0.0).collect())
}

/// The tokens for the 256 bytes.
fn byte_tokens(id: impl Fn(&str) -> Option<Token>) -> Result<[Token; 256], String> {
    let mut bytes = [0; 256];
    for (byte, token) in (0..=u8::MAX).zip(&mut bytes) {
        let name = byte_name(byte);
        *token = id(&name).ok_or_else(|| format!("tokenizer.ggml.tokens lacks the byte {name}"))?;
    }
    Ok(bytes)
}

fn tokenizer(model: BPE, spaced: bool) -> Result<Tokenizer, String> {
    let spaces = Replace::new(" ", SPACE).map_err(|e| e.to_string())?;
    let mut steps = vec![NormalizerWrapper::Replace(spaces)];
    if spaced {
        steps.push(NormalizerWrapper::Prepend(Prepend::new(SPACE.to_owned())));
    }
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(Some(Sequence::new(steps))).map_err(|e| e.to_string())?;
    Ok(tokenizer)
}

/// Which of the possible merges is next.
#[derive(Debug)]
enum Merging {
    Scores(Box<ScoreGreedy>),
    /// Those of the library's model; line breaks alone are looked up first.
    Ranks,
}

/// Tokens in which U+2581 is a space, and tokens for single bytes.
#[derive(Debug)]
pub(super) struct EscapedText {
    uses: Vec<TokenUse>,
    bytes: HashMap<Token, u8>,
    /// Whether a space is put before a text.
    spaced: bool,
    merging: Merging,
}

impl EscapedText {
    fn new(names: &TokenNames, spaced: bool, merging: Merging) -> Self {
        let bytes = (0..=u8::MAX).map(|byte| (byte_name(byte), byte)).collect::<HashMap<_, _>>();
        let bytes = names.iter().filter_map(|(id, name)| Some((id, *bytes.get(name)?))).collect();
        Self { uses: names.uses().to_vec(), bytes, spaced, merging }
    }

    fn is_whole(&self, id: Token) -> bool {
        self.uses.get(id as usize) != Some(&TokenUse::Piece)
    }
}

impl Dialect for EscapedText {
    fn tokens(&self, model: &ModelWrapper, part: &str) -> TokenizerResult<Vec<tokenizers::Token>> {
        match &self.merging {
            Merging::Scores(greedy) => Ok(greedy.tokens(model, part)),
            Merging::Ranks => match model.token_to_id(part) {
                Some(id) if part.starts_with('\n') => {
                    Ok(vec![tokenizers::Token::new(id, part.to_owned(), (0, part.len()))])
                }
                _ => model.tokenize(part),
            },
        }
    }

    fn spelling(&self, id: Token, name: String) -> Spelling {
        match self.bytes.get(&id) {
            Some(byte) => Spelling::Byte(*byte),
            None if self.is_whole(id) => Spelling::Text(name.into_bytes()),
            None => Spelling::Text(name.replace(SPACE, " ").into_bytes()),
        }
    }

    fn text(&self, tokens: Vec<(Token, String)>) -> String {
        // A user-defined token at the beginning had no space put before it.
        let spaced = self.spaced && tokens.first().is_some_and(|(id, _)| !self.is_whole(*id));
        let mut text = Vec::new();
        for (id, name) in tokens {
            text.extend(self.spelling(id, name).bytes());
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        match text.strip_prefix(' ') {
            Some(rest) if spaced => rest.to_owned(),
            _ => text,
        }
    }
}

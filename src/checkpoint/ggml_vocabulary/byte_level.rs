//! Byte-level BPE: a text is split into words, whose bytes are written as characters and
//! merged.

use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    Model, ModelWrapper, Result as TokenizerResult, SplitDelimiterBehavior, Tokenizer,
};

use super::names::{TokenNames, TokenUse};
use super::pre_tokenizers::PreTokenizer;
use super::{Dialect, GgmlVocabulary, merges};
use crate::checkpoint::alphabet::{self, BYTES};
use crate::core::distribution::Token;
use crate::model::Spelling;

/// A tokenizer of this kind, and the text of its tokens.
pub(super) fn make(
    vocabulary: &GgmlVocabulary,
    names: &TokenNames,
    pre: &PreTokenizer,
) -> Result<(Tokenizer, ByteLevelText), String> {
    let fail = |e: tokenizers::Error| e.to_string();
    let vocab = names.vocab();
    let merges = merges::read(&vocabulary.merges, &vocab)?;
    let model = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre.whole_words);
    let mut tokenizer = Tokenizer::new(model.build().map_err(fail)?);
    tokenizer.with_pre_tokenizer(Some(words(pre).map_err(fail)?));
    Ok((tokenizer, ByteLevelText { uses: names.uses().to_vec() }))
}

/// Splits a text by one pattern after the other, and writes bytes as characters.
pub(super) fn words(pre: &PreTokenizer) -> TokenizerResult<Sequence> {
    let split = |pattern: &&str| {
        let pattern = SplitPattern::Regex((*pattern).to_owned());
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map(PreTokenizerWrapper::Split)
    };
    let mut steps = pre.patterns.iter().map(split).collect::<TokenizerResult<Vec<_>>>()?;
    steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, false)));
    Ok(Sequence::new(steps))
}

/// Tokens that are made of bytes, written as characters.
#[derive(Debug)]
pub(super) struct ByteLevelText {
    uses: Vec<TokenUse>,
}

impl Dialect for ByteLevelText {
    fn tokens(&self, model: &ModelWrapper, part: &str) -> TokenizerResult<Vec<tokenizers::Token>> {
        let tokens = model.tokenize(part)?;
        // The library leaves out what has no token.
        if tokens.last().map_or(0, |token| token.offsets.1) == part.len() {
            return Ok(tokens);
        }
        let known = |c: &char| model.token_to_id(c.encode_utf8(&mut [0; 4])).is_some();
        let byte = part.chars().find(|c| !known(c)).and_then(|c| BYTES.get(&c));
        let byte = byte.map_or_else(String::new, |byte| format!(" 0x{byte:02X}"));
        Err(format!("it contains the byte{byte}, for which there is no token").into())
    }

    fn spelling(&self, id: Token, name: String) -> Spelling {
        match self.uses[id as usize] {
            TokenUse::Piece => alphabet::byte_level(&name),
            _ => Spelling::Text(name.into_bytes()),
        }
    }

    fn text(&self, tokens: Vec<(Token, String)>) -> String {
        let mut text = Vec::new();
        for (id, name) in tokens {
            text.extend(self.spelling(id, name).bytes());
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

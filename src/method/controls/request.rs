//! Controls as requests, experiments and the command line state them, turned into those of a sampler.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::grammar::GrammarCompiler;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{ControlSet, Controls, GrammarKind};
use crate::model::{Codec, ModelInfo};

/// The largest bias, as in OpenAI's protocol.
const MOST_BIAS: f64 = 100.0;
/// The most words, and the longest grammar in bytes.
const MOST_WORDS: usize = 1024;
const LONGEST_GRAMMAR: usize = 1 << 20;

/// What a request asks of the tokens of a completion, in its own words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlRequest {
    /// A JSON schema whose values the completion is one of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<String>,
    /// A regular expression that matches the whole completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// A grammar in the EBNF of Lark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lark: Option<String>,
    /// The only tokens that may occur; all may if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_token_ids: Vec<Token>,
    /// Texts that may not occur in the tokens in which they are encoded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bad_words: Vec<String>,
    /// The tokens before which the completion cannot end.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_tokens: usize,
    /// Tokens that end the completion, besides those of the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_token_ids: Vec<Token>,
    /// What is added to the logits of tokens, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub logit_bias: BTreeMap<String, f64>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ControlRequest {
    /// The controls for a model. They do not change with `ignore_eos`.
    ///
    /// # Errors
    /// Names the key and its allowed values.
    pub fn controls(
        &self,
        codec: &dyn Codec,
        model: &ModelInfo,
        compiler: &GrammarCompiler,
    ) -> Result<Controls, Error> {
        let id = |key: &str, token: Token| match (token as usize) < model.vocab {
            true => Ok(token),
            false => Err(Error::setting(format!(
                "{key}: {token} is no token of {}, which has {}",
                model.name, model.vocab
            ))),
        };
        let ids = |key: &'static str, tokens: &[Token]| {
            tokens.iter().map(|&token| id(key, token)).collect::<Result<Vec<_>, _>>()
        };
        let stops = ids("stop_token_ids", &self.stop_token_ids)?;
        let mut logit_bias = Vec::with_capacity(self.logit_bias.len());
        for (key, &bias) in &self.logit_bias {
            let bad = || {
                Error::setting(format!(
                    "logit_bias: \"{key}\": {bias} is not allowed: the key is a token id, the value \
                     a number from -{MOST_BIAS} to {MOST_BIAS}"
                ))
            };
            let token = key.trim().parse::<Token>().map_err(|_| bad())?;
            if !(-MOST_BIAS..=MOST_BIAS).contains(&bias) {
                return Err(bad());
            }
            logit_bias.push((id("logit_bias", token)?, bias));
        }
        let grammar = self.grammar()?;
        let grammar = grammar.map(|written| compiler.compile(written, codec, model)).transpose()?;
        let set = ControlSet {
            grammar,
            allowed_token_ids: ids("allowed_token_ids", &self.allowed_token_ids)?,
            bad_words: self.words(codec)?,
            min_tokens: self.min_tokens,
            ends: if self.min_tokens == 0 { Vec::new() } else { [&model.eos[..], &stops].concat() },
            logit_bias,
        };
        Ok(set.into())
    }

    /// The grammar, if there is one.
    fn grammar(&self) -> Result<Option<(GrammarKind, &str)>, Error> {
        let written = [
            (GrammarKind::JsonSchema, &self.json_schema),
            (GrammarKind::Regex, &self.regex),
            (GrammarKind::Lark, &self.lark),
        ];
        let mut given =
            written.into_iter().filter_map(|(kind, text)| Some((kind, &**text.as_ref()?)));
        let first = given.next();
        if let (Some((kind, _)), Some((other, _))) = (first, given.next()) {
            return Err(Error::setting(format!(
                "{} and {} are both set: a completion has one grammar",
                kind.name(),
                other.name()
            )));
        }
        match first {
            Some((kind, text)) if text.len() > LONGEST_GRAMMAR => Err(Error::setting(format!(
                "{} has {} bytes: allowed are up to {LONGEST_GRAMMAR}",
                kind.name(),
                text.len()
            ))),
            first => Ok(first),
        }
    }

    /// The tokens of the bad words, as they are at the beginning of a text and after a space.
    fn words(&self, codec: &dyn Codec) -> Result<Vec<Vec<Token>>, Error> {
        if self.bad_words.len() > MOST_WORDS
            || self.bad_words.iter().any(|word| word.trim().is_empty())
        {
            return Err(Error::setting(format!(
                "bad_words: allowed are up to {MOST_WORDS} texts that are not empty"
            )));
        }
        let mut words = Vec::new();
        for word in &self.bad_words {
            let alone = codec.encode_part(word)?;
            // Some tokenizers have no space.
            let spaced = codec.encode_part(&format!(" {}", word.trim_start())).unwrap_or_default();
            for tokens in [alone, spaced] {
                if !tokens.is_empty() && !words.contains(&tokens) {
                    words.push(tokens);
                }
            }
        }
        Ok(words)
    }
}

//! The options that forbid, allow or prefer tokens.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Controls;
use crate::io::input::read_any_text;
use crate::method::controls::{ControlRequest, GrammarCompiler};
use crate::model::Loaded;

/// What the completion may be.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Controls (applied before sampling, in this order)")]
pub(super) struct ControlArgs {
    /// The completion is a value of this JSON schema
    #[arg(long, value_name = "TEXT|@FILE")]
    json_schema: Option<String>,
    /// The completion matches this regular expression
    #[arg(long, value_name = "TEXT|@FILE")]
    regex: Option<String>,
    /// The completion follows this grammar, in the EBNF of Lark
    #[arg(long, value_name = "TEXT|@FILE")]
    lark: Option<String>,
    /// Only these tokens may occur
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    allowed_token_ids: Vec<Token>,
    /// This text may not occur, in the tokens in which it is encoded; repeatable
    #[arg(long, value_name = "TEXT")]
    bad_words: Vec<String>,
    /// The completion has at least this many tokens
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_tokens: usize,
    /// These tokens end the completion, besides those of the model
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    stop_token_ids: Vec<Token>,
    /// Add this to the logit of a token; repeatable
    #[arg(long, value_name = "ID=X", allow_negative_numbers = true)]
    logit_bias: Vec<String>,
}

impl ControlArgs {
    /// The options as a request.
    ///
    /// # Errors
    /// If a file cannot be read, or a bias has no token or number.
    pub(super) fn request(&self) -> Result<ControlRequest> {
        let grammar = |option: &str, text: &Option<String>| {
            let read = |text: &String| match text.strip_prefix('@') {
                Some(file) => read_any_text(Path::new(file)).with_context(|| format!("--{option}")),
                None => Ok(text.clone()),
            };
            text.as_ref().map(read).transpose()
        };
        let mut logit_bias = BTreeMap::new();
        for bias in &self.logit_bias {
            let pair = bias.split_once('=');
            let Some((token, Ok(number))) = pair.map(|(id, x)| (id, x.trim().parse::<f64>()))
            else {
                bail!("--logit-bias {bias}: allowed is ID=X, with a token id and a number");
            };
            logit_bias.insert(token.to_owned(), number);
        }
        Ok(ControlRequest {
            json_schema: grammar("json-schema", &self.json_schema)?,
            regex: grammar("regex", &self.regex)?,
            lark: grammar("lark", &self.lark)?,
            allowed_token_ids: self.allowed_token_ids.clone(),
            bad_words: self.bad_words.clone(),
            min_tokens: self.min_tokens,
            stop_token_ids: self.stop_token_ids.clone(),
            logit_bias,
        })
    }
}

/// The controls of a request for a model.
pub(super) fn controls(request: &ControlRequest, target: &Loaded) -> Result<Controls, Error> {
    request.controls(&*target.codec, target.model.info(), &GrammarCompiler::default())
}

//! Options that choose a few prompts, for commands that need some but are no experiment.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::options::count;
use crate::checkpoint::Catalog;
use crate::checkpoint::pair::Pair;
use crate::core::distribution::Token;
use crate::io::shown;
use crate::model::{Conversation, LanguageModel, Loaded};
use crate::run::prompt::{self, Question};
use crate::tapes::recording::TapePrompt;

/// Prompts that are used unless others are named: they ship with the program.
pub(super) const SHIPPED: [&str; 3] = ["code", "docs", "edits"];

/// How many prompts are used where a few are enough.
const FEW: usize = 20;

/// Which prompts, and how they are encoded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompts")]
pub(super) struct SomePrompts {
    /// Prompts: a set or a file, as in experiments; repeatable [default: code, docs, edits]
    #[arg(long, value_name = "NAME|FILE")]
    prompts: Vec<String>,
    /// Encode the prompts as conversations, by the target's chat template
    #[arg(long)]
    chat: bool,
    /// Number of prompts, taken evenly from all of them [default: 20, or all that are named
    /// where texts are recorded]
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<usize>,
}

impl SomePrompts {
    /// Whether the command line names any.
    pub(super) fn are_named(&self) -> bool {
        !self.prompts.is_empty()
    }

    /// The prompts in tokens, evenly from all that were named; those that leave no room for
    /// `new` tokens are left out.
    ///
    /// # Errors
    /// If a file is missing or malformed, or no prompt is left.
    pub(super) fn tokens(&self, pair: &Pair, new: usize) -> Result<Vec<Vec<Token>>> {
        self.few(FEW, pair, new)
    }

    /// The same, `few` of them if no number was named.
    pub(super) fn few(&self, few: usize, pair: &Pair, new: usize) -> Result<Vec<Vec<Token>>> {
        let few =
            Self { limit: Some(self.limit.unwrap_or(few)), prompts: self.prompts.clone(), ..*self };
        Ok(few.chosen(pair, new)?.into_iter().map(|prompt| prompt.tokens).collect())
    }

    /// As [`Self::tokens`], with ids and categories; all of the prompts if no number was named.
    pub(super) fn chosen(&self, pair: &Pair, new: usize) -> Result<Vec<TapePrompt>> {
        let room = |model: &dyn LanguageModel| model.info().context_length.saturating_sub(new);
        let most = pair.draft_model().map_or(usize::MAX, room).min(room(&*pair.target.model));
        let chosen = self.chosen_by(most, |prompt| encoded(prompt, &pair.target, self.chat))?;
        if chosen.is_empty() {
            bail!("no prompt leaves room for {new} tokens in the context of the models");
        }
        Ok(chosen)
    }

    /// The prompts that have up to `most` tokens, by a model that is not here.
    pub(super) fn chosen_by(
        &self,
        most: usize,
        encode: impl Fn(&Question) -> Result<Vec<Token>>,
    ) -> Result<Vec<TapePrompt>> {
        let default = if self.are_named() { "" } else { ", used by default (--prompts)" };
        let mut chosen = Vec::new();
        for prompt in questions(&self.prompts)? {
            let place = || format!("prompt {}{default}", shown::line(&prompt.id));
            let tokens = encode(&prompt).with_context(place)?;
            if (1..=most).contains(&tokens.len()) {
                chosen.push(TapePrompt { id: prompt.id, category: prompt.category, tokens });
            }
        }
        let limit = self.limit.unwrap_or(usize::MAX).max(1).min(chosen.len());
        Ok((0..limit).map(|i| chosen[i * chosen.len() / limit].clone()).collect())
    }
}

/// The questions of these sets and files, or of those that ship with the program.
pub(super) fn questions(names: &[String]) -> Result<Vec<Question>> {
    let catalog = Catalog::near(Path::new("."));
    let shipped = SHIPPED.map(str::to_owned);
    let names = if names.is_empty() { &shipped } else { names };
    let mut all = Vec::new();
    for name in names {
        all.extend(prompt::read(&catalog.prompts(name)?)?);
    }
    Ok(all)
}

/// The tokens of the first turn of a question.
fn encoded(question: &Question, target: &Loaded, chat: bool) -> Result<Vec<Token>> {
    let (asked, codec) = (&question.asked, &target.codec);
    if !chat {
        return Ok(asked.encode_alone(target.model.info().vocab, |text| codec.encode(text))?);
    }
    let (messages, tools) = (asked.messages(None)?, asked.tools.clone());
    Ok(codec.encode_chat(&Conversation { messages, tools, ..Conversation::default() })?)
}

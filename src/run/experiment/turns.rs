//! The turns of questions as prompts. Without `chat`, the prompt of a question is its first
//! turn. With it, a prompt is the conversation so far as the target's chat template writes
//! it; the model's own answers in it are those of plain greedy decoding, so that all cells,
//! sampling settings and repeats get the same prompts, and a plan knows all of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow, bail};

use super::arguments::ChatArguments;
use super::choice::{Chosen, Room, too_long};
use super::material::Material;
use super::progress::RunProgress;
use super::prompts::Prompt;
use super::spec::Spec;
use super::values::LongPrompt;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::SamplingParams;
use crate::method::decode::{
    Generation, MethodSpec, NoObserver, PLAIN, StopReason, StopRules, generate,
};
use crate::method::draft::Tools;
use crate::model::{ChatDate, ChatMessage, Conversation};
use crate::run::prompt::{Asked, Question};

/// How questions become prompts.
#[derive(Debug)]
pub(super) struct Script<'a> {
    spec: &'a Spec,
    material: &'a Material<'a>,
    arguments: &'a ChatArguments,
    today: Option<ChatDate>,
}

impl<'a> Script<'a> {
    /// The script of an experiment.
    ///
    /// # Errors
    /// If keys for conversations are set without `chat`, or have values that are not
    /// allowed.
    pub(super) fn new(
        spec: &'a Spec,
        material: &'a Material<'a>,
        arguments: &'a ChatArguments,
    ) -> Result<Self> {
        let keys = [
            ("system", spec.system.is_some()),
            ("chat_date", spec.chat_date.is_some()),
            ("turns", spec.turns.is_some()),
            ("chat_arguments", !arguments.is_empty()),
        ];
        if let Some((key, _)) = keys.iter().find(|(_, set)| *set && !spec.chat) {
            bail!("\"{key}\" is for conversations: set chat = true, or leave it out");
        }
        if spec.chat && spec.on_long_prompt == LongPrompt::Truncate {
            bail!(
                "\"on_long_prompt\" = \"truncate\" would cut off what the chat template begins \
                 with: allowed with chat = true is \"error\" or \"skip\""
            );
        }
        if spec.chat && spec.input_tokens.is_some() {
            bail!(
                "\"input_tokens\" would cut off what the chat template ends with: leave it out, or \
                 chat = true"
            );
        }
        for (name, _) in arguments.words() {
            if !material.codec.chat_names(name)? {
                bail!("\"chat_arguments\": the target's chat template does not read \"{name}\"");
            }
        }
        let today =
            spec.chat_date.as_deref().map(str::parse).transpose().context("\"chat_date\"")?;
        Ok(Self { spec, material, arguments, today })
    }

    pub(super) fn questions(&self) -> &'a [Question] {
        self.material.prompts
    }

    /// The first turn of a question as a prompt.
    pub(super) fn first(&self, question: &Question) -> Prompt {
        let Question { id, category, asked } = question;
        let text = asked.turns.first().cloned().unwrap_or_default();
        Prompt { id: id.clone(), category: category.clone(), text }
    }

    /// The tokens of the first turn of a question.
    ///
    /// # Errors
    /// If it cannot be encoded, or only as a conversation.
    pub(super) fn encode_first(&self, question: &Question) -> Result<Vec<Token>, Error> {
        if self.spec.chat {
            return self.encode(&question.asked, self.opening(question)?);
        }
        let Material { codec, target, .. } = self.material;
        question.asked.encode_alone(target.vocab, |text| codec.encode(text))
    }

    /// What the tokenizer puts before every text.
    pub(super) fn head(&self) -> Vec<Token> {
        self.material.codec.head()
    }

    /// The messages up to the first turn.
    fn opening(&self, question: &Question) -> Result<Vec<ChatMessage>, Error> {
        question.asked.messages(self.spec.system.as_deref())
    }

    fn encode(&self, asked: &Asked, messages: Vec<ChatMessage>) -> Result<Vec<Token>, Error> {
        let (tools, arguments) = (asked.tools.clone(), self.arguments.0.clone());
        let conversation = Conversation { messages, tools, arguments, today: self.today };
        self.material.codec.encode_chat(&conversation)
    }

    /// Adds the further turns of the chosen questions, each after the turn before it, and
    /// returns the number of turns of every question that has several.
    ///
    /// # Errors
    /// If the target cannot answer, or lists the turns that are too long.
    pub(super) fn add_later_turns(
        &self,
        chosen: &mut Chosen,
        room: Room<'_>,
    ) -> Result<BTreeMap<String, usize>> {
        let most = if self.spec.chat { self.spec.turns.unwrap_or(usize::MAX) } else { 1 };
        let turns = |question: &Question| question.asked.turns.len().min(most);
        let questions = chosen.questions.iter().map(|&i| &self.questions()[i]);
        let total = questions.clone().map(|question| turns(question).saturating_sub(1)).sum();
        if total == 0 {
            return Ok(BTreeMap::new());
        }
        let mut progress = RunProgress::new("answers to earlier turns", total, 0);
        let firsts = std::mem::take(&mut chosen.prompts).into_iter();
        let firsts = firsts.zip(std::mem::take(&mut chosen.tokens));
        let (mut counts, mut long) = (BTreeMap::new(), Vec::new());
        for (question, (prompt, mut tokens)) in questions.zip(firsts) {
            let mut messages = self.opening(question)?;
            chosen.prompts.push(prompt);
            chosen.tokens.push(tokens.clone());
            for (number, turn) in (2..).zip(&question.asked.turns[1..turns(question)]) {
                let id = format!("{}/{number}", question.id);
                let place = || format!("prompt {id} cannot be run");
                messages
                    .push(ChatMessage::new("assistant", self.answer(&tokens).with_context(place)?));
                messages.push(ChatMessage::new("user", turn));
                progress.advance("");
                tokens = self.encode(&question.asked, messages.clone()).with_context(place)?;
                if tokens.len() > room.before(self.spec.max_tokens) {
                    long.push((id, tokens.len()));
                    break;
                }
                let category = question.category.clone();
                chosen.prompts.push(Prompt { id, category, text: turn.clone() });
                chosen.tokens.push(tokens.clone());
                counts.insert(question.id.clone(), number);
            }
        }
        match self.spec.on_long_prompt {
            _ if long.is_empty() => {}
            LongPrompt::Skip => {
                chosen.choice.ended = long.into_iter().map(|(id, _)| id).collect();
                chosen.choice.of = self.questions().len();
            }
            _ => bail!(too_long(self.spec, room, &long, total)),
        }
        Ok(counts)
    }

    /// The text with which the target answers a conversation: plain greedy decoding, up to a
    /// token that ends a text.
    fn answer(&self, tokens: &[Token]) -> Result<String> {
        let Material { answers, codec, .. } = self.material;
        let model = answers.ok_or_else(|| anyhow!("no model is there to answer earlier turns"))?;
        let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
        let plain = MethodSpec { drafter: PLAIN.to_owned(), sampling, ..MethodSpec::default() };
        let method = plain.build_with(Tools { draft: None, target: Some(model), texts: None })?;
        let eos = model.info().eos.clone();
        let stop = StopRules { eos, ..StopRules::max_tokens(self.spec.max_tokens) };
        let mut generation = Generation::new(model, method, tokens, stop, Some(*codec))?;
        // Nothing is drawn at temperature 0.
        let mut chance = Seeded::new(Request { seed: 0, prompt: "", repeat: 0 });
        generate(&mut generation, model, &mut chance, &RealClock::default(), &mut NoObserver)?;
        let new = generation.new_tokens();
        let ended = generation.stopped() == Some(StopReason::Eos);
        Ok(codec.decode(&new[..new.len() - usize::from(ended)])?)
    }
}

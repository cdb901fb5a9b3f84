//! `specdec generate --samples N`: several texts, and the choice of one of them.

use std::fmt;

use anyhow::{Context, Result, bail};
use clap::Args;
use regex::Regex;
use serde::Serialize;

use super::super::options::count;
use crate::chance::{Request, Seeded};
use crate::clock::{Clock, Who};
use crate::decode::{
    Answered, Generation, Lane, LogProb, MethodSpec, StopRules, TextChoice, Totals,
    generate_together, prefill, votes,
};
use crate::distribution::Token;
use crate::draft::Tools;
use crate::model::{Codec, LanguageModel, Prefilled};
use crate::shown;

/// Several texts of one prompt.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several texts")]
pub(super) struct SampleArgs {
    /// Make this many texts, each with random draws of its own: text i is the same for any N
    #[arg(long, value_name = "N", value_parser = count)]
    samples: Option<usize>,
    /// Choose one of them: logprob, length_normalised (log p per token), or majority, the most
    /// frequent answer: what the first group of REGEX matches last, by default the last number
    #[arg(long, value_name = "HOW[=REGEX]", default_value = "logprob", requires = "samples")]
    best_of: BestOf,
}

/// How many texts share rounds.
const TOGETHER: usize = 32;

/// How one of several texts is chosen.
#[derive(Debug, Clone)]
struct BestOf {
    choice: TextChoice,
    answer: Regex,
}

/// A number: digits, perhaps with a sign and a fraction.
const NUMBER: &str = r"(-?\d+(?:\.\d+)?)";

impl std::str::FromStr for BestOf {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, pattern) = match text.split_once('=') {
            Some((name, pattern)) => (name, Some(pattern)),
            None => (text, None),
        };
        let Some(choice) = TextChoice::ALL.into_iter().find(|choice| choice.name() == name) else {
            bail!("allowed are logprob, length_normalised, majority and majority=REGEX");
        };
        if pattern.is_some() && choice != TextChoice::Majority {
            bail!("{name} reads no answers: leave out the regular expression");
        }
        let answer = Regex::new(pattern.unwrap_or(NUMBER)).context("not a regular expression")?;
        Ok(Self { choice, answer })
    }
}

impl BestOf {
    /// What a text answers: the first group, or all, of the last match.
    fn answer<'t>(&self, text: &'t str) -> Option<&'t str> {
        let last = self.answer.captures_iter(text).last()?;
        last.get(1).or_else(|| last.get(0)).map(|found| found.as_str())
    }
}

/// What all texts have in common.
#[derive(Debug)]
pub(super) struct TextRequest<'a> {
    pub(super) target: &'a dyn LanguageModel,
    pub(super) tools: Tools<'a>,
    pub(super) codec: &'a dyn Codec,
    pub(super) spec: &'a MethodSpec,
    /// The prompt as text and as tokens.
    pub(super) prompt: (&'a str, &'a [Token]),
    pub(super) stop: &'a StopRules<'a>,
    pub(super) seed: u64,
}

impl SampleArgs {
    /// The number of texts; none without `--samples`.
    ///
    /// # Errors
    /// If it is 0.
    pub(super) fn count(&self) -> Result<Option<u32>> {
        match self.samples.map(u32::try_from) {
            None => Ok(None),
            Some(Ok(n @ 1..)) => Ok(Some(n)),
            Some(_) => bail!("--samples is out of range: allowed is a whole number >= 1"),
        }
    }

    /// Makes `samples` texts and chooses one.
    ///
    /// # Errors
    /// If a model fails.
    pub(super) fn run(
        &self,
        samples: u32,
        asked: &TextRequest<'_>,
        clock: &dyn Clock,
    ) -> Result<SamplesReport> {
        let head = asked.prompt.1.split_last().map_or(&[][..], |(_, head)| head);
        let target = Prefilled::new(asked.target, Who::Target, head, clock).sharing();
        let draft =
            asked.tools.draft.map(|model| Prefilled::new(model, Who::Draft, head, clock).sharing());
        let draft = draft.as_ref().map(|model| model as &dyn LanguageModel);
        let tools = Tools { draft, ..asked.tools };
        let numbers = (0..samples).collect::<Vec<_>>();
        let together = numbers.chunks(TOGETHER).map(|i| asked.texts(i, &target, tools, clock));
        let mut texts = together.collect::<Result<Vec<_>>>()?.concat();
        if self.best_of.choice == TextChoice::Majority {
            for text in &mut texts {
                text.answer = self.best_of.answer(&text.text).map(str::to_owned);
            }
        }
        let answered = texts.iter().map(SampledText::answered).collect::<Vec<_>>();
        let chosen = self.best_of.choice.choose(&answered).context("there is no text")?;
        let votes = votes(&answered, answered[chosen].answer);
        Ok(SamplesReport { chosen, best_of: self.best_of.choice.name(), votes, texts })
    }
}

impl TextRequest<'_> {
    /// The texts with these numbers, made together.
    fn texts(
        &self,
        repeats: &[u32],
        target: &dyn LanguageModel,
        tools: Tools<'_>,
        clock: &dyn Clock,
    ) -> Result<Vec<SampledText>> {
        let mut texts = Vec::with_capacity(repeats.len());
        for &repeat in repeats {
            texts.push(self.begun(repeat, target, tools, clock)?);
        }
        let lanes = texts.iter_mut().map(|text| Lane {
            generation: &mut text.generation,
            chance: &mut text.chance,
            observer: &mut text.log_prob,
            totals: &mut text.totals,
        });
        let ends = generate_together(&mut lanes.collect::<Vec<_>>(), target, clock)?;
        ends.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(texts.iter().map(BegunSample::text).collect())
    }

    /// Text number `repeat`, which has read the prompt.
    fn begun<'m>(
        &'m self,
        repeat: u32,
        target: &dyn LanguageModel,
        tools: Tools<'m>,
        clock: &dyn Clock,
    ) -> Result<BegunSample<'m>> {
        let (prompt, tokens) = self.prompt;
        let method = self.spec.build_with(tools)?;
        let stop = self.stop.without_user();
        let mut generation = Generation::new(target, method, tokens, stop, Some(self.codec))?;
        let totals = prefill(&mut generation, target, clock)?;
        let chance = Seeded::new(Request { seed: self.seed, prompt, repeat });
        Ok(BegunSample { generation, chance, log_prob: LogProb::default(), totals })
    }
}

/// A text that is being made.
#[derive(Debug)]
struct BegunSample<'m> {
    generation: Generation<'m>,
    chance: Seeded,
    log_prob: LogProb,
    totals: Totals,
}

impl BegunSample<'_> {
    fn text(&self) -> SampledText {
        let Self { generation, log_prob, totals, .. } = self;
        SampledText {
            text: generation.text().to_owned(),
            tokens: generation.new_tokens().to_vec(),
            log_prob: log_prob.0,
            answer: None,
            stop_reason: generation.stopped().map_or("", |reason| reason.name()),
            target_forwards: totals.target_forwards,
            draft_forwards: totals.draft_forwards,
            decode_us: totals.share.as_secs_f64() * 1e6,
        }
    }
}

/// One of the texts.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SampledText {
    text: String,
    tokens: Vec<Token>,
    log_prob: f64,
    answer: Option<String>,
    stop_reason: &'static str,
    target_forwards: usize,
    draft_forwards: usize,
    decode_us: f64,
}

impl SampledText {
    fn answered(&self) -> Answered<'_> {
        let Self { log_prob, .. } = *self;
        Answered { log_prob, tokens: self.tokens.len(), answer: self.answer.as_deref() }
    }
}

/// All texts, and which was chosen.
#[derive(Debug, Serialize)]
pub(super) struct SamplesReport {
    chosen: usize,
    best_of: &'static str,
    /// The number of texts with the chosen one's answer.
    votes: usize,
    texts: Vec<SampledText>,
}

impl SamplesReport {
    /// The chosen text.
    pub(super) fn text(&self) -> &str {
        &self.texts[self.chosen].text
    }
}

impl fmt::Display for SamplesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (texts, chosen) = (&self.texts, &self.texts[self.chosen]);
        let sum = |of: fn(&SampledText) -> usize| texts.iter().map(of).sum::<usize>();
        let tokens = shown::count(sum(|text| text.tokens.len()), "token");
        let seconds = texts.iter().map(|text| text.decode_us).sum::<f64>() / 1e6;
        writeln!(
            f,
            "{} with {tokens} in {seconds:.3} s: {}, {}",
            shown::count(texts.len(), "text"),
            shown::count(sum(|text| text.target_forwards), "target pass"),
            shown::count(sum(|text| text.draft_forwards), "draft pass")
        )?;
        write!(f, "chosen by {}: text {}", self.best_of, self.chosen + 1)?;
        write!(f, ", log p {:.4}", chosen.log_prob)?;
        match &chosen.answer {
            Some(answer) => write!(f, ", answer {answer} ({} of {})", self.votes, texts.len()),
            None => Ok(()),
        }
    }
}

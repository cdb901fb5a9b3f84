//! `specdec generate --samples N`: generates several completions and chooses one of them.

use std::fmt;

use anyhow::{Context, Result, bail};
use clap::Args;
use regex::Regex;
use serde::Serialize;

use super::super::options::count;
use super::rounds::RoundLog;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::{Clock, Who};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::io::shown;
use crate::method::decode::{
    Answered, CompletionChoice, Generation, LogProb, MethodSpec, Observer, Sequence, StopRules,
    Totals, generate_together, prefill, votes,
};
use crate::method::draft::Tools;
use crate::model::{Codec, LanguageModel, Prefilled};

/// Several completions of one prompt.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several completions")]
pub(super) struct SampleArgs {
    /// Generate this many completions with independent draws; completion i is the same for any N
    #[arg(long, value_name = "N", value_parser = count)]
    samples: Option<usize>,
    /// Choose one of them by: logprob, length_normalised (log p per token), or majority (the most
    /// frequent answer). The answer is the first group in the last match of REGEX, by default the
    /// last number
    #[arg(long, value_name = "HOW[=REGEX]", default_value = "logprob", requires = "samples")]
    best_of: BestOf,
}

/// The number of completions that share rounds.
const TOGETHER: usize = 32;

/// The rule that chooses one of several completions.
#[derive(Debug, Clone)]
struct BestOf {
    choice: CompletionChoice,
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
        let Some(choice) = CompletionChoice::ALL.into_iter().find(|choice| choice.name() == name)
        else {
            bail!("allowed are logprob, length_normalised, majority and majority=REGEX");
        };
        if pattern.is_some() && choice != CompletionChoice::Majority {
            bail!("{name} reads no answers: leave out the regular expression");
        }
        let answer = Regex::new(pattern.unwrap_or(NUMBER)).context("not a regular expression")?;
        Ok(Self { choice, answer })
    }
}

impl BestOf {
    /// The answer in a text: the first group of the last match, or the whole match.
    fn answer<'t>(&self, text: &'t str) -> Option<&'t str> {
        let last = self.answer.captures_iter(text).last()?;
        last.get(1).or_else(|| last.get(0)).map(|found| found.as_str())
    }
}

/// The common inputs of all completions.
#[derive(Debug)]
pub(super) struct SampleRequest<'a> {
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
    /// The number of completions; none without `--samples`.
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

    /// Generates `samples` completions and chooses one.
    pub(super) fn run(
        &self,
        samples: u32,
        asked: &SampleRequest<'_>,
        clock: &dyn Clock,
    ) -> Result<SamplesReport> {
        let head = asked.prompt.1.split_last().map_or(&[][..], |(_, head)| head);
        let target = Prefilled::new(asked.target, Who::Target, head, clock).sharing();
        let target = target.keeping(asked.tools.draft);
        let draft = asked.tools.draft.map(|model| Prefilled::draft(model, head, clock).sharing());
        let draft = draft.as_ref().map(|model| model as &dyn LanguageModel);
        let tools = Tools { draft, ..asked.tools };
        let numbers = (0..samples).collect::<Vec<_>>();
        let together =
            numbers.chunks(TOGETHER).map(|i| asked.completions(i, &target, tools, clock));
        let mut completions = together.collect::<Result<Vec<_>>>()?.concat();
        if self.best_of.choice == CompletionChoice::Majority {
            for completion in &mut completions {
                completion.answer = self.best_of.answer(&completion.text).map(str::to_owned);
            }
        }
        let answered = completions.iter().map(SampledCompletion::answered).collect::<Vec<_>>();
        let chosen = self.best_of.choice.choose(&answered).context("there is no completion")?;
        let votes = votes(&answered, answered[chosen].answer);
        Ok(SamplesReport { chosen, best_of: self.best_of.choice.name(), votes, completions })
    }
}

impl SampleRequest<'_> {
    /// The completions with these numbers, generated in shared rounds.
    fn completions(
        &self,
        repeats: &[u32],
        target: &dyn LanguageModel,
        tools: Tools<'_>,
        clock: &dyn Clock,
    ) -> Result<Vec<SampledCompletion>> {
        let mut begun = Vec::with_capacity(repeats.len());
        for &repeat in repeats {
            begun.push(self.begin(repeat, target, tools, clock)?);
        }
        let mut sequences = begun.iter_mut().map(BegunSample::sequence).collect::<Vec<_>>();
        generate_together(&mut sequences, target, clock);
        for sequence in sequences {
            sequence.end.transpose()?;
        }
        Ok(begun.iter().map(BegunSample::completion).collect())
    }

    /// Generation number `repeat` after its prefill.
    fn begin<'m>(
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
        Ok(BegunSample { generation, chance, log: SampleLog::default(), totals })
    }
}

/// A generation after its prefill.
#[derive(Debug)]
struct BegunSample<'m> {
    generation: Generation<'m>,
    chance: Seeded,
    log: SampleLog,
    totals: Totals,
}

/// What is observed of a completion.
#[derive(Debug, Default)]
struct SampleLog {
    log_prob: LogProb,
    rounds: RoundLog,
}

impl Observer for SampleLog {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.log_prob.round(event)?;
        self.rounds.round(event)
    }
}

impl<'m> BegunSample<'m> {
    fn sequence(&mut self) -> Sequence<'_, 'm> {
        let Self { generation, chance, log, totals } = self;
        Sequence::new(generation, chance, log, totals)
    }

    fn completion(&self) -> SampledCompletion {
        let Self { generation, log, totals, .. } = self;
        SampledCompletion {
            text: generation.text().to_owned(),
            tokens: generation.new_tokens().to_vec(),
            log: log.rounds.clone(),
            log_prob: log.log_prob.0,
            answer: None,
            stop_reason: generation.stopped().map_or("", |reason| reason.name()),
            target_forwards: totals.target_forwards,
            draft_forwards: totals.draft_forwards,
            decode_us: totals.share.as_secs_f64() * 1e6,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct SampledCompletion {
    text: String,
    tokens: Vec<Token>,
    #[serde(flatten)]
    log: RoundLog,
    log_prob: f64,
    answer: Option<String>,
    stop_reason: &'static str,
    target_forwards: usize,
    draft_forwards: usize,
    decode_us: f64,
}

impl SampledCompletion {
    fn answered(&self) -> Answered<'_> {
        let Self { log_prob, .. } = *self;
        Answered { log_prob, tokens: self.tokens.len(), answer: self.answer.as_deref() }
    }
}

/// All completions, and which one was chosen.
#[derive(Debug, Serialize)]
pub(super) struct SamplesReport {
    chosen: usize,
    best_of: &'static str,
    /// The number of completions with the chosen one's answer.
    votes: usize,
    #[serde(rename = "texts")]
    completions: Vec<SampledCompletion>,
}

impl SamplesReport {
    pub(super) fn text(&self) -> &str {
        &self.completions[self.chosen].text
    }
}

impl fmt::Display for SamplesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, chosen) = (&self.completions, &self.completions[self.chosen]);
        let sum = |of: fn(&SampledCompletion) -> usize| all.iter().map(of).sum::<usize>();
        let tokens = shown::count(sum(|one| one.tokens.len()), "token");
        let seconds = all.iter().map(|one| one.decode_us).sum::<f64>() / 1e6;
        writeln!(
            f,
            "{} with {tokens} in {seconds:.3} s: {}, {}",
            shown::count(all.len(), "completion"),
            shown::count(sum(|one| one.target_forwards), "target pass"),
            shown::count(sum(|one| one.draft_forwards), "draft pass")
        )?;
        write!(
            f,
            "the text is that of completion {}, chosen by {}",
            self.chosen + 1,
            self.best_of
        )?;
        write!(f, ": log p {:.4}", chosen.log_prob)?;
        if let Some(answer) = &chosen.answer {
            write!(f, ", answer {answer} ({} of {})", self.votes, all.len())?;
        }
        write!(f, "; --json prints all {}", all.len())
    }
}

//! Tapes from what other programs have logged.

mod acceptance;
mod drafts;
mod guidellm;
mod llama_cpp;
mod logged;
mod openai;
mod own_run;
mod requests;
mod rounds;
mod scored;
mod sglang;
mod specbench;
mod spelling;
mod vllm;

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::drafts::{append_drafts, append_rounds};
pub use self::logged::RequestRounds;
use self::logged::{LoggedLine, LoggedSequence, exchange};
use self::own_run::LoggedRun;
pub use self::requests::{read_requests, request_rounds};
use self::spelling::Spellings;
use super::header;
use super::tape_file::TapeFile;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{Sampler, SamplingParams};
use crate::io::input::read_text;
use crate::model::{ChatMessage, Codec, Conversation, LanguageModel, read_tools};
use crate::tapes::tape::{
    TapeDrafter, TapeHeader, TapeLine, TapeModel, TapeSequence, Teacher, log_probs,
};

/// A format of other programs' logs.
#[derive(Debug, Clone, Copy)]
pub struct TapeFormat {
    /// Its name.
    pub name: &'static str,
    /// What is read.
    pub summary: &'static str,
    read: TapeReader,
}

#[derive(Debug, Clone, Copy)]
enum TapeReader {
    /// Line by line.
    Lines(fn(&Value) -> Result<LoggedLine>),
    /// A results folder.
    Run(fn(&Path) -> Result<LoggedRun>),
}

/// All formats.
pub const TAPE_FORMATS: &[TapeFormat] = &[
    vllm::FORMAT,
    sglang::FORMAT,
    openai::FORMAT,
    llama_cpp::FORMAT,
    specbench::FORMAT,
    acceptance::FORMAT,
    own_run::FORMAT,
];

/// The sampling settings that have the same names in requests.
const ASKED: [&str; 4] = ["temperature", "top_k", "top_p", "min_p"];

/// What to import.
#[derive(Debug)]
pub struct Import<'a> {
    /// The format of the file.
    pub format: &'a TapeFormat,
    /// The sampling settings of the completions, which their logs do not state.
    pub sampling: SamplingParams,
    /// Whether the logged log-probabilities are those after all processors.
    pub processed: bool,
    /// Maximum number of tokens that completions which ended could have had; if none, one more than
    /// they have.
    pub max_tokens: Option<usize>,
    /// The target with its name, which computes log p and whose tokenizer finds ids.
    pub target: Option<(&'a str, &'a dyn LanguageModel, &'a dyn Codec)>,
    /// The drafter of logged rounds, if the log does not state it.
    pub drafter: &'a TapeDrafter,
}

/// What an import found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Decodings of which only the rounds are known.
    pub logs: usize,
    /// Sequences of which the rounds are known, too.
    pub decoded: usize,
    /// Lists of drafts that were skipped, since they belong to other completions.
    pub foreign_drafts: usize,
    /// Sequences that were skipped, since one of their tokens is unknown.
    pub unknown: usize,
    /// Tokens that were identified by their bytes.
    pub spelled: usize,
    /// Tokens for which this failed: several tokens have these bytes, or none.
    pub unspelled: usize,
}

impl Import<'_> {
    /// Writes the sequences of a file of JSON lines, or of one JSON value, on a new tape.
    ///
    /// # Errors
    /// If the file is not of the format, something that the tape needs is neither logged nor can
    /// be computed, or the tape exists already.
    pub fn run(&self, from: &Path, to: &Path) -> Result<(TapeFile, Imported)> {
        if to.exists() {
            bail!("{} exists already: name another file", to.display());
        }
        let read = match self.format.read {
            TapeReader::Lines(read) => read,
            TapeReader::Run(read) => return self.run_of(read(from)?, to),
        };
        let mut spellings = self.target.map(|(_, _, codec)| Spellings::new(codec));
        let mut teacher = self.target.map(|(_, model, _)| Teacher::new(model)).transpose()?;
        let (mut sequences, mut found) = (Vec::new(), Imported::default());
        let (mut drafts, mut rounds) = (Vec::new(), Vec::new());
        for (place, line) in lines(from)? {
            let logged = self.check_request(&line).and_then(|()| read(&line));
            let logged = logged.with_context(|| place.clone())?;
            let (before, is_only) = (sequences.len(), logged.sequences.len() == 1);
            for logged in logged.sequences {
                found.foreign_drafts += logged.foreign_drafts;
                let sequence = self.sequence(&logged, &mut spellings, &mut teacher, &mut found);
                match sequence.with_context(|| place.clone())? {
                    Some(sequence) => {
                        drafts.extend(logged.drafts.into_iter().map(|own| (sequences.len(), own)));
                        sequences.push(sequence);
                    }
                    None => found.unknown += 1,
                }
            }
            let own = (is_only && sequences.len() > before).then_some(before);
            rounds.extend(logged.rounds.into_iter().map(|rounds| (place.clone(), own, rounds)));
        }
        found.decoded = rounds.iter().filter(|(_, own, _)| own.is_some()).count();
        found.logs = rounds.len() - found.decoded;
        if sequences.is_empty() && rounds.is_empty() {
            bail!("{} holds no sequence whose tokens are all known", from.display());
        }
        let mut file = TapeFile::begin(to, &self.header())?;
        number_repeats(&mut sequences);
        for sequence in sequences {
            file.append(TapeLine::Sequence(sequence))?;
        }
        append_drafts(&mut file, drafts)?;
        append_rounds(&mut file, self.drafter, rounds)?;
        Ok((file, found))
    }

    /// Refuses a sequence that was requested with other sampling settings than stated.
    fn check_request(&self, line: &Value) -> Result<()> {
        let (request, _) = exchange(line);
        let keys: &[&str] = if self.sampling.is_greedy() { &["temperature"] } else { &ASKED };
        for key in keys {
            // Several programs write −1 for no limit.
            let asked = request.get(*key).and_then(Value::as_f64).map(|asked| asked.max(0.0));
            let own = self.sampling.get(key).and_then(|value| value.number());
            if let (Some(asked), Some(own)) = (asked, own)
                && asked != own
            {
                let option = key.replace('_', "-");
                bail!("it was requested with {key} = {asked}, not {own}: use --{option} {asked}");
            }
        }
        Ok(())
    }

    fn run_of(&self, run: LoggedRun, to: &Path) -> Result<(TapeFile, Imported)> {
        let LoggedRun { target, samplings, drafters, logs } = run;
        let found = Imported { logs: logs.len(), ..Imported::default() };
        let header = TapeHeader { target, samplings, ..self.header() };
        let mut file = TapeFile::begin(to, &header)?;
        let drafters = drafters.into_iter().map(TapeLine::Drafter);
        let lines = drafters.chain(logs.into_iter().map(TapeLine::Log));
        for line in lines {
            file.append(line)?;
        }
        Ok((file, found))
    }

    fn header(&self) -> TapeHeader {
        let target = self.target.map(|(name, model, _)| TapeModel::new(name, model.info()));
        header(self.format.name, target.unwrap_or_default(), vec![self.sampling.clone()])
    }

    /// A sequence; `None` if one of its tokens is unknown.
    fn sequence(
        &self,
        logged: &LoggedSequence,
        spellings: &mut Option<Spellings<'_>>,
        teacher: &mut Option<Teacher<'_>>,
        found: &mut Imported,
    ) -> Result<Option<TapeSequence>> {
        let prompt_tokens = self.prompt(logged)?;
        let Some(tokens) = tokens(logged, spellings, found)? else { return Ok(None) };
        let mut sequence = TapeSequence {
            prompt: named(&prompt_tokens),
            prompt_tokens,
            max_tokens: self.max_tokens(logged, tokens.len())?,
            tokens,
            end: logged.end(),
            ..TapeSequence::default()
        };
        sequence.log_p = match teacher {
            Some(teacher) => {
                let sampler =
                    Sampler::new(self.sampling.clone())?.on(teacher.model().for_each_row());
                Some(log_probs(teacher, &sampler, &sequence)?)
            }
            None => self.logged_log_p(logged)?,
        };
        Ok(Some(sequence))
    }

    /// Maximum number of tokens of a completion: its length if it was cut, else more.
    fn max_tokens(&self, logged: &LoggedSequence, tokens: usize) -> Result<usize> {
        match self.max_tokens {
            _ if !logged.stopped => Ok(tokens),
            None => Ok(tokens + 1),
            Some(most) if most > tokens => Ok(most),
            Some(most) => bail!("it ended after {tokens} tokens, and --max-tokens is {most}"),
        }
    }

    /// The log-probabilities of the log, if they are those that the tokens were drawn with.
    fn logged_log_p(&self, logged: &LoggedSequence) -> Result<Option<Vec<f64>>> {
        let log_p = logged.tokens.iter().map(|token| token.log_prob).collect::<Option<Vec<_>>>();
        let raw = !(self.processed || logged.processed);
        if log_p.is_some() && raw && self.sampling != SamplingParams::NEUTRAL {
            bail!(
                "the log-probabilities of {} are those before temperature, truncation and \
                 penalties, so log p does not follow from them: name the model with --target, or \
                 use --processed if they are those after all processors",
                self.format.name
            );
        }
        Ok(log_p)
    }

    fn prompt(&self, logged: &LoggedSequence) -> Result<Vec<Token>> {
        if let Some(tokens) = &logged.prompt_tokens {
            return Ok(tokens.clone());
        }
        let codec = self.target.map(|(_, _, codec)| codec);
        let codec = || codec.context("the prompt has no token ids: name the model with --target");
        if let Some(request) = &logged.request {
            let messages = ChatMessage::read_all("messages", &request["messages"]);
            let messages = messages.map_err(Error::input)?;
            let tools = read_tools(request.get("tools")).map_err(Error::input)?;
            return Ok(codec()?.encode_chat(&Conversation {
                messages,
                tools,
                ..Conversation::default()
            })?);
        }
        let prompt = logged.prompt.as_deref().context(
            "the prompt is not logged: log the request with the response, as \
             {\"request\": …, \"response\": …}",
        )?;
        Ok(codec()?.encode(prompt)?)
    }
}

/// The tokens of a completion by their ids, their bytes, or its text; `None` if they are unknown.
fn tokens(
    logged: &LoggedSequence,
    spellings: &mut Option<Spellings<'_>>,
    found: &mut Imported,
) -> Result<Option<Vec<Token>>> {
    let ids = logged.tokens.iter().map(|token| token.id).collect::<Option<Vec<_>>>();
    if let Some(ids) = ids.filter(|ids| !ids.is_empty()) {
        return Ok(Some(ids));
    }
    let spellings =
        spellings.as_mut().context("a token has no id: name the model with --target")?;
    if logged.tokens.is_empty() {
        let text = logged.text.as_deref().context("it has neither tokens nor a text")?;
        return spellings.of_text(text);
    }
    let mut tokens = Vec::with_capacity(logged.tokens.len());
    for token in &logged.tokens {
        let known = token.bytes.as_deref().map(|bytes| spellings.token(bytes)).transpose()?;
        match token.id.or(known.flatten()) {
            Some(id) => tokens.push(id),
            None => found.unspelled += 1,
        }
    }
    found.spelled += tokens.len();
    Ok((tokens.len() == logged.tokens.len()).then_some(tokens))
}

/// A name for a prompt. Every request has an id of its own, but equal prompts must count as one.
pub(super) fn named(prompt: &[Token]) -> String {
    let bytes = prompt.iter().flat_map(|token| token.to_le_bytes()).collect::<Vec<_>>();
    let digest = <sha2::Sha256 as sha2::Digest>::digest(&bytes);
    format!("prompt-{}", &crate::model::hex(&digest)[..12])
}

/// Numbers the sequences of each prompt.
pub(super) fn number_repeats(sequences: &mut [TapeSequence]) {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for sequence in sequences {
        let next = seen.entry(sequence.prompt.clone()).or_default();
        sequence.repeat = *next;
        *next += 1;
    }
}

/// The JSON values of a file with their locations: its lines, or a single value or list.
fn lines(file: &Path) -> Result<Vec<(String, Value)>> {
    let text = read_text(file)?;
    let place = |number: usize| format!("{}, line {number}", file.display());
    if let Ok(whole) = serde_json::from_str::<Value>(&text) {
        let values = match whole {
            Value::Array(values) => values,
            value => vec![value],
        };
        let places = values.into_iter().enumerate();
        return Ok(places
            .map(|(i, value)| (format!("{}, entry {i}", file.display()), value))
            .collect());
    }
    let mut values = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let value = serde_json::from_str(line);
        let why = |error| Error::file(file, format!("line {number} is not JSON: {error}"));
        values.push((place(number), value.map_err(why)?));
    }
    Ok(values)
}

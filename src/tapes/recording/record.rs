//! Records completions of prompts on a tape.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};

use super::header;
use super::tape_file::TapeFile;
use crate::core::chance::Request;
use crate::core::clock::{RealClock, Who};
use crate::core::distribution::Token;
use crate::core::sampling::SamplingParams;
use crate::io::shown;
use crate::io::terminal::Progress;
use crate::method::decode::{StopRules, room_for};
use crate::model::{Codec, LanguageModel, Prefilled};
use crate::tapes::tape::{
    TapeHeader, TapeLine, TapeModel, TapeRequest, TapeSequence, record_sequence,
};

/// The source of tapes that are recorded here.
pub const PLAIN_SOURCE: &str = "plain";

/// A prompt to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapePrompt {
    /// Its id.
    pub id: String,
    /// Its category.
    pub category: String,
    /// Its tokens.
    pub tokens: Vec<Token>,
}

/// What to record.
#[derive(Debug)]
pub struct Recording<'a> {
    /// The target.
    pub target: &'a dyn LanguageModel,
    /// The name under which it was requested.
    pub name: &'a str,
    /// Its tokenizer.
    pub codec: &'a dyn Codec,
    /// How completions are sampled.
    pub samplings: Vec<SamplingParams>,
    /// The prompts.
    pub prompts: Vec<TapePrompt>,
    /// Completions per prompt and sampling setting.
    pub repeats: u32,
    /// The seed; the same request gives the same completion as in an experiment.
    pub seed: u64,
    /// Maximum number of new tokens per completion.
    pub max_tokens: usize,
    /// Whether end tokens are treated like any other token.
    pub ignore_eos: bool,
}

impl Recording<'_> {
    /// Records the sequences that the file does not hold yet.
    ///
    /// # Errors
    /// If the file is that of another recording or cannot be written, or the target fails.
    pub fn run(&self, path: &Path) -> Result<TapeFile> {
        let mut file = TapeFile::begin(path, &self.header())?;
        let held = self.held(&file, path)?;
        let total = self.prompts.len() * self.samplings.len() * self.repeats as usize;
        let mut progress = Progress::new("completions", total, held.len());
        let clock = RealClock::default();
        for prompt in &self.prompts {
            let head = prompt.tokens.split_last().map_or(&[][..], |(_, head)| head);
            let expected = room_for(prompt.tokens.len(), self.max_tokens);
            let target = Prefilled::new(self.target, Who::Target, head, &clock).expecting(expected);
            for (repeat, sampling) in self.requests() {
                if held.contains(&(&*prompt.id, repeat, sampling)) {
                    continue;
                }
                let asked = TapeRequest {
                    request: Request { seed: self.seed, prompt: &prompt.id, repeat },
                    category: &prompt.category,
                    prompt: &prompt.tokens,
                    sampling: (sampling, self.samplings[sampling].clone()),
                };
                let sequence =
                    record_sequence(&target, Some(self.codec), self.stop(), &asked, &clock)?;
                file.append(TapeLine::Sequence(sequence))?;
                progress.advance(&shown::line(&prompt.id));
            }
        }
        Ok(file)
    }

    fn requests(&self) -> impl Iterator<Item = (u32, usize)> {
        let samplings = self.samplings.len();
        (0..self.repeats).flat_map(move |repeat| (0..samplings).map(move |at| (repeat, at)))
    }

    fn stop(&self) -> StopRules<'_> {
        let eos = if self.ignore_eos { Vec::new() } else { self.target.info().eos.clone() };
        StopRules { eos, ..StopRules::max_tokens(self.max_tokens) }
    }

    fn header(&self) -> TapeHeader {
        let target = TapeModel::new(self.name, self.target.info());
        let header = header(PLAIN_SOURCE, target, self.samplings.clone());
        TapeHeader { seed: Some(self.seed), ignore_eos: self.ignore_eos, ..header }
    }

    /// The sequences that the file holds already.
    fn held(&self, file: &TapeFile, path: &Path) -> Result<BTreeSet<(&str, u32, usize)>> {
        let tape = file.tape();
        let header = TapeHeader { build: tape.header.build.clone(), ..self.header() };
        let other = || format!("{} holds another recording: name another file", path.display());
        if tape.header != header {
            bail!(other());
        }
        let prompts = self.prompts.iter().map(|prompt| (&*prompt.id, prompt));
        let prompts = prompts.collect::<BTreeMap<_, _>>();
        let mut held = BTreeSet::new();
        for TapeSequence { prompt, repeat, sampling, prompt_tokens, max_tokens, .. } in
            &tape.sequences
        {
            let same = prompts.get(&**prompt).filter(|own| own.tokens == *prompt_tokens);
            let room = self.target.info().context_length.saturating_sub(prompt_tokens.len());
            match same.filter(|_| *max_tokens == self.max_tokens.min(room)) {
                Some(own) => held.insert((&*own.id, *repeat, *sampling)),
                None => bail!(other()),
            };
        }
        Ok(held)
    }
}

//! A tape in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::acceptance::{ROUNDING, is_probability};
use super::forecast::TapeEnd;
use super::format::{TAPE_FORMAT, TapeDrafter, TapeHeader, TapeLine, TapeScore, TapeSequence};
use super::log::TapeLog;
use super::odds::SequenceOdds;
use crate::core::distribution::Token;
use crate::method::draft::draft_sampling;

/// The contents of a tape; each line is checked when it is added.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape {
    /// What was recorded.
    pub header: TapeHeader,
    /// The recorded sequences.
    pub sequences: Vec<TapeSequence>,
    /// The drafters that have scored them.
    pub drafters: Vec<TapeDrafter>,
    /// The rounds of decodings, some of sequences of the tape.
    pub logs: Vec<TapeLog>,
    scores: BTreeMap<(usize, usize), TapeScore>,
}

impl Tape {
    /// An empty tape.
    ///
    /// # Errors
    /// If its format is unknown, or a sampling setting is out of range.
    pub fn new(header: TapeHeader) -> Result<Self, String> {
        if header.format != TAPE_FORMAT {
            return Err(format!("format {} is unknown: allowed is {TAPE_FORMAT}", header.format));
        }
        for sampling in &header.samplings {
            sampling.validate().map_err(|bad| format!("in \"samplings\": {bad}"))?;
        }
        let (sequences, drafters, logs, scores) = Default::default();
        Ok(Self { header, sequences, drafters, logs, scores })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it does not fit the lines before it.
    pub fn add(&mut self, line: TapeLine) -> Result<(), String> {
        match line {
            TapeLine::Tape(_) => return Err("a tape has one line \"tape\", its first".to_owned()),
            TapeLine::Sequence(sequence) => {
                self.check_sequence(&sequence)?;
                self.sequences.push(sequence);
            }
            TapeLine::Drafter(drafter) => self.drafters.push(drafter),
            TapeLine::Log(log) => {
                self.check_sampling(log.sampling)?;
                self.check_drafter(log.drafter)?;
                if let Some(at) = log.sequence.filter(|&at| at >= self.sequences.len()) {
                    return Err(format!("the rounds are those of sequence {at}, which is missing"));
                }
                log.check()?;
                self.logs.push(log);
            }
            TapeLine::Score(score) => {
                self.check_score(&score)?;
                let place = (score.drafter, score.sequence);
                if self.scores.insert(place, score).is_some() {
                    return Err(format!("drafter {} scores sequence {} twice", place.0, place.1));
                }
            }
        }
        Ok(())
    }

    /// The lines of a file with the same contents.
    pub fn lines(&self) -> impl Iterator<Item = TapeLine> {
        let header = std::iter::once(TapeLine::Tape(self.header.clone()));
        let sequences = self.sequences.iter().cloned().map(TapeLine::Sequence);
        let drafters = self.drafters.iter().cloned().map(TapeLine::Drafter);
        let scores = self.scores.values().cloned().map(TapeLine::Score);
        let logs = self.logs.iter().cloned().map(TapeLine::Log);
        header.chain(sequences).chain(drafters).chain(scores).chain(logs)
    }

    /// The score of a sequence by a drafter.
    pub fn score(&self, drafter: usize, sequence: usize) -> Option<&TapeScore> {
        self.scores.get(&(drafter, sequence))
    }

    /// For every sequence, the name of the first prompt with the same tokens; its own if the tokens
    /// are unknown.
    pub fn originals(&self) -> Vec<&str> {
        let mut first = BTreeMap::<&[Token], &str>::new();
        let mut originals = Vec::with_capacity(self.sequences.len());
        for TapeSequence { prompt, prompt_tokens, .. } in &self.sequences {
            originals.push(match prompt_tokens.as_slice() {
                [] => prompt,
                tokens => *first.entry(tokens).or_insert(prompt),
            });
        }
        originals
    }

    /// The odds of a sequence with a drafter; `None` if the tape does not hold them.
    pub fn odds(&self, drafter: usize, sequence: usize) -> Option<SequenceOdds<'_>> {
        let (described, score) = (self.drafters.get(drafter)?, self.score(drafter, sequence)?);
        let sequence = self.sequences.get(sequence)?;
        let odds = SequenceOdds::new(sequence, score)?;
        let target = self.header.samplings[sequence.sampling].clone();
        let drawn = !draft_sampling(target, &described.params).is_greedy();
        let may_end = !self.header.ignore_eos && (drawn || odds.is_anywhere());
        Some(odds.open(may_end || drawn && described.length.is_some()))
    }

    /// The tokens that end completions, as far as the tape shows them: the last ones of those that
    /// ended.
    pub fn ends(&self) -> Vec<Token> {
        let ended = self.sequences.iter().filter(|sequence| sequence.end == TapeEnd::Token);
        let ends = ended.filter_map(|sequence| sequence.tokens.last().copied());
        ends.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn check_sequence(&self, sequence: &TapeSequence) -> Result<(), String> {
        let vocab = self.header.target.vocab;
        let mut tokens = sequence.prompt_tokens.iter().chain(&sequence.tokens);
        self.check_sampling(sequence.sampling)?;
        if let Some(token) = tokens.find(|&&token| vocab > 0 && token as usize >= vocab) {
            return Err(format!("token {token} lies outside a vocabulary of {vocab}"));
        }
        let (tokens, most) = (sequence.tokens.len(), sequence.max_tokens);
        let fits = match sequence.end {
            TapeEnd::Cut => tokens == most,
            TapeEnd::Token => tokens < most,
        };
        if !fits {
            return Err(format!(
                "{tokens} tokens do not fit \"max_tokens\" = {most}: a completion whose \"end\" is \
                 \"length\" has exactly that many, one whose \"end\" is \"stop\" has fewer"
            ));
        }
        check_logs("log_p", sequence.log_p.as_deref(), sequence.tokens.len())
    }

    fn check_sampling(&self, sampling: usize) -> Result<(), String> {
        let samplings = self.header.samplings.len();
        if sampling >= samplings {
            return Err(format!("\"sampling\" is {sampling}, and the tape has {samplings}"));
        }
        Ok(())
    }

    fn check_drafter(&self, drafter: usize) -> Result<(), String> {
        let drafters = self.drafters.len();
        if drafter >= drafters {
            return Err(format!("\"drafter\" is {drafter}, and {drafters} came before"));
        }
        Ok(())
    }

    fn check_score(&self, score: &TapeScore) -> Result<(), String> {
        let sequences = self.sequences.len();
        self.check_drafter(score.drafter)?;
        let Some(sequence) = self.sequences.get(score.sequence) else {
            return Err(format!("\"text\" is {}, and {sequences} came before", score.sequence));
        };
        let tokens = sequence.tokens.len();
        check_logs("log_q", score.log_q.as_deref(), tokens)?;
        check_probabilities("overlap", score.overlap.as_deref(), tokens)?;
        check_probabilities("race", score.race.as_deref(), tokens)?;
        if let Some(siblings) = &score.siblings {
            siblings.check(tokens)?;
        }
        if let Some(level) = &score.level {
            level.check(tokens)?;
        }
        if let Some(beliefs) = &score.beliefs {
            beliefs.check(tokens, sequence.end)?;
        }
        check_count("starts", score.starts.as_ref().map(Vec::len), tokens)?;
        for (at, start) in score.starts.iter().flatten().enumerate() {
            let most = start.drafted.min(tokens - at);
            if start.log_q.len() > most {
                let why = format!("draft {at} follows the completion for more than {most} tokens");
                return Err(why);
            }
            check_logs("q", Some(&start.log_q), start.log_q.len())?;
        }
        Ok(())
    }
}

fn check_count(name: &str, count: Option<usize>, tokens: usize) -> Result<(), String> {
    match count.filter(|&count| count != tokens) {
        None => Ok(()),
        Some(count) => Err(format!("\"{name}\" has {count} entries for {tokens} tokens")),
    }
}

/// Checks the number of probabilities, and that they are some.
fn check_probabilities(name: &str, found: Option<&[f64]>, tokens: usize) -> Result<(), String> {
    check_count(name, found.map(<[f64]>::len), tokens)?;
    let wrong = found.into_iter().flatten().enumerate().find(|(_, p)| !is_probability(**p));
    wrong.map_or(Ok(()), |(at, p)| {
        Err(format!("\"{name}\" of token {at} is {p}: allowed are probabilities, 0 to 1"))
    })
}

/// Checks the number of logarithms, and that each is that of a probability.
fn check_logs(name: &str, logs: Option<&[f64]>, tokens: usize) -> Result<(), String> {
    check_count(name, logs.map(<[f64]>::len), tokens)?;
    let wrong = |log: f64| log.is_nan() || log > ROUNDING;
    let wrong = logs.into_iter().flatten().enumerate().find(|(_, log)| wrong(**log));
    wrong.map_or(Ok(()), |(at, log)| {
        Err(format!("\"{name}\" of token {at} is {log}: no probability is above 1"))
    })
}

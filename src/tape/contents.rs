//! A tape in memory.

use std::collections::BTreeMap;

use super::forecast::TapeEnd;
use super::format::{TAPE_FORMAT, TapeDrafter, TapeHeader, TapeLine, TapeScore, TapeText};
use super::log::TapeLog;
use super::odds::TextOdds;
use crate::draft::draft_sampling;

/// What a tape holds; each line was checked when it was added.
#[derive(Debug, Clone, PartialEq)]
pub struct Tape {
    /// What was recorded.
    pub header: TapeHeader,
    /// The texts.
    pub texts: Vec<TapeText>,
    /// The drafters that have read them.
    pub drafters: Vec<TapeDrafter>,
    /// Decodings of which only the rounds are known.
    pub logs: Vec<TapeLog>,
    scores: BTreeMap<(usize, usize), TapeScore>,
}

/// What a probability may exceed 1 by: the rounding of a logarithm that another program took in
/// f32.
const ROUNDING: f64 = 1e-5;

impl Tape {
    /// An empty tape.
    ///
    /// # Errors
    /// If its format is not known here, or a sampling setting is out of range.
    pub fn new(header: TapeHeader) -> Result<Self, String> {
        if header.format != TAPE_FORMAT {
            return Err(format!("format {} is not known: allowed is {TAPE_FORMAT}", header.format));
        }
        for sampling in &header.samplings {
            sampling.validate().map_err(|bad| format!("in \"samplings\": {bad}"))?;
        }
        let (texts, drafters, logs, scores) = Default::default();
        Ok(Self { header, texts, drafters, logs, scores })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it does not fit the lines before it.
    pub fn add(&mut self, line: TapeLine) -> Result<(), String> {
        match line {
            TapeLine::Tape(_) => return Err("a tape has one line \"tape\", its first".to_owned()),
            TapeLine::Text(text) => {
                self.check_text(&text)?;
                self.texts.push(text);
            }
            TapeLine::Drafter(drafter) => self.drafters.push(drafter),
            TapeLine::Log(log) => {
                self.check_sampling(log.sampling)?;
                self.check_drafter(log.drafter)?;
                log.check()?;
                self.logs.push(log);
            }
            TapeLine::Score(score) => {
                self.check_score(&score)?;
                let place = (score.drafter, score.text);
                if self.scores.insert(place, score).is_some() {
                    return Err(format!("drafter {} scores text {} twice", place.0, place.1));
                }
            }
        }
        Ok(())
    }

    /// The lines of a file with the same contents.
    pub fn lines(&self) -> impl Iterator<Item = TapeLine> {
        let header = std::iter::once(TapeLine::Tape(self.header.clone()));
        let texts = self.texts.iter().cloned().map(TapeLine::Text);
        let drafters = self.drafters.iter().cloned().map(TapeLine::Drafter);
        let scores = self.scores.values().cloned().map(TapeLine::Score);
        let logs = self.logs.iter().cloned().map(TapeLine::Log);
        header.chain(texts).chain(drafters).chain(scores).chain(logs)
    }

    /// What a drafter says of a text.
    pub fn score(&self, drafter: usize, text: usize) -> Option<&TapeScore> {
        self.scores.get(&(drafter, text))
    }

    /// The odds of a text with a drafter; `None` where the tape does not hold them.
    pub fn odds(&self, drafter: usize, text: usize) -> Option<TextOdds<'_>> {
        let (described, score) = (self.drafters.get(drafter)?, self.score(drafter, text)?);
        let text = self.texts.get(text)?;
        let odds = TextOdds::new(text, score)?;
        let target = self.header.samplings[text.sampling];
        let drawn = !draft_sampling(target, &described.params).is_greedy();
        Some(odds.open(drawn && described.length.is_some()))
    }

    fn check_text(&self, text: &TapeText) -> Result<(), String> {
        let vocab = self.header.target.vocab;
        let mut tokens = text.prompt_tokens.iter().chain(&text.tokens);
        self.check_sampling(text.sampling)?;
        if let Some(token) = tokens.find(|&&token| vocab > 0 && token as usize >= vocab) {
            return Err(format!("token {token} lies outside a vocabulary of {vocab}"));
        }
        let (tokens, most) = (text.tokens.len(), text.max_tokens);
        let fits = match text.end {
            TapeEnd::Cut => tokens == most,
            TapeEnd::Token => tokens < most,
        };
        if !fits {
            return Err(format!(
                "{tokens} tokens do not go with \"max_tokens\", {most}: a text whose \"end\" is \
                 \"length\" has as many, one that ended by \"stop\" has fewer"
            ));
        }
        check_logs("log_p", text.log_p.as_deref(), text.tokens.len())
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
        let texts = self.texts.len();
        self.check_drafter(score.drafter)?;
        let Some(text) = self.texts.get(score.text) else {
            return Err(format!("\"text\" is {}, and {texts} came before", score.text));
        };
        let tokens = text.tokens.len();
        check_logs("log_q", score.log_q.as_deref(), tokens)?;
        check_count("overlap", score.overlap.as_ref().map(Vec::len), tokens)?;
        check_count("race", score.race.as_ref().map(Vec::len), tokens)?;
        if score.siblings.as_ref().is_some_and(|siblings| !siblings.covers(tokens)) {
            return Err(format!("\"siblings\" has no entry for each of {tokens} tokens"));
        }
        if let Some(beliefs) = &score.beliefs {
            beliefs.check(tokens, text.end)?;
        }
        check_count("starts", score.starts.as_ref().map(Vec::len), tokens)?;
        for (at, start) in score.starts.iter().flatten().enumerate() {
            let most = start.drafted.min(tokens - at);
            if start.log_q.len() > most {
                return Err(format!("draft {at} follows the text for more than {most} tokens"));
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

/// Checks that logarithms of probabilities are some.
fn check_logs(name: &str, logs: Option<&[f64]>, tokens: usize) -> Result<(), String> {
    check_count(name, logs.map(<[f64]>::len), tokens)?;
    let above = logs.into_iter().flatten().enumerate().find(|(_, log)| **log > ROUNDING);
    above.map_or(Ok(()), |(at, log)| {
        Err(format!("\"{name}\" of token {at} is {log}: no probability is above 1"))
    })
}

//! How the verdict of an audit is shown.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::Audited;
use super::rounds::rounds_in_words;
use super::seeds::SeedPairs;
use crate::audit::{AuditLimits, AuditVerdict, ImpossibleToken, RoundVerdict};
use crate::core::sampling::SamplingParams;
use crate::io::shown::{self, count, e_value};

/// An audit's report.
#[derive(Debug, Serialize)]
pub(super) struct ShownAudit {
    /// By sampling setting.
    pub(super) verdicts: Vec<SamplingVerdict>,
    /// How rounds produce tokens, or why they were not audited, if sequences report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rounds: Option<&'static str>,
    /// Completions with the seeds of completions without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seeds: Option<SeedPairs>,
    /// The verdicts on completions with a planted bug.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) planted: Vec<SamplingVerdict>,
}

/// The verdict on the completions with a sampling setting.
#[derive(Debug, Serialize)]
pub(super) struct SamplingVerdict {
    sampling: SamplingParams,
    #[serde(flatten)]
    pub(super) verdict: AuditVerdict,
    /// The first token with p = 0.
    first_impossible: Option<String>,
    /// What rounds show.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<RoundVerdict>,
}

impl SamplingVerdict {
    /// The verdicts by sampling setting; `floor` has the findings without speculation.
    pub(super) fn of(own: &[Audited], floor: &[Audited], limits: AuditLimits) -> Vec<Self> {
        let verdict = |found: &Audited| {
            let plain = floor.iter().find(|plain| plain.sampling == found.sampling);
            let verdict = AuditVerdict::of(&found.audit, plain.map(|plain| &plain.audit), limits);
            let first_impossible = verdict.first_impossible.as_ref().map(|first| {
                let ImpossibleToken { prompt, repeat, at, token, gap, .. } = first;
                let prompt = shown::line(prompt);
                format!(
                    "{token} at position {at} of prompt {prompt}, repeat {repeat}, whose logit is \
                     {gap:.3} too low"
                )
            });
            let (sampling, rounds) = (found.sampling.clone(), found.rounds.clone());
            Self { sampling, verdict, first_impossible, rounds }
        };
        own.iter().map(verdict).collect()
    }

    fn sentence(&self) -> String {
        let Self { sampling, verdict, first_impossible, .. } = self;
        let completions = format!(
            "{} of {} at {}",
            count(verdict.tokens, "token"),
            count(verdict.sequences, "completion"),
            sampling.words()
        );
        let plain = verdict.plain_log10_e.map(|e| format!("; without speculation {}", e_value(e)));
        let e = format!("{}{}", e_value(verdict.log10_e), plain.unwrap_or_default());
        let ties = match verdict.ties {
            0 => String::new(),
            ties => format!("; {} at ties", count(ties, "token")),
        };
        let impossible = first_impossible.as_ref().map(|first| {
            let tokens = count(verdict.impossible, "token");
            format!("; {tokens} that the target cannot draw, the first {first}")
        });
        let impossible = impossible.unwrap_or_default();
        let excess = verdict.log10_e_impossible.filter(|log10_e| *log10_e > 0.0);
        let excess = excess.map(|log10_e| {
            let e = e_value(log10_e);
            format!("; tokens with p = 0 are more frequent than without speculation, {e}")
        });
        let excess = excess.unwrap_or_default();
        let copies = match verdict.copies {
            0 => String::new(),
            1 => "; 1 copy of a completion is not counted".to_owned(),
            copies => format!("; {copies} copies of completions are not counted"),
        };
        let word = if verdict.refuted { "refuted" } else { "not refuted" };
        let level = verdict.level;
        format!("{word} at level {level}: {completions}, {e}{ties}{impossible}{excess}{copies}")
    }
}

impl ShownAudit {
    pub(super) fn text(&self) -> Result<String> {
        let seeds = self.seeds.iter().map(|seeds| format!("{}\n", seeds.sentence()));
        let verdicts = self.verdicts.iter().map(SamplingVerdict::text);
        let rounds = self.rounds.iter().map(|rounds| Ok(format!("rounds: {rounds}\n")));
        let planted = self.planted.iter().map(|found| {
            let bug = found.looks_like().map(|bug| format!(", it looks like {bug}"));
            let (found, bug) = (found.sentence(), bug.unwrap_or_default());
            Ok(format!("completions with the planted bug: {found}{bug}\n"))
        });
        verdicts.chain(rounds).chain(seeds.map(Ok)).chain(planted).collect()
    }
}

impl SamplingVerdict {
    /// The bugs that the evidence does not exclude, if the completions are refuted by a bet.
    fn looks_like(&self) -> Option<String> {
        let alike = &self.verdict.alike;
        (!alike.is_empty()).then(|| alike.join(" or "))
    }

    fn text(&self) -> Result<String> {
        let mut text = format!("{}\n", self.sentence());
        let verdict = &self.verdict;
        let named = verdict.bets.iter().find(|bet| Some(bet.bug) == verdict.bug);
        match (named, self.looks_like()) {
            (Some(bet), _) => {
                writeln!(text, "it looks like {}: {} (seen: {})", bet.bug, bet.summary, bet.seen)?;
            }
            (None, Some(bugs)) => writeln!(text, "it looks like {bugs}")?,
            (None, None) => {}
        }
        writeln!(
            text,
            "\nTV: total variation per token from the target's distribution, of the whole bug, at \
             most in its direction, and the least that would be refuted\n\
             bug                        log10 e  strength  bug's TV   TV at most  least TV found"
        )?;
        for bet in &verdict.bets {
            let number = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.4}"));
            writeln!(
                text,
                "{:25} {:>8.1}  {:>8.3}  {:>8.4}  {:>11}  {:>14}",
                bet.bug,
                bet.log10_e,
                bet.strength,
                bet.tv,
                number(bet.tv_bound),
                number(bet.tv_detectable)
            )?;
        }
        if !verdict.not_placed.is_empty() {
            let names = verdict.not_placed.join(", ");
            writeln!(
                text,
                "not placed, since a draft model (--draft), sampling settings or log-probabilities \
                 of the whole vocabulary are missing: {names}"
            )?;
        }
        if let Some(rounds) = &self.rounds {
            writeln!(text, "{}", rounds_in_words(rounds, verdict.level))?;
        }
        text.push('\n');
        Ok(text)
    }
}

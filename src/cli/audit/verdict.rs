//! The verdict of an audit, and how it is shown.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::Audited;
use super::seeds::SeedPairs;
use crate::audit::{AuditBook, Bet, ImpossibleToken};
use crate::sampling::SamplingParams;
use crate::shown::{self, count};

/// What is called a refutation.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditLimits {
    /// How often exact texts may be refuted.
    pub(super) level: f64,
    /// Gaps of logits that other arithmetic may reverse.
    pub(super) tie: f64,
}

/// An audit's report.
#[derive(Debug, Serialize)]
pub(super) struct AuditReport {
    /// By sampling setting.
    pub(super) verdicts: Vec<AuditVerdict>,
    /// Texts with the seeds of texts without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seeds: Option<SeedPairs>,
    /// What was found of texts with a planted bug.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) planted: Vec<AuditVerdict>,
}

/// What an audit says of the texts with a sampling setting. `docs/audit.md` describes the fields.
#[derive(Debug, Serialize)]
pub(super) struct AuditVerdict {
    sampling: SamplingParams,
    texts: usize,
    tokens: usize,
    level: f64,
    pub(super) refuted: bool,
    /// log₁₀ of the largest wealth of a bet that is divided between all bugs.
    log10_e: f64,
    /// The same for the texts without speculation.
    plain_log10_e: Option<f64>,
    /// Tokens with p = 0 that are within a tie of one with p > 0.
    ties: usize,
    /// Other tokens that the target's law does not have.
    impossible: usize,
    /// The first of them.
    first_impossible: Option<String>,
    /// The bug whose bet won most, if it refutes the texts by itself.
    bug: Option<&'static str>,
    bets: Vec<AuditedBug>,
    not_placed: Vec<&'static str>,
}

/// A bet.
#[derive(Debug, Serialize)]
struct AuditedBug {
    bug: &'static str,
    summary: &'static str,
    seen: &'static str,
    tokens: usize,
    log10_e: f64,
    /// The share of the bug that explains the texts best.
    strength: f64,
    /// Total variation per token of the whole bug.
    tv: f64,
    /// What the total variation in this direction is below, at the level.
    tv_bound: Option<f64>,
    /// What it must be so that nine of ten such audits refute it.
    tv_detectable: Option<f64>,
}

impl AuditVerdict {
    /// The verdicts, by sampling setting; `floor` has what texts without speculation show.
    pub(super) fn of(own: &[Audited], floor: &[Audited], limits: AuditLimits) -> Vec<AuditVerdict> {
        let verdict = |(sampling, book): &Audited| {
            let plain = floor.iter().find(|(other, _)| other == sampling);
            Self::of_one(*sampling, book, plain.map(|(_, plain)| plain), limits)
        };
        own.iter().map(verdict).collect()
    }

    fn of_one(
        sampling: SamplingParams,
        book: &AuditBook,
        plain: Option<&AuditBook>,
        limits @ AuditLimits { level, tie }: AuditLimits,
    ) -> Self {
        let (placed, missing): (Vec<&Bet>, Vec<&Bet>) =
            book.bets.iter().partition(|bet| bet.tokens > 0);
        let needed = (1.0 / level).ln();
        let impossible = limits.impossible(book);
        // Other arithmetic shows in plain texts, too; only what is beyond it counts.
        let floor = plain.map_or(0.0, |plain| plain.best.max(0.0));
        let floor_impossible = plain.is_some_and(|plain| !limits.impossible(plain).is_empty());
        let beyond = !impossible.is_empty() && !floor_impossible;
        let refuted = beyond || book.best - floor >= needed;
        let each = (book.bets.len() as f64).ln();
        let mut bets = placed.iter().map(|bet| bug(bet, level, needed + each)).collect::<Vec<_>>();
        bets.sort_by(|a, b| b.log10_e.total_cmp(&a.log10_e));
        Self {
            sampling,
            texts: book.texts,
            tokens: book.tokens,
            level,
            refuted,
            log10_e: log10(book.best),
            plain_log10_e: plain.map(|plain| log10(plain.best)),
            ties: book.impossible.iter().filter(|token| token.gap <= tie).count(),
            impossible: impossible.len(),
            first_impossible: impossible.first().map(|first| {
                let ImpossibleToken { prompt, repeat, at, token, gap } = first;
                let prompt = shown::line(prompt);
                format!(
                    "{token} at place {at} of prompt {prompt}, repeat {repeat}, whose logit is \
                     {gap:.3} too low"
                )
            }),
            bug: bets
                .first()
                .filter(|bet| refuted && bet.log10_e >= log10(needed))
                .map(|bet| bet.bug),
            bets,
            not_placed: missing.iter().map(|bet| bet.bug.name).collect(),
        }
    }

    fn sentence(&self) -> String {
        let texts = format!(
            "{} of {} at {}",
            count(self.tokens, "token"),
            count(self.texts, "text"),
            self.sampling.words()
        );
        let plain = self.plain_log10_e.map(|e| format!("; without speculation {}", e_value(e)));
        let e = format!("{}{}", e_value(self.log10_e), plain.unwrap_or_default());
        let impossible = self.first_impossible.as_ref().map(|first| {
            let tokens = count(self.impossible, "token");
            format!("; {tokens} that the target cannot draw, the first {first}")
        });
        let impossible = impossible.unwrap_or_default();
        let ties = match self.ties {
            0 => String::new(),
            ties => format!("; {} at ties", count(ties, "token")),
        };
        let word = if self.refuted { "refuted" } else { "not refuted" };
        format!("{word} at level {}: {texts}, {e}{ties}{impossible}", self.level)
    }
}

impl AuditLimits {
    fn impossible<'b>(&self, book: &'b AuditBook) -> Vec<&'b ImpossibleToken> {
        book.impossible.iter().filter(|token| token.gap > self.tie).collect()
    }
}

fn bug(bet: &Bet, level: f64, needed: f64) -> AuditedBug {
    let tv = bet.mean_distance();
    AuditedBug {
        bug: bet.bug.name,
        summary: bet.bug.summary,
        seen: bet.bug.seen,
        tokens: bet.tokens,
        log10_e: log10(bet.wealth.best()),
        strength: bet.wealth.strength(),
        tv,
        tv_bound: bet.wealth.bound(level).map(|share| share * tv),
        tv_detectable: bet.detectable(needed).map(|share| share * tv),
    }
}

fn log10(natural: f64) -> f64 {
    natural / std::f64::consts::LN_10
}

fn e_value(log10: f64) -> String {
    if log10 < 4.0 { format!("e = {:.1}", 10f64.powf(log10)) } else { format!("e = 10^{log10:.0}") }
}

impl AuditReport {
    /// The report as text.
    pub(super) fn text(&self) -> Result<String> {
        let seeds = self.seeds.iter().map(|seeds| format!("{}\n", seeds.sentence()));
        let verdicts = self.verdicts.iter().map(AuditVerdict::text);
        let planted = self.planted.iter().map(|found| {
            let bug = found.bug.map_or(String::new(), |bug| format!(", it looks like {bug}"));
            Ok(format!("texts with the planted bug: {}{bug}\n", found.sentence()))
        });
        verdicts.chain(seeds.map(Ok)).chain(planted).collect()
    }
}

impl AuditVerdict {
    fn text(&self) -> Result<String> {
        let mut text = format!("{}\n", self.sentence());
        if let Some(bet) = self.bets.first().filter(|_| self.bug.is_some()) {
            writeln!(text, "it looks like {}: {} (seen: {})", bet.bug, bet.summary, bet.seen)?;
        }
        writeln!(
            text,
            "\nbug                     log10 e  strength  TV of it  TV is below  TV noticed"
        )?;
        for bet in &self.bets {
            let number = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.4}"));
            writeln!(
                text,
                "{:22} {:>8.1}  {:>8.3}  {:>8.4}  {:>11}  {:>10}",
                bet.bug,
                bet.log10_e,
                bet.strength,
                bet.tv,
                number(bet.tv_bound),
                number(bet.tv_detectable)
            )?;
        }
        if !self.not_placed.is_empty() {
            let names = self.not_placed.join(", ");
            writeln!(
                text,
                "not placed, since a draft model (--draft) or sampling settings are missing: {names}"
            )?;
        }
        text.push('\n');
        Ok(text)
    }
}

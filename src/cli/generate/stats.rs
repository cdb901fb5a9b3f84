//! Statistics of a generation, as JSON and as a few lines of text.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::StopArgs;
use super::rounds::{RoundEnd, RoundLog};
use crate::core::distribution::Token;
use crate::core::registry::{class_with_word, promise};
use crate::core::round::RoundEvent;
use crate::io::shown::count;
use crate::method::decode::{MethodSpec, Totals};
use crate::model::Vocabulary;

/// Counts over the rounds of a generation. Nothing behind the end of the completion counts.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct RoundCounts {
    rounds: usize,
    truncated_rounds: usize,
    proposed: usize,
    accepted: usize,
    corrected: usize,
    bonus: usize,
    plain: usize,
    #[serde(skip)]
    forks: usize,
    #[serde(skip)]
    overlap_sum: f64,
    #[serde(skip)]
    trees: usize,
}

impl RoundCounts {
    pub(super) fn add(&mut self, event: &RoundEvent<'_>) {
        let (forks, end) = (event.forks(), RoundEnd::of(event));
        self.rounds += 1;
        self.truncated_rounds += usize::from(event.truncated);
        self.proposed += event.draft.len();
        self.accepted += event.verdict.path.len();
        self.corrected += usize::from(end == RoundEnd::Corrected);
        self.bonus += usize::from(end == RoundEnd::Bonus);
        self.plain += usize::from(end == RoundEnd::Plain);
        self.forks += forks.len();
        self.trees += usize::from(event.draft.len() > event.draft.depth());
        self.overlap_sum += forks.into_iter().map(|at| event.overlap(at)).sum::<f64>();
    }

    /// The statistics that follow from the counts.
    pub(super) fn stats(self, totals: &Totals, new_tokens: usize) -> Stats {
        let ratio = |a: f64, b: usize| (b > 0).then(|| a / b as f64);
        let seconds = totals.decode.as_secs_f64();
        Stats {
            new_tokens,
            counts: self,
            acceptance_rate: ratio(self.accepted as f64, self.proposed),
            alpha: ratio(self.overlap_sum, self.forks).filter(|_| self.trees == 0),
            block_efficiency: ratio((self.accepted + self.rounds) as f64, self.rounds),
            target_forwards: totals.target_forwards,
            draft_forwards: totals.draft_forwards,
            draft_context_full: totals.draft_context_full,
            prefill_us: totals.prefill.as_secs_f64() * 1e6,
            decode_us: seconds * 1e6,
            tokens_per_second: (seconds > 0.0).then(|| new_tokens as f64 / seconds),
        }
    }
}

/// Statistics of a generation, named like the CSV columns.
#[derive(Debug, Serialize)]
pub(super) struct Stats {
    new_tokens: usize,
    #[serde(flatten)]
    counts: RoundCounts,
    acceptance_rate: Option<f64>,
    alpha: Option<f64>,
    block_efficiency: Option<f64>,
    target_forwards: usize,
    draft_forwards: usize,
    draft_context_full: usize,
    prefill_us: f64,
    decode_us: f64,
    tokens_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct AskedSettings<'r> {
    pub target: &'r str,
    pub draft: Option<&'r str>,
    #[serde(skip_serializing_if = "Vocabulary::is_same")]
    pub vocabulary: Vocabulary,
    pub engine: &'r str,
    pub dtype: &'r str,
    pub kv_cache: bool,
    #[serde(flatten)]
    pub method: &'r MethodSpec,
    pub seed: u64,
    #[serde(flatten)]
    pub stop: &'r StopArgs,
    pub special_tokens: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub chat: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<&'r str>,
}

#[derive(Debug, Serialize)]
pub(super) struct Report<'r> {
    pub text: &'r str,
    pub tokens: &'r [Token],
    #[serde(flatten)]
    pub log: &'r RoundLog,
    pub prompt_tokens: usize,
    pub stop_reason: &'r str,
    pub class: String,
    pub stats: Stats,
    pub settings: AskedSettings<'r>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stats, settings) = (&self.stats, &self.settings);
        let (method, counts) = (settings.method, &stats.counts);
        write!(f, "{} in {:.3} s", count(stats.new_tokens, "token"), stats.decode_us / 1e6)?;
        if let Some(pace) = stats.tokens_per_second {
            write!(f, ": {pace:.1} tokens/s")?;
        }
        let time = Duration::from_secs_f64(stats.prefill_us / 1e6);
        let prefill = prefill(self.prompt_tokens, time, settings.kv_cache);
        writeln!(f, " ({prefill}); stop reason {}", self.stop_reason)?;
        let passes = count(stats.target_forwards, "target pass");
        write!(f, "{passes}, {}", count(stats.draft_forwards, "draft pass"))?;
        if let Some(rate) = stats.acceptance_rate {
            write!(
                f,
                "; acceptance {:.1} % ({} of {} proposed)",
                100.0 * rate,
                counts.accepted,
                counts.proposed
            )?;
        }
        if let Some(tau) = stats.block_efficiency.filter(|_| !method.is_plain()) {
            write!(f, ", block efficiency τ = {tau:.2} tokens per round")?;
        }
        writeln!(f)?;
        if stats.draft_context_full > 0 {
            let rounds = count(stats.draft_context_full, "round");
            writeln!(f, "{rounds} without a draft: the context of the draft model was full")?;
        }
        if counts.proposed > 0 {
            let RoundCounts { accepted, corrected, bonus, plain, .. } = *counts;
            let undrafted = match plain {
                0 => String::new(),
                n => format!(", and {} from rounds without a draft", count(n, "token")),
            };
            let bonus = count(bonus, "bonus token");
            writeln!(f, "{accepted} accepted, {corrected} corrected, {bonus}{undrafted}")?;
        }
        write!(f, "drafter {}", method.drafter)?;
        if let Some(draft) = settings.draft {
            write!(f, " ({draft})")?;
        }
        if !method.is_plain() {
            let k = method.num_speculative_tokens;
            write!(f, ", verifier {}, length {}, K = {k}", method.verifier, method.length)?;
        }
        write!(f, "; target {} ({}, {})", settings.target, settings.engine, settings.dtype)?;
        // Plain decoding is what the others are compared with.
        if !method.is_plain() {
            let class = class_with_word(&self.class);
            write!(f, "\nguarantee {class}: {}", promise(&self.class))?;
        }
        Ok(())
    }
}

/// The prefill in words. Without a cache there is none, since nothing of it would be kept.
pub(super) fn prefill(tokens: usize, time: Duration, kv_cache: bool) -> String {
    match kv_cache {
        true => format!("prefill of {}: {:.3} s", count(tokens, "token"), time.as_secs_f64()),
        false => "no prefill: without a KV cache, every pass reads the whole text".to_owned(),
    }
}

//! `specdec generate --num-beams`: searches for the most probable completions.

use std::fmt;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::super::options::count;
use super::stats::prefill;
use crate::core::chance::Chance;
use crate::core::clock::RealClock;
use crate::core::distribution::Token;
use crate::core::sampling::{Sampler, SamplingParams};
use crate::io::shown;
use crate::method::beam::{
    BeamResult, BeamSearch, BeamSettings, BeamTotals, EarlyStopping, NoBeamObserver,
};
use crate::method::decode::MethodSpec;
use crate::method::draft::Tools;
use crate::model::Codec;
use crate::tapes::tape::{TapeSequence, Teacher, log_probs};

/// Beam search, with the options of transformers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Beam search (instead of sampling)")]
pub(super) struct BeamArgs {
    /// Width of a beam search: extend this many completions in parallel and return the most
    /// probable
    #[arg(long, value_name = "B", value_parser = count)]
    num_beams: Option<usize>,
    /// Divide log p of a finished completion by its length to this power; above 0 favours long ones
    #[arg(
        long,
        value_name = "A",
        default_value_t = 1.0,
        allow_negative_numbers = true,
        requires = "num_beams"
    )]
    length_penalty: f64,
    /// When to end: once as many completions as beams are finished (true), once no live beam would
    /// be among the best now (false), or once none can become one (never)
    #[arg(long, value_name = "WHEN", default_value = "false", requires = "num_beams")]
    early_stopping: EarlyStopping,
    /// Print this many completions, best first
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = count,
          requires = "num_beams")]
    num_return_sequences: usize,
    /// Groups of beams that avoid each other's tokens
    #[arg(long, value_name = "G", default_value_t = 1, value_parser = count,
          requires = "num_beams")]
    num_beam_groups: usize,
    /// Penalty on log p of a token for every beam of an earlier group that chose it
    #[arg(
        long,
        value_name = "D",
        default_value_t = 0.0,
        allow_negative_numbers = true,
        requires = "num_beams"
    )]
    diversity_penalty: f64,
}

impl BeamArgs {
    /// The settings; none without `--num-beams`.
    ///
    /// # Errors
    /// If they are inconsistent with each other or with the method.
    pub(super) fn settings(&self, method: &MethodSpec) -> Result<Option<BeamSettings>> {
        let Some(num_beams) = self.num_beams else { return Ok(None) };
        let settings = BeamSettings {
            num_beams,
            length_penalty: self.length_penalty,
            early_stopping: self.early_stopping,
            num_return_sequences: self.num_return_sequences,
            num_beam_groups: self.num_beam_groups,
            diversity_penalty: self.diversity_penalty,
        };
        settings.validate()?;
        if method.sampling != SamplingParams::NEUTRAL {
            bail!(
                "--num-beams ranks completions by the target's own probabilities: leave out \
                 sampling options such as --temperature"
            );
        }
        if method.verifier != MethodSpec::default().verifier {
            bail!("--num-beams verifies nothing: leave out --verifier {}", method.verifier);
        }
        Ok(Some(settings))
    }
}

/// Runs the search and decodes the tokens.
pub(super) fn search(
    search: &BeamSearch<'_>,
    (method, kv_cache): (&MethodSpec, bool),
    tools: Tools<'_>,
    codec: &dyn Codec,
    chance: &mut dyn Chance,
) -> Result<BeamReport> {
    let method = method.build_with(tools)?;
    let BeamResult { hypotheses, totals } =
        search.run(method, (chance, &RealClock::default()), &mut NoBeamObserver)?;
    let completions = hypotheses.into_iter().map(|found| {
        Ok(BeamCompletion {
            text: search.text(&found.tokens, codec)?,
            logprobs: Vec::new(),
            stop_reason: found.reason.name(),
            score: found.score,
            log_prob: found.log_prob,
            tokens: found.tokens,
        })
    });
    Ok(BeamReport {
        completions: completions.collect::<Result<_>>()?,
        prompt_tokens: search.prompt.len(),
        kv_cache,
        totals,
        settings: search.settings,
    })
}

#[derive(Debug, Serialize)]
pub(super) struct BeamCompletion {
    text: String,
    tokens: Vec<Token>,
    /// Log p of each token, once the target has read the completion again.
    logprobs: Vec<f64>,
    score: f64,
    log_prob: f64,
    stop_reason: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct BeamReport {
    #[serde(rename = "texts")]
    pub completions: Vec<BeamCompletion>,
    prompt_tokens: usize,
    kv_cache: bool,
    #[serde(rename = "stats")]
    totals: BeamTotals,
    settings: BeamSettings,
}

impl BeamReport {
    /// Lets the target read the completions for log p of each token.
    pub(super) fn with_logprobs(mut self, search: &BeamSearch<'_>) -> Result<Self> {
        let mut teacher = Teacher::new(search.target)?;
        let sampler = Sampler::new(SamplingParams::NEUTRAL)?;
        for found in &mut self.completions {
            let prompt_tokens = search.prompt.to_vec();
            let tokens = found.tokens.clone();
            let sequence = TapeSequence { prompt_tokens, tokens, ..TapeSequence::default() };
            found.logprobs = log_probs(&mut teacher, &sampler, &sequence)?;
        }
        Ok(self)
    }

    /// The text of the only completion, or of several with their scores.
    pub(super) fn shown(&self) -> String {
        if let [only] = &self.completions[..] {
            return only.text.clone();
        }
        let each = self.completions.iter().enumerate().map(|(i, found)| {
            format!("--- {}: score {:.4} ---\n{}\n", i + 1, found.score, found.text)
        });
        each.collect()
    }
}

impl fmt::Display for BeamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        writeln!(
            f,
            "{} with {} in {:.3} s ({})",
            shown::count(totals.steps, "step"),
            shown::count(self.settings.num_beams, "beam"),
            totals.decode.as_secs_f64(),
            prefill(self.prompt_tokens, totals.prefill, self.kv_cache)
        )?;
        write!(
            f,
            "{} for {}, {}",
            shown::count(totals.target_forwards, "target pass"),
            shown::count(totals.rows, "row"),
            shown::count(totals.draft_forwards, "draft pass")
        )?;
        if let Some(best) = self.completions.first() {
            let (score, log_prob) = (best.score, best.log_prob);
            write!(
                f,
                "\nbest completion: score {score:.4}, log p {log_prob:.4}, {}",
                best.stop_reason
            )?;
        }
        Ok(())
    }
}

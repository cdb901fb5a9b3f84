//! `specdec check`: can this draft make this target faster on this machine?

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::models::open_pair;
use super::options::{ModelArgs, count};
use super::output::{self, shown};
use super::sampling::SamplingArgs;
use super::some_prompts::SomePrompts;
use crate::core::distribution::Token;
use crate::core::lanes::IsaKind;
use crate::engine::pool::Pool;
use crate::io::shown::count as counted;
use crate::measure::machine::{Machine, MachineClock};
use crate::method::decode::MethodSpec;
use crate::model::{ExpertBytes, LanguageModel};
use crate::run::check::{CheckOutcome, CheckSetup, check};

/// Options of `specdec check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec check
  specdec check --target models/big --draft models/small --prompts my-prompts.jsonl
  specdec check --target model.gguf --drafter prompt_lookup --temperature 0 --json

Times passes of 1 to 9 rows, continues the prompts with drafts of 8 tokens, and computes from both
what every K from 1 to 8 would give. The interval is the one that `specdec run` would report for
prompts like these; an experiment measures what this command forecasts.
Other work on the machine makes every time longer: a disturbed check gives no verdict.")]
pub(super) struct CheckArgs {
    #[command(flatten)]
    models: ModelArgs,
    /// Drafter, which proposes the tokens (see `specdec list`)
    #[arg(long, value_name = "NAME", default_value = "model")]
    drafter: String,
    #[command(flatten)]
    prompts: SomePrompts,
    /// New tokens per prompt
    #[arg(long, short = 'n', value_name = "N", default_value_t = 48, value_parser = count)]
    max_tokens: usize,
    /// Context in tokens for which memory is computed [default: that of the model, at most 4096]
    #[arg(long, value_name = "TOKENS", value_parser = count)]
    context: Option<usize>,
    /// Time budget for the passes
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What the command prints.
#[derive(Debug, Serialize)]
struct CheckReport {
    machine: Machine,
    threads: usize,
    target: CheckedModel,
    draft: Option<CheckedModel>,
    context: usize,
    #[serde(flatten)]
    checked: CheckOutcome,
}

/// A model, and what it needs.
#[derive(Debug, Serialize)]
struct CheckedModel {
    name: String,
    engine: &'static str,
    dtype: &'static str,
    parameters: usize,
    /// Bytes of weights that a pass of one row reads.
    bytes_per_pass: usize,
    /// The experts of its sparse layers, of which a pass of more rows reads more.
    #[serde(skip_serializing_if = "Option::is_none")]
    experts: Option<ExpertBytes>,
    /// Bytes of the cache at the context.
    cache_bytes: usize,
    context_length: usize,
    row_invariant: bool,
    end_tokens: Vec<Token>,
    note: Option<String>,
}

impl CheckedModel {
    fn of(model: &dyn LanguageModel, context: usize) -> Self {
        let info = model.info();
        Self {
            name: info.name.clone(),
            engine: info.engine,
            dtype: info.dtype,
            parameters: info.parameters,
            bytes_per_pass: info.bytes_per_token,
            experts: info.experts,
            cache_bytes: context * model.cache_bytes_per_token(),
            context_length: info.context_length,
            row_invariant: info.row_invariant,
            end_tokens: info.eos.clone(),
            note: info.note.clone(),
        }
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<()> {
    let with_draft = args.drafter == "model" || args.models.draft.is_some();
    let (pair, _) = open_pair(&args.models, false, with_draft)?;
    let target = &*pair.target.model;
    let prompts = args.prompts.tokens(&pair, args.max_tokens)?;
    let method = MethodSpec {
        drafter: args.drafter.clone(),
        sampling: args.sampling.target()?,
        params: args.sampling.draft()?,
        ..MethodSpec::default()
    };
    let setup = CheckSetup {
        target,
        draft: pair.draft_model(),
        codec: &*pair.target.codec,
        method,
        prompts: &prompts,
        max_tokens: args.max_tokens,
        budget: Duration::from_secs(args.seconds),
    };
    let checked = check(&setup, &MachineClock::default())?;
    let context = args.context.unwrap_or(target.info().context_length.min(4096));
    let report = CheckReport {
        machine: Machine::this(),
        threads: Pool::shared().threads(),
        target: CheckedModel::of(target, context),
        draft: pair.draft_model().map(|draft| CheckedModel::of(draft, context)),
        context,
        checked,
    };
    if args.json {
        return output::line(serde_json::to_string_pretty(&report)?);
    }
    output::show(&report.text()?)
}

impl CheckReport {
    fn text(&self) -> Result<String> {
        let mut text = String::new();
        let isa = IsaKind::active().name();
        writeln!(text, "machine  {}, {} threads, {isa}", self.machine.cpu_model, self.threads)?;
        writeln!(
            text,
            "         {:.1} % of the time was lost to other work, limits or stops",
            100.0 * self.checked.disturbed
        )?;
        self.target.write("target", self.context, &mut text)?;
        if let Some(draft) = &self.draft {
            draft.write("draft ", self.context, &mut text)?;
            let share = draft.bytes_per_pass as f64 / self.target.bytes_per_pass.max(1) as f64;
            writeln!(text, "         a pass reads {:.0} % of the target's bytes", 100.0 * share)?;
        }
        self.write_times(&mut text).context("cannot write the times")?;
        self.write_lengths(&mut text).context("cannot write the table")?;
        writeln!(text, "\n{}", self.checked.sentence())?;
        Ok(text)
    }

    fn write_times(&self, text: &mut String) -> std::fmt::Result {
        let CheckOutcome { passes_us, bandwidth_share, draft_us, at_once, cost_ratio, .. } =
            &self.checked;
        let one = passes_us[0];
        writeln!(
            text,
            "passes   T(1) {} us, {} % of the memory bandwidth",
            shown(one, 0),
            shown(bandwidth_share.map(|share| 100.0 * share), 0)
        )?;
        let growth = passes_us.iter().map(|us| shown(us.zip(one).map(|(us, one)| us / one), 2));
        writeln!(text, "         T(m) / T(1): {}", growth.collect::<Vec<_>>().join(" "))?;
        writeln!(
            text,
            "drafting {} us per {}, cost ratio c = {}",
            shown(*draft_us, 0),
            if *at_once { "block" } else { "token" },
            shown(*cost_ratio, 3)
        )
    }

    fn write_lengths(&self, text: &mut String) -> std::fmt::Result {
        let CheckOutcome { prompts, rounds, lengths, .. } = &self.checked;
        writeln!(text, "\n{}, {}", counted(*prompts, "prompt"), counted(*rounds, "round"))?;
        writeln!(text, "  K  acceptance  tokens/round  speedup  95 % interval")?;
        for length in lengths {
            writeln!(
                text,
                "{:3} {:>11} {:>13} {:>8}  {} to {}",
                length.length,
                shown(length.acceptance, 3),
                shown(length.tokens_per_round, 2),
                shown(length.speedup, 2),
                shown(length.lo, 2),
                shown(length.hi, 2)
            )?;
        }
        Ok(())
    }
}

impl CheckedModel {
    fn write(&self, role: &str, context: usize, text: &mut String) -> std::fmt::Result {
        let mega = |bytes: usize| bytes as f64 / 1e6;
        writeln!(text, "{role}   {} ({}, {})", self.name, self.engine, self.dtype)?;
        writeln!(
            text,
            "         {:.1} M weights, {:.0} MB read per pass, cache of {context} tokens {:.0} MB",
            self.parameters as f64 / 1e6,
            mega(self.bytes_per_pass),
            mega(self.cache_bytes)
        )?;
        let ends = self.end_tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let ends = if ends.is_empty() { "none".to_owned() } else { ends };
        let invariant = if self.row_invariant { "row-invariant" } else { "not row-invariant" };
        writeln!(text, "         {invariant}; end tokens: {ends}")?;
        if let Some(note) = &self.note {
            writeln!(text, "         {note}")?;
        }
        Ok(())
    }
}

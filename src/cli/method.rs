//! The options that select a method: how tokens are proposed and verified.

use anyhow::{Result, bail};
use clap::Args;

use super::options::count;
use super::sampling::SamplingArgs;
use crate::core::params::{Params, Value};
use crate::method::decode::{MethodSpec, PLAIN, find_param};

/// How tokens are proposed and verified.
#[derive(Debug, Args)]
#[command(next_help_heading = "Method")]
pub(super) struct MethodArgs {
    /// Drafter, which proposes tokens (see `specdec list`)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "model",
        default_value_if("plain", "true", PLAIN)
    )]
    drafter: String,
    /// Verifier, which decides which drafted tokens are kept (see `specdec list`)
    #[arg(long, value_name = "NAME", default_value = "rejection")]
    verifier: String,
    /// Draft length policy, which decides how many tokens to draft (see `specdec list`)
    #[arg(long, value_name = "NAME", default_value = "fixed")]
    length: String,
    /// K: tokens drafted per round; at least 1
    #[arg(long, short = 'k', value_name = "K", default_value_t = 4,
          value_parser = count, allow_negative_numbers = true)]
    num_speculative_tokens: usize,
    /// Longest n-gram of drafter prompt_lookup; short for --param prompt_lookup_max=N
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    prompt_lookup_max: Option<usize>,
    /// Shortest n-gram of drafter prompt_lookup; short for --param prompt_lookup_min=N
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    prompt_lookup_min: Option<usize>,
    /// Setting of the drafter, the verifier or the length policy (see `specdec list`);
    /// repeatable
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// Decode autoregressively, without drafts, in the same loop; short for --drafter none
    #[arg(long)]
    plain: bool,
}

impl MethodArgs {
    /// The method with canonical names.
    ///
    /// # Errors
    /// If a name or a setting is unknown, or options contradict each other.
    pub(super) fn spec(&self, sampling: &SamplingArgs) -> Result<MethodSpec> {
        let target = sampling.target()?;
        let spec = MethodSpec { sampling: target, ..self.spec_of(sampling.draft()?)? };
        Ok(spec.canonical()?)
    }

    /// The same without sampling settings of the target; `params` has those of the draft model.
    pub(super) fn spec_of(&self, mut params: Params) -> Result<MethodSpec> {
        let lengths = [
            ("prompt_lookup_max", self.prompt_lookup_max),
            ("prompt_lookup_min", self.prompt_lookup_min),
        ];
        for (key, value) in lengths {
            if let Some(value) = value {
                params = params.with(key, Value::Count(value));
            }
        }
        for set in &self.params {
            let Some((name, value)) = set.split_once('=') else {
                bail!("--param {set}: write KEY=VALUE");
            };
            params = params.with(find_param(name)?.key, value.parse()?);
        }
        let spec = MethodSpec {
            drafter: self.drafter.clone(),
            verifier: self.verifier.clone(),
            length: self.length.clone(),
            num_speculative_tokens: self.num_speculative_tokens,
            params,
            ..MethodSpec::default()
        };
        spec.check_read()?;
        if self.plain && !spec.is_plain() {
            bail!(
                "--plain means --drafter {PLAIN}: leave out either --plain or --drafter {}",
                self.drafter
            );
        }
        Ok(spec.canonical()?)
    }
}

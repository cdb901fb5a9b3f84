//! The options that say how logits become a distribution: one for each declared setting.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::draft::DRAFT_SAMPLING;
use crate::params::{Param, Params, Value};
use crate::sampling::{PROCESSORS, SamplingParams};

const HEADING: &str = "Sampling (applied in this order)";

/// The sampling settings of the target and of the draft model.
#[derive(Debug)]
pub(super) struct SamplingArgs {
    /// Of the target.
    pub(super) target: SamplingParams,
    /// Those of the draft model that differ from the target's.
    pub(super) draft: Params,
}

impl Args for SamplingArgs {
    fn augment_args(command: Command) -> Command {
        let settings = PROCESSORS.iter().map(|processor| &processor.setting);
        let options = settings.chain(&DRAFT_SAMPLING).map(option);
        command.next_help_heading(HEADING).args(options.collect::<Vec<_>>())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The option of a setting: `--top-p` for `top_p`.
fn option(setting: &'static Param) -> Arg {
    let option = Arg::new(setting.key)
        .long(setting.key.replace('_', "-"))
        .aliases(setting.aliases)
        .value_name("X")
        .allow_negative_numbers(true)
        .help(format!("{} [allowed: {}]", sentence(setting.summary), setting.allowed()))
        .value_parser(|text: &str| {
            let value = text.parse::<Value>().unwrap_or_else(|never| match never {});
            setting.check(&value).map_err(|_| format!("allowed is {}", setting.allowed()))
        });
    match setting.default() {
        Some(default) => option.default_value(default.to_string()),
        None => option,
    }
}

/// With a capital letter, as other options have it, unless a setting's name comes first.
fn sentence(summary: &str) -> String {
    if summary.split(' ').next().is_some_and(|word| word.contains('_')) {
        return summary.to_owned();
    }
    let mut chars = summary.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

impl FromArgMatches for SamplingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self { target: SamplingParams::NEUTRAL, draft: Params::default() };
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for Param { key, .. } in PROCESSORS.iter().map(|processor| &processor.setting) {
            let value = matches.get_one::<Value>(key);
            let value =
                value.ok_or_else(|| clap::Error::new(ErrorKind::MissingRequiredArgument))?;
            self.target = self.target.with(key, value);
        }
        for Param { key, .. } in &DRAFT_SAMPLING {
            if let Some(value) = matches.get_one::<Value>(key) {
                self.draft = std::mem::take(&mut self.draft).with(key, value.clone());
            }
        }
        Ok(())
    }
}

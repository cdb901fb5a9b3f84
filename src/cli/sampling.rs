//! The sampling options: one for each declared setting.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::core::params::{BadParam, Param, Params, Value};
use crate::core::sampling::{PROCESSORS, SamplingParams};
use crate::method::draft::DRAFT_SAMPLING;

const HEADING: &str = "Sampling (applied in this order)";

/// The sampling settings of the target and the draft model, as given on the command line; without
/// `TARGET`, only those of the draft model, because requests have the target's.
#[derive(Debug, Default)]
pub(super) struct SamplingArgs<const TARGET: bool = true>(Params);

impl<const TARGET: bool> SamplingArgs<TARGET> {
    /// The available settings, in the order of the help.
    fn options() -> impl Iterator<Item = &'static Param> {
        let target = PROCESSORS.iter().filter(|_| TARGET).map(|processor| &processor.setting);
        target.chain(&DRAFT_SAMPLING)
    }

    /// The settings of the target.
    ///
    /// # Errors
    /// If a setting is out of range; the message names the first one and its allowed values.
    pub(super) fn target(&self) -> Result<SamplingParams, BadParam> {
        let settings = self.0.of(PROCESSORS.iter().map(|processor| &processor.setting))?;
        let set = |params: SamplingParams, (key, value): (&str, &Value)| params.with(key, value);
        Ok(settings.iter().fold(SamplingParams::NEUTRAL, set))
    }

    /// The settings given for the draft model.
    pub(super) fn draft(&self) -> Result<Params, BadParam> {
        self.0.of(&DRAFT_SAMPLING)
    }
}

impl<const TARGET: bool> Args for SamplingArgs<TARGET> {
    fn augment_args(command: Command) -> Command {
        command.next_help_heading(HEADING).args(Self::options().map(option))
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
        .value_parser(str::parse::<Value>);
    match setting.default() {
        Some(default) => option.default_value(default.to_string()),
        None => option,
    }
}

/// The summary with a capital letter, like the help of other options, unless it begins with
/// the name of a setting.
fn sentence(summary: &str) -> String {
    if summary.split(' ').next().is_some_and(|word| word.contains('_')) {
        return summary.to_owned();
    }
    let mut chars = summary.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

impl<const TARGET: bool> FromArgMatches for SamplingArgs<TARGET> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for Param { key, .. } in Self::options() {
            if let Some(value) = matches.get_one::<Value>(key) {
                self.0 = std::mem::take(&mut self.0).with(key, value.clone());
            }
        }
        Ok(())
    }
}

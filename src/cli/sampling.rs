//! The sampling options: one for each declared setting.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::draft::DRAFT_SAMPLING;
use crate::params::{BadParam, Param, Params, Value};
use crate::sampling::{PROCESSORS, SamplingParams};

const HEADING: &str = "Sampling (applied in this order)";

/// The sampling settings of the target and the draft model, as given on the command line.
#[derive(Debug, Default)]
pub(super) struct SamplingArgs(Params);

impl SamplingArgs {
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
    ///
    /// # Errors
    /// As [`Self::target`].
    pub(super) fn draft(&self) -> Result<Params, BadParam> {
        self.0.of(&DRAFT_SAMPLING)
    }
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

impl FromArgMatches for SamplingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let settings = PROCESSORS.iter().map(|processor| &processor.setting);
        for Param { key, .. } in settings.chain(&DRAFT_SAMPLING) {
            if let Some(value) = matches.get_one::<Value>(key) {
                self.0 = std::mem::take(&mut self.0).with(key, value.clone());
            }
        }
        Ok(())
    }
}

/// The sampling settings of the draft model alone, where requests bring those of the target.
#[cfg(feature = "serve")]
#[derive(Debug, Default)]
pub(super) struct DraftSamplingArgs(SamplingArgs);

#[cfg(feature = "serve")]
impl DraftSamplingArgs {
    /// The settings given for the draft model.
    ///
    /// # Errors
    /// As [`SamplingArgs::draft`].
    pub(super) fn draft(&self) -> Result<Params, BadParam> {
        self.0.draft()
    }
}

#[cfg(feature = "serve")]
impl Args for DraftSamplingArgs {
    fn augment_args(command: Command) -> Command {
        command.next_help_heading(HEADING).args(DRAFT_SAMPLING.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(feature = "serve")]
impl FromArgMatches for DraftSamplingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let values = DRAFT_SAMPLING
            .iter()
            .filter_map(|Param { key, .. }| Some((*key, matches.get_one::<Value>(key)?.clone())));
        self.0.0 = values.fold(Params::default(), |params, (key, value)| params.with(key, value));
        Ok(())
    }
}

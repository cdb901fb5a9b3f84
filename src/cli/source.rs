//! Experiments as commands read them: the file, with the overrides of the command line, and the
//! models and prompts that it names.

use std::fmt::Display;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::models::{say_note, start_threads};
use crate::checkpoint::Catalog;
use crate::checkpoint::pair::Pair;
use crate::core::params::Value;
use crate::core::sampling::SamplingParams;
use crate::io::input::read_text;
use crate::method::draft::Texts;
use crate::model::{LanguageModel, Role};
use crate::run::experiment::{Experiment, Frozen, Material, Spec, Training, freeze, read_training};
use crate::run::prompt::{self, PromptTemplate, Question};
use crate::tapes::recording::{Recording, TapePrompt};

/// Prompts per category and maximum tokens per prompt with `--quick`.
const QUICK: (usize, usize) = (1, 16);

/// Options that change an experiment.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct OverrideArgs {
    /// Override a top-level key, or an axis as sweep.AXIS (a scalar replaces a list); repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Use one prompt per category, one repeat and at most 16 tokens: a check, not a measurement
    #[arg(long)]
    quick: bool,
}

impl OverrideArgs {
    /// The same options, which also set a key.
    pub(super) fn and(&self, key: &str, value: impl Display) -> Self {
        let mut with = self.clone();
        with.set.push(format!("{key}={value}"));
        with
    }

    /// The same options as words of a command.
    pub(super) fn words(&self) -> Vec<String> {
        // In one word, so that no value is taken for an option.
        let set = self.set.iter().map(|set| format!("--set={set}"));
        set.chain(self.quick.then(|| "--quick".to_owned())).collect()
    }
}

/// An experiment with everything that must be loaded before its plan can be frozen.
pub(super) struct Ready {
    pub(super) experiment: Experiment,
    prompts: Vec<Question>,
    pub(super) pair: Pair,
    training: Option<Training>,
    pub(super) threads: usize,
}

impl Ready {
    /// The texts of drafters, in the target's tokens.
    pub(super) fn texts(&self) -> Texts<'_> {
        Texts::new(&*self.pair.target.codec, read_text)
    }

    /// Freezes the plan; drafters that need texts read them from `texts`.
    pub(super) fn freeze(&self, texts: &Texts<'_>) -> Result<Frozen> {
        let material = Material {
            name: &self.experiment.name,
            target: self.pair.target.model.info(),
            draft: self.pair.draft_model().map(LanguageModel::info),
            training: self.training.as_ref(),
            codec: &*self.pair.target.codec,
            prompts: &self.prompts,
            answers: Some(&*self.pair.target.model),
            texts,
        };
        let place = || self.experiment.file.display().to_string();
        freeze(&self.experiment.spec, &material).with_context(place)
    }

    /// A recording of the plan's prompts with these sampling settings.
    pub(super) fn recording(
        &self,
        frozen: Frozen,
        samplings: Vec<SamplingParams>,
    ) -> Result<Recording<'_>> {
        let Frozen { plan, prompts, tokens } = frozen;
        if plan.arguments().len() > 1 {
            bail!("a tape holds prompts with one value of each of \"chat_arguments\": name one");
        }
        let prompts = prompts.into_iter().zip(tokens);
        let prompts = prompts.map(|(prompt, tokens)| TapePrompt {
            id: prompt.id,
            category: prompt.category,
            tokens,
        });
        Ok(Recording {
            target: &*self.pair.target.model,
            name: &self.experiment.spec.target,
            codec: &*self.pair.target.codec,
            samplings,
            prompts: prompts.collect(),
            repeats: plan.repeats,
            seed: plan.seed,
            max_tokens: plan.max_tokens,
            ignore_eos: plan.ignore_eos,
        })
    }
}

/// Reads an experiment and loads its models.
///
/// # Errors
/// If the experiment is invalid, or a model or prompt set is missing or damaged.
pub(super) fn prepare(path: &Path, overrides: &OverrideArgs) -> Result<Ready> {
    if path.join("plan.toml").is_file() {
        bail!(
            "{} is a results folder: name the experiment it belongs to, and add --resume={0} to \
             continue it",
            path.display()
        );
    }
    let mut experiment = Experiment::read(path, &overrides.set)?;
    if overrides.quick {
        quicken(&mut experiment.spec);
    }
    let spec = &experiment.spec;
    let place = || experiment.file.display().to_string();
    let threads = start_threads(spec.threads)?;
    let folder = experiment.file.parent().unwrap_or(Path::new("."));
    let catalog = Catalog::near(folder);
    let prompts = read_prompts(&catalog, spec).with_context(place)?;
    let source = |name: &str, role| Ok(catalog.model(name)?.with(spec.settings(role)));
    let target = source(&spec.target, Role::Target).and_then(Pair::load).context("target")?;
    say_note(target.target.model.info());
    let (pair, training) = match &spec.draft {
        Some(name) => {
            let draft = source(name, Role::Draft).context("draft")?;
            let training = read_training(Path::new(&draft.path)).context("draft")?;
            (target.with_draft_of(spec.vocabulary, draft).context("draft")?, training)
        }
        None => (target, None),
    };
    Ok(Ready { prompts, pair, training, threads, experiment })
}

fn quicken(spec: &mut Spec) {
    spec.max_tokens = spec.max_tokens.min(QUICK.1);
    spec.repeats = 1;
    // A batch needs as many prompts.
    let batches = spec.sweep.iter().filter_map(|axes| axes.get("batch")).flatten();
    let batches = batches.filter_map(Value::number).map(|batch| batch as usize);
    spec.prompts_per_category = Some(batches.fold(QUICK.0, usize::max));
}

fn read_prompts(catalog: &Catalog, spec: &Spec) -> Result<Vec<Question>> {
    let template = spec.prompt_template.as_deref().map(PromptTemplate::parse).transpose()?;
    let mut all = Vec::new();
    for name in &spec.prompts {
        all.extend(prompt::read_by(&catalog.prompts(name)?, template.as_ref())?);
    }
    if all.is_empty() {
        bail!("\"prompts\" is empty: name at least one prompt set");
    }
    Ok(all)
}

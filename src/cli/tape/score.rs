//! `specdec tape score`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::show::contents;
use crate::cli::models::{draft_is_head, open_draft, open_pair};
use crate::cli::options::{ModelArgs, setting};
use crate::cli::output;
use crate::core::params::{Params, Value};
use crate::io::input::read_text;
use crate::io::terminal;
use crate::method::draft::{DRAFT_SAMPLING, Texts, Tools};
use crate::tapes::recording::{MODEL, Scoring, TapeFile, canonical, reads_at_once};
use crate::tapes::tape::{TapeDrafter, TapeModel};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec tape score 01.tape.jsonl --draft embedded-draft
  specdec tape score big.tape.jsonl --draft models/small --draft-temperature 0.4,0.7,1
  specdec tape score 01.tape.jsonl --drafter prompt_lookup --drafter suffix_automaton

A draft model reads each sequence once for all of its settings. Other drafters draft from every
token of a completion on, and their scores hold for every K up to --most. Scores that the tape holds
already are not computed again.")]
pub(super) struct ScoreArgs {
    /// The tape, to which lines are appended
    tape: PathBuf,
    /// Drafter of chains (see `specdec list`); repeatable
    #[arg(long, value_name = "NAME", default_value = MODEL)]
    drafter: Vec<String>,
    /// Draft length policy that reads the draft alone (see `specdec list`)
    #[arg(long, value_name = "NAME")]
    length: Option<String>,
    /// Setting of drafter or policy, such as prompt_lookup_max=4; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
    /// Temperatures of the draft model, separated by commas [default: the target's]
    #[arg(long, value_name = "X,…", value_delimiter = ',')]
    draft_temperature: Vec<Value>,
    /// top_k of the draft model, separated by commas [default: the target's]
    #[arg(long, value_name = "X,…", value_delimiter = ',')]
    draft_top_k: Vec<Value>,
    /// top_p of the draft model, separated by commas [default: the target's]
    #[arg(long, value_name = "X,…", value_delimiter = ',')]
    draft_top_p: Vec<Value>,
    /// The largest K for drafters whose drafts depend on where they begin
    #[arg(long, value_name = "K", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    most: u16,
    /// Let the target read the sequences, too, and record how far both distributions overlap
    #[arg(long)]
    overlap: bool,
    /// Let the target read the sequences, too, and record what draft length policies see of drafts
    /// of at most K tokens; the draft model makes K - 1 passes for every token of a completion
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=64))]
    beliefs: Option<u16>,
    #[command(flatten)]
    models: ModelArgs,
}

/// Scores the sequences, and says what the tape holds.
pub(super) fn run(args: &ScoreArgs) -> Result<()> {
    let mut file = TapeFile::open(&args.tape)?;
    let head = draft_is_head(&args.models)?;
    let drafters = args.drafters(None, head)?;
    let with_model = drafters.iter().any(TapeDrafter::needs_model);
    let reads_text = drafters.iter().any(|drafter| drafter.files().next().is_some());
    if args.beliefs.is_some() && !drafters.iter().all(reads_at_once) {
        bail!("--beliefs needs a draft model: allowed is --drafter {MODEL}, without --length");
    }
    let both =
        args.overlap || args.beliefs.is_some() || reads_text || !args.models.vocabulary.is_same();
    if both || head {
        let (pair, (_, name)) = open_pair(&args.models, false, with_model)?;
        let target = &pair.target;
        file.compile_grammars(target)?;
        let texts = Texts::new(&*target.codec, read_text);
        let (draft, target) = (pair.draft_model(), Some(&*target.model));
        let tools = Tools { draft, target, texts: Some(&texts) };
        args.score(&mut file, tools, name.as_deref())?;
    } else {
        let draft = with_model.then(|| open_draft(&args.models)).transpose()?;
        if let Some((draft, _)) = &draft {
            file.compile_grammars(draft)?;
        }
        let (draft, name) =
            draft.as_ref().map(|(draft, name)| (&*draft.model, name.as_str())).unzip();
        args.score(&mut file, Tools { draft, ..Tools::default() }, name)?;
    }
    terminal::say(contents(file.tape()).trim_end());
    output::line(args.tape.display())
}

impl ScoreArgs {
    fn score(&self, file: &mut TapeFile, tools: Tools<'_>, name: Option<&str>) -> Result<()> {
        let model = name.zip(tools.draft);
        let model = model.map(|(name, draft)| TapeModel::new(name, draft.info()));
        let head = tools.draft.is_some_and(|draft| !draft.info().reads_text_alone());
        let drafters = self.drafters(model.as_ref(), head)?;
        let beliefs = self.beliefs.map(usize::from);
        Scoring { drafters, tools, overlap: self.overlap, beliefs }.run(file)
    }

    /// Every drafter with each of its settings; the model may be a head.
    fn drafters(&self, model: Option<&TapeModel>, head: bool) -> Result<Vec<TapeDrafter>> {
        let mut drafters = Vec::new();
        for name in &self.drafter {
            for params in self.settings() {
                let length = self.length.clone();
                let at_once = name == MODEL && length.is_none() && !head;
                let most = (!at_once).then_some(usize::from(self.most));
                let drafter =
                    TapeDrafter { drafter: name.clone(), model: None, length, params, most };
                let drafter = canonical(drafter).with_context(|| format!("--drafter {name}"))?;
                let model = model.filter(|_| drafter.needs_model());
                drafters.push(TapeDrafter { model: model.cloned(), ..drafter });
            }
        }
        Ok(drafters)
    }

    /// The product of the settings that have several values.
    fn settings(&self) -> Vec<Params> {
        let common = self
            .set
            .iter()
            .fold(Params::default(), |params, (key, value)| params.with(key, value.clone()));
        let lists = [&self.draft_temperature, &self.draft_top_k, &self.draft_top_p];
        let axes = DRAFT_SAMPLING.iter().zip(lists).filter(|(_, values)| !values.is_empty());
        axes.fold(vec![common], |all, (param, values)| {
            let each = all.iter().flat_map(|params| {
                values.iter().map(|value| params.clone().with(param.key, value.clone()))
            });
            each.collect()
        })
    }
}

//! `specdec inspect`: shows how processors turn logits into the next token's distribution.

mod beams;
mod printed_inspection;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use self::beams::BeamTree;
use super::controls::{ControlArgs, controls};
use super::models::{PairNames, open_pair};
use super::options::{ModelArgs, PromptArgs, count};
use super::output;
use super::sampling::SamplingArgs;
use crate::checkpoint::pair::Pair;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::core::sampling::{History, Logits, Sampler, SamplingParams, Stage};
use crate::core::tree::{Draft, Node, Row};
use crate::io::shown::count as count_of;
use crate::method::beam::{BeamSearch, BeamSettings};
use crate::method::controls::ControlRequest;
use crate::method::decode::{Generation, MethodSpec, Observer, PLAIN, StopRules, generate};
use crate::method::draft::{DRAFT_SAMPLING, Tools};
use crate::model::{LanguageModel, ModelInfo, Want, Work, evaluate_one};

/// Options of `specdec inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec inspect 'fn main() {'
  specdec inspect 'let x = ' --temperature 0.7 --top-k 50 --top-p 0.9 --top 20
  specdec inspect 'let x = ' --draft embedded-draft
  specdec inspect 'let x = ' --beams 4 --tokens 6
  specdec inspect --target toy:mixed --draft toy:mixed ab --json

Rows are tokens in descending order of their logits. Columns are the sampling processors that are
switched on; each shows the probabilities after it, and '-' for tokens that it dropped. The last
lines give the mass of the other tokens, the number of tokens kept and the entropy (in nats) of
each distribution. With --draft, q is the draft model's distribution after the same processors.
The overlap, the sum of min(p, q) over all tokens, is the probability that rejection sampling
accepts a token drafted here.")]
pub(super) struct InspectArgs {
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    #[command(flatten)]
    controls: ControlArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    show: InspectShowArgs,
}

/// What to show.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct InspectShowArgs {
    /// Number of tokens to show; at least 1
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = count, allow_negative_numbers = true)]
    top: usize,
    /// Print one JSON object (stages, tokens, draft, overlap, settings) instead of a
    /// table
    ///
    /// The "probabilities" of a token are in the order of "stages". A logit of -inf is null;
    /// the probability of a dropped token is 0. "prompt_ids" are the tokens of the prompt.
    #[arg(long)]
    json: bool,
    /// Show a beam search of this width instead: the most probable completions of --tokens tokens
    /// as a tree, with log p and dropped beams
    #[arg(long, value_name = "B", value_parser = count)]
    beams: Option<usize>,
    /// Maximum length of the completions of --beams
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = count, requires = "beams")]
    tokens: usize,
}

/// The distribution of the next token after each processor.
#[derive(Debug, Serialize)]
struct Inspection {
    target: String,
    draft: Option<String>,
    /// How the models are stored in memory, the target first.
    held: Vec<Held>,
    prompt_tokens: usize,
    prompt_ids: Vec<Token>,
    vocab: usize,
    /// The target's distributions, from the softmax to the final one.
    stages: Vec<DistColumn>,
    /// The draft model's processed distribution.
    q: Option<DistColumn>,
    /// Σ min(p, q).
    overlap: Option<f64>,
    tokens: Vec<TokenRow>,
    settings: SamplingParams,
    draft_temperature: Option<f64>,
    special_tokens: bool,
}

/// How a model is stored in memory.
#[derive(Debug, Serialize)]
struct Held {
    engine: &'static str,
    dtype: &'static str,
    note: Option<String>,
}

/// One distribution, as a column of the table.
#[derive(Debug, Serialize)]
struct DistColumn {
    name: &'static str,
    /// The value of the stage's setting; `None` if it has no single numeric one.
    value: Option<f64>,
    kept: usize,
    entropy: f64,
    /// Total probability of the tokens that are not shown.
    others: f64,
}

/// One token, as a row of the table.
#[derive(Debug, Serialize)]
struct TokenRow {
    id: Token,
    label: String,
    logit: f64,
    /// Its probability after each stage.
    probabilities: Vec<f64>,
    q: Option<f64>,
    min_pq: Option<f64>,
}

/// Runs the command.
pub(super) fn run(args: &InspectArgs) -> Result<()> {
    let (mut settings, params) = (args.sampling.target()?, args.sampling.draft()?);
    let request = args.controls.request()?;
    if let Some((key, _)) = params.iter().next().filter(|_| args.models.draft.is_none()) {
        let option = key.replace('_', "-");
        bail!("--{option} needs --draft: name a draft model, or leave --{option} out");
    }
    let draft_temperature = params.optional_number(&DRAFT_SAMPLING[0]);
    if args.show.top == 0 {
        bail!("--top 0 shows nothing: allowed is a whole number >= 1");
    }
    let beams = args.show.beams.map(|num_beams| args.beam_settings(num_beams)).transpose()?;
    let text = args.prompt.read()?;
    let (pair, names) =
        open_pair(&args.models, args.prompt.special_tokens, args.models.draft.is_some())?;
    let prompt = args.prompt.encode(&text, &*pair.target.codec)?;
    settings.controls = controls(&request, &pair.target)?;
    if let Some(settings) = beams {
        return search(args, settings, (&pair, &names), &prompt);
    }
    let logits = next_logits(&*pair.target.model, &prompt)?;
    let history = History { prompt_len: prompt.len(), context: &prompt, drafted: &[] };
    let stages = Sampler::new(settings.clone())?.stages(&logits, history)?;
    let method = MethodSpec { sampling: settings.clone(), params, ..MethodSpec::default() };
    let q =
        pair.draft_model().map(|draft| next_draft(&pair, draft, method, &prompt)).transpose()?;
    let shown = shown_tokens(&logits, args.show.top);
    let label = |id| pair.target.codec.token_label(id);
    let info = pair.target.model.info();
    let models = [Some(&*pair.target.model), pair.draft_model()];
    let inspection = Inspection {
        target: names.0,
        draft: names.1,
        held: models.iter().flatten().map(|model| held(model.info())).collect(),
        prompt_tokens: prompt.len(),
        vocab: info.vocab,
        tokens: shown.iter().map(|&id| row(id, label(id), &logits, &stages, q.as_ref())).collect(),
        overlap: q.as_ref().zip(stages.last()).map(|(q, last)| last.dist.overlap(q)),
        q: q.as_ref().map(|q| column("q", draft_temperature, q, &shown)),
        stages: stages
            .iter()
            .map(|stage| column(stage.name, setting(stage.name, &settings), &stage.dist, &shown))
            .collect(),
        settings,
        draft_temperature,
        special_tokens: args.prompt.special_tokens,
        prompt_ids: prompt,
    };
    if args.show.json {
        return output::write_json(&inspection);
    }
    output::show(&printed_inspection::render(&inspection))
}

impl InspectArgs {
    fn beam_settings(&self, num_beams: usize) -> Result<BeamSettings> {
        let settings = BeamSettings { num_beams, ..BeamSettings::default() };
        settings.validate()?;
        let asked = self.controls.request()? != ControlRequest::default();
        if asked
            || self.sampling.target()? != SamplingParams::NEUTRAL
            || self.models.draft.is_some()
        {
            bail!(
                "--beams ranks completions by the target's own probabilities: leave out --draft, \
                 controls and sampling options"
            );
        }
        Ok(settings)
    }
}

/// Draws a beam search, without a drafter.
fn search(
    args: &InspectArgs,
    settings: BeamSettings,
    (pair, names): (&Pair, &PairNames),
    prompt: &[Token],
) -> Result<()> {
    let (target, codec) = (&*pair.target.model, &*pair.target.codec);
    let eos = target.info().eos.clone();
    let stop = StopRules { eos, ..StopRules::max_tokens(args.show.tokens) };
    let search = BeamSearch { target, settings, prompt, stop, codec: Some(codec) };
    let plain = MethodSpec { drafter: PLAIN.to_owned(), ..MethodSpec::default() };
    // A search without a drafter makes no random draws.
    let mut chance = Seeded::new(Request { seed: 0, prompt: "", repeat: 0 });
    let mut tree = BeamTree::default();
    search.run(plain.build(None)?, (&mut chance, &RealClock::default()), &mut tree)?;
    if args.show.json {
        return output::write_json(&tree.nodes);
    }
    let heading = format!(
        "beam search of width {} after {} of {}, up to {}: log p of the completion so far, and its \
         last token\n",
        settings.num_beams,
        count_of(prompt.len(), "prompt token"),
        names.0,
        count_of(args.show.tokens, "token")
    );
    output::show(&(heading + &tree.drawn(codec)))
}

fn held(info: &ModelInfo) -> Held {
    Held { engine: info.engine, dtype: info.dtype, note: info.note.clone() }
}

/// The logits after the whole prompt.
fn next_logits(model: &dyn LanguageModel, prompt: &[Token]) -> Result<Logits, Error> {
    let mut session = model.session()?;
    let draft = Draft::empty(model.info().vocab);
    let work = Work {
        session: &mut session,
        context: prompt,
        draft: &draft,
        want: Want::Row(Row::CONTEXT),
    };
    let rows = evaluate_one(model, work)?.rows;
    rows.into_iter().next().ok_or_else(|| Error::engine("the engine returned no logits"))
}

/// The distribution from which the first token after the prompt is drafted.
fn next_draft(
    pair: &Pair,
    draft: &dyn LanguageModel,
    method: MethodSpec,
    prompt: &[Token],
) -> Result<Dist> {
    let target = &*pair.target.model;
    let tools = Tools { draft: Some(draft), target: Some(target), texts: None };
    // A round drafts one token if there is room for another one.
    let method = MethodSpec { num_speculative_tokens: 1, ..method }.build_with(tools)?;
    let mut generation = Generation::new(target, method, prompt, StopRules::max_tokens(2), None)?;
    let mut chance = Seeded::new(Request { seed: 0, prompt: "", repeat: 0 });
    let mut first = FirstDraft::default();
    generate(&mut generation, target, &mut chance, &RealClock::default(), &mut first)?;
    let none = "--draft drafts no token after this prompt: a head needs two tokens, and any draft \
                room in its context";
    first.0.context(none)
}

/// The distribution of the first token that is drafted.
#[derive(Debug, Default)]
struct FirstDraft(Option<Dist>);

impl Observer for FirstDraft {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let draft = event.draft.nodes().first().filter(|_| event.round == 0);
        let of = |node: &Node| (*node.distribution(event.draft.vocab())).clone();
        self.0 = self.0.take().or_else(|| draft.map(of));
        Ok(())
    }
}

/// The `n` tokens with the largest logits in descending order. If fewer than `n` logits are
/// finite, tokens with a logit of -inf follow.
fn shown_tokens(logits: &Logits, n: usize) -> Vec<Token> {
    let mut tokens = logits.largest(n);
    let impossible = |&token: &Token| logits.get(token) == f64::NEG_INFINITY;
    let missing = n.saturating_sub(tokens.len());
    tokens.extend((0..logits.len() as Token).filter(impossible).take(missing));
    tokens
}

fn row(id: Token, label: String, logits: &Logits, stages: &[Stage], q: Option<&Dist>) -> TokenRow {
    let probabilities = stages.iter().map(|stage| stage.dist.p(id)).collect::<Vec<_>>();
    let p = probabilities.last().copied().unwrap_or_default();
    let q = q.map(|q| q.p(id));
    TokenRow { id, label, logit: logits.get(id), probabilities, q, min_pq: q.map(|q| q.min(p)) }
}

fn column(name: &'static str, value: Option<f64>, dist: &Dist, shown: &[Token]) -> DistColumn {
    DistColumn {
        name,
        value,
        kept: dist.support().count(),
        // A one-hot distribution has entropy -0.0 in floating point.
        entropy: dist.entropy().max(0.0),
        others: dist.support().filter(|(id, _)| !shown.contains(id)).map(|(_, p)| p).sum(),
    }
}

/// The value of the setting that belongs to a stage.
fn setting(stage: &str, settings: &SamplingParams) -> Option<f64> {
    settings.get(stage)?.number()
}

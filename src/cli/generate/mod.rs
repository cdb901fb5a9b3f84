//! `specdec generate`: generates a completion of one prompt and streams its text.

mod beams;
mod listener;
mod paint;
mod rounds;
mod samples;
mod stats;

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use self::beams::BeamArgs;
use self::listener::{Heard, Listener};
use self::paint::Painter;
use self::samples::{SampleArgs, SampleRequest};
use self::stats::{AskedSettings, Report};
use super::controls::{ControlArgs, controls};
use super::method::MethodArgs;
use super::models::{PairNames, open_pair, say_note};
use super::options::{ModelArgs, PromptArgs, count};
use super::output;
use super::sampling::SamplingArgs;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::io::input::read_text;
use crate::io::terminal;
use crate::method::beam::{BeamSearch, drafting};
use crate::method::decode::{self, Generation, MethodSpec, StopRules, class_of};
use crate::method::draft::{Texts, Tools};
use crate::model::{Codec, ModelInfo};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec generate 'fn main() {'
  specdec generate --prompt-file notes.md --temperature 0.7 --top-p 0.95 --seed 7
  specdec generate 'impl Iterator for' --temperature 0 --show-draft
  specdec generate 'impl Iterator for' --temperature 0 --plain
  specdec generate --target owner/name --plain --chat --system 'Be brief.' 'What is a monad?'
  git diff | specdec generate --drafter prompt_lookup -k 8 --stop $'\\n\\n'
  specdec generate 'impl Iterator for' --num-beams 4 --num-return-sequences 2
  specdec generate --chat '17 * 23 = ?' --samples 8 --best-of majority
  specdec generate --target toy:mixed ab --max-tokens 20 --json

Only the completion is written to standard output, as it is generated (followed by a newline on a
terminal); statistics go to standard error. With --samples, it is the chosen completion. Acceptance
is accepted / proposed tokens, block efficiency the mean number of tokens per round (accepted + 1),
K the number of tokens drafted per round. With --temperature 0, the text is the same with and
without --plain. `specdec list` shows the methods.")]
pub(super) struct GenerateArgs {
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    prompt: PromptArgs,
    #[command(flatten)]
    method: MethodArgs,
    /// Seed of all random draws; the same seed and prompt give the same completion, unless the
    /// method depends on the clock
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Method")]
    seed: u64,
    #[command(flatten)]
    controls: ControlArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    samples: SampleArgs,
    #[command(flatten)]
    beams: BeamArgs,
    #[command(flatten)]
    stop: StopArgs,
    #[command(flatten)]
    show: GenerateShowArgs,
}

/// When to stop.
#[derive(Debug, Args, Serialize)]
#[command(next_help_heading = "Stopping")]
struct StopArgs {
    /// Stop after this many new tokens
    #[arg(long, short = 'n', value_name = "N", default_value_t = 128,
          value_parser = count, allow_negative_numbers = true)]
    max_tokens: usize,
    /// Stop before this literal text; repeatable
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Stop before the first round that would begin this long after decoding started; > 0
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    timeout: Option<f64>,
    /// Treat end-of-text tokens as ordinary tokens
    #[arg(long)]
    ignore_eos: bool,
}

/// Output options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct GenerateShowArgs {
    /// Colour accepted, corrected and bonus tokens on a terminal, unless NO_COLOR is set
    #[arg(long)]
    show_draft: bool,
    /// Print one JSON object instead of text, with all completions of --samples and --num-beams
    ///
    /// It has text, tokens, logprobs (log p of each token, after all processors), rounds (proposed,
    /// accepted, tokens and end of each), prompt_tokens, stop_reason, class, stats and settings.
    /// docs/metrics.md defines all fields.
    #[arg(long, conflicts_with = "show_draft")]
    json: bool,
}

impl GenerateArgs {
    /// The method with canonical names.
    fn spec(&self) -> Result<MethodSpec> {
        self.method.spec(&self.sampling)
    }
}

impl StopArgs {
    /// The stop rules that do not depend on the model.
    fn rules(&self) -> Result<StopRules<'static>> {
        let deadline = self.timeout.map(deadline).transpose()?;
        if self.stop.iter().any(String::is_empty) {
            bail!("--stop is empty: give at least one character");
        }
        Ok(StopRules {
            max_tokens: self.max_tokens,
            eos: Vec::new(),
            tokens: Vec::new(),
            strings: self.stop.clone(),
            keeps_stop: false,
            deadline,
            user: None,
        })
    }
}

fn deadline(seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => bail!("--timeout {seconds} is out of range: allowed is a number of seconds > 0"),
    }
}

pub(super) fn run(args: &GenerateArgs) -> Result<()> {
    // All options are checked before a model is loaded.
    let mut spec = args.spec()?;
    let request = args.controls.request()?;
    let beams = args.beams.settings(&spec)?;
    let samples = args.samples.count()?;
    if samples.is_some() && (beams.is_some() || args.show.show_draft) {
        bail!("--samples generates several completions: leave out --num-beams and --show-draft");
    }
    if beams.is_some() && (args.show.show_draft || args.stop.timeout.is_some()) {
        bail!("--num-beams has no rounds: leave out --show-draft and --timeout");
    }
    let mut rules = args.stop.rules()?;
    let text = args.prompt.read()?;
    let (pair, names) =
        open_pair(&args.models, args.prompt.special_tokens, spec.needs_draft_model())?;
    let (target, codec) = (&*pair.target.model, &*pair.target.codec);
    say_note(target.info());
    spec.sampling.controls = controls(&request, &pair.target)?;
    if beams.is_some() && !spec.sampling.controls.is_none() {
        bail!("--num-beams ranks the target's own probabilities: leave out the controls");
    }
    rules.tokens = request.stop_token_ids;
    if !args.stop.ignore_eos {
        rules.eos = target.info().eos.clone();
    }
    let prompt = args.prompt.encode(&text, codec)?;
    let texts = Texts::new(&*pair.target.codec, read_text);
    let tools = Tools { draft: pair.draft_model(), target: Some(target), texts: Some(&texts) };
    let mut chance = Seeded::new(Request { seed: args.seed, prompt: &text, repeat: 0 });
    if let Some(settings) = beams {
        let search =
            BeamSearch { target, settings, prompt: &prompt, stop: rules, codec: Some(codec) };
        let method = (&drafting(&spec), !args.models.no_kv_cache);
        let mut found = beams::search(&search, method, tools, codec, &mut chance)?;
        if args.show.json {
            found = found.with_logprobs(&search)?;
        }
        return show_chosen(&found.shown(), &found, args.show.json);
    }
    if let Some(n) = samples {
        let prompt = (&*text, &*prompt);
        let (stop, seed) = (&rules, args.seed);
        let asked = SampleRequest { target, tools, codec, spec: &spec, prompt, stop, seed };
        let found = args.samples.run(n, &asked, &RealClock::default())?;
        return show_chosen(found.text(), &found, args.show.json);
    }
    let method = spec.build_with(tools)?;
    let mut generation = Generation::new(target, method, &prompt, rules, Some(codec))?;
    let on_terminal = output::on_terminal();
    let painter = args.show.show_draft.then(|| painter(codec, on_terminal)).flatten();
    let coloured = painter.is_some();
    let out = (!args.show.json).then(|| std::io::stdout().lock());
    let mut listener = Listener::new(out, painter, on_terminal);
    let clock = RealClock::default();
    let ended = decode::generate(&mut generation, target, &mut chance, &clock, &mut listener);
    let heard = listener.finish().context("cannot write to standard output")?;
    let Heard { tally, log, at_line_start } = heard;
    let report = Report {
        text: generation.text(),
        tokens: generation.new_tokens(),
        log: &log,
        prompt_tokens: prompt.len(),
        stop_reason: generation.stopped().map_or("", |reason| reason.name()),
        class: class_of(&spec, target.info().row_invariant)?,
        stats: tally.stats(&ended?, generation.new_tokens().len()),
        settings: settings(args, &spec, target.info(), &names),
    };
    if args.show.json {
        return output::write_json(&report);
    }
    if coloured {
        terminal::say_raw(paint::legend());
    }
    say_after_text(&report, at_line_start);
    Ok(())
}

/// Prints statistics on standard error, below a text that has not ended its last line in a file or
/// pipe, which may be the same one.
fn say_after_text(report: &impl Display, at_line_start: bool) {
    terminal::say(format_args!("{}{report}", if at_line_start { "" } else { "\n" }));
}

/// Prints the text of the chosen completion, and a report on all of them.
fn show_chosen(text: &str, report: &(impl Serialize + Display), json: bool) -> Result<()> {
    if json {
        return output::write_json(report);
    }
    let ends = text.is_empty() || text.ends_with('\n');
    let on_terminal = output::on_terminal();
    let end = if on_terminal && !ends { "\n" } else { "" };
    output::write(&format!("{text}{end}"))?;
    say_after_text(report, on_terminal || ends);
    Ok(())
}

/// The painter; `None`, with a note, where colours would be escape codes in a file, or are unwanted.
fn painter(codec: &dyn Codec, on_terminal: bool) -> Option<Painter<'_>> {
    let why = match (on_terminal, output::no_colour()) {
        (true, false) => return Some(Painter::new(codec)),
        (true, true) => "NO_COLOR is set",
        (false, _) => "standard output is no terminal",
    };
    terminal::say(format_args!(
        "note: {why}, so tokens are not coloured; --json has the tokens of every round"
    ));
    None
}

fn settings<'r>(
    args: &'r GenerateArgs,
    method: &'r MethodSpec,
    target: &'r ModelInfo,
    (name, draft): &'r PairNames,
) -> AskedSettings<'r> {
    AskedSettings {
        target: name,
        draft: draft.as_deref(),
        vocabulary: args.models.vocabulary,
        engine: target.engine,
        dtype: target.dtype,
        kv_cache: !args.models.no_kv_cache,
        method,
        seed: args.seed,
        stop: &args.stop,
        special_tokens: args.prompt.special_tokens,
        chat: args.prompt.chat,
        system: args.prompt.system.as_deref(),
    }
}

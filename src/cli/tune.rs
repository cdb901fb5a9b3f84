//! `specdec tune`: finds the fastest decoding configurations by forecasts, measures them, and shows
//! both.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::options::{WrittenPair, count};
use super::output;
use super::run::{self, RunArgs};
use super::sampling::SamplingArgs;
use super::some_prompts::SHIPPED;
use super::source::{OverrideArgs, Ready, prepare};
use crate::core::params::{Params, Value};
use crate::io::output::{cannot_write, write_whole};
use crate::io::{shown, terminal};
use crate::measure::bench::{CostPlaces, cost_rows};
use crate::measure::machine::MachineClock;
use crate::method::draft::Tools;
use crate::run::report::{self, Run};
use crate::tapes::forecasting::{
    CostSetting, CostTable, Costed, ForecastCell, ForecastGap, forecast_cells, gaps, write_costs,
};
use crate::tapes::recording::{MODEL, Recording, Scoring, canonical};
use crate::tapes::tape::{AcceptanceRule, Tape, TapeDrafter, TapeModel};

/// Number of configurations that are measured.
const MEASURED: usize = 3;
/// The temperatures of the draft to try, as shares of the target's.
const COOLER: [f64; 2] = [0.7, 0.85];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec tune --out tuned
  specdec tune --target models/big --draft models/small --prompts my-prompts.jsonl \\
      --temperature 0.7 --out tuned

Records completions of the target, scores them with the draft model and two lookups, times passes,
and forecasts every drafter, rule and K. Then it measures the three configurations with the fastest
forecasts, in turns with plain decoding, and prints forecasts and measurements. The folder keeps the
tape, the costs, the experiment and its results.")]
pub(super) struct TuneArgs {
    #[command(flatten)]
    models: WrittenPair,
    /// Prompts: a set or a file; repeatable [default: code, docs, edits]
    #[arg(long, value_name = "NAME|FILE")]
    prompts: Vec<String>,
    /// Encode the prompts as conversations, by the target's chat template
    #[arg(long)]
    chat: bool,
    /// Number of prompts, chosen by the seed [default: all]
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<usize>,
    /// Maximum number of new tokens per completion
    #[arg(long, short = 'n', value_name = "N", default_value_t = 64, value_parser = count)]
    max_tokens: usize,
    /// Time budget for the passes, for each of three lengths of context
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// The folder to write; it must not exist
    #[arg(long, short = 'o', value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    overrides: OverrideArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub(super) fn run(args: &TuneArgs) -> Result<()> {
    if args.out.exists() {
        bail!("{} exists already: name another folder", args.out.display());
    }
    let file = args.out.join("experiment.toml");
    fs::create_dir_all(&args.out).with_context(|| cannot_write(&file))?;
    write_whole(&file, args.experiment(&["drafter = \"prompt_lookup\"".to_owned()])?.as_bytes())?;
    let ready = prepare(&file, &args.overrides).inspect_err(|_| {
        // The new folder holds nothing of value, and the next attempt needs its name.
        let _ = fs::remove_dir_all(&args.out);
    })?;
    terminal::say("recording completions, and scoring them with drafters");
    let tape = args.tape(&ready)?;
    terminal::say("timing passes");
    let costs = args.costs(&ready, &tape)?;
    let cells = with_costs(&tape, &costs);
    let chosen = fastest(&cells);
    drop(ready);
    let sweeps = chosen.iter().map(|cell| sweep(&tape, cell)).collect::<Vec<_>>();
    write_whole(&file, args.experiment(&sweeps)?.as_bytes())?;
    let measure = RunArgs::of(file.clone(), args.out.join("results"));
    let folder = run::measured(&measure)?;
    let run = report::load(&folder)?;
    let gaps = gaps(&tape, &cells, &run)?;
    let own = gaps.iter().map(|gap| or_warning(with_own_costs(&tape, (&folder, &run), gap)));
    let own = own.collect::<Vec<_>>();
    let mut text = table(&gaps, &own)?;
    for reason in &run.times.reasons {
        writeln!(text, "{}", reason.sentence())?;
    }
    output::show(&text)
}

/// The forecasts of a tape with these costs.
fn with_costs(tape: &Tape, table: &CostTable) -> Vec<ForecastCell> {
    let settings = &[CostSetting { batch: 1, context: None }];
    forecast_cells(tape, &[], Some(&Costed { table, settings }))
}

/// The speedup of a cell that the tape forecasts with what passes cost in the run itself. The rest
/// of the difference from the measured speedup is not due to the costs.
///
/// # Errors
/// If the run does not show what its passes cost.
fn with_own_costs(
    tape: &Tape,
    (folder, run): (&Path, &Run),
    gap: &ForecastGap,
) -> Result<Option<f64>> {
    let costs = CostTable::read(&write_costs(folder, &gap.drafter)?)?;
    let again = gaps(tape, &with_costs(tape, &costs), run)?;
    Ok(again.iter().find(|own| own.cell == gap.cell).and_then(|own| own.forecast_speedup))
}

/// The speedup; if it is missing, a warning gives the reason, and the measurement is shown without
/// it.
fn or_warning(speedup: Result<Option<f64>>) -> Option<f64> {
    speedup.unwrap_or_else(|error| {
        terminal::say(format_args!("warning: no speedup with the run's costs: {error:#}"));
        None
    })
}

impl TuneArgs {
    /// An experiment with a table [[sweep]] for each of these configurations.
    fn experiment(&self, sweeps: &[String]) -> Result<String> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut text = String::new();
        let question = "Is the configuration with the fastest forecast the fastest?";
        writeln!(text, "question = \"{question}\"")?;
        writeln!(text, "target = {}", quoted(&self.models.target))?;
        if let Some(draft) = self.models.draft() {
            writeln!(text, "draft = {}", quoted(draft))?;
        }
        let shipped = || SHIPPED.map(str::to_owned).to_vec();
        let prompts = if self.prompts.is_empty() { shipped() } else { self.prompts.clone() };
        let prompts = prompts.iter().map(|name| quoted(name)).collect::<Vec<_>>();
        writeln!(text, "prompts = [{}]", prompts.join(", "))?;
        if let Some(limit) = self.limit {
            writeln!(text, "prompts_limit = {limit}")?;
        }
        writeln!(text, "chat = {}\nmax_tokens = {}\nseed = 1", self.chat, self.max_tokens)?;
        for sweep in sweeps {
            writeln!(text, "\n[[sweep]]\n{sweep}")?;
            for (key, value) in self.sampling.target()?.changes() {
                writeln!(text, "{key} = {value}")?;
            }
        }
        Ok(text)
    }

    /// Records completions of the experiment's prompts, and scores them with drafters.
    fn tape(&self, ready: &Ready) -> Result<Tape> {
        let texts = ready.texts();
        let frozen = ready.freeze(&texts)?;
        // Not the seed of the run, which must not be forecast from its own completions.
        let seed = frozen.plan.seed + 1;
        let recording = ready.recording(frozen, vec![self.sampling.target()?])?;
        let recording = Recording { name: &self.models.target, repeats: 1, seed, ..recording };
        let mut file = recording.run(&self.out.join("tape.jsonl"))?;
        let (draft, target) = (ready.pair.draft_model(), Some(&*ready.pair.target.model));
        let tools = Tools { draft, target, texts: Some(&texts) };
        let drafters = self.drafters(ready)?;
        Scoring { drafters, tools, overlap: false, beliefs: None }.run(&mut file)?;
        Ok(file.tape().clone())
    }

    fn drafters(&self, ready: &Ready) -> Result<Vec<TapeDrafter>> {
        let drafter = |name: &str, params, most| {
            let drafter = name.to_owned();
            canonical(TapeDrafter { drafter, params, most, ..TapeDrafter::default() })
        };
        let most = Some(crate::tapes::forecasting::MAX_K);
        let mut all = vec![
            drafter("prompt_lookup", Params::default(), most)?,
            drafter("suffix_automaton", Params::default(), most)?,
        ];
        if let Some((name, model)) = self.models.draft().zip(ready.pair.draft_model()) {
            let warmth = self.sampling.target()?.temperature;
            let cooler = COOLER.iter().filter(|_| warmth > 0.0).map(|share| {
                let temperature = Value::Number(rounded(share * warmth));
                Params::default().with("draft_temperature", temperature)
            });
            let most = most.filter(|_| !model.info().reads_text_alone());
            for params in [Params::default()].into_iter().chain(cooler) {
                let model = Some(TapeModel::new(name, model.info()));
                all.push(TapeDrafter { model, ..drafter(MODEL, params, most)? });
            }
        }
        Ok(all)
    }

    /// Times passes at the shortest, the median and the longest context of the sequences.
    fn costs(&self, ready: &Ready, tape: &Tape) -> Result<CostTable> {
        let (target, draft) = (&*ready.pair.target.model, ready.pair.draft_model());
        let (budget, clock) = (Duration::from_secs(self.seconds), MachineClock::default());
        let ends = tape.sequences.iter().flat_map(|sequence| {
            let prompt = sequence.prompt_tokens.len();
            [prompt, prompt + sequence.tokens.len()]
        });
        let mut contexts = ends.collect::<Vec<_>>();
        contexts.sort_unstable();
        let room =
            target.info().context_length.saturating_sub(crate::measure::bench::MOST_ROWS + 1);
        let picked = [0, contexts.len() / 2, contexts.len() - 1].map(|at| contexts[at].min(room));
        let mut contexts = picked.map(|context| context.max(1)).to_vec();
        contexts.dedup();
        let places = CostPlaces { contexts: &contexts, batches: &[1], shared: false };
        let rows = cost_rows(target, draft, places, budget, &clock)?;
        report::write_csv(&self.out.join("costs.csv"), &rows)?;
        let mut table = CostTable::default();
        for row in rows {
            table.add(row)?;
        }
        let complete = contexts.iter().all(|&context| table.target(1.0, context as f64, 1) > 0.0);
        if !complete || (draft.is_some() && !table.knows_draft()) {
            bail!(
                "other work disturbed this machine: too few samples of a pass are usable; wait \
                 until it is idle, or raise --seconds"
            );
        }
        Ok(table)
    }
}

/// The configurations with the fastest forecasts; of those with the same drafter, only the best.
fn fastest(cells: &[ForecastCell]) -> Vec<&ForecastCell> {
    let rate = |cell: &ForecastCell| cell.speedup(0).and_then(|ratio| ratio.value()).unwrap_or(0.0);
    let mut ranked =
        cells.iter().filter(|cell| cell.config.rule != AcceptanceRule::Match).collect::<Vec<_>>();
    ranked.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let mut chosen = Vec::<&ForecastCell>::new();
    for cell in ranked {
        if chosen.iter().all(|known| known.config.drafter != cell.config.drafter) {
            chosen.push(cell);
        }
    }
    chosen.truncate(MEASURED);
    chosen
}

/// The axes of a cell.
fn sweep(tape: &Tape, cell: &ForecastCell) -> String {
    let drafter = &tape.drafters[cell.config.drafter];
    let set = drafter.params.iter().map(|(key, value)| match value {
        Value::Text(text) => format!("\n{key} = {}", toml::Value::from(text.as_str())),
        other => format!("\n{key} = {other}"),
    });
    format!(
        "drafter = \"{}\"\nverifier = \"{}\"\nnum_speculative_tokens = {}{}",
        drafter.drafter,
        cell.config.rule.verifier(),
        cell.config.k,
        set.collect::<String>()
    )
}

/// A temperature without the rounding errors of a product, as it is printed.
fn rounded(temperature: f64) -> f64 {
    shown::exact(temperature).parse().unwrap_or(temperature)
}

/// Forecasts and measurements; `own` are the speedups with the costs of the run itself. Settings are
/// shown of drafters that have several rows.
fn table(gaps: &[ForecastGap], own: &[Option<f64>]) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "                                  tokens per round    speedup")?;
    writeln!(
        text,
        "drafter           verifier      K  forecast  measured   forecast  with the run's costs  \
         measured"
    )?;
    for (gap, own) in gaps.iter().zip(own) {
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |x| format!("{x:.2}"));
        let rows = gaps.iter().filter(|other| other.drafter == gap.drafter).count();
        let settings = if rows > 1 { &*gap.params } else { "" };
        let line = format!(
            "{:16}  {:11} {:>3}  {:>8.2}  {:>8.2}   {:>8}  {:>20}  {:>8}  {settings}",
            gap.drafter,
            gap.verifier,
            gap.num_speculative_tokens,
            gap.forecast,
            gap.measured,
            number(gap.forecast_speedup),
            number(*own),
            number(gap.measured_speedup)
        );
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(text)
}

//! `specdec bench`: times passes on this machine.

mod interactive;
mod served;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use self::interactive::answer;
use self::served::ServedArgs;
use super::models::{open_pair, start_threads};
use super::options::{ModelArgs, count};
use super::output::{self, shown};
use crate::checkpoint::{ModelShape, SHAPES};
use crate::core::lanes::IsaKind;
use crate::engine::pool::Pool;
use crate::io::output::write_whole;
use crate::measure::bench::{
    CONTEXT, CostPlaces, Measured, PassRow, RoundCosts, cost_rows, draw, measure,
};
use crate::measure::machine::MachineClock;
use crate::model::{CPU, LanguageModel, ModelInfo, Role};
use crate::run::report;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec bench
  specdec bench --dtype bf16 --csv passes.csv --figure passes.svg
  specdec bench --shape 110m --draft-shape 15m --dtype q8_0 --threads 2
  specdec bench --plain-url http://localhost:8000 --url http://localhost:8001 --costs costs.csv

T(m) is the time of a pass of m rows; its first row is the last of 64 (--context) context tokens.
Memory bandwidth is measured in turns with the passes, by reading as many bytes as a pass of one
row reads of weights. GB/s is the rate at which a pass reads these bytes, and share is that rate
relative to the memory bandwidth. Only the limits of the processor are measured, not those of other
devices. Samples that other work on the machine disturbed are dropped; with fewer than five others,
no number is printed.")]
pub(super) struct BenchArgs {
    #[command(flatten)]
    models: ModelArgs,
    /// Measure random weights of this shape instead of a model: 15m, 110m or 1.1b
    #[arg(long, value_name = "NAME", conflicts_with_all = ["target", "draft", "served"])]
    shape: Option<String>,
    /// With --shape, the shape of the draft model
    #[arg(long, value_name = "NAME", requires = "shape")]
    draft_shape: Option<String>,
    /// Context tokens of a pass, including its first row
    #[arg(long, value_name = "TOKENS", default_value_t = CONTEXT, value_parser = count)]
    context: usize,
    /// Time budget for the passes; at least seven samples of each are taken
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Write the timings as CSV, one line per number of rows, or per repetition with --url
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write what passes cost at several lengths of context, for `specdec forecast --costs`
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Those lengths, separated by commas
    #[arg(long, value_name = "TOKENS,…", value_delimiter = ',', requires = "costs",
        conflicts_with = "served", default_value = "64,128,256", value_parser = count)]
    contexts: Vec<usize>,
    /// How many sequences a pass has, each with a cache of its own, separated by commas
    #[arg(long, value_name = "SEQUENCES,…", value_delimiter = ',', requires = "costs",
        conflicts_with = "served", default_value = "1", value_parser = count)]
    batch: Vec<usize>,
    /// Time batches whose sequences share their contexts, too
    #[arg(long, requires = "costs", conflicts_with = "served")]
    shared: bool,
    /// Draw T(m) and the best speedups; FILE must end in .svg
    #[arg(long, value_name = "FILE", conflicts_with = "served")]
    figure: Option<PathBuf>,
    /// Take single samples on request, to alternate with other programs. Each line of standard
    /// input gets a line of JSON: pass M BATCH shared, tapped M, prefill N, score N, read, beams B STEPS,
    /// logits M, logits-after TOKEN ..., quit
    #[arg(long, conflicts_with_all = ["csv", "figure", "costs", "draft_shape", "served"])]
    interactive: bool,
    #[command(flatten)]
    served: ServedArgs,
}

pub(super) fn run(args: &BenchArgs) -> Result<()> {
    if let Some(file) = &args.figure
        && file.extension().is_none_or(|e| e != "svg")
    {
        bail!("--figure {}: the name must end in .svg", file.display());
    }
    if args.served.are_given() {
        let budget = Duration::from_secs(args.seconds);
        return args.served.run(budget, args.csv.as_deref(), args.costs.as_deref());
    }
    let (target, draft) = models(args)?;
    if args.interactive {
        return answer(&*target, args.context, std::io::stdin().lock(), std::io::stdout().lock());
    }
    let (budget, clock) = (Duration::from_secs(args.seconds), MachineClock::default());
    let measured = measure(&*target, draft.as_deref(), args.context, budget, &clock)?;
    let (info, costs) = (target.info(), measured.costs());
    let rows = PassRow::of(&*target, &measured);
    if let Some(file) = &args.csv {
        report::write_csv(file, &rows)?;
    }
    if let Some(file) = &args.costs {
        let (contexts, batches) = (&args.contexts, &args.batch);
        let places = CostPlaces { contexts, batches, shared: args.shared };
        let costs = cost_rows(&*target, draft.as_deref(), places, budget, &clock)?;
        report::write_csv(file, &costs)?;
    }
    // Even if the reader of the table has closed the pipe, the figure is written.
    let shown = output::show(&table(info, &measured, &rows, costs.as_ref()));
    if let Some(file) = &args.figure {
        let svg = draw(&format!("{}, {}", info.name, info.dtype), &measured, costs.as_ref())?;
        write_whole(file, svg.as_bytes())?;
    }
    shown
}

type Models = (Box<dyn LanguageModel>, Option<Box<dyn LanguageModel>>);

fn models(args: &BenchArgs) -> Result<Models> {
    let Some(shape) = &args.shape else {
        let embedded = args.models.target.is_none();
        let (pair, _) = open_pair(&args.models, false, embedded || args.models.draft.is_some())?;
        return Ok((pair.target.model, pair.draft));
    };
    start_threads(args.models.threads.map(usize::from))?;
    let target = ModelShape::named(shape)?.model(&args.models.settings(Role::Target))?;
    let smaller = SHAPES.iter().take_while(|s| s.name != *shape).last();
    let draft = match &args.draft_shape {
        Some(name) => Some(ModelShape::named(name)?),
        None => smaller.copied(),
    };
    let settings = args.models.settings(Role::Draft);
    Ok((target, draft.map(|shape| shape.model(&settings)).transpose()?))
}

fn table(
    info: &ModelInfo,
    measured: &Measured,
    rows: &[PassRow],
    costs: Option<&RoundCosts>,
) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = describe(&mut text, info, measured, rows, costs);
    text
}

fn describe(
    text: &mut String,
    info: &ModelInfo,
    measured: &Measured,
    rows: &[PassRow],
    costs: Option<&RoundCosts>,
) -> std::fmt::Result {
    let (threads, isa) = (Pool::shared().threads(), IsaKind::active().name());
    let mega = info.bytes_per_token as f64 / 1e6;
    write!(text, "{} ({}, {}), ", info.name, info.engine, info.dtype)?;
    if info.device != CPU {
        write!(text, "{}, ", info.device)?;
    }
    writeln!(text, "{threads} threads, {isa}")?;
    let gb = measured.reading.median().map(|us| info.bytes_per_token as f64 / us / 1e3);
    writeln!(
        text,
        "weights per token: {mega:.1} MB; reading as much: {} GB/s, of which passes reach the share \
         \"of reading\"\n",
        shown(gb, 1)
    )?;
    writeln!(
        text,
        " m  threads   median us      min us  spread  T(m)/T(1)   GB/s  of reading  kept  dropped"
    )?;
    for row in rows {
        let percent = |share: Option<f64>| shown(share.map(|s| 100.0 * s), 1);
        writeln!(
            text,
            "{:2} {:8} {:>11} {:>11} {:>6}% {:>10} {:>6} {:>10}% {:5} {:8}",
            row.m,
            row.threads,
            shown(row.median_us, 1),
            shown(row.min_us, 1),
            percent(row.spread),
            shown(row.median_us.zip(rows[0].median_us).map(|(us, one)| us / one), 3),
            shown(row.gb_per_s, 1),
            percent(row.bandwidth_share),
            row.kept,
            row.dropped
        )?;
    }
    let pace = measured.prefill.median().map(|us| measured.prefill_tokens as f64 / us * 1e6);
    let peak = measured.peak_flops();
    let flops = pace.map(|pace| 2.0 * info.projection_weights as f64 * pace);
    writeln!(
        text,
        "\nprefill of {} tokens: {} tokens/s, {} of the peak of {} GFLOP/s",
        measured.prefill_tokens,
        shown(pace, 0),
        shown(flops.zip(peak).map(|(flops, peak)| flops / peak), 2),
        shown(peak.map(|peak| peak / 1e9), 0)
    )?;
    for outside in &measured.outside {
        writeln!(
            text,
            "outside passes at K = {}, T = {}: {} us per round, {} % of the round",
            outside.drafted,
            outside.temperature,
            shown(outside.micros(), 1),
            shown(outside.share().map(|share| 100.0 * share), 1)
        )?;
    }
    if let Some(sentence) = measured.too_few() {
        writeln!(text, "\n{sentence}")?;
    }
    costs.map_or(Ok(()), |costs| conclude(text, costs))
}

/// Writes the cost ratio, the best K by acceptance and the break-even acceptance.
fn conclude(text: &mut String, costs: &RoundCosts) -> std::fmt::Result {
    writeln!(
        text,
        "draft: {:.1} us per {}, cost ratio c = {:.3}\n",
        costs.draft,
        if costs.at_once { "block" } else { "token" },
        costs.draft / costs.passes[0]
    )?;
    for acceptance in [0.5, 0.6, 0.7, 0.8, 0.9] {
        let best = costs.best(acceptance);
        if best.speedup > 1.0 {
            writeln!(
                text,
                "at alpha = {acceptance} the best K is {}: speedup at most {:.2}x",
                best.length, best.speedup
            )?;
        } else {
            writeln!(
                text,
                "at alpha = {acceptance} no K is faster than plain decoding: below break-even"
            )?;
        }
    }
    match costs.break_even() {
        Some(alpha) => writeln!(text, "break-even at alpha = {alpha:.3}"),
        None => writeln!(text, "speculation is not faster on this machine, even at alpha = 1"),
    }
}

//! `specdec bench`: what passes cost on this machine.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::models::{open_pair, start_threads};
use super::options::{ModelArgs, count};
use super::output;
use crate::bench::{CONTEXT, Costs, DRAFTED, Measured, PREFILL, PassRow, answer, draw, measure};
use crate::lanes::IsaKind;
use crate::model::{LanguageModel, ModelInfo, Role, SHAPES, Shape};
use crate::pool::Pool;

/// Options of `specdec bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec bench
  specdec bench --dtype bf16 --csv passes.csv --figure passes.png
  specdec bench --shape 110m --draft-shape 15m --dtype q8_0 --threads 2

T(m) is a pass of m rows, the first of which is the last token of a text of 64 (--context) tokens.
Bandwidth is that of reading as many bytes as a pass of one row reads weights, measured in turns
with the passes; GB/s and share are those of reading these bytes once per pass. Samples during which our threads waited for a core are dropped.")]
pub(super) struct BenchArgs {
    #[command(flatten)]
    models: ModelArgs,
    /// Measure random weights of this shape instead of a model: 15m, 110m or 1.1b
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    shape: Option<String>,
    /// With --shape, the shape of the draft model
    #[arg(long, value_name = "NAME", requires = "shape")]
    draft_shape: Option<String>,
    /// Tokens of the text before a pass
    #[arg(long, value_name = "TOKENS", default_value_t = CONTEXT, value_parser = count)]
    context: usize,
    /// Time for the passes; at least seven samples of each are taken
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Write one row per number of rows
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw T(m) and the best speedups; FILE ends in .svg or .png
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Take single samples on request, for measuring side by side with other programs: reads lines
    /// (pass M, prefill N, read, logits M, quit) and answers each with a line of JSON
    #[arg(long, conflicts_with_all = ["csv", "figure", "draft_shape"])]
    interactive: bool,
}

/// Runs the command.
pub(super) fn run(args: &BenchArgs) -> Result<()> {
    if let Some(file) = &args.figure
        && !file.extension().is_some_and(|e| e == "svg" || e == "png")
    {
        bail!("--figure {}: the name must end in .svg or .png", file.display());
    }
    let (target, draft) = models(args)?;
    if args.context == 0 {
        bail!("--context 0 leaves no token for the first row: allowed is a whole number >= 1");
    }
    if args.interactive {
        return answer(&*target, args.context, std::io::stdin().lock(), std::io::stdout().lock());
    }
    let budget = Duration::from_secs(args.seconds);
    let measured = measure(&*target, draft.as_deref(), args.context, budget)?;
    let info = target.info();
    let costs = measured.draft.as_ref().map(|draft| Costs {
        passes: measured.passes.iter().map(|t| t.median()).collect(),
        draft: draft.median(),
        outside: measured.outside.last().map_or(0.0, |o| o.micros),
    });
    let rows = PassRow::of(info, &measured);
    if let Some(file) = &args.csv {
        write_csv(&rows, file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &args.figure {
        let drawn = draw(&format!("{}, {}", info.name, info.dtype), &measured, costs.as_ref())?;
        let svg = file.extension().is_some_and(|e| e == "svg");
        let bytes = if svg { drawn.svg.into_bytes() } else { drawn.png };
        std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
    }
    output::write(table(info, &measured, &rows, costs.as_ref()).as_bytes())
}

type Models = (Box<dyn LanguageModel>, Option<Box<dyn LanguageModel>>);

fn models(args: &BenchArgs) -> Result<Models> {
    let Some(shape) = &args.shape else {
        let embedded = args.models.target.is_none();
        let pair = open_pair(&args.models, embedded || args.models.draft.is_some())?;
        return Ok((pair.target.model, pair.draft.map(|draft| draft.model)));
    };
    start_threads(args.models.threads.map(usize::from))?;
    let target = Shape::named(shape)?.model(&args.models.settings(Role::Target))?;
    let smaller = SHAPES.iter().take_while(|s| s.name != *shape).last();
    let draft = match &args.draft_shape {
        Some(name) => Some(Shape::named(name)?),
        None => smaller.copied(),
    };
    let settings = args.models.settings(Role::Draft);
    Ok((target, draft.map(|shape| shape.model(&settings)).transpose()?))
}

fn write_csv(rows: &[PassRow], file: &std::path::Path) -> Result<()> {
    let mut writer = csv::Writer::from_path(file)?;
    rows.iter().try_for_each(|row| writer.serialize(row))?;
    Ok(writer.flush()?)
}

fn table(info: &ModelInfo, measured: &Measured, rows: &[PassRow], costs: Option<&Costs>) -> String {
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
    costs: Option<&Costs>,
) -> std::fmt::Result {
    let (threads, isa) = (Pool::shared().threads(), IsaKind::active().name());
    let mega = info.bytes_per_token as f64 / 1e6;
    writeln!(text, "{} ({}, {}), {threads} threads, {isa}", info.name, info.engine, info.dtype)?;
    let reading = &measured.reading;
    let gb = info.bytes_per_token as f64 / reading.median() / 1e3;
    writeln!(text, "weights per token {mega:.1} MB; reading as much: {gb:.1} GB/s\n")?;
    writeln!(text, " m   median us      min us  spread  T(m)/T(1)   GB/s  share  kept  dropped")?;
    for row in rows {
        writeln!(
            text,
            "{:2} {:11.1} {:11.1} {:6.1}% {:10.3} {:6.1} {:5.1}% {:5} {:8}",
            row.m,
            row.median_us,
            row.min_us,
            100.0 * row.spread,
            row.median_us / rows[0].median_us,
            row.gb_per_s,
            100.0 * row.bandwidth_share,
            row.kept,
            row.dropped
        )?;
    }
    let seconds = measured.prefill.median() * 1e-6;
    let flops = 2.0 * info.projection_weights as f64 * PREFILL as f64 / seconds;
    writeln!(
        text,
        "\nprefill of {PREFILL} tokens: {:.0} tokens/s, {:.2} of the peak of {:.0} GFLOP/s",
        PREFILL as f64 / seconds,
        flops / measured.peak_flops,
        measured.peak_flops / 1e9
    )?;
    let Some(costs) = costs else { return Ok(()) };
    for outside in &measured.outside {
        writeln!(
            text,
            "outside of passes at K = {DRAFTED}, T = {}: {:.1} us a round, {:.1} %",
            outside.temperature,
            outside.micros,
            100.0 * outside.share
        )?;
    }
    writeln!(
        text,
        "draft {:.1} us a token: cost ratio c = {:.3}\n",
        costs.draft,
        costs.draft / costs.passes[0]
    )?;
    for acceptance in [0.5, 0.6, 0.7, 0.8, 0.9] {
        let best = costs.best(acceptance);
        if best.speedup > 1.0 {
            writeln!(
                text,
                "at alpha = {acceptance} the best K here is {}, at most {:.2}x",
                best.length, best.speedup
            )?;
        } else {
            writeln!(text, "at alpha = {acceptance} no K is faster: below break-even")?;
        }
    }
    match costs.break_even() {
        Some(alpha) => writeln!(text, "break-even at alpha = {alpha:.3}"),
        None => writeln!(text, "no acceptance makes speculation faster here"),
    }
}

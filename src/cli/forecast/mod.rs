//! `specdec forecast`: the acceptance and speed of drafts, from a tape.

mod advise;
mod paste;
mod printed_forecast;
mod printed_greedy;
mod served;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use self::advise::Advice;
use self::paste::Paste;
use self::printed_forecast::ForecastText;
use self::served::ServedCosts;
use super::options::{count, named};
use super::output;
use crate::method::draft::parse_tree;
use crate::run::report::{self, SpeedVerdict};
use crate::tapes::forecasting::{
    CostSetting, CostTable, Costed, ForecastCell, ForecastContrast, ForecastDoubt, ForecastGap,
    ForecastRow, GreedyForecast, NearerDraft, TreeShape, TunedDraft, best, doubts, forecast_cells,
    forecast_contrasts, gaps, greedy_forecasts, nearer_drafts, tuned_drafts, verdict,
};
use crate::tapes::recording::read_tape_file;
use crate::tapes::tape::{MAX_SIBLINGS, SiblingKind, Tape};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec forecast 01.tape.jsonl
  specdec forecast 01.tape.jsonl --costs costs.csv --csv forecast.csv
  specdec forecast 01.tape.jsonl --costs h100.csv --batch 1,8,32,128 --context 500,8000
  specdec forecast 01.tape.jsonl --against results/01-draft-length/2026-01-31-some-cpu-2c
  specdec forecast 01.tape.jsonl --served served.csv --audit audit.json --advise > advice.md

Computes from a tape what every drafter that has scored it, every rule for chains and every K up to
16 would accept. The expectation over all drafts is exact; the intervals are over prompts. With the
costs of passes, measured by `specdec bench --costs` here or on another machine, it shows what is
fastest. docs/tape.md describes the files.")]
pub(super) struct ForecastArgs {
    /// The tape, plain or compressed
    tape: PathBuf,
    /// Costs of passes: a CSV file with the columns what, rows, context, batch, ms
    #[arg(long, value_name = "FILE", group = "timed")]
    costs: Option<PathBuf>,
    /// Take the costs from the rounds of a server: a file of `specdec bench --url --csv`
    #[arg(long, value_name = "FILE", group = "timed")]
    served: Option<PathBuf>,
    /// With --advise, compare the page with these rounds of the server, which the costs do not rest
    /// on, instead of those of --served
    #[arg(long, value_name = "FILE", requires_all = ["served", "advise"])]
    measured: Option<PathBuf>,
    /// Numbers of sequences that share a pass, separated by commas [default: 1, or those of
    /// --served]
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "timed",
        value_parser = count)]
    batch: Vec<usize>,
    /// Tokens before each pass, separated by commas [default: the actual context of each token]
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "timed",
        value_parser = count)]
    context: Vec<usize>,
    /// Also forecast trees with these numbers of children per node, by depth; repeatable
    #[arg(long, value_name = "N,N,…")]
    tree: Vec<String>,
    /// How the siblings of these trees are chosen
    #[arg(long, value_name = "NAME", default_value = SiblingKind::Independent.name(),
        value_parser = named(SiblingKind::ALL, SiblingKind::name))]
    siblings: SiblingKind,
    /// Write one row per drafter, rule, K, sampling setting, batch and context
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Compare the forecasts with the measurements of a run
    #[arg(long, value_name = "RUN")]
    against: Option<PathBuf>,
    /// Write one row per cell of that run
    #[arg(long, value_name = "FILE", requires = "against")]
    against_csv: Option<PathBuf>,
    /// Print the best configuration as settings of another program or of an experiment
    #[arg(long, value_name = "PROGRAM", conflicts_with = "json")]
    paste: Option<Paste>,
    /// Print a page in Markdown: whether it is exact, which K at which load, what other drafters
    /// would give, and settings to paste
    #[arg(long, requires = "timed", conflicts_with_all = ["json", "paste"])]
    advise: bool,
    /// What `specdec audit --json` printed of this server's completions
    #[arg(long, value_name = "FILE", requires = "advise")]
    audit: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The K of tunings if no costs say which K is best.
const DEFAULT_K: usize = 4;

/// The forecasts, and what they were computed from.
#[derive(Debug)]
struct Forecasts {
    tape: Tape,
    doubts: Vec<ForecastDoubt>,
    costs: Option<CostTable>,
    served: Option<ServedCosts>,
    settings: Vec<CostSetting>,
    cells: Vec<ForecastCell>,
    contrasts: Vec<ForecastContrast>,
    gaps: Vec<ForecastGap>,
    tuned: Vec<TunedDraft>,
    nearer: Vec<NearerDraft>,
    greedy: Vec<GreedyForecast>,
}

/// What the command prints with `--json`.
#[derive(Debug, Serialize)]
struct ForecastReport<'a> {
    doubts: &'a [ForecastDoubt],
    best: Vec<BestRow>,
    contrasts: &'a [ForecastContrast],
    cells: Vec<ForecastRow>,
    tuned: &'a [TunedDraft],
    nearer: &'a [NearerDraft],
    greedy: &'a [GreedyForecast],
    gaps: &'a [ForecastGap],
}

/// The best configuration with a sampling setting.
#[derive(Debug, Serialize)]
struct BestRow {
    verdict: SpeedVerdict,
    #[serde(flatten)]
    row: ForecastRow,
}

pub(super) fn run(args: &ForecastArgs) -> Result<()> {
    let found = Forecasts::new(args)?;
    let rows = found.cells.iter();
    let rows = rows.flat_map(|cell| ForecastRow::all(&found.tape, cell, &found.settings));
    let rows = rows.collect::<Vec<_>>();
    if let Some(file) = &args.csv {
        report::write_csv(file, &rows)?;
    }
    if let Some(file) = &args.against_csv {
        report::write_csv(file, &found.gaps)?;
    }
    if let Some(paste) = args.paste {
        return output::write(&paste.text(&found)?);
    }
    if args.advise {
        return output::write(&Advice::new(&found, args.audit.as_deref())?.page()?);
    }
    if !args.json {
        return output::show(&ForecastText(&found).write()?);
    }
    let setting = (0, found.settings.first().copied());
    let best = found.bests(0).into_iter().map(|cell| BestRow {
        verdict: verdict(cell, 0),
        row: ForecastRow::of(&found.tape, cell, setting),
    });
    output::write_json(&ForecastReport {
        doubts: &found.doubts,
        best: best.collect(),
        contrasts: &found.contrasts,
        cells: rows,
        tuned: &found.tuned,
        nearer: &found.nearer,
        greedy: &found.greedy,
        gaps: &found.gaps,
    })
}

impl Forecasts {
    fn new(args: &ForecastArgs) -> Result<Self> {
        let tape = read_tape_file(&args.tape)?;
        let served = args.served.as_deref();
        let served = served.map(|file| ServedCosts::read(file, args.measured.as_deref()));
        let served = served.transpose()?;
        let costs = match &served {
            Some(served) => Some(served.table()?),
            None => args.costs.as_deref().map(|file| costs(file, &tape)).transpose()?,
        };
        let mut settings = args.settings(served.as_ref());
        if let Some(served) = served.as_ref().filter(|_| args.advise) {
            // Behind those that were asked for, where the page finds them.
            settings.extend(served.settings());
        }
        if settings.iter().any(|setting| setting.batch == 0) {
            bail!("--batch 0: allowed are numbers above 0");
        }
        let costed = costs.as_ref().map(|table| Costed { table, settings: &settings });
        let trees = args.trees()?;
        let cells = forecast_cells(&tape, &trees, costed.as_ref());
        if let Some(tree) = trees.iter().find(|tree| !covered(&cells, tree)) {
            bail!(
                "--tree {}: the tape does not cover such siblings; `specdec tape score --overlap` \
                 records up to {MAX_SIBLINGS} independent ones, 2 distinct ones and any top_k",
                tree.describe()
            );
        }
        if cells.is_empty() && !tape.logs.is_empty() {
            bail!(
                "{} holds only rounds, which give no forecast of other drafts: `specdec simulate` \
                 reads them",
                args.tape.display()
            );
        }
        if cells.is_empty() {
            bail!("{} holds no scores: `specdec tape score` computes them", args.tape.display());
        }
        let gaps = match &args.against {
            Some(run) => gaps(&tape, &cells, &report::load(run)?)?,
            None => Vec::new(),
        };
        let k =
            costs.as_ref().and_then(|_| best(&cells, 0)).map_or(DEFAULT_K, |cell| cell.config.k);
        let (tuned, nearer) = (tuned_drafts(&tape, &cells, k), nearer_drafts(&tape, k));
        let doubts = doubts(&tape);
        let contrasts = forecast_contrasts(&tape, &cells);
        let greedy = greedy_forecasts(&tape);
        Ok(Self {
            tape,
            doubts,
            costs,
            served,
            settings,
            cells,
            contrasts,
            gaps,
            tuned,
            nearer,
            greedy,
        })
    }

    /// The best cell of each sampling setting that occurs.
    fn bests(&self, setting: usize) -> Vec<&ForecastCell> {
        let of = |sampling| self.best(sampling, setting);
        (0..self.tape.header.samplings.len()).filter_map(of).collect()
    }

    fn best(&self, sampling: usize, setting: usize) -> Option<&ForecastCell> {
        best(self.cells.iter().filter(|cell| cell.config.sampling == sampling), setting)
    }
}

/// Whether a drafter has a forecast with this tree.
fn covered(cells: &[ForecastCell], tree: &TreeShape) -> bool {
    cells.iter().any(|cell| cell.config.tree.as_ref() == Some(tree))
}

impl ForecastArgs {
    fn trees(&self) -> Result<Vec<TreeShape>> {
        let shape = |text: &String| {
            let children = parse_tree("--tree", text)?;
            Ok(TreeShape { siblings: self.siblings, children })
        };
        self.tree.iter().map(shape).collect()
    }

    /// The settings that were asked for; none without costs.
    fn settings(&self, served: Option<&ServedCosts>) -> Vec<CostSetting> {
        if self.costs.is_none() && served.is_none() {
            return Vec::new();
        }
        let measured = || served.map_or_else(|| vec![1], ServedCosts::batches);
        let batches = if self.batch.is_empty() { measured() } else { self.batch.clone() };
        let contexts = self.context.iter().map(|&context| Some(context));
        let contexts = if self.context.is_empty() { vec![None] } else { contexts.collect() };
        let of = |context| batches.iter().map(move |&batch| CostSetting { batch, context });
        contexts.into_iter().flat_map(of).collect()
    }
}

/// Reads costs, and checks that they suffice for the drafters of a tape.
fn costs(file: &Path, tape: &Tape) -> Result<CostTable> {
    let costs = CostTable::read(file)?;
    let with_model = tape.drafters.iter().any(|drafter| drafter.model.is_some());
    if with_model && !costs.knows_draft() {
        bail!("{} has no row with what = draft, and the tape has a draft model", file.display());
    }
    Ok(costs)
}

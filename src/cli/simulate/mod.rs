//! `specdec simulate`: a server in simulated time, with the sequences of a tape as requests.

mod load;
mod printed_simulation;

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde::Serialize;

use self::load::{NamedPolicy, StepRows, rate, step_rows};
use self::printed_simulation::simulation_text;
use super::options::{count, setting};
use super::output;
use crate::core::params::{Params, Value};
use crate::run::report;
use crate::tapes::forecasting::{CostTable, MAX_K};
use crate::tapes::recording::read_tape_file;
use crate::tapes::simulation::{
    Arrivals, DEFAULT_MAX_K, NO_DRAFTS, PolicyEntry, PolicyParams, RequestRow, Served,
    ServedConfig, ServedRun, Server, ServerLimits, SimulatedSequence, SimulationConfig,
    SimulationRow, StepCosts, configs,
};
use crate::tapes::tape::{AcceptanceRule, DraftPasses};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec simulate 01.tape.jsonl --costs costs.csv
  specdec simulate chat.tape.jsonl --costs h100.csv --rate 2,8,32,inf --max-batch 64
  specdec simulate chat.tape.jsonl --costs h100.csv --clients 1,16,64 --policy plain,fixed:3,budget
  specdec simulate 01.tape.jsonl --costs costs.csv --clients 1 --policy ucb,optimal_stopping:6

The sequences of the tape are requests to a server, which share its steps: prompts in chunks, plain
decoding, drafts. The tape decides what a round accepts, the costs how long a step takes.
docs/simulate.md describes the model, the policies and the columns.")]
pub(super) struct SimulateArgs {
    /// The tape, plain or compressed
    tape: PathBuf,
    /// Costs of passes: a CSV file with the columns what, rows, context, batch, ms
    #[arg(long, value_name = "FILE")]
    costs: PathBuf,
    /// Requests per second, separated by commas; inf: all at once
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = rate)]
    rate: Vec<f64>,
    /// Numbers of clients that each send a request when their last one is done, separated by commas
    /// [default: 1 and the powers of 4 up to --max-batch, if there is no --rate]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = count)]
    clients: Vec<usize>,
    /// Policies that set how many tokens a request drafts: plain, fixed, table, goodput, budget, or
    /// a draft length policy (see `specdec list`); each may be followed by :K, the largest draft
    #[arg(
        long,
        value_name = "NAME[:K],…",
        value_delimiter = ',',
        default_value = "plain,fixed,table,goodput,budget"
    )]
    policy: Vec<NamedPolicy>,
    /// Setting of a draft length policy, such as confidence_threshold=0.3; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
    /// The drafter, by its name [default: the one that is fastest for a request alone]
    #[arg(long, value_name = "NAME")]
    drafter: Option<String>,
    /// The acceptance rule: rejection, traversal, token_match or gumbel
    #[arg(long, value_name = "NAME", default_value = AcceptanceRule::Token.verifier(),
        value_parser = super::options::named(AcceptanceRule::ALL, AcceptanceRule::verifier))]
    verifier: AcceptanceRule,
    /// Maximum number of requests that share a step [default: the largest batch of the costs]
    #[arg(long, value_name = "N", value_parser = count)]
    max_batch: Option<usize>,
    /// Maximum number of rows of a step, which limits the prompt tokens that it reads; whole: each
    /// prompt is read at once between steps, as `specdec serve` does
    #[arg(long, value_name = "N|whole", default_value = "2048", value_parser = step_rows)]
    step_rows: StepRows,
    /// Number of requests [default: one for each sequence, and at least four for each client]
    #[arg(long, value_name = "N", value_parser = count)]
    requests: Option<usize>,
    /// Number of repeats, each with other arrivals and draws
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count)]
    repeats: usize,
    /// Seed of arrivals and draws
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write one row per sampling setting, load and policy
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write one row per request, repeat, load and policy: when it arrived, and when it was done
    #[arg(long, value_name = "FILE")]
    requests_csv: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Maximum number of requests, clients and repeats.
const MAX: usize = 1_000_000;

/// What the command prints with `--json`.
#[derive(Debug, Serialize)]
struct SimulationReport<'a> {
    rows: &'a [SimulationRow],
}

pub(super) fn run(args: &SimulateArgs) -> Result<()> {
    let tape = read_tape_file(&args.tape)?;
    let table = CostTable::read(&args.costs)?;
    let max_batch = args.max_batch(&table)?;
    let loads = args.loads(max_batch)?;
    let policies = args.policies()?;
    let configs = configs(&tape, &table, args.verifier, args.drafter.as_deref())
        .map_err(|why| anyhow!("{}: {why}", args.tape.display()))?;
    if configs.iter().any(|config| config.passes != DraftPasses::None) && !table.knows_draft() {
        bail!("{} has no row with what = draft, and a model drafts", args.costs.display());
    }
    let (mut rows, mut requests) = (Vec::new(), Vec::new());
    for config in &configs {
        args.check_seen(config)?;
        let costs = StepCosts { table: &table, passes: config.passes };
        let limits = ServerLimits { max_batch, step_rows: args.step_rows.0 };
        let server = Server { sequences: &config.sequences, costs, limits };
        for &load in &loads {
            for (row, runs) in args.serve((config, &policies), load, &server)? {
                if args.requests_csv.is_some() {
                    requests.extend(RequestRow::all(&row.config, load, &config.sequences, &runs));
                }
                rows.push(row);
            }
        }
    }
    if let Some(file) = &args.csv {
        report::write_csv(file, &rows)?;
    }
    if let Some(file) = &args.requests_csv {
        report::write_csv(file, &requests)?;
    }
    if args.json {
        return output::write_json(&SimulationReport { rows: &rows });
    }
    output::show(&simulation_text(&rows)?)
}

impl SimulateArgs {
    /// The rows of all policies under a load, each with its repeats.
    fn serve(
        &self,
        (config, policies): (&ServedConfig<'_>, &[(NamedPolicy, Params)]),
        load: Arrivals,
        server: &Server<'_>,
    ) -> Result<Vec<(SimulationRow, Vec<ServedRun>)>> {
        let ServerLimits { max_batch, .. } = server.limits;
        let (outlook, table) = (&config.outlook, server.costs.table);
        let requests = self.requests.unwrap_or(config.sequences.len().max(least_requests(load)));
        let alone = outlook.best(table, DEFAULT_MAX_K, 1).0.max(1);
        let runs = |entry: &PolicyEntry, settings: &Params, k| {
            let params = PolicyParams { outlook, table, k, max_batch, settings };
            let run = |repeat| {
                let seed = self.seed.wrapping_add(repeat);
                Ok(server.serve(&mut *entry.build(&params)?, load, requests, seed))
            };
            (0..self.repeats as u64).map(run).collect::<Result<Vec<_>>>()
        };
        let plain = runs(&NO_DRAFTS, &Params::default(), 0)?;
        let row = |(policy, settings): &(NamedPolicy, Params)| {
            let k = policy.entry.k(policy.k, alone);
            let own = if k == 0 { plain.clone() } else { runs(&policy.entry, settings, k)? };
            let params = [&config.name.params, &settings.words()].map(String::as_str).join(" ");
            let name = SimulationConfig {
                policy: policy.entry.name.to_owned(),
                num_speculative_tokens: k,
                params: params.trim().to_owned(),
                ..config.name.clone()
            };
            let served = Served { load, max_batch, plain: &plain, own: &own };
            Ok((SimulationRow::of(name, &served), own))
        };
        policies.iter().map(row).collect()
    }

    /// The policies, each with its settings.
    fn policies(&self) -> Result<Vec<(NamedPolicy, Params)>> {
        let set = self.set.iter();
        let set = set.fold(Params::default(), |set, (key, value)| set.with(key, value.clone()));
        let read = || self.policy.iter().flat_map(|policy| policy.entry.settings());
        if let Some((key, _)) = set.iter().find(|(key, _)| !read().any(|param| param.key == *key)) {
            let allowed = read().map(|param| param.key).collect::<Vec<_>>().join(", ");
            bail!("--set {key}: allowed for these policies are [{allowed}]");
        }
        let own = |policy: &NamedPolicy| Ok((*policy, set.of(policy.entry.settings())?));
        self.policy.iter().map(own).collect()
    }

    /// Refuses policies that look at longer drafts than the tape holds.
    fn check_seen(&self, config: &ServedConfig<'_>) -> Result<()> {
        let seen = config.sequences.iter().map(SimulatedSequence::seen).min().unwrap_or(0);
        for policy in self.policy.iter().filter(|policy| policy.entry.needs_beliefs()) {
            let (name, k) = (policy.entry.name, policy.entry.k(policy.k, DEFAULT_MAX_K));
            if k > seen {
                bail!(
                    "--policy {name}: it looks at drafts of up to {k} tokens, and {} holds {seen} \
                     with {} and {}: score with --drafter model --beliefs {k}, and serve with \
                     --verifier rejection",
                    self.tape.display(),
                    config.name.drafter,
                    config.name.verifier
                );
            }
        }
        Ok(())
    }

    fn max_batch(&self, table: &CostTable) -> Result<usize> {
        let known = table.batches().max().unwrap_or(1);
        match self.max_batch {
            Some(0) => bail!("--max-batch 0: allowed are numbers above 0"),
            Some(asked) if asked > known => bail!(
                "--max-batch {asked}: {} has costs up to a batch of {known}",
                self.costs.display()
            ),
            asked => Ok(asked.unwrap_or(known)),
        }
    }

    fn loads(&self, max_batch: usize) -> Result<Vec<Arrivals>> {
        let given = self.requests.map(|requests| ("--requests", requests));
        let clients = self.clients.iter().map(|&clients| ("--clients", clients));
        for (option, number) in
            [("--repeats", self.repeats)].into_iter().chain(given).chain(clients)
        {
            if !(1..=MAX).contains(&number) {
                bail!("{option} {number}: allowed are numbers from 1 to {MAX}");
            }
        }
        let rates = self.rate.iter().map(|&rate| Arrivals::Rate(rate));
        let clients = self.clients.iter().map(|&clients| Arrivals::Clients(clients));
        let asked = clients.chain(rates).collect::<Vec<_>>();
        if !asked.is_empty() {
            return Ok(asked);
        }
        let powers = std::iter::successors(Some(1), |clients| Some(clients * 4));
        let usual = powers.take_while(|&clients| clients <= max_batch);
        Ok(usual.map(Arrivals::Clients).collect())
    }
}

/// Minimum number of requests of a load, so that it lasts for some time.
fn least_requests(load: Arrivals) -> usize {
    match load {
        Arrivals::Clients(clients) => 4 * clients,
        Arrivals::Rate(_) => 0,
    }
}

pub(super) fn draft_length(k: &str) -> Result<usize, String> {
    let known = k.parse().ok().filter(|k| (1..=MAX_K).contains(k));
    known.ok_or_else(|| format!("K = {k}: allowed is a whole number from 1 to {MAX_K}"))
}

//! Requests, a simulated server and the engine that serves them.

use std::fs;

use specdec::chance::{Request, Seeded};
use specdec::clock::RealClock;
use specdec::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::distribution::Token;
use specdec::error::Error;
use specdec::forecasting::CostTable;
use specdec::params::Params;
use specdec::replay::{Player, RequestToPlay};
use specdec::round::RoundEvent;
use specdec::sampling::SamplingParams;
use specdec::simulation::{
    Arrivals, Outlook, PolicyParams, ServedRequest, ServedRun, Server, ServerLimits,
    SimulatedSequence, StepCosts, policies,
};
use specdec::tape::{LoggedRound, TapeLog};
use tempfile::TempDir;

use crate::cli_support::stdout;

pub(crate) const SEED: u64 = 11;
pub(crate) const SLOTS: usize = 4;
pub(crate) const K: usize = 3;

/// A request, whose prompt begins like no other.
pub(crate) struct Text {
    pub(crate) id: String,
    pub(crate) prompt: Vec<Token>,
    pub(crate) tokens: usize,
}

impl Text {
    pub(crate) fn all() -> Vec<Self> {
        let text = |number: u32| Self {
            id: format!("prompt {number}"),
            prompt: (0..2 + number * 5 % 13).map(|i| (number + i * 31) % 199).collect(),
            tokens: 5 + number as usize * 7 % 20,
        };
        (0..24).map(text).collect()
    }

    pub(crate) fn to_play(&self, comes: Option<f64>) -> RequestToPlay<'_> {
        RequestToPlay { id: &self.id, repeat: 0, prompt: &self.prompt, tokens: self.tokens, comes }
    }

    /// What its rounds draft and accept when nobody is beside it.
    pub(crate) fn log(&self, player: &Player<'_>) -> TapeLog {
        let (mut rounds, stop) = (Rounds::default(), StopRules::max_tokens(self.tokens));
        let method = player.spec.build_with(player.tools).unwrap();
        let mut alone = Generation::new(player.target, method, &self.prompt, stop, None).unwrap();
        let mut chance = Seeded::new(Request { seed: SEED, prompt: &self.id, repeat: 0 });
        let clock = RealClock::default();
        generate(&mut alone, player.target, &mut chance, &clock, &mut rounds).unwrap();
        TapeLog {
            drafter: 0,
            prompt: self.id.clone(),
            category: String::new(),
            verifier: None,
            sampling: 0,
            prompt_tokens: self.prompt.len(),
            tokens: self.tokens,
            rounds: rounds.0,
            unordered: false,
        }
    }
}

#[derive(Default)]
struct Rounds(Vec<LoggedRound>);

impl Observer for Rounds {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let (accepted, drafted) = (event.verdict.path.len(), event.draft.len());
        self.0.push(LoggedRound { accepted, drafted });
        Ok(())
    }
}

/// What the simulated server makes of texts with these rounds.
pub(crate) fn simulated(
    logs: &[TapeLog],
    arrivals: Arrivals,
    k: usize,
    table: &CostTable,
) -> ServedRun {
    let texts = logs.iter().map(SimulatedSequence::logged).collect::<Vec<_>>();
    let outlook = &Outlook::of(&texts, true);
    let params = PolicyParams { outlook, table, k, max_batch: SLOTS, settings: &Params::default() };
    let name = if k == 0 { "plain" } else { "fixed" };
    let entry = policies().find(|entry| entry.name == name).unwrap();
    let server = Server {
        sequences: &texts,
        costs: StepCosts { table, with_model: k > 0 },
        limits: ServerLimits { max_batch: SLOTS, step_rows: None },
    };
    server.serve(&mut *entry.build(&params).unwrap(), arrivals, texts.len(), 5)
}

/// How texts are decoded.
pub(crate) fn drafting(drafter: &str) -> MethodSpec {
    MethodSpec {
        drafter: drafter.to_owned(),
        num_speculative_tokens: K,
        sampling: SamplingParams { temperature: 0.9, ..SamplingParams::default() },
        ..MethodSpec::default()
    }
}

/// The requests of a simulation, in the order in which they came.
pub(crate) fn requests_of<'t>(
    run: &ServedRun,
    texts: &'t [Text],
    arrivals: Arrivals,
) -> Vec<RequestToPlay<'t>> {
    let mut requests = run.requests.clone();
    requests.sort_by_key(|request| request.number);
    let to_play = |request: &ServedRequest| {
        let comes = match arrivals {
            Arrivals::Clients(clients) => (request.number < clients).then_some(0.0),
            Arrivals::Rate(_) => Some(request.arrived),
        };
        texts[request.sequence].to_play(comes)
    };
    requests.iter().map(to_play).collect()
}

/// A folder with a file of requests.
pub(crate) fn file(rows: &str) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("requests.csv");
    fs::write(&path, rows).unwrap();
    (folder, path.display().to_string())
}

pub(crate) const PROMPT: &str = "code/fn_main";

/// Number, prompt and tokens of a request, and its four times.
pub(crate) type Replayed = (u32, String, usize, f64, f64, f64, f64);

/// What `specdec replay` prints of requests, and the rows that it writes.
pub(crate) fn replayed(requests: &str, more: &[&str]) -> (String, Vec<Replayed>) {
    let (folder, path) = file(requests);
    let [out, prompts] = ["replayed.csv", "prompts.jsonl"].map(|name| folder.path().join(name));
    let [out, prompts] = [out, prompts].map(|path| path.display().to_string());
    fs::write(&prompts, format!("{{\"id\": \"{PROMPT}\", \"prompt\": \"fn main() {{\"}}\n"))
        .unwrap();
    let args = ["replay", &path, "--prompts", &prompts, "--csv", &out];
    let said = stdout(&[&args, more].concat());
    let rows = csv::Reader::from_path(&out).unwrap().into_deserialize();
    (said, rows.collect::<Result<_, _>>().unwrap())
}

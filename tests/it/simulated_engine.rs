//! The simulated server and the engine on a virtual clock: where the costs of passes are known,
//! requests that share steps come, read their prompts and end at the same times in both.

use std::time::Duration;

use specdec::checkpoint::SMALL_PAIR;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{Clock, VirtualClock, VirtualCosts};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::params::Params;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::SamplingParams;
use specdec::engine::Settings;
use specdec::measure::bench::CostRow;
use specdec::method::decode::{
    Generation, MethodSpec, Observer, Sequence, StopRules, Totals, one_round_together, prefill,
};
use specdec::method::draft::Tools;
use specdec::model::LanguageModel;
use specdec::tapes::forecasting::CostTable;
use specdec::tapes::simulation::{
    Arrivals, Outlook, PolicyParams, ServedRequest, ServedRun, Server, ServerLimits,
    SimulatedSequence, StepCosts, policies,
};
use specdec::tapes::tape::{DraftPasses, LoggedRound, TapeLog};

const SEED: u64 = 11;
const SLOTS: usize = 4;
const K: usize = 3;

/// A target's pass takes 950 µs and 50 µs for each row; a draft pass takes 95 µs for any rows,
/// since the costs of a simulation do not know that the first one after a draft that was accepted
/// as a whole has a row more.
const COSTS: VirtualCosts = {
    let us = Duration::from_micros;
    VirtualCosts { draft_pass: us(95), draft_row: us(0), target_pass: us(950), target_row: us(50) }
};

/// The same for a simulation.
fn costs() -> CostTable {
    let mut table = CostTable::default();
    let mut add = |what: &str, rows: usize, batch: usize, ms| {
        let what = what.to_owned();
        table.add(CostRow { what, rows, context: 1, batch, shared: 0, ms }).unwrap();
    };
    for rows in [1, 17] {
        for batch in 1..=SLOTS {
            add("target", rows, batch, 0.95 + 0.05 * (rows * batch) as f64);
        }
        add("prefill", rows, 1, 0.95 + 0.05 * rows as f64);
        add("draft_prefill", rows, 1, 0.095);
    }
    add("draft", 1, 1, 0.095);
    table
}

/// What a request asks for; its prompt begins like no other.
struct Asked {
    id: String,
    prompt: Vec<Token>,
    tokens: usize,
}

impl Asked {
    fn all() -> Vec<Self> {
        let asked = |number: u32| Self {
            id: format!("prompt {number}"),
            prompt: (0..2 + number * 5 % 13).map(|i| (number + i * 31) % 199).collect(),
            tokens: 5 + number as usize * 7 % 20,
        };
        (0..24).map(asked).collect()
    }
}

/// How completions are made.
struct Engine<'e> {
    target: &'e dyn LanguageModel,
    tools: Tools<'e>,
    spec: MethodSpec,
}

/// What the engine has served.
#[derive(Default)]
struct EngineRun {
    requests: Vec<ServedRequest>,
    rounds: Vec<LoggedRound>,
    steps: usize,
    busy_ms: f64,
}

/// A completion that is being made.
struct OpenCompletion<'e> {
    served: ServedRequest,
    prompt_len: usize,
    generation: Generation<'e>,
    chance: Seeded,
    totals: Totals,
    rounds: Rounds,
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

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl<'e> Engine<'e> {
    /// Serves requests in this order, as `specdec serve` does: each reads its prompt alone once a
    /// slot is free, and has rounds together with the others. A request comes at a time in ms, or
    /// when another one is done.
    fn serve(&self, asked: &[(&Asked, Option<f64>)]) -> EngineRun {
        let clock = VirtualClock::new(COSTS);
        let mut comes = asked.iter().map(|(_, comes)| *comes).collect::<Vec<_>>();
        let mut open = Vec::<OpenCompletion<'_>>::new();
        let (mut run, mut taken, mut now) = (EngineRun::default(), 0, 0.0);
        loop {
            while open.len() < SLOTS {
                let next = comes.get(taken).copied().flatten();
                let Some(arrived) = next.filter(|comes| *comes <= now) else { break };
                let begun = clock.now();
                let mut completion = self.begin(asked[taken].0, &clock);
                now += ms(clock.now() - begun);
                let served = &mut completion.served;
                (served.number, served.arrived, served.prefilled) = (taken, arrived, now);
                open.push(completion);
                taken += 1;
            }
            if open.is_empty() {
                let Some(next) = comes.get(taken) else { break };
                now = next.unwrap();
                continue;
            }
            let begun = clock.now();
            let mut sequences = open.iter_mut().map(OpenCompletion::sequence).collect::<Vec<_>>();
            one_round_together(&mut sequences, self.target, &clock);
            assert!(sequences.iter().all(|sequence| sequence.end.is_none()));
            now += ms(clock.now() - begun);
            run.steps += 1;
            open.retain_mut(|completion| {
                let ended = completion.ended(now);
                if ended {
                    run.requests.push(completion.served);
                    run.rounds.append(&mut completion.rounds.0);
                    let mut waiting = comes[taken..].iter_mut().filter(|comes| comes.is_none());
                    waiting.next().into_iter().for_each(|comes| *comes = Some(now));
                }
                !ended
            });
        }
        run.busy_ms = ms(clock.now());
        run.requests.sort_by_key(|request| request.number);
        run
    }

    /// Reads a prompt.
    fn begin(&self, asked: &Asked, clock: &VirtualClock) -> OpenCompletion<'e> {
        let method = self.spec.build_with(self.tools).unwrap();
        let stop = StopRules::max_tokens(asked.tokens);
        let mut generation =
            Generation::new(self.target, method, &asked.prompt, stop, None).unwrap();
        let totals = prefill(&mut generation, self.target, clock).unwrap();
        let chance = Seeded::new(Request { seed: SEED, prompt: &asked.id, repeat: 0 });
        let (served, rounds) = (ServedRequest::default(), Rounds::default());
        let prompt_len = asked.prompt.len();
        OpenCompletion { served, prompt_len, generation, chance, totals, rounds }
    }

    /// What the rounds of a request draft and accept when it is alone.
    fn log(&self, asked: &Asked) -> TapeLog {
        TapeLog {
            drafter: 0,
            prompt: asked.id.clone(),
            category: String::new(),
            verifier: None,
            sampling: 0,
            prompt_tokens: asked.prompt.len(),
            tokens: asked.tokens,
            rounds: self.serve(&[(asked, Some(0.0))]).rounds,
            sequence: None,
            unordered: false,
        }
    }
}

impl<'e> OpenCompletion<'e> {
    fn sequence(&mut self) -> Sequence<'_, 'e> {
        let Self { generation, chance, totals, rounds, .. } = self;
        Sequence::new(generation, chance, rounds, totals)
    }

    /// Notes that a round has ended, and returns whether the completion has, too.
    fn ended(&mut self, now: f64) -> bool {
        if self.rounds.0.len() == 1 {
            self.served.first = now;
        }
        self.served.finished = now;
        self.served.tokens = self.generation.tokens().len() - self.prompt_len;
        self.generation.begin(self.totals.decode).is_some()
    }
}

/// What the simulated server makes of these rounds.
fn simulated(logs: &[TapeLog], arrivals: Arrivals, k: usize) -> ServedRun {
    let sequences = logs.iter().map(SimulatedSequence::logged).collect::<Vec<_>>();
    let table = &costs();
    let outlook = &Outlook::of(&sequences, DraftPasses::Each);
    let params = PolicyParams { outlook, table, k, max_batch: SLOTS, settings: &Params::default() };
    let name = if k == 0 { "plain" } else { "fixed" };
    let entry = policies().find(|entry| entry.name == name).unwrap();
    let server = Server {
        sequences: &sequences,
        costs: StepCosts {
            table,
            passes: if k > 0 { DraftPasses::Each } else { DraftPasses::None },
        },
        limits: ServerLimits { max_batch: SLOTS, step_rows: None },
    };
    let mut run = server.serve(&mut *entry.build(&params).unwrap(), arrivals, sequences.len(), 5);
    run.requests.sort_by_key(|request| request.number);
    run
}

/// Compares a simulation with the engine that serves the same requests.
fn compare(engine: &Engine<'_>, all: &[Asked], expected: &ServedRun, arrivals: Arrivals) {
    let ask = |request: &ServedRequest| {
        let comes = match arrivals {
            Arrivals::Clients(clients) => (request.number < clients).then_some(0.0),
            Arrivals::Rate(_) => Some(request.arrived),
        };
        (&all[request.sequence], comes)
    };
    let found = engine.serve(&expected.requests.iter().map(ask).collect::<Vec<_>>());
    let what = format!("{} {arrivals:?}", engine.spec.drafter);
    let sum = |of: fn(&LoggedRound) -> usize| found.rounds.iter().map(of).sum::<usize>();
    let counts = (found.steps, found.rounds.len(), sum(|r| r.drafted), sum(|r| r.accepted));
    let wanted = (expected.steps, expected.rounds, expected.drafted, expected.accepted);
    assert_eq!(counts, wanted, "{what}");
    // In ms; costs are whole microseconds.
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert_eq!(found.requests.len(), expected.requests.len());
    for (found, expected) in found.requests.iter().zip(&expected.requests) {
        assert_eq!((found.number, found.tokens), (expected.number, expected.tokens));
        let times = |r: &ServedRequest| [r.arrived, r.prefilled, r.first, r.finished];
        let same = times(found).into_iter().zip(times(expected)).all(|(a, b)| near(a, b));
        assert!(same, "{what}: {found:?} {expected:?}");
    }
    assert!(near(found.busy_ms, expected.busy_ms), "{what}");
}

#[test]
fn simulated_requests_take_the_time_that_the_engine_takes() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let target: &dyn LanguageModel = &*target;
    let tools = Tools { draft: Some(&*draft), target: Some(target), texts: None };
    let all = Asked::all();
    for (drafter, k) in [("none", 0), ("model", K)] {
        let spec = MethodSpec {
            drafter: drafter.to_owned(),
            num_speculative_tokens: K,
            sampling: SamplingParams { temperature: 0.9, ..SamplingParams::default() },
            ..MethodSpec::default()
        };
        let engine = Engine { target, tools, spec };
        let logs = all.iter().map(|asked| engine.log(asked)).collect::<Vec<_>>();
        for arrivals in [Arrivals::Rate(60.0), Arrivals::Rate(f64::INFINITY), Arrivals::Clients(3)]
        {
            compare(&engine, &all, &simulated(&logs, arrivals, k), arrivals);
        }
    }
}

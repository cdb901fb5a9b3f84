//! One prefill that many generations share changes no bit of them, and is computed once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use specdec::checkpoint::SMALL_PAIR;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{Clock, VirtualClock, VirtualCosts, Who};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Logits, SamplingParams};
use specdec::engine::Engine;
use specdec::measure::rows::GenerationRow;
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::model::zoo::toy;
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Prefilled, Session, Work};

use crate::checkpoint::settings_of;
use crate::experiment_support::{rows, run_smoke_on};

/// Longer than a block of the caches, so that a copy has to grow.
const PROMPT_LENGTH: usize = 300;

fn prompt() -> Vec<Token> {
    (0..PROMPT_LENGTH as Token).map(|i| i * i % 199).collect()
}

/// The bits of everything that the target computed in a generation.
#[derive(Debug, Default)]
struct Seen(Vec<u32>);

impl Observer for Seen {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        for row in event.logits {
            let Logits::F32(row) = row else { panic!("the logits of a real model are f32") };
            self.0.extend(row.iter().map(|x| x.to_bits()));
        }
        Ok(())
    }
}

/// A text, the bits on its way, and the time of the prefill. The oracle drafts with the
/// third model.
fn text(
    [target, draft, oracle]: [&dyn LanguageModel; 3],
    method: &MethodSpec,
    clock: &dyn Clock,
) -> (Vec<Token>, Vec<u32>, Duration) {
    let tools = Tools { draft: Some(draft), target: Some(oracle), texts: None };
    let (method, stop) = (method.build_with(tools).unwrap(), StopRules::max_tokens(24));
    let mut generation = Generation::new(target, method, &prompt(), stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 7, prompt: "p", repeat: 0 });
    let mut seen = Seen::default();
    let totals = generate(&mut generation, target, &mut chance, clock, &mut seen).unwrap();
    (generation.new_tokens().to_vec(), seen.0, totals.prefill)
}

#[test]
fn generations_that_share_a_prefill_are_the_same_to_the_bit() {
    for engine in Engine::ALL {
        let settings = settings_of(engine);
        let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&settings).unwrap());
        let own = [&*target, &*draft, &*target];
        let (tokens, clock) = (prompt(), VirtualClock::new(VirtualCosts::default()));
        let head = &tokens[..PROMPT_LENGTH - 1];
        let target = Prefilled::new(own[0], Who::Target, head, &clock);
        let draft = Prefilled::new(own[1], Who::Draft, head, &clock);
        let oracle = Prefilled::new(own[2], Who::Draft, head, &clock);
        let charged = || target.charged() + draft.charged() + oracle.charged();
        for drafter in DRAFTERS {
            let method = MethodSpec {
                drafter: drafter.name.to_owned(),
                sampling: SamplingParams { temperature: 0.8, ..SamplingParams::default() },
                ..MethodSpec::default()
            };
            // Some drafters read texts, and some propose what rejection cannot verify.
            let tools = Tools { draft: Some(own[1]), target: Some(own[0]), texts: None };
            if method.build_with(tools).is_err() {
                continue;
            }
            let before = charged();
            let (shared, shared_bits, rest) = text([&target, &draft, &oracle], &method, &clock);
            let charged = charged() - before;
            let (alone, alone_bits, prefill) = text(own, &method, &clock);
            assert_eq!(shared, alone, "{engine:?}, {}", drafter.name);
            assert_eq!(shared_bits, alone_bits, "{engine:?}, {}", drafter.name);
            assert_eq!(charged + rest, prefill, "{engine:?}, {}", drafter.name);
        }
    }
}

/// Counts the tokens that a model computes outside rounds, and can fail there.
#[derive(Debug)]
struct Counted {
    model: Box<dyn LanguageModel>,
    prefills: AtomicUsize,
    prefilled: AtomicUsize,
    fails: AtomicBool,
}

impl Counted {
    fn new() -> Self {
        let model = Box::new(toy("mixed").unwrap().target("toy:mixed").unwrap());
        let (prefills, prefilled, fails) = Default::default();
        Self { model, prefills, prefilled, fails }
    }
}

impl LanguageModel for Counted {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.model.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let prefill = work.iter().all(|work| work.want.rows(work.draft.len()).is_empty());
        if prefill && self.fails.load(Ordering::Relaxed) {
            return Err(Error::engine("no prefill today"));
        }
        let evaluations = self.model.evaluate(work)?;
        let computed = evaluations.iter().map(|evaluation| evaluation.computed).sum();
        if prefill && computed > 0 {
            self.prefills.fetch_add(1, Ordering::Relaxed);
            self.prefilled.fetch_add(computed, Ordering::Relaxed);
        }
        Ok(evaluations)
    }
}

#[test]
fn a_prefix_is_computed_once_and_charged_to_every_session() {
    let (model, clock) = (Counted::new(), VirtualClock::new(VirtualCosts::default()));
    let shared = Prefilled::new(&model, Who::Target, &[0, 1, 2], &clock);
    assert_eq!(shared.charged(), Duration::ZERO);
    for sessions in 1..4 {
        shared.session().unwrap();
        assert_eq!(shared.charged(), sessions * Duration::from_micros(950 + 3 * 50));
    }
    assert_eq!(model.prefilled.into_inner(), 3);
    assert_eq!(clock.now(), Duration::from_micros(950 + 3 * 50));
}

#[test]
fn an_empty_prefix_costs_nothing() {
    let (model, clock) = (Counted::new(), VirtualClock::new(VirtualCosts::default()));
    let shared = Prefilled::new(&model, Who::Target, &[], &clock);
    shared.session().unwrap();
    assert_eq!((shared.charged(), clock.now()), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn a_failing_prefix_is_not_charged_and_computed_later() {
    let (model, clock) = (Counted::new(), VirtualClock::new(VirtualCosts::default()));
    let shared = Prefilled::new(&model, Who::Target, &[0, 1, 2], &clock);
    model.fails.store(true, Ordering::Relaxed);
    assert!(shared.session().unwrap_err().to_string().contains("no prefill today"));
    assert_eq!(shared.charged(), Duration::ZERO);
    model.fails.store(false, Ordering::Relaxed);
    shared.session().unwrap();
    assert_eq!(shared.charged(), Duration::from_micros(950 + 3 * 50));
}

#[test]
fn one_prefill_per_block_is_charged_to_all_its_cells() {
    let (target, out) = (Counted::new(), tempfile::tempdir().unwrap());
    let set = ["warmup=0", "repeats=2", "sweep.drafter=model", "sweep.verifier=rejection"];
    let folder = run(&target, &set, out.path());
    let generations = rows::<GenerationRow>(&folder, "generations.csv");
    let blocks = generations.iter().map(|g| (&g.prompt, g.repeat)).collect::<Vec<_>>();
    let cells = blocks.iter().filter(|block| **block == blocks[0]).count();
    assert!(cells > 1 && blocks.len() == 4 * cells, "{cells} cells in {} rows", blocks.len());
    // The passes of the calibration compute the context with the first row that they want.
    assert_eq!(target.prefills.into_inner(), 4);
    for row in &generations {
        let plain = 950 + 50 * (row.prompt_tokens - 1);
        let drafted = plain + 95 + 5 * (row.prompt_tokens - 1);
        let expected = if row.draft_forwards > 0 { drafted } else { plain };
        assert_eq!(row.prefill_us, expected as f64, "{row:?}");
    }
}

fn run(target: &dyn LanguageModel, set: &[&str], out: &Path) -> std::path::PathBuf {
    let all = [&["sweep.temperature=1"], set].concat();
    let clock = VirtualClock::new(VirtualCosts::default());
    run_smoke_on(Some(&clock), target, &["abc", "ab"], &all, &AtomicBool::new(false), out)
}

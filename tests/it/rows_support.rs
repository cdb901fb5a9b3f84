//! Runs whose rows are known in advance: models that are small tables, a clock on
//! which every span has a different length, and a target that ends, wavers or fails
//! where a test asks for it.

use std::cell::{Cell as Slot, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use specdec::core::clock::{Clock, Lost, Who};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::sampling::{ForEachRow, Logits};
use specdec::io::input::read_text;
use specdec::method::draft::Texts;
use specdec::model::{Evaluation, LanguageModel, Letters, ModelInfo, Session, Toy, ToyPair, Work};
use specdec::run::experiment::{
    Experiment, Frozen, Material, PACK_ABOVE, Plan, Resume, Setup, freeze, run,
};
use specdec::run::prompt::Question;

/// Nanoseconds that the n-th reading of the clock in a generation takes.
pub(crate) fn look_ns(n: u64) -> u64 {
    1_000 + 37 * n * n
}

/// Nanoseconds of a pass.
pub(crate) fn pass_ns(who: Who, rows: usize) -> u64 {
    let rows = rows as u64;
    match who {
        Who::Draft => 1_000_000 + 10_000 * rows,
        Who::Target => 20_000_000 + 300_000 * rows,
    }
}

/// A clock that advances only in passes and when it is read: every reading within a
/// generation takes longer than the one before, so that no two of its spans are alike.
#[derive(Debug, Default)]
pub(crate) struct Script {
    ns: Slot<u64>,
    looks: Slot<u64>,
    /// The time of the last reading.
    seen: Slot<u64>,
    busy: RefCell<VecDeque<Busy>>,
    watched: Slot<usize>,
    since: Slot<u64>,
    lost: Slot<[u64; 5]>,
}

/// The shares of a block's time for which threads waited, for which other processes
/// used cores, in which the host took cores away and a limit withheld them, and for which
/// the process was held up.
pub(crate) type Busy = [f64; 5];

/// How often lost time is read before the first block: at both ends of the
/// calibration, and when the sweep begins.
const BEFORE: usize = 3;

impl Clock for Script {
    fn now(&self) -> Duration {
        let now = self.ns.get();
        self.ns.set(now + look_ns(self.looks.get()));
        self.looks.set(self.looks.get() + 1);
        self.seen.set(now);
        Duration::from_nanos(now)
    }

    fn forward(&self, who: Who, rows: usize) {
        if rows > 0 {
            self.ns.set(self.ns.get() + pass_ns(who, rows));
        }
    }

    /// Called at both ends of a block, right after a reading of the time.
    fn lost(&self) -> Lost {
        let reading = self.watched.replace(self.watched.get() + 1);
        if reading >= BEFORE && (reading - BEFORE) % 2 == 1 {
            let busy = self.busy.borrow_mut().pop_front().unwrap_or_default();
            let wall = (self.seen.get() - self.since.get()) as f64;
            let lost = self.lost.get();
            self.lost.set(std::array::from_fn(|i| lost[i] + (busy[i] * wall).round() as u64));
        }
        self.since.set(self.seen.get());
        let [waiting, others, stolen, throttled, late] = self.lost.get().map(Duration::from_nanos);
        Lost { waiting, others, stolen, throttled, late, ..Lost::default() }
    }
}

/// How a target deviates from its table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quirks {
    /// The end tokens of plain decoding, and of all other methods; if they differ, prompts
    /// have one token: then every generation opens the draft model, from which the target
    /// knows which kind of method is about to begin.
    pub(crate) eos: [&'static [Token]; 2],
    /// Logits in f32, from an engine whose rounding may depend on the rows.
    pub(crate) rounds: bool,
    /// At some positions, passes over a draft see other logits than plain passes.
    pub(crate) wavers: bool,
    /// Plain passes over a text that ends in these tokens fail.
    pub(crate) fails_after: &'static [Token],
}

impl Quirks {
    /// No deviation at all.
    pub(crate) const NONE: Self =
        Self { eos: [&[]; 2], rounds: false, wavers: false, fails_after: &[] };

    /// Changes the logits of the table after a text of `length` tokens; `drafted` says
    /// whether the pass is over a draft.
    pub(crate) fn change(&self, logits: &mut [f64], length: usize, drafted: bool) {
        if self.rounds {
            logits.iter_mut().for_each(|x| *x = f64::from(*x as f32));
        }
        if !(self.wavers && drafted) {
            return;
        }
        let mut ranked = (0..logits.len()).collect::<Vec<_>>();
        ranked.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        match length % 8 {
            1 | 3 => logits.swap(ranked[0], ranked[1]),
            6 => logits.swap(ranked[0], ranked[ranked.len() - 1]),
            _ => {}
        }
    }
}

/// A toy with quirks. The clock counts its readings from 0 in every generation, which asks
/// how to spread work on rows when it begins, and in every new session: the block's
/// generations share the prefill of one.
#[derive(Debug)]
struct Target<'a> {
    toy: Toy,
    /// For plain decoding, and for all other methods.
    infos: [ModelInfo; 2],
    quirks: Quirks,
    clock: &'a Script,
    /// Whether a method with a draft model is about to begin.
    drafts: &'a Slot<bool>,
}

/// A draft model, which is opened before the target is.
#[derive(Debug)]
struct DraftModel<'a> {
    toy: Toy,
    clock: &'a Script,
    drafts: &'a Slot<bool>,
}

impl LanguageModel for DraftModel<'_> {
    fn info(&self) -> &ModelInfo {
        self.toy.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.drafts.set(true);
        self.clock.looks.set(0);
        self.toy.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        self.toy.evaluate(work)
    }
}

impl LanguageModel for Target<'_> {
    fn info(&self) -> &ModelInfo {
        &self.infos[usize::from(self.drafts.get())]
    }

    fn session(&self) -> Result<Session, Error> {
        self.clock.looks.set(0);
        self.toy.session()
    }

    fn for_each_row(&self) -> ForEachRow {
        self.drafts.set(false);
        self.clock.looks.set(0);
        self.toy.for_each_row()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let mut evaluations = self.toy.evaluate(work)?;
        for (work, evaluation) in work.iter().zip(&mut evaluations) {
            let (drafted, end) = (!work.draft.is_empty(), self.quirks.fails_after);
            let wanted = work.want.rows(work.draft.len());
            if !wanted.is_empty() && !drafted && !end.is_empty() && work.context.ends_with(end) {
                return Err(Error::engine(format!("no answer after {end:?}")));
            }
            for (row, logits) in wanted.into_iter().zip(&mut evaluation.rows) {
                let depth = row.checked_sub(1).map_or(0, |id| work.draft.node(id).depth);
                let mut scores =
                    (0..logits.len()).map(|t| logits.get(t as Token)).collect::<Vec<_>>();
                self.quirks.change(&mut scores, work.context.len() + depth, drafted);
                *logits = match self.quirks.rounds {
                    true => Logits::F32(scores.into_iter().map(|x| x as f32).collect()),
                    false => Logits::F64(scores),
                };
            }
        }
        Ok(evaluations)
    }
}

/// A run to be finished.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) pair: fn() -> ToyPair,
    pub(crate) quirks: Quirks,
    /// The texts of prompts named p0, p1 and so on.
    pub(crate) prompts: &'static [&'static str],
    /// Blocks that other work disturbs when they are first run, and the blocks that are
    /// therefore run again, in this order.
    pub(crate) busy: [&'static [(usize, Busy)]; 2],
    /// The experiment, except for models, prompts and the settings that all share.
    pub(crate) experiment: &'static str,
}

/// The settings that all experiments share. Three repeats, so that mistaking the first
/// repeat or the previous one for the current one shows.
const HEAD: &str = "target = \"toy\"\ndraft = \"toy\"\nprompts = \"texts\"\nclock = \"virtual\"\n\
                    trace = true\nrepeats = 3\nwarmup = 1\n";

impl Scenario {
    /// The prompts, of two categories.
    fn texts(&self) -> Vec<Question> {
        let prompt = |(i, text): (usize, &&str)| {
            Question::once(format!("p{i}"), ["even", "odd"][i % 2], *text)
        };
        self.prompts.iter().enumerate().map(prompt).collect()
    }

    /// The blocks in the order in which they are run, and how disturbed they are.
    pub(crate) fn attempts(&self, plan: &Plan) -> Vec<(usize, Busy)> {
        let settings = plan.cells.chunk_by(|a, b| a.method.sampling == b.method.sampling).count();
        let blocks = plan.repeats as usize * plan.prompts.len() * settings;
        let [first, again] = self.busy;
        let busy =
            |block| first.iter().find(|(b, _)| *b == block).map_or([0.0; 5], |(_, busy)| *busy);
        (0..blocks).map(|block| (block, busy(block))).chain(again.iter().copied()).collect()
    }

    /// Freezes the plan and calls `see` with the setup of the run.
    pub(crate) fn with<T>(&self, see: impl FnOnce(&Setup<'_>) -> T) -> T {
        let (pair, clock, drafts) = ((self.pair)(), Script::default(), Slot::new(false));
        let (toy, prompts) = (pair.target("target").unwrap(), self.texts());
        let toy_draft = pair.draft("draft").unwrap();
        let draft = DraftModel { toy: toy_draft, clock: &clock, drafts: &drafts };
        let infos = self.quirks.eos.map(|eos| ModelInfo {
            eos: eos.to_vec(),
            row_invariant: !self.quirks.rounds,
            ..toy.info().clone()
        });
        let target = Target { toy, infos, quirks: self.quirks, clock: &clock, drafts: &drafts };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{HEAD}{}", self.experiment)).unwrap();
        let codec = Letters { vocab: pair.vocab };
        let texts = Texts::new(&codec, read_text);
        let experiment = Experiment::read(file.path(), &[]).unwrap();
        let material = Material {
            name: self.name,
            target: target.info(),
            draft: Some(draft.info()),
            training: None,
            codec: &codec,
            prompts: &prompts,
            answers: None,
            texts: &texts,
        };
        let Frozen { plan, prompts, tokens } = freeze(&experiment.spec, &material).unwrap();
        clock.busy.replace(self.attempts(&plan).into_iter().map(|(_, busy)| busy).collect());
        see(&Setup {
            plan: &plan,
            target: &target,
            draft: Some(&draft),
            codec: &codec,
            texts: &texts,
            prompts: &prompts,
            tokens: &tokens,
            clock: &clock,
            pack_above: PACK_ABOVE,
            threads: 1,
            interrupted: &AtomicBool::new(false),
        })
    }

    /// The results folder of the finished run.
    pub(crate) fn finish(&self, setup: &Setup<'_>, out: &Path) -> PathBuf {
        let ended = run(setup, out, &Resume::No).unwrap();
        assert!(!ended.interrupted, "{}", self.name);
        ended.folder
    }
}

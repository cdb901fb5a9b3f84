//! Before their first pass, sessions know how long their sequence may become.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{RealClock, Who};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::sampling::SamplingParams;
use specdec::method::beam::{BeamSearch, BeamSettings, NoBeamObserver};
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate, prefill};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::model::{
    Evaluation, KvCache, LanguageModel, ModelInfo, Prefilled, Session, Toy, Work, zoo,
};

const PROMPT: [Token; 3] = [0, 1, 2];
/// Slots for the nodes of a tree outside its deepest path.
const TREE_ROOM: usize = 64;
/// Slots of a session of the tests' models.
const SLOTS: usize = 3000;

/// The length that the cache expected, for every pass over it.
type Passes = Rc<RefCell<Vec<usize>>>;

/// A toy's cache that records its expected length in every pass.
#[derive(Debug)]
struct NotingCache {
    rows: Box<dyn KvCache>,
    expected: usize,
    passes: Passes,
}

impl NotingCache {
    fn copy(&self, slots: usize, expected: usize) -> Result<Box<dyn KvCache>, Error> {
        let (rows, passes) = (self.rows.try_clone(slots)?, Rc::clone(&self.passes));
        Ok(Box::new(Self { rows, expected, passes }))
    }
}

impl KvCache for NotingCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.rows.copy_row(from, to)
    }

    /// Like the native cache: the expected length stays, for any expectation of the other one.
    fn copy_rows(&mut self, from: &mut dyn KvCache, slots: Range<usize>) -> Result<bool, Error> {
        self.rows = from.try_clone(slots.end)?;
        Ok(true)
    }

    fn expect(&mut self, slots: usize) -> Result<(), Error> {
        self.expected = slots;
        Ok(())
    }

    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        self.copy(slots, self.expected)
    }

    fn share(&mut self, slots: usize, _held: usize) -> Result<Box<dyn KvCache>, Error> {
        self.copy(slots, 0)
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        self.rows.key(slots)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self.passes.borrow_mut().push(self.expected);
        self.rows.as_any()
    }
}

#[derive(Debug)]
struct Noting {
    model: Toy,
    passes: Passes,
}

impl Noting {
    fn target() -> Self {
        Self { model: zoo::toy("mixed").unwrap().target("p").unwrap(), passes: Rc::default() }
    }

    fn draft() -> Self {
        Self { model: zoo::toy("mixed").unwrap().draft("q").unwrap(), passes: Rc::default() }
    }

    /// The expected lengths in the passes since the last call, without duplicates.
    fn expected(&self) -> Vec<usize> {
        let mut passes = self.passes.take();
        passes.dedup();
        passes
    }
}

impl LanguageModel for Noting {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn session(&self) -> Result<Session, Error> {
        let rows = self.model.session()?.cache().try_clone(0)?;
        let cache = NotingCache { rows, expected: 0, passes: Rc::clone(&self.passes) };
        Ok(Session::new(Box::new(cache), SLOTS, SLOTS))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        self.model.evaluate(work)
    }
}

fn sampled(drafter: &str) -> MethodSpec {
    MethodSpec {
        drafter: drafter.to_owned(),
        sampling: SamplingParams { temperature: 0.8, ..SamplingParams::default() },
        ..MethodSpec::default()
    }
}

fn chance() -> Seeded {
    Seeded::new(Request { seed: 3, prompt: "p", repeat: 0 })
}

/// A generation with this drafter of up to `most` tokens.
fn begun<'a>(
    target: &dyn LanguageModel,
    tools: Tools<'a>,
    drafter: &str,
    most: usize,
) -> Generation<'a> {
    let (method, stop) = (sampled(drafter).build_with(tools).unwrap(), StopRules::max_tokens(most));
    Generation::new(target, method, &PROMPT, stop, None).unwrap()
}

fn finish(mut generation: Generation<'_>, target: &dyn LanguageModel) {
    let clock = RealClock::default();
    generate(&mut generation, target, &mut chance(), &clock, &mut NoObserver).unwrap();
}

/// Catches: the target's session or the drafter never learns the length; the prompt is not counted;
/// the nodes of a tree have no room.
#[test]
fn every_session_expects_the_whole_sequence() {
    let (target, draft, oracle) = (Noting::target(), Noting::draft(), Noting::target());
    let tools = Tools { draft: Some(&draft), target: Some(&oracle), texts: None };
    let (mut with_draft, mut with_oracle) = (0, 0);
    for drafter in DRAFTERS.iter().filter(|d| sampled(d.name).build_with(tools).is_ok()) {
        finish(begun(&target, tools, drafter.name, 20), &target);
        let slots = PROMPT.len() + 20 + TREE_ROOM;
        assert_eq!(target.expected(), [slots], "{}", drafter.name);
        let of_drafter = [draft.expected(), oracle.expected()];
        for expected in of_drafter.iter().filter(|expected| !expected.is_empty()) {
            assert_eq!(*expected, [slots], "{}", drafter.name);
        }
        let [of_draft, of_oracle] = of_drafter.map(|expected| !expected.is_empty());
        assert_eq!(of_draft, drafter.build.needs_model, "{}", drafter.name);
        with_draft += usize::from(of_draft);
        with_oracle += usize::from(of_oracle);
    }
    assert_eq!((with_draft >= 5, with_oracle), (true, 1));
}

/// Catches: room for any length is made at once; a session expects more slots than there can be.
#[test]
fn very_long_completions_make_room_as_they_grow() {
    let target = Noting::target();
    for (most, expected) in [(1024, 1024), (1025, 1024), (usize::MAX, 1024), (0, 0)] {
        let mut generation = begun(&target, Tools::default(), "none", most);
        prefill(&mut generation, &target, &RealClock::default()).unwrap();
        assert_eq!(target.expected(), [PROMPT.len() + expected + TREE_ROOM], "{most}");
    }
    // At most the model's context length.
    let mut session = target.session().unwrap();
    session.expect(SLOTS - 1).unwrap();
    session.cache().as_any();
    assert_eq!(target.expected(), [SLOTS]);
}

/// Catches: a session that shares a prompt expects nothing.
#[test]
fn a_sequence_that_shares_a_prompt_expects_its_own_length() {
    let target = Noting::target();
    let mut first = begun(&target, Tools::default(), "none", 200);
    prefill(&mut first, &target, &RealClock::default()).unwrap();
    let mut second = begun(&target, Tools::default(), "none", 30);
    second.share_with_one_of(std::iter::once(&mut first)).unwrap();
    target.expected();
    finish(second, &target);
    assert_eq!(target.expected(), [PROMPT.len() + 30 + TREE_ROOM]);
    finish(first, &target);
    assert_eq!(target.expected(), [PROMPT.len() + 200 + TREE_ROOM]);
}

/// Catches: a prefill is made without room for the completion.
#[test]
fn copies_of_a_prefill_have_room_for_the_completion() {
    let target = Noting::target();
    let clock = RealClock::default();
    let prefilled = Prefilled::new(&target, Who::Target, &PROMPT, &clock).expecting(50);
    let mut session = prefilled.session().unwrap();
    session.cache().as_any();
    assert_eq!(target.expected(), [50 + TREE_ROOM]);
}

/// Catches: the first beam alone learns the length.
#[test]
fn beams_expect_their_completions() {
    let (target, draft) = (Noting::target(), Noting::draft());
    let settings = BeamSettings { num_beams: 3, ..BeamSettings::default() };
    let stop = StopRules::max_tokens(6);
    let search = BeamSearch { target: &target, settings, prompt: &PROMPT, stop, codec: None };
    let method = MethodSpec { drafter: "model".to_owned(), ..MethodSpec::default() };
    let method = method.build(Some(&draft)).unwrap();
    search.run(method, (&mut chance(), &RealClock::default()), &mut NoBeamObserver).unwrap();
    let slots = PROMPT.len() + 6 + TREE_ROOM;
    assert_eq!(draft.expected(), [slots]);
    // The prompt is computed before it is shared.
    assert_eq!(target.expected(), [0, slots]);
}

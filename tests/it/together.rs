//! Shared rounds of several generations: each has the same tokens, drafts and logits as alone.

use std::ops::Range;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::checkpoint::SMALL_PAIR;
use specdec::core::chance::{Chance, Request, Seeded, Site};
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::distribution::{Dist, Token};
use specdec::core::error::Error;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Logits, SamplingParams};
use specdec::engine::{Dtype, Settings};
use specdec::method::decode::{
    Generation, Method, MethodSpec, Observer, PLAIN, Sequence, StopRules, Totals, generate,
    one_round_together, prefill,
};
use specdec::method::draft::{DRAFTERS, Drafter, Pausing, Round, Tools};
use specdec::model::{Evaluation, LanguageModel, ModelInfo, Session, Work};

/// Requests that are open at the same time.
const REQUESTS: u32 = 32;

/// The rounds of a generation: accepted tokens, passes of the draft model and the bits of all
/// logits.
#[derive(Debug, Default, PartialEq)]
struct Seen(Vec<(usize, usize, Vec<u32>)>);

impl Observer for Seen {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let bits = event.logits.iter().flat_map(|row| match row {
            Logits::F32(row) => row.iter().map(|x| x.to_bits()),
            Logits::F64(_) => panic!("the logits of a real model are f32"),
        });
        self.0.push((event.verdict.path.len(), event.draft_forwards, bits.collect()));
        Ok(())
    }
}

/// A request; every second one is greedy.
#[derive(Debug, Clone)]
struct Asked {
    name: String,
    prompt: Vec<Token>,
    method: MethodSpec,
    max_tokens: usize,
}

impl Asked {
    fn all(drafter: &str) -> Vec<Self> {
        let asked = |number: u32| Self {
            name: format!("request {number}"),
            // Four requests have a common prefix.
            prompt: (0..1 + number * 7 % 60).map(|i| (i * i + number / 4) % 199).collect(),
            method: MethodSpec {
                drafter: drafter.to_owned(),
                num_speculative_tokens: 1 + number as usize % 5,
                sampling: SamplingParams {
                    temperature: if number.is_multiple_of(2) { 0.0 } else { 0.9 },
                    ..SamplingParams::default()
                },
                ..MethodSpec::default()
            },
            max_tokens: 1 + number as usize * 5 % 24,
        };
        (0..REQUESTS).map(asked).collect()
    }

    fn generation<'a>(&self, [target, draft]: [&'a dyn LanguageModel; 2]) -> Generation<'a> {
        let tools = Tools { draft: Some(draft), target: Some(target), texts: None };
        let method = self.method.build_with(tools).unwrap();
        let stop = StopRules::max_tokens(self.max_tokens);
        Generation::new(target, method, &self.prompt, stop, None).unwrap()
    }

    fn chance(&self) -> Seeded {
        Seeded::new(Request { seed: 3, prompt: &self.name, repeat: 0 })
    }

    /// Its tokens and rounds alone.
    fn alone(&self, pair: [&dyn LanguageModel; 2]) -> (Vec<Token>, Seen) {
        let (mut generation, mut seen) = (self.generation(pair), Seen::default());
        generate(&mut generation, pair[0], &mut self.chance(), &still(), &mut seen).unwrap();
        (generation.new_tokens().to_vec(), seen)
    }
}

/// A clock that does not advance: some drafters learn from the times of rounds, which depend on the
/// batch.
fn still() -> VirtualClock {
    VirtualClock::new(VirtualCosts {
        draft_pass: Duration::ZERO,
        draft_row: Duration::ZERO,
        target_pass: Duration::ZERO,
        target_row: Duration::ZERO,
    })
}

/// An open request.
struct Open<'a> {
    number: usize,
    generation: Generation<'a>,
    chance: Seeded,
    seen: Seen,
    totals: Totals,
}

impl<'a> Open<'a> {
    fn new(number: usize, asked: &Asked, pair: [&'a dyn LanguageModel; 2]) -> Self {
        Self::sharing(&mut [], number, asked, pair)
    }

    /// A request that shares the computed prefix of another one, if they have a common prefix.
    fn sharing(
        others: &mut [Self],
        number: usize,
        asked: &Asked,
        pair: [&'a dyn LanguageModel; 2],
    ) -> Self {
        let mut generation = asked.generation(pair);
        let others = others.iter_mut().map(|other| &mut other.generation);
        generation.share_with_one_of(others).unwrap();
        let totals = prefill(&mut generation, pair[0], &still()).unwrap();
        Self { number, generation, chance: asked.chance(), seen: Seen::default(), totals }
    }

    fn sequence(&mut self) -> Sequence<'_, 'a> {
        let Self { generation, chance, seen, totals, .. } = self;
        Sequence::new(generation, chance, seen, totals)
    }
}

/// The tokens and rounds of requests with the same target. Requests join and leave between rounds,
/// in a changing order, and some pause for a round.
fn together<'a>(
    asked: &[Asked],
    pair_of: &dyn Fn(usize) -> [&'a dyn LanguageModel; 2],
    seed: u64,
) -> Vec<(Vec<Token>, Seen)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut made = asked.iter().map(|_| None).collect::<Vec<_>>();
    let (mut open, mut next) = (Vec::<Open<'_>>::new(), 0);
    while made.iter().any(Option::is_none) {
        while next < asked.len() && (open.is_empty() || rng.random_bool(0.7)) {
            let at = rng.random_range(0..=open.len());
            let begun = Open::sharing(&mut open, next, &asked[next], pair_of(next));
            open.insert(at, begun);
            next += 1;
        }
        for ended in open.extract_if(.., |o| o.generation.begin(o.totals.decode).is_some()) {
            made[ended.number] = Some((ended.generation.new_tokens().to_vec(), ended.seen));
        }
        let mut joined = open.iter_mut().filter(|_| rng.random_bool(0.9)).map(Open::sequence);
        let mut joined = joined.by_ref().collect::<Vec<_>>();
        one_round_together(&mut joined, pair_of(0)[0], &still());
        assert!(joined.iter().all(|sequence| sequence.end.is_none()));
    }
    made.into_iter().flatten().collect()
}

/// Catches: the drafts of a batch get each other's passes.
#[test]
fn a_request_has_the_same_rounds_alone_and_among_others() {
    for (dtype, seed) in Dtype::ALL.into_iter().zip(0..) {
        let settings = Settings { dtype: Some(dtype), ..Settings::default() };
        let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&settings).unwrap());
        let pair = [&*target, &*draft];
        for drafter in DRAFTERS {
            let asked = Asked::all(drafter.name);
            let tools = Tools { draft: Some(pair[1]), target: Some(pair[0]), texts: None };
            // Some drafters need text files, and some propose drafts that rejection does not
            // support.
            if asked[0].method.build_with(tools).is_err() {
                continue;
            }
            let found = together(&asked, &|_| pair, seed);
            for (asked, found) in asked.iter().zip(found) {
                let (name, drafter) = (&asked.name, drafter.name);
                assert!(found == asked.alone(pair), "{name}, {drafter}, {dtype:?}");
            }
        }
    }
}

/// Every second request has another draft model.
/// Catches: the first draft model makes the passes of all.
#[test]
fn requests_with_different_draft_models_keep_their_rounds() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let settings = Settings { dtype: Some(Dtype::Q8_0), ..Settings::default() };
    let other = SMALL_PAIR[1].model(&settings).unwrap();
    let pair_of = |number: usize| [&*target, [&*draft, &*other][number % 2]];
    let asked = Asked::all("model");
    for (number, found) in together(&asked, &pair_of, 7).into_iter().enumerate() {
        assert!(found == asked[number].alone(pair_of(number)), "{number}");
    }
}

/// A source of random numbers that records the rounds that were begun.
#[derive(Debug)]
struct RoundLog(Seeded, Vec<u64>);

impl Chance for RoundLog {
    fn begin_round(&mut self, round: u64) {
        self.0.begin_round(round);
        self.1.push(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.0.bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        self.0.categorical(site, dist)
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.0.race(position, lists, dist)
    }
}

/// Random numbers depend on the number of a request's own rounds, no matter when it joins.
/// Catches: every round of a batch draws the numbers of round 0.
#[test]
fn a_request_draws_the_numbers_of_its_own_rounds() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let pair = [&*target, &*draft];
    let asked = Asked { max_tokens: 24, ..Asked::all("none")[1].clone() };
    let mut open = (0..2).map(|i| Open::new(i, &asked, pair)).collect::<Vec<_>>();
    let mut logs = [0, 1].map(|_| RoundLog(asked.chance(), Vec::new()));
    for round in 0..5 {
        let joined = open.iter_mut().zip(&mut logs).take(if round < 2 { 1 } else { 2 });
        let sequences = joined.map(|(open, log)| {
            let Open { generation, seen, totals, .. } = open;
            Sequence::new(generation, log, seen, totals)
        });
        let mut sequences = sequences.collect::<Vec<_>>();
        for one in &mut sequences {
            assert!(one.generation.begin(one.totals.decode).is_none());
        }
        one_round_together(&mut sequences, pair[0], &still());
        assert!(sequences.iter().all(|sequence| sequence.end.is_none()));
    }
    assert_eq!(logs.map(|log| log.1), [vec![0, 1, 2, 3, 4], vec![0, 1, 2]]);
}

/// A failing sequence does not affect the others.
/// Catches: a sequence that fails fails all.
#[test]
fn a_sequence_that_fails_does_not_stop_the_others() {
    struct Full;
    impl Observer for Full {
        fn round(&mut self, _: &RoundEvent<'_>) -> Result<(), Error> {
            Err(Error::input("the disk is full"))
        }
    }
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let pair = [&*target, &*draft];
    let asked = Asked::all("model");
    let mut open = (0..3).map(|i| Open::new(i, &asked[i + 2], pair)).collect::<Vec<_>>();
    let mut full = Full;
    let mut sequences = open.iter_mut().map(Open::sequence).collect::<Vec<_>>();
    for one in &mut sequences {
        assert!(one.generation.begin(one.totals.decode).is_none());
    }
    sequences[1].observer = &mut full;
    one_round_together(&mut sequences, pair[0], &still());
    let ends = sequences.into_iter().map(|sequence| sequence.end).collect::<Vec<_>>();
    assert_eq!(ends, [None, Some(Err(Error::input("the disk is full"))), None]);
}

/// A drafter without a draft.
#[derive(Debug)]
struct Failing;

impl<'a> Drafter<'a> for Failing {
    fn propose<'f>(&'f mut self, _: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async { Err(Error::input("there is no draft")) })
    }

    fn state_key(&mut self, _: &[Token]) -> Result<Vec<u8>, Error> {
        Ok(Vec::new())
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(Self))
    }
}

/// Catches: a sequence whose draft failed takes an evaluation, so that the others verify with each
/// other's rows.
#[test]
fn a_failed_draft_takes_no_rows_of_others() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let pair = [&*target, &*draft];
    let asked = Asked::all("model");
    let mut open = (0..4).map(|i| Open::new(i, &asked[i + 2], pair)).collect::<Vec<_>>();
    let tools = Tools { draft: None, target: None, texts: None };
    let plain = MethodSpec { drafter: PLAIN.to_owned(), ..MethodSpec::default() };
    let method = Method { drafter: Box::new(Failing), ..plain.build_with(tools).unwrap() };
    let stop = StopRules::max_tokens(8);
    open[1].generation = Generation::new(pair[0], method, &[1, 2], stop, None).unwrap();
    let mut sequences = open.iter_mut().map(Open::sequence).collect::<Vec<_>>();
    one_round_together(&mut sequences, pair[0], &still());
    let ends = sequences.into_iter().map(|sequence| sequence.end).collect::<Vec<_>>();
    assert_eq!(ends, [None, Some(Err(Error::input("there is no draft"))), None, None]);
    for i in [0, 2, 3] {
        let (tokens, rounds) = asked[i + 2].alone(pair);
        assert_eq!(open[i].seen.0[..], rounds.0[..1], "{i}");
        assert!(tokens.starts_with(open[i].generation.new_tokens()), "{i}");
    }
}

/// A model whose passes fail.
#[derive(Debug)]
struct Broken<'a>(&'a dyn LanguageModel);

impl LanguageModel for Broken<'_> {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.0.session()
    }

    fn evaluate(&self, _: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Err(Error::engine("the device is gone"))
    }
}

/// Catches: a draft model's failing pass fails sequences with another draft model; a sequence
/// continues without its rows; a failing pass of the target leaves a sequence without an end.
#[test]
fn a_failing_pass_fails_the_sequences_that_need_it() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let broken = [&target, &draft].map(|model| Broken(&**model));
    let [no_target, no_draft] = broken.each_ref().map(|model| model as &dyn LanguageModel);
    let (target, draft) = (&*target, &*draft);
    let asked = Asked::all("model");
    // Prompts of one token, which need no prefill.
    let asked = [1, 2, 3].map(|i| Asked { prompt: vec![i], max_tokens: 8, ..asked[4].clone() });
    let gone = || Some(Err(Error::engine("the device is gone")));
    for (target_now, expected) in
        [(target, [None, gone(), None]), (no_target, [gone(), gone(), gone()])]
    {
        let pairs = [[target, draft], [target, no_draft], [target, draft]];
        let open = (0..3).map(|i| Open::new(i, &asked[i], pairs[i]));
        let mut open = open.collect::<Vec<_>>();
        let mut sequences = open.iter_mut().map(Open::sequence).collect::<Vec<_>>();
        one_round_together(&mut sequences, target_now, &still());
        let ends = sequences.into_iter().map(|sequence| sequence.end).collect::<Vec<_>>();
        assert_eq!(ends, expected);
        for (one, asked) in open.iter().zip(&asked).filter(|_| expected[0].is_none()) {
            let alone = asked.alone([target, draft]);
            let rounds = if one.number == 1 { 0 } else { 1 };
            assert_eq!(one.seen.0[..], alone.1.0[..rounds], "{}", one.number);
        }
    }
}

/// Under the virtual clock, a round costs the sum of all its rows, for every sequence in it.
/// Catches: each sequence is charged the whole round.
#[test]
fn a_shared_round_takes_the_time_of_all_its_rows() {
    let [target, draft] = SMALL_PAIR.map(|shape| shape.model(&Settings::default()).unwrap());
    let pair = [&*target, &*draft];
    let asked = Asked { max_tokens: 24, ..Asked::all("none")[0].clone() };
    let time = |count: usize| {
        let clock = VirtualClock::new(VirtualCosts::default());
        let mut open = (0..count).map(|i| Open::new(i, &asked, pair)).collect::<Vec<_>>();
        for one in &mut open {
            assert!(one.generation.begin(one.totals.decode).is_none());
        }
        let mut sequences = open.iter_mut().map(Open::sequence).collect::<Vec<_>>();
        one_round_together(&mut sequences, pair[0], &clock);
        assert!(sequences.iter().all(|sequence| sequence.end.is_none()));
        let times = open.iter().map(|o| o.totals.decode).collect::<Vec<_>>();
        assert!(times.iter().all(|time| *time == times[0]));
        assert!(open.iter().all(|o| o.totals.share == times[0] / count as u32));
        times[0]
    };
    let costs = VirtualCosts::default();
    assert_eq!(time(3) - time(1), 2 * costs.target_row);
}

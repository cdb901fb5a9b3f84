//! Forecasts from sequences, against the enumeration of the production code.

use crate::tape_support::{ending, reader, sequence_of};
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::error::Error;
use specdec::core::params::{Params, Value};
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, Method, MethodSpec, Observer, StopRules, generate};
use specdec::method::draft::Tools;
use specdec::model::{LanguageModel, Toy, ToyPair, zoo};
use specdec::proof::{Probe, enumerate, target_distribution};
use specdec::tapes::tape::{
    AcceptanceRule, SequenceOdds, TapeScore, TapeSequence, Teacher, draft_starts, log_probs,
    score_sequence,
};

/// Maximum number of tokens of a completion.
pub(crate) const MAX: usize = 5;
/// Sums of some thousand products in f64, taken in another order.
pub(crate) const ROUNDING: f64 = 1e-12;

/// What rounds accept, counting only tokens of the completion, and what they draft.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    rounds: f64,
    accepted: f64,
    pub(crate) proposed: f64,
    /// The fewest and the most drafted tokens.
    within: [f64; 2],
    /// Tokens of the completion that are drafted after accepted ones.
    reached: f64,
    lengths: Vec<f64>,
}

impl Kept {
    fn add(&mut self, accepted: usize, weight: f64) {
        self.rounds += weight;
        self.accepted += weight * accepted as f64;
        self.lengths.resize(self.lengths.len().max(accepted + 1), 0.0);
        self.lengths[accepted] += weight;
    }
}

impl Probe for Kept {
    fn round(&mut self, event: &RoundEvent<'_>, weight: f64) {
        let accepted = event.verdict.path.len();
        // A completion that ends with an accepted token has none after it.
        let behind = usize::from(accepted < event.emitted.len() && accepted < event.draft.len());
        self.add(accepted, weight);
        self.reached += weight * (accepted + behind) as f64;
        self.proposed += weight * event.draft.len() as f64;
    }
}

/// A pair, how it is sampled, and how tokens are drafted and verified.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) pair: ToyPair,
    sampling: SamplingParams,
    pub(crate) draft_temperature: Option<f64>,
    drafter: &'static str,
    /// A draft length policy with one of its settings.
    pub(crate) length: Option<(&'static str, &'static str, f64)>,
    rule: AcceptanceRule,
    pub(crate) k: usize,
}

impl Case {
    pub(crate) fn new(pair: ToyPair, rule: AcceptanceRule, k: usize) -> Self {
        let (sampling, draft_temperature, length) = (SamplingParams::default(), None, None);
        Self { pair, sampling, draft_temperature, drafter: "model", length, rule, k }
    }

    fn method<'a>(&self, (target, draft): (&'a Toy, &'a Toy)) -> Method<'a> {
        let mut params = self.draft_temperature.map_or(Params::default(), |temperature| {
            Params::default().with("draft_temperature", Value::Number(temperature))
        });
        if let Some((_, setting, value)) = self.length {
            params = params.with(setting, Value::Number(value));
            params = params.with("confidence_tuned", Value::Count(0));
        }
        let spec = MethodSpec {
            drafter: self.drafter.to_owned(),
            verifier: self.rule.verifier().to_owned(),
            num_speculative_tokens: self.k,
            length: self.length.map_or("fixed", |(name, ..)| name).to_owned(),
            sampling: self.sampling.clone(),
            params,
        };
        spec.build_with(Tools { draft: Some(draft), target: Some(target), texts: None }).unwrap()
    }

    /// By walking the production rounds through every outcome.
    pub(crate) fn enumerated(&self) -> Kept {
        let (target, draft) = (self.pair.target("p").unwrap(), self.pair.draft("q").unwrap());
        let method = self.method((&target, &draft));
        let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(MAX) };
        let generation = Generation::new(&target, method, &self.pair.prompt, stop, None).unwrap();
        let mut kept = Kept::default();
        enumerate(&target, generation, &mut [&mut kept]).unwrap();
        kept
    }

    /// From all sequences and their distributions alone, weighted by their probabilities.
    fn forecast(&self) -> Kept {
        let (target, draft) = (self.pair.target("p").unwrap(), self.pair.draft("q").unwrap());
        let sampler = Sampler::new(self.sampling.clone()).unwrap();
        let mut teacher = Teacher::new(&target).unwrap();
        let mut kept = Kept::default();
        let sequences = target_distribution(&target, &sampler, &self.pair.prompt, MAX).unwrap();
        for (tokens, mass) in sequences {
            let mut sequence = sequence_of(&self.pair.prompt, tokens, MAX);
            sequence.log_p = Some(log_probs(&mut teacher, &sampler, &sequence).unwrap());
            let whole = sequence.log_p.iter().flatten().sum::<f64>().exp();
            assert!((whole - mass).abs() < ROUNDING, "{sequence:?}: {whole} and {mass}");
            let score = self.score(&sequence, (&target, &draft));
            let odds = SequenceOdds::new(&sequence, &score).unwrap().open(self.is_open());
            let found = odds.forecast(self.rule, self.k);
            assert!((found.lengths.iter().sum::<f64>() - found.rounds).abs() < ROUNDING);
            assert!((found.survived.iter().sum::<f64>() - found.accepted).abs() < ROUNDING);
            kept.proposed += mass * found.proposed;
            let within = odds.proposed_within(self.rule, self.k, &found);
            kept.within.iter_mut().zip(within).for_each(|(sum, part)| *sum += mass * part);
            kept.reached += mass * found.reached.iter().sum::<f64>();
            found.lengths.iter().enumerate().for_each(|(accepted, n)| kept.add(accepted, mass * n));
        }
        kept
    }

    /// Whether the length of a draft depends on what it draws after it diverges.
    fn is_open(&self) -> bool {
        let ends = !self.pair.target("p").unwrap().info().eos.is_empty();
        let drawn = !["prompt_lookup", "suffix_automaton"].contains(&self.drafter);
        self.length.is_some() || ends && drawn
    }

    /// The drafter's score of a sequence.
    fn score(&self, sequence: &TapeSequence, (target, draft): (&Toy, &Toy)) -> TapeScore {
        let nothing = TapeScore::default();
        if self.rule == AcceptanceRule::Race {
            let sampler = [Sampler::new(self.sampling.clone()).unwrap()];
            let [mut p, mut q] = [target, draft].map(|model| Teacher::new(model).unwrap());
            let both =
                score_sequence(&mut q, &sampler, Some(reader(&mut p, &sampler[0])), sequence)
                    .unwrap();
            return both.into_iter().next().unwrap();
        }
        if self.drafter != "model" || self.length.is_some() {
            let method = self.method((target, draft));
            let tokens = (self.pair.vocab, &*target.info().eos);
            return draft_starts(method, None, tokens, sequence, self.k, None).unwrap();
        }
        let temperature = self.draft_temperature.unwrap_or(self.sampling.temperature);
        let sampler =
            Sampler::new(SamplingParams { temperature, ..self.sampling.clone() }).unwrap();
        let log_q = log_probs(&mut Teacher::new(draft).unwrap(), &sampler, sequence).unwrap();
        TapeScore { log_q: Some(log_q), ..nothing }
    }
}

fn assert_same(case: &Case, name: &str) {
    let (found, expected) = (case.forecast(), case.enumerated());
    let words = format!("{name}, {}, {:?}, K = {}", case.drafter, case.rule, case.k);
    let same = |what: &str, found: f64, expected: f64| {
        assert!((found - expected).abs() < ROUNDING, "{words}: {what}: {found}, {expected}");
    };
    same("rounds", found.rounds, expected.rounds);
    same("accepted", found.accepted, expected.accepted);
    if case.length.is_none() {
        same("reached", found.reached, expected.reached);
    }
    if case.length.is_none() && case.pair.target("p").unwrap().info().eos.is_empty() {
        same("proposed", found.proposed, expected.proposed);
        assert!(found.within.iter().all(|end| (end - expected.proposed).abs() < ROUNDING));
    } else {
        let ([lo, hi], drafted) = (found.within, expected.proposed);
        assert!(
            lo <= drafted + ROUNDING && drafted <= hi + ROUNDING,
            "{words}: {lo} {drafted} {hi}"
        );
        assert!(lo <= found.proposed + ROUNDING && found.proposed <= hi + ROUNDING, "{words}");
    }
    for accepted in 0..=case.k {
        let [a, b] = [&found, &expected].map(|kept| kept.lengths.get(accepted).unwrap_or(&0.0));
        same(&format!("rounds that accept {accepted}"), *a, *b);
    }
}

fn for_rules(mut each: impl FnMut(AcceptanceRule, usize)) {
    for rule in [AcceptanceRule::Token, AcceptanceRule::Block, AcceptanceRule::Match] {
        (1..=4).for_each(|k| each(rule, k));
    }
}

/// Catches: a ratio above 1 counts in full; block verification multiplies, or decides token by
/// token; matching forgets the tokens before; drafts ignore K or leave no room for a token of the
/// target's; nothing follows an accepted draft.
#[test]
fn forecasts_have_the_rounds_of_the_enumeration() {
    for number in 0..24 {
        let name = format!("random-{number}");
        for_rules(|rule, k| assert_same(&Case::new(zoo::toy(&name).unwrap(), rule, k), &name));
    }
}

/// Catches: no draft has the last token; tokens behind the end can be accepted.
#[test]
fn completions_that_end_have_the_rounds_of_the_enumeration() {
    for name in ["mixed", "close", "apart", "gaps"] {
        for_rules(|rule, k| assert_same(&Case::new(ending(name), rule, k), name));
    }
}

/// The distributions are those after all processors.
/// Catches: the distributions are those before the processors.
#[test]
fn processed_distributions_have_the_rounds_of_the_enumeration() {
    let neutral = SamplingParams::default();
    let settings = [
        (SamplingParams { temperature: 0.6, top_k: 2, ..neutral.clone() }, None),
        (SamplingParams { top_p: 0.8, repetition_penalty: 1.4, ..neutral.clone() }, Some(0.5)),
        (SamplingParams { temperature: 0.0, ..neutral.clone() }, None),
    ];
    for (sampling, draft_temperature) in settings {
        for name in ["mixed", "close"] {
            for_rules(|rule, k| {
                let case = Case::new(zoo::toy(name).unwrap(), rule, k);
                assert_same(&Case { sampling: sampling.clone(), draft_temperature, ..case }, name);
            });
        }
    }
}

/// Drafters whose drafts depend on where they begin.
/// Catches: drafts see more of the completion than comes before them; only the first token is
/// compared with it; a draft that has left it survives.
#[test]
fn every_chain_drafter_has_the_rounds_of_the_enumeration() {
    let drafters = ["prompt_lookup", "suffix_automaton", "ngram_lm", "hybrid", "cascade", "oracle"];
    for drafter in drafters {
        for name in ["mixed", "close"] {
            for_rules(|rule, k| {
                assert_same(&Case { drafter, ..Case::new(ending(name), rule, k) }, name);
            });
        }
    }
}

/// Policies that read the draft alone end it at the same tokens of the completion, independent of
/// how it would have continued.
/// Catches: the bounds on drafted tokens are too high at the lower end, or too low at the upper
/// one.
#[test]
fn policies_on_drafts_have_the_rounds_of_the_enumeration() {
    let lengths = [
        ("confidence", "confidence_threshold", 0.4),
        ("confidence", "confidence_threshold", 0.6),
        ("entropy", "entropy_threshold", 0.3),
    ];
    for length in lengths {
        for name in ["mixed", "close", "random-3"] {
            for_rules(|rule, k| {
                let case = Case { length: Some(length), ..Case::new(ending(name), rule, k) };
                assert_same(&case, name);
                let (drafter, draft_temperature) = ("hybrid", Some(0.0));
                assert_same(&Case { drafter, draft_temperature, ..case }, name);
            });
        }
    }
}

/// Races have noise that belongs to positions, which enumeration cannot express, so they run with
/// many seeds.
/// Catches: a race is won that p has not won yet; races accept what rejection sampling would.
#[test]
fn races_have_the_rounds_of_the_forecast() {
    const SEEDS: u64 = 40_000;
    for name in ["mixed", "apart"] {
        let case = Case::new(ending(name), AcceptanceRule::Race, 3);
        let (target, draft) = (case.pair.target("p").unwrap(), case.pair.draft("q").unwrap());
        let expected = case.forecast();
        let mut kept = Kept::default();
        for seed in 0..SEEDS {
            let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(MAX) };
            let (method, prompt) = (case.method((&target, &draft)), &case.pair.prompt);
            let mut generation = Generation::new(&target, method, prompt, stop, None).unwrap();
            let mut chance = Seeded::new(Request { seed, prompt: name, repeat: 0 });
            let clock = VirtualClock::new(VirtualCosts::default());
            let mut seen = Counted(&mut kept);
            generate(&mut generation, &target, &mut chance, &clock, &mut seen).unwrap();
        }
        // At most 5 rounds and tokens per completion: their means have a standard error of at most
        // 2.5 / √40000 = 0.0125, and five of them are exceeded once in two million times.
        let same = |what: &str, found: f64, expected: f64| {
            let found = found / SEEDS as f64;
            assert!((found - expected).abs() < 0.0625, "{name}: {what}: {found}, {expected}");
        };
        same("rounds", kept.rounds, expected.rounds);
        same("accepted", kept.accepted, expected.accepted);
        let mass = kept.lengths.iter().zip(&expected.lengths);
        mass.enumerate().for_each(|(accepted, (a, b))| same(&format!("{accepted} kept"), *a, *b));
    }
}

/// Counts the rounds of a generation.
#[derive(Debug)]
struct Counted<'a>(&'a mut Kept);

impl Observer for Counted<'_> {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        Probe::round(self.0, event, 1.0);
        Ok(())
    }
}

/// A sequence that is scored in several passes, alone and together with the target.
/// Catches: penalties ignore the tokens of the same pass.
#[test]
fn a_long_sequence_has_the_probabilities_of_single_passes() {
    let pair = zoo::toy("mixed").unwrap();
    let (target, draft) = (pair.target("p").unwrap(), pair.draft("q").unwrap());
    let sampling = SamplingParams { repetition_penalty: 1.3, ..SamplingParams::default() };
    let sampler = Sampler::new(sampling).unwrap();
    let tokens = (0..150).map(|i| (7 * i + i / 5) % pair.vocab as u32).collect::<Vec<_>>();
    let sequence = sequence_of(&pair.prompt, tokens, 150);
    let [mut p, mut q] = [&target, &draft].map(|model| Teacher::new(model).unwrap());
    let all = log_probs(&mut q, &sampler, &sequence).unwrap();
    let samplers = [Sampler::new(SamplingParams::default()).unwrap(), sampler.clone()];
    let both =
        score_sequence(&mut q, &samplers, Some(reader(&mut p, &sampler)), &sequence).unwrap();
    assert_eq!(both[1].log_q.as_ref(), Some(&all));
    let overlaps = both[1].overlap.as_ref().unwrap();
    assert_eq!(overlaps.len(), sequence.tokens.len());
    for (at, found) in all.iter().enumerate() {
        let before = [&pair.prompt, &sequence.tokens[..at]].concat();
        let one = TapeSequence {
            prompt_tokens: before,
            ..sequence_of(&[], vec![sequence.tokens[at]], 1)
        };
        // The penalties of a prompt are those of a completion, since no occurrences are counted.
        assert_eq!([*found], *log_probs(&mut q, &sampler, &one).unwrap(), "{at}");
        let one =
            score_sequence(&mut q, &samplers[1..], Some(reader(&mut p, &sampler)), &one).unwrap();
        assert_eq!(one[0].overlap, Some(vec![overlaps[at]]), "{at}");
    }
}

//! When a generation ends, and which tokens and text it then has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::{Clock, VirtualClock, VirtualCosts, Who};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{
    Generation, MethodSpec, NoObserver, Observer, StopReason, StopRules, Totals, generate,
};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::model::{Codec, Letters, Toy, ToyPair, zoo};
use specdec::proof::{Gap, JointDistribution, enumerate, target_distribution};

/// Each token is followed by the next one, in a cycle.
fn cycle(vocab: usize) -> (Toy, Toy) {
    let mut table = BTreeMap::from([(String::new(), one_hot(vocab, 0))]);
    table.extend((0..vocab).map(|t| (t.to_string(), one_hot(vocab, (t + 1) % vocab))));
    let pair = ToyPair::new(vocab, 1, table.clone(), table);
    (pair.target("cycle").unwrap(), pair.draft("cycle").unwrap())
}

fn one_hot(vocab: usize, token: usize) -> Vec<f64> {
    (0..vocab).map(|t| f64::from(u8::from(t == token))).collect()
}

fn spec(drafter: &str, k: usize) -> MethodSpec {
    MethodSpec { drafter: drafter.to_owned(), num_speculative_tokens: k, ..MethodSpec::default() }
}

/// Records every round and every piece of text.
#[derive(Debug, Default)]
struct Notes {
    /// Proposed, accepted, emitted, truncated, tokens before.
    rounds: Vec<(usize, usize, usize, bool, usize)>,
    draft_forwards: usize,
    pieces: Vec<String>,
}

impl Observer for Notes {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let (proposed, accepted) = (event.draft.depth(), event.verdict.path.len());
        let (emitted, before) = (event.emitted.len(), event.context.len());
        assert_eq!(event.round, self.rounds.len() as u64);
        self.rounds.push((proposed, accepted, emitted, event.truncated, before));
        self.draft_forwards += event.draft_forwards;
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.pieces.push(text.to_owned());
    }
}

struct Run {
    tokens: Vec<Token>,
    text: String,
    stopped: Option<StopReason>,
    totals: Totals,
    notes: Notes,
}

fn run(
    models: &(Toy, Toy),
    spec: &MethodSpec,
    prompt: &[Token],
    stop: StopRules<'_>,
    codec: Option<&dyn Codec>,
) -> Run {
    let clock = VirtualClock::new(VirtualCosts::default());
    let tools = Tools { draft: Some(&models.1), target: Some(&models.0), texts: None };
    let method = spec.build_with(tools).unwrap();
    let mut generation = Generation::new(&models.0, method, prompt, stop, codec).unwrap();
    let mut chance = Seeded::new(Request { seed: 1, prompt: "stop", repeat: 0 });
    let mut notes = Notes::default();
    // The clock starts as if another generation had run before.
    clock.forward(Who::Target, 1);
    let start = clock.now();
    let totals = generate(&mut generation, &models.0, &mut chance, &clock, &mut notes).unwrap();
    assert_eq!(totals.prefill + totals.decode, clock.now() - start, "all time is accounted for");
    assert_eq!(totals.target_forwards, notes.rounds.len());
    assert_eq!(totals.draft_forwards, notes.draft_forwards);
    Run {
        tokens: generation.new_tokens().to_vec(),
        text: generation.text().to_owned(),
        stopped: generation.stopped(),
        totals,
        notes,
    }
}

#[test]
fn an_end_token_inside_a_round_cuts_it() {
    let stop = StopRules { eos: vec![2], ..StopRules::max_tokens(20) };
    let run = run(&cycle(5), &spec("model", 4), &[3, 4, 0], stop, None);
    assert_eq!(run.tokens, [1, 2], "the end token itself is committed");
    assert_eq!(run.stopped, Some(StopReason::Eos));
    // The draft ends with it, and no token follows.
    assert_eq!(run.notes.rounds, [(2, 2, 2, true, 3)]);
}

#[test]
fn the_length_policy_observes_every_round() {
    let spec = MethodSpec { length: "heuristic".to_owned(), ..spec("model", 1) };
    let run = run(&cycle(5), &spec, &[0], StopRules::max_tokens(20), None);
    // All is accepted, so each draft is two tokens longer than the one before.
    let drafted = run.notes.rounds.iter().map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(drafted, [1, 3, 5, 7]);
}

#[test]
fn a_completion_without_end_tokens_has_max_tokens() {
    let run = run(&cycle(3), &spec("model", 2), &[0], StopRules::max_tokens(7), None);
    assert_eq!(run.tokens, [1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(run.stopped, Some(StopReason::MaxTokens));
    assert!(run.notes.rounds.iter().all(|r| !r.3), "a shorter draft is not a cut");
}

#[test]
fn a_stop_string_is_found_across_tokens_and_never_shown() {
    let letters = Letters { vocab: 5 };
    for k in [1, 4] {
        let stop = StopRules { strings: vec!["dea".to_owned()], ..StopRules::max_tokens(40) };
        let run = run(&cycle(5), &spec("model", k), &[0], stop, Some(&letters));
        assert_eq!(run.stopped, Some(StopReason::StopString));
        assert_eq!(run.tokens, [1, 2, 3, 4, 0]);
        assert_eq!(run.text, "bc");
        assert_eq!(run.notes.pieces.concat(), "bc", "a possible stop string is held back");
    }
}

#[test]
fn an_incomplete_stop_string_is_shown_when_the_text_ends() {
    let letters = Letters { vocab: 3 };
    let stop = StopRules { strings: vec!["bcb".to_owned()], ..StopRules::max_tokens(5) };
    let run = run(&cycle(3), &spec("none", 1), &[0], stop, Some(&letters));
    assert_eq!(run.stopped, Some(StopReason::MaxTokens));
    assert_eq!(run.notes.pieces.concat(), "bcabc");
    assert_eq!(run.text, "bcabc");
}

#[test]
fn text_is_shown_as_soon_as_it_is_final() {
    let letters = Letters { vocab: 3 };
    let stop = StopRules { strings: vec!["ca!".to_owned()], ..StopRules::max_tokens(5) };
    let run = run(&cycle(3), &spec("none", 1), &[0], stop, Some(&letters));
    assert_eq!(run.notes.pieces, ["b", "", "", "cab", "c", ""]);
}

#[test]
fn stop_reasons_have_the_names_used_in_files() {
    use StopReason::*;
    let names = [Eos, StopString, MaxTokens, ContextFull, Deadline, User].map(StopReason::name);
    let files = ["eos", "stop_string", "max_tokens", "context_full", "deadline", "user"];
    assert_eq!(names, files);
}

#[test]
fn max_tokens_is_exact_for_every_draft_length() {
    for drafter in DRAFTERS {
        for k in 1..6 {
            for most in 0..8 {
                let stop = StopRules::max_tokens(most);
                let run = run(&cycle(4), &spec(drafter.name, k), &[0, 1, 2, 3, 0], stop, None);
                assert_eq!(run.tokens.len(), most, "{} K = {k}", drafter.name);
                assert_eq!(run.stopped, Some(StopReason::MaxTokens));
                for (proposed, _, _, truncated, before) in run.notes.rounds {
                    let left = most - (before - 5);
                    assert!(proposed < left, "{proposed} drafted with {left} left");
                    assert!(!truncated);
                }
            }
        }
    }
}

#[test]
fn a_full_context_ends_the_generation() {
    let prompt = (0..1019).map(|i| i % 4).collect::<Vec<_>>();
    for k in [1, 3, 6] {
        for drafter in ["none", "model", "prompt_lookup"] {
            let stop = StopRules::max_tokens(100);
            let run = run(&cycle(4), &spec(drafter, k), &prompt, stop, None);
            assert_eq!(run.tokens.len(), 1024 - 1019, "{drafter} K = {k}");
            assert_eq!(run.stopped, Some(StopReason::ContextFull));
            // One position is kept for the correction or bonus token of the round.
            let drafted = if drafter == "none" { 0 } else { k.min(1024 - 1019 - 1) };
            assert_eq!(run.notes.rounds[0].0, drafted);
        }
    }
}

#[test]
fn a_deadline_stops_generation_before_the_next_round() {
    // Plain decoding costs one pass of 1 ms per token on this clock.
    let stop =
        |us| StopRules { deadline: Some(Duration::from_micros(us)), ..StopRules::max_tokens(100) };
    let plain = |us| run(&cycle(4), &spec("none", 1), &[0, 1, 2], stop(us), None);
    assert_eq!(plain(2500).tokens.len(), 3);
    assert_eq!(plain(3000).tokens.len(), 3);
    assert_eq!(plain(3001).tokens.len(), 4);
    let none = plain(0);
    assert_eq!((none.tokens.len(), none.stopped), (0, Some(StopReason::Deadline)));
}

#[test]
fn a_user_condition_sees_tokens_and_text() {
    let letters = Letters { vocab: 4 };
    let seen = RefCell::new(Vec::new());
    let stop = StopRules {
        user: Some(Box::new(|tokens, text| {
            seen.borrow_mut().push((tokens.len(), text.to_owned()));
            text.ends_with('d')
        })),
        ..StopRules::max_tokens(100)
    };
    let run = run(&cycle(4), &spec("model", 3), &[0], stop, Some(&letters));
    assert_eq!((run.tokens, run.stopped), (vec![1, 2, 3], Some(StopReason::User)));
    let calls = [(1, "b"), (2, "bc"), (3, "bcd")].map(|(n, text)| (n, text.to_owned()));
    assert_eq!(seen.into_inner(), calls);
}

/// Tokens are single bytes of "é€😀", as byte-level vocabularies have them.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl Codec for Bytes {
    fn encode(&self, _text: &str) -> Result<Vec<Token>, Error> {
        Err(Error::engine("not needed"))
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        let bytes = tokens.iter().map(|&t| self.0[t as usize]).collect::<Vec<_>>();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn token_label(&self, token: Token) -> String {
        format!("{:02x}", self.0[token as usize])
    }
}

#[test]
fn streamed_text_never_splits_a_character() {
    let text = "aé€😀";
    let codec = Bytes(text.bytes().collect());
    let n = text.len();
    for k in [1, 2, 5] {
        let stop = StopRules::max_tokens(n);
        // The prompt is the last token, which the first one follows, so the text is complete.
        let run = run(&cycle(n), &spec("model", k), &[n as Token - 1], stop, Some(&codec));
        assert_eq!(run.notes.pieces.concat(), text, "K = {k}");
        assert!(run.notes.pieces.iter().all(|p| !p.contains('\u{FFFD}')));
        assert_eq!(run.text, text);
    }
    // Cut in the middle of a character: the incomplete bytes are marked at the end.
    let stop = StopRules::max_tokens(n - 1);
    let cut = run(&cycle(n), &spec("none", 1), &[n as Token - 1], stop, Some(&codec));
    assert_eq!(cut.notes.pieces.concat(), "aé€\u{FFFD}");
}

#[test]
fn plain_decoding_costs_one_target_pass_per_token() {
    let pair = zoo::toy("mixed").unwrap();
    let models = (pair.target("mixed").unwrap(), pair.draft("mixed").unwrap());
    for prompt in [&[0][..], &[0, 1, 2, 3]] {
        for n in [1, 2, 17] {
            let run = run(&models, &spec("none", 4), prompt, StopRules::max_tokens(n), None);
            assert_eq!(run.totals.target_forwards, n);
            assert_eq!(run.totals.draft_forwards, 0);
            assert_eq!(run.totals.decode, Duration::from_millis(n as u64), "one row per pass");
            // All tokens of the prompt but the last, in one pass, if there are any.
            let prefill = if prompt.len() == 1 { 0 } else { 950 + 3 * 50 };
            assert_eq!(run.totals.prefill, Duration::from_micros(prefill));
            assert!(run.notes.rounds.iter().all(|r| r.0 == 0 && r.2 == 1));
        }
    }
}

/// A clock that advances by 1 µs whenever it is read.
#[derive(Debug, Default)]
struct Looks(Cell<u64>);

impl Clock for Looks {
    fn now(&self) -> Duration {
        self.0.set(self.0.get() + 1);
        Duration::from_micros(self.0.get())
    }
}

#[test]
fn every_part_of_a_round_is_timed() {
    let pair = zoo::toy("mixed").unwrap();
    let (target, clock) = (pair.target("mixed").unwrap(), Looks::default());
    let method = spec("none", 1).build(None).unwrap();
    let mut generation =
        Generation::new(&target, method, &[0], StopRules::max_tokens(3), None).unwrap();
    let mut chance = Seeded::new(Request { seed: 1, prompt: "looks", repeat: 0 });
    let totals = generate(&mut generation, &target, &mut chance, &clock, &mut NoObserver).unwrap();
    // Drafting, the target's pass, verifying, committing, and reporting to the method.
    assert_eq!(totals.decode, Duration::from_micros(3 * 5));
}

#[test]
fn a_round_emits_the_accepted_tokens_and_one_more() {
    let pair = zoo::toy("close").unwrap();
    let models = (pair.target("close").unwrap(), pair.draft("close").unwrap());
    let run = run(&models, &spec("model", 3), &[0, 1], StopRules::max_tokens(200), None);
    for &(proposed, accepted, emitted, truncated, _) in &run.notes.rounds {
        assert!(accepted <= proposed && proposed <= 3);
        assert_eq!(emitted, accepted + 1);
        assert!(!truncated);
    }
    let emitted = run.notes.rounds.iter().map(|r| r.2).sum::<usize>();
    assert_eq!(emitted, 200);
    assert_eq!(run.totals.target_forwards, run.notes.rounds.len());
    assert!(run.totals.target_forwards < 150, "a draft model near the target saves passes");
}

#[test]
fn greedy_completions_are_the_same_with_and_without_drafts() {
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    for toy in zoo::TOYS {
        let pair = (toy.build)();
        let models = (pair.target("t").unwrap(), pair.draft("d").unwrap());
        let tokens = |drafter: &str, k| {
            let spec = MethodSpec { sampling: greedy.clone(), ..spec(drafter, k) };
            run(&models, &spec, &[0, 1, 0], StopRules::max_tokens(60), None).tokens
        };
        let plain = tokens("none", 1);
        for k in 1..5 {
            assert_eq!(tokens("model", k), plain, "{} K = {k}", toy.name);
            assert_eq!(tokens("prompt_lookup", k), plain, "{} K = {k}", toy.name);
        }
    }
}

#[test]
fn completions_with_end_tokens_have_the_target_distribution() {
    let pair = zoo::toy("close").unwrap();
    let (target, draft) = (pair.target("close").unwrap(), pair.draft("close").unwrap());
    let sampler = Sampler::new(SamplingParams::default()).unwrap();
    let mut ended = JointDistribution::new();
    for (completion, p) in target_distribution(&target, &sampler, &[0], 5).unwrap() {
        let end = completion.iter().position(|&t| t == 2).map_or(5, |at| at + 1);
        *ended.entry(completion[..end].to_vec()).or_insert(0.0) += p;
    }
    for drafter in DRAFTERS {
        let tools = Tools { draft: Some(&draft), target: Some(&target), texts: None };
        let method = spec(drafter.name, 2).build_with(tools).unwrap();
        let stop = StopRules { eos: vec![2], ..StopRules::max_tokens(5) };
        let generation = Generation::new(&target, method, &[0], stop, None).unwrap();
        let found = enumerate(&target, generation, &mut []).unwrap();
        assert!(Gap::between(&found.dist, &ended).is_zero(), "{}", drafter.name);
    }
}

#[test]
fn a_prompt_that_cannot_be_continued_is_refused() {
    let models = cycle(3);
    let refuse = |prompt: &[Token]| {
        let method = spec("model", 2).build(Some(&models.1)).unwrap();
        let stop = StopRules::max_tokens(4);
        Generation::new(&models.0, method, prompt, stop, None).unwrap_err().to_string()
    };
    assert!(refuse(&[]).contains("empty"));
    assert!(refuse(&[0, 7]).contains("token 7"));
    assert!(refuse(&vec![0; 1024]).contains("1024 tokens"));
}

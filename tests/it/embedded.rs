//! The model pair that ships with the project: its sizes, and the same text with and
//! without speculation.

use std::path::Path;

use specdec::checkpoint::{Catalog, load};
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::distribution::Token;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::method::draft::{DRAFTERS, Tools};
use specdec::method::length::LENGTHS;
use specdec::model::{Loaded, Role, check_pair};
use specdec::run::experiment::divergence;
use specdec::run::prompt::{Question, read};

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pair() -> (Loaded, Loaded) {
    let catalog = Catalog::near(home());
    let open = |name, role| load(catalog.model(name).unwrap(), role).unwrap();
    (open("embedded-target", Role::Target), open("embedded-draft", Role::Draft))
}

fn all_prompts() -> Vec<Question> {
    ["code", "docs", "edits"]
        .iter()
        .flat_map(|set| read(&home().join(format!("configs/prompts/{set}.jsonl"))).unwrap())
        .collect()
}

#[test]
fn the_embedded_pair_has_the_expected_vocabulary_and_sizes() {
    let (target, draft) = pair();
    let (t, d) = (target.model.info(), draft.model.info());
    check_pair((t, &*target.codec), (d, &*draft.codec)).unwrap();
    assert_eq!(t.vocab, 4096);
    assert!((8_000_000..=14_000_000).contains(&t.parameters), "{}", t.parameters);
    assert!(t.bytes_per_token >= 12 * d.bytes_per_token);
    let size = |folder: &str| {
        std::fs::read_dir(home().join("models").join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum::<u64>()
    };
    assert!(size("target") + size("draft") <= 32_000_000);
}

/// Tokens per generation: enough for several rounds of every draft length.
const TOKENS: usize = 24;

#[test]
fn speculative_greedy_equals_plain_greedy_up_to_rare_ties() {
    let (target, draft) = pair();
    let text_of = |prompt: &[Token], drafter: &str, k: usize| -> Vec<Token> {
        let spec = MethodSpec {
            drafter: drafter.to_owned(),
            num_speculative_tokens: k,
            sampling: SamplingParams { temperature: 0.0, ..Default::default() },
            ..MethodSpec::default()
        };
        let method = spec.build(Some(&*draft.model)).unwrap();
        let stop = StopRules::max_tokens(TOKENS);
        let mut generation = Generation::new(&*target.model, method, prompt, stop, None).unwrap();
        let mut chance = Seeded::new(Request { seed: 1, prompt: "", repeat: 0 });
        let clock = RealClock::default();
        generate(&mut generation, &*target.model, &mut chance, &clock, &mut NoObserver).unwrap();
        generation.new_tokens().to_vec()
    };
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let greedy = Sampler::new(greedy).unwrap();
    let mut ties = Vec::new();
    for prompt in all_prompts() {
        let tokens = target.codec.encode(&prompt.asked.turns[0]).unwrap();
        let plain = text_of(&tokens, "none", 0);
        for (drafter, k) in [1, 2, 3, 4, 6, 8]
            .map(|k| ("model", k))
            .into_iter()
            .chain([("prompt_lookup", 4), ("prompt_lookup", 8)])
        {
            let text = text_of(&tokens, drafter, k);
            let Some(at) = divergence::first(&plain, &text) else { continue };
            let row =
                divergence::explain(&*target.model, &greedy, &tokens, &plain, &text, at).unwrap();
            assert!(row.tie, "{} {drafter} K = {k}: not a tie: {row:?}", prompt.id);
            ties.push(format!("{} {drafter} K = {k}: token {at}, {row:?}", prompt.id));
        }
    }
    // Ties are rare; more than a few would suggest that the bound hides a mistake.
    assert!(ties.len() <= 8, "of 384 texts these differ by a tie: {ties:#?}");
}

#[test]
fn coupled_noise_gives_the_same_completion_for_all_methods() {
    let (target, draft) = pair();
    let text_of = |prompt: &[Token], drafter: &str, length: &str, k: usize| -> Vec<Token> {
        let spec = MethodSpec {
            drafter: drafter.to_owned(),
            verifier: "gumbel".to_owned(),
            length: length.to_owned(),
            num_speculative_tokens: k,
            ..MethodSpec::default()
        };
        let tools = Tools { draft: Some(&*draft.model), target: Some(&*target.model), texts: None };
        let method = spec.build_with(tools).unwrap();
        let stop = StopRules::max_tokens(TOKENS);
        let mut generation = Generation::new(&*target.model, method, prompt, stop, None).unwrap();
        let mut chance = Seeded::new(Request { seed: 8, prompt: "path", repeat: 0 });
        let clock = RealClock::default();
        generate(&mut generation, &*target.model, &mut chance, &clock, &mut NoObserver).unwrap();
        generation.new_tokens().to_vec()
    };
    for prompt in all_prompts().iter().step_by(12) {
        let tokens = target.codec.encode(&prompt.asked.turns[0]).unwrap();
        let plain = text_of(&tokens, "none", "fixed", 0);
        let fixed = DRAFTERS.iter().flat_map(|d| [1, 4].map(|k| (d.name, "fixed", k)));
        // The draft model estimates no acceptance.
        let others = LENGTHS.iter().filter(|length| length.name != "confidence_head");
        let others = others.map(|length| ("model", length.name, 6));
        for (drafter, length, k) in fixed.chain(others) {
            let text = text_of(&tokens, drafter, length, k);
            assert_eq!(text, plain, "{}: {drafter}, {length}, K = {k}", prompt.id);
        }
    }
}

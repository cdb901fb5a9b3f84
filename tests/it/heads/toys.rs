//! Toy heads: their distributions are the draft model's only if all that they read belongs together.

use specdec::core::chance::{Request, Seeded};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::core::registry::Class;
use specdec::core::round::RoundEvent;
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, Observer, StopRules, generate};
use specdec::method::draft::Tools;
use specdec::method::verify::VERIFIERS;
use specdec::model::{LanguageModel, ToyDrafts, ToyPair, block_text, zoo};
use specdec::proof::{Gap, enumerate, target_distribution};

use super::history::{Content, DRAFTERS, content, histories, still};
use crate::fixtures::seeded;

/// The drafts of a generation, and its tokens.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Drafted(Vec<Content>);

impl Observer for Drafted {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0.push(content(event.draft));
        Ok(())
    }
}

/// The draft of a pair as a drafter of blocks, and behind masks.
fn blocks(pair: &ToyPair) -> [Box<dyn LanguageModel>; 2] {
    let kinds = [ToyDrafts::Block, ToyDrafts::Parallel];
    kinds.map(|kind| pair.clone().drafting_with(kind).drafter("toy").unwrap())
}

/// The draft of a pair as a head, and as the target's first layers.
fn heads(pair: &ToyPair) -> [Box<dyn LanguageModel>; 2] {
    let kinds = [ToyDrafts::Head, ToyDrafts::FirstLayers];
    kinds.map(|kind| pair.clone().drafting_with(kind).drafter("toy").unwrap())
}

pub(super) fn drafted(
    [target, draft]: [&dyn LanguageModel; 2],
    spec: &MethodSpec,
    prompt: &[Token],
) -> (Vec<Token>, Drafted) {
    let tools = Tools { draft: Some(draft), target: Some(target), texts: None };
    let method = spec.build_with(tools).unwrap();
    let stop = StopRules::max_tokens(24);
    let mut generation = Generation::new(target, method, prompt, stop, None).unwrap();
    let mut chance = Seeded::new(Request { seed: 5, prompt: "toy", repeat: 0 });
    let mut seen = Drafted::default();
    generate(&mut generation, target, &mut chance, &still(), &mut seen).unwrap();
    (generation.new_tokens().to_vec(), seen)
}

/// Catches: a wrong tap, a wrong row after a partial acceptance, rows of rejected tokens, own rows
/// kept after acceptance, a wrong position, the states of another parent; an early exit from which
/// the layers above continue with the state of another row.
#[test]
fn toy_heads_draft_what_the_draft_model_does() {
    for number in 0..40 {
        let pair = zoo::random(number);
        let (target, draft) = (pair.target("toy").unwrap(), pair.draft("toy").unwrap());
        let others = heads(&pair);
        let prompt = [&[0, 1][..], &pair.prompt].concat();
        for (drafter, settings) in DRAFTERS {
            let spec = crate::asking::spec(drafter, 1 + number as usize % 4, settings);
            if spec.validate().is_err() {
                continue;
            }
            let model = drafted([&target, &draft], &spec, &prompt);
            for other in &others {
                let drafted = drafted([&target, &**other], &spec, &prompt);
                assert!(drafted == model, "{drafter} on pair {number}");
            }
            assert!(drafter == "hybrid" || model.1.0.iter().any(|draft| !draft.is_empty()));
        }
    }
}

/// Catches: the first drafts after a prompt of one token use a row that is not there.
#[test]
fn a_head_abstains_after_a_single_token() {
    let pair = zoo::toy("mixed").unwrap();
    let (target, [head, _]) = (pair.target("toy").unwrap(), heads(&pair));
    let (tokens, Drafted(drafts)) = drafted([&target, &*head], &MethodSpec::default(), &[0]);
    assert!(drafts[0].is_empty() && drafts[1..].iter().any(|draft| !draft.is_empty()));
    assert_eq!(tokens.len(), 24);
}

/// The distribution at a depth is that of the draft model with masks for the tokens before the last
/// one, and what is drafted above it is none of the rest's business.
#[test]
fn toy_blocks_draft_what_their_text_says() {
    for number in 0..20 {
        let pair = zoo::random(number);
        let (target, draft) = (pair.target("toy").unwrap(), pair.draft("toy").unwrap());
        let prompt = [&[0, 1][..], &pair.prompt].concat();
        for (block, markov) in blocks(&pair).iter().zip([true, false]) {
            let tools = Tools { draft: Some(&**block), target: Some(&target), texts: None };
            let method = crate::asking::spec("model", 4, &[]).build_with(tools).unwrap();
            let stop = StopRules::max_tokens(24);
            let mut generation = Generation::new(&target, method, &prompt, stop, None).unwrap();
            generation.prefill(&target, &still()).unwrap();
            let mut chance = Seeded::new(Request { seed: 6, prompt: "block", repeat: 0 });
            let drafted = generation.propose(&mut chance, &still()).unwrap().draft;
            assert_eq!(drafted.len(), 4);
            for (depth, node) in drafted.nodes().iter().enumerate() {
                let before = drafted.nodes()[..depth].iter().map(|node| node.token);
                let text = block_text(&prompt, &before.collect::<Vec<_>>(), markov);
                let expected = draft.logits(&text).unwrap().iter().map(|logit| logit.exp());
                let found = node.distribution(drafted.vocab());
                for (token, expected) in expected.enumerate() {
                    crate::fixtures::near(found.p(token as Token), expected);
                }
            }
        }
    }
}

#[test]
fn toy_predictors_do_not_depend_on_history() {
    let mut rng = seeded(48);
    for number in 0..12 {
        let pair = zoo::random(number);
        let (target, draft) = (pair.target("toy").unwrap(), pair.draft("toy").unwrap());
        for greedy in [false, true] {
            histories([&target, &draft], greedy, &mut rng);
            for other in heads(&pair).into_iter().chain(blocks(&pair)) {
                histories([&target, &*other], greedy, &mut rng);
            }
        }
    }
}

/// Every verifier with every drafter that reads a predictor: the joint distribution of completions
/// is the target's, with a head, an early exit, a block and masks.
#[test]
fn completions_after_toy_heads_have_the_targets_distribution() {
    let mut enumerated = 0;
    for name in ["mixed", "gaps", "binary"] {
        let pair = zoo::toy(name).unwrap();
        let target = pair.target(name).unwrap();
        let sampler = Sampler::new(SamplingParams::default()).unwrap();
        let prompt = [0, 1];
        let tokens = 4;
        let expected = target_distribution(&target, &sampler, &prompt, tokens).unwrap();
        for verifier in VERIFIERS.iter().filter(|entry| entry.build.class == Class::D) {
            for (drafter, settings) in DRAFTERS {
                for model in heads(&pair).iter().chain(&blocks(&pair)) {
                    let spec = MethodSpec {
                        verifier: verifier.name.to_owned(),
                        ..crate::asking::spec(drafter, 2, settings)
                    };
                    let tools = Tools { draft: Some(&**model), target: Some(&target), texts: None };
                    let Ok(method) = spec.build_with(tools) else { continue };
                    let stop = StopRules::max_tokens(tokens);
                    let generation = Generation::new(&target, method, &prompt, stop, None);
                    let found = enumerate(&target, generation.unwrap(), &mut []).unwrap();
                    let gap = Gap::between(&found.dist, &expected);
                    assert!(gap.is_zero(), "{name}, {}, {drafter}: {gap:?}", verifier.name);
                    enumerated += 1;
                }
            }
        }
    }
    assert!(enumerated > 100, "{enumerated}");
}

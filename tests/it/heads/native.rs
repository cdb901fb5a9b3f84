//! Heads on the native engine: history, batches, beams, class P, and what they share.

use std::path::Path;

use specdec::checkpoint::pair::Pair;
use specdec::core::chance::{Request, Seeded};
use specdec::core::distribution::Token;
use specdec::method::decode::{
    Generation, MethodSpec, NoObserver, Sequence, StopRules, generate, generate_together, prefill,
};
use specdec::method::draft::Tools;
use specdec::model::{LanguageModel, ModelInputs};

use super::history::{DRAFTERS, histories, still};
use super::parity::{CASES, pair_of, text};
use super::toys::Drafted;
use crate::asking::spec;
use crate::fixtures::seeded;

fn models(pair: &Pair) -> [&dyn LanguageModel; 2] {
    [&*pair.target.model, pair.draft_model().unwrap()]
}

/// Catches: stale, missed or double rows; states of another parent; taps of the wrong row after a
/// rejection, in a tree or after a shared prompt; rows of a head that depend on the pass.
#[test]
fn rows_of_heads_do_not_depend_on_history() {
    let mut rng = seeded(48);
    for (number, case) in CASES.iter().enumerate() {
        let pair = pair_of(case);
        histories(models(&pair), number % 2 == 1, &mut rng);
    }
}

/// Requests of a pair, which begin alike in part.
fn requests(vocab: usize) -> Vec<Vec<Token>> {
    let prompt = |n: usize| (0..2 + n * 5 % 17).map(move |i| ((i * i + n / 3) % vocab) as Token);
    (0..8).map(|n| prompt(n).collect()).collect()
}

fn generation<'a>(
    [target, draft]: [&'a dyn LanguageModel; 2],
    spec: &MethodSpec,
    prompt: &[Token],
) -> Generation<'a> {
    let tools = Tools { draft: Some(draft), target: Some(target), texts: None };
    let method = spec.build_with(tools).unwrap();
    Generation::new(target, method, prompt, StopRules::max_tokens(20), None).unwrap()
}

fn chance(number: usize) -> Seeded {
    Seeded::new(Request { seed: 9, prompt: &format!("request {number}"), repeat: 0 })
}

/// Catches: passes of a head that mix up sequences; prompts that are shared without their taps.
#[test]
fn a_request_has_the_same_drafts_alone_and_among_others() {
    let cases =
        ["eagle3_plain", "mtp_one_layer", "medusa", "dspark_rnn", "dflash_window", "peagle"];
    for case in cases {
        let pair = pair_of(case);
        let models = models(&pair);
        let prompts = requests(models[0].info().vocab);
        for (drafter, settings) in DRAFTERS {
            let spec = spec(drafter, 3, settings);
            if spec.validate().is_err() {
                continue;
            }
            let mut alone = Vec::new();
            for (number, prompt) in prompts.iter().enumerate() {
                let (mut one, mut seen) = (generation(models, &spec, prompt), Drafted::default());
                generate(&mut one, models[0], &mut chance(number), &still(), &mut seen).unwrap();
                alone.push((one.new_tokens().to_vec(), seen));
            }
            let mut open = Vec::<(Generation<'_>, Seeded, Drafted, _)>::new();
            for (number, prompt) in prompts.iter().enumerate() {
                let mut one = generation(models, &spec, prompt);
                one.share_with_one_of(open.iter_mut().map(|(other, ..)| other)).unwrap();
                let totals = prefill(&mut one, models[0], &still()).unwrap();
                open.push((one, chance(number), Drafted::default(), totals));
            }
            let sequence = |(one, chance, seen, totals)| Sequence::new(one, chance, seen, totals);
            let mut sequences = Vec::new();
            for (one, chance, seen, totals) in &mut open {
                sequences.push(sequence((one, chance, seen, totals)));
            }
            generate_together(&mut sequences, models[0], &still());
            assert!(sequences.iter().all(|one| matches!(one.end, Some(Ok(())))));
            drop(sequences);
            let shared =
                open.into_iter().map(|(one, _, seen, _)| (one.new_tokens().to_vec(), seen));
            assert!(shared.eq(alone), "{case}, {drafter}");
        }
    }
}

/// Catches: a head that changes what the target computes, or tokens after a head that depend on it.
#[test]
fn greedy_and_seeded_sequences_are_those_of_plain_decoding() {
    let mut compared = 0;
    let exits = EXITS.map(|(target, layers)| (format!("{target}:{layers}"), exit(target, layers)));
    let pairs = CASES.map(|case| (case.to_owned(), pair_of(case)));
    for (case, pair) in exits.iter().chain(&pairs) {
        let models = models(pair);
        let vocab = models[0].info().vocab;
        for (drafter, settings) in DRAFTERS {
            for verifier in ["rejection", "greedy_multi", "gumbel"] {
                let mut spec =
                    MethodSpec { verifier: verifier.to_owned(), ..spec(drafter, 4, settings) };
                if verifier != "gumbel" {
                    spec.sampling.temperature = 0.0;
                }
                if spec.validate().is_err() {
                    continue;
                }
                let plain = MethodSpec { drafter: "none".to_owned(), ..spec.clone() };
                let plain = MethodSpec { params: Default::default(), ..plain };
                for (number, prompt) in requests(vocab).iter().enumerate().take(4) {
                    let tokens = |spec: &MethodSpec| {
                        let mut one = generation(models, spec, prompt);
                        let chance = &mut chance(number);
                        generate(&mut one, models[0], chance, &still(), &mut NoObserver).unwrap();
                        one.new_tokens().to_vec()
                    };
                    assert_eq!(tokens(&spec), tokens(&plain), "{case}, {drafter}, {verifier}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 1000, "{compared}");
}

/// Catches: verification that continues from the state of another token, or a row of the first
/// layers that counts as complete.
#[test]
fn an_early_exit_changes_no_bit_of_the_target() {
    let mut rng = seeded(49);
    for (target, layers) in EXITS {
        let pair = exit(target, layers);
        let models = models(&pair);
        for greedy in [false, true] {
            histories(models, greedy, &mut rng);
        }
    }
}

/// Targets and the layers after which they draft. The last two layers of the smaller Gemma 4 share
/// the keys and values of two before them.
const EXITS: [(&str, usize); 7] = [
    ("heads/llama", 1),
    ("heads/llama", 4),
    ("heads/llama", 6),
    ("families/gemma4_small", 1),
    ("families/gemma4_small", 4),
    ("families/gemma4_small", 5),
    ("families/gemma4_large", 2),
];

fn exit(target: &str, layers: usize) -> Pair {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(target);
    let target = Pair::load(text(&folder)).unwrap();
    target.with_draft(format!("target:exit={layers}")).unwrap()
}

#[test]
fn a_head_shares_the_tables_of_its_target() {
    let pair = pair_of("eagle3_plain");
    let [_, head] = models(&pair).map(LanguageModel::info);
    let note = head.note.as_deref().unwrap();
    let says = "reads the target's states after 2 layers, after 3 layers, after 4 layers; shares \
                the target's embedding";
    assert!(note.contains(says), "{note}");
    assert!(matches!(head.inputs, ModelInputs::Features(_)));
    // Its own weights alone: those of its file, in which the embedding is missing.
    assert_eq!(head.parameters, 14_464);
}

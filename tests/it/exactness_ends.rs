//! Completions with end tokens: an end token inside a draft ends the completion, and completions of
//! every length have the target's distribution.

use specdec::core::params::{Params, Value};
use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::verify::Rule;
use specdec::model::{LanguageModel, Toy, ToyPair, zoo};
use specdec::proof::{ChainCase, Gap, enumerate, replay, target_distribution};

const PROMPT: &[u32] = &[0, 1, 0];

/// A toy whose last token is an end token.
fn ending(name: &str) -> (Toy, Toy) {
    let mut pair = zoo::toy(name).unwrap();
    pair.eos = vec![pair.vocab as u32 - 1];
    (pair.target("target").unwrap(), pair.draft("draft").unwrap())
}

fn spec(verifier: &str, drafter: &str, k: usize) -> MethodSpec {
    let tree = Params::default().with("tree", Value::Text("2,1".to_owned()));
    MethodSpec {
        drafter: drafter.to_owned(),
        verifier: verifier.to_owned(),
        num_speculative_tokens: k,
        params: if drafter == "model_tree" { tree } else { Params::default() },
        ..MethodSpec::default()
    }
}

fn generation<'a>(
    (target, draft): &'a (Toy, Toy),
    spec: &MethodSpec,
    tokens: usize,
) -> Generation<'a> {
    let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(tokens) };
    Generation::new(target, spec.build(Some(draft)).unwrap(), PROMPT, stop, None).unwrap()
}

fn neutral() -> Sampler {
    Sampler::new(SamplingParams::default()).unwrap()
}

#[test]
fn the_distribution_with_end_tokens_follows_from_the_tables() {
    let pair = zoo::toy("close").unwrap();
    let dist = target_distribution(&ending("close").0, &neutral(), PROMPT, 3).unwrap();
    // One completion ends after one token, two after two, and four prefixes reach a third token.
    assert_eq!(dist.len(), 1 + 2 + 4 * 3);
    assert_eq!(dist[&vec![2]], pair.target["1,0"][2]);
    let ended = pair.target["1,0"][1] * pair.target["0,1"][2];
    assert!((dist[&vec![1, 2]] - ended).abs() < 1e-15);
    assert!((dist.values().sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn methods_keep_the_target_distribution_with_end_tokens() {
    for toy in ["close", "mixed", "gaps"] {
        let models = ending(toy);
        for (verifier, drafter) in [
            ("rejection", "model"),
            ("token_match", "model"),
            ("traversal", "model"),
            ("rejection", "model_tree"),
            ("traversal", "model_tree"),
            ("rejection", "prompt_lookup"),
        ] {
            let spec = spec(verifier, drafter, 2);
            let found = enumerate(&models.0, generation(&models, &spec, 5), &mut []).unwrap();
            let expected = target_distribution(&models.0, &neutral(), PROMPT, 5).unwrap();
            assert!(Gap::between(&found.dist, &expected).is_zero(), "{toy} {verifier} {drafter}");
            let lengths =
                found.dist.keys().map(Vec::len).collect::<std::collections::BTreeSet<_>>();
            assert_eq!(lengths, (1..=5).collect(), "completions of every length must occur");
        }
    }
}

#[test]
fn replay_and_enumeration_agree_with_end_tokens() {
    let models = ending("close");
    for verifier in ["rejection", "traversal"] {
        let spec = spec(verifier, "model", 2);
        let walked = enumerate(&models.0, generation(&models, &spec, 4), &mut []).unwrap();
        let whole = replay(&models.0, &generation(&models, &spec, 4)).unwrap();
        assert!(Gap::between(&walked.dist, &whole.dist).is_zero(), "{verifier}");
    }
}

#[test]
fn a_round_emits_nothing_after_an_end_token() {
    let models = ending("close");
    let sampler = neutral();
    let chain = ChainCase {
        target: &models.0,
        target_sampler: &sampler,
        draft: &models.1,
        draft_sampler: &sampler,
        prompt: PROMPT,
    };
    let rules =
        [("rejection", Rule::Rejection), ("token_match", Rule::Match), ("traversal", Rule::Block)];
    for (verifier, rule) in rules {
        for k in 1..=4 {
            let spec = spec(verifier, "model", k);
            let found = enumerate(&models.0, generation(&models, &spec, k + 1), &mut []).unwrap();
            let expected = chain.expected_emitted(rule, k).unwrap();
            assert!((found.tally.first_emitted - expected).abs() < 1e-12, "{verifier} {k}");
            // An end token that is accepted counts, and no token follows it.
            let accepted = found.tally.first_accepted;
            assert!(expected < accepted + 1.0, "some rounds are cut short");
            // Tokens behind it would count here.
            let without_ends = chain.expected_accepted(rule, k).unwrap();
            assert!(k == 1 || accepted < without_ends, "{verifier} {k}");
        }
    }
}

#[test]
fn end_tokens_of_a_toy_are_checked_and_change_its_checksum() {
    let json = |eos: &str| {
        format!(
            r#"{{"vocab": 2, "order": 0, "target": {{"": [0.5, 0.5]}},
            "draft": {{"": [0.5, 0.5]}}, "prompt": [0]{eos}}}"#
        )
    };
    let pair = |eos: &str| ToyPair::from_json("t", &json(eos)).unwrap();
    let (plain, ends) = (pair(""), pair(r#", "eos": [1]"#));
    let (plain, ends) = (plain.target("t").unwrap(), ends.target("t").unwrap());
    assert_eq!((plain.info().eos.len(), &ends.info().eos[..]), (0, &[1][..]));
    assert_ne!(plain.info().sha256, ends.info().sha256);
    let error = pair(r#", "eos": [2]"#).target("t").unwrap_err().to_string();
    assert_eq!(error, "toy model t: the end token 2 does not exist: tokens are 0 to 1");
    let nothing =
        r#"{"vocab": 0, "order": 0, "target": {}, "draft": {}, "prompt": [], "eos": [0]}"#;
    let error = ToyPair::from_json("t", nothing).unwrap().target("t").unwrap_err().to_string();
    assert_eq!(error, "toy model t: vocab is 0, but must be at least 1");
}

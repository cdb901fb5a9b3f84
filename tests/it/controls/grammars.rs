//! Grammars for real tokenizers: masks against the words of a language, and texts with and without
//! drafts.

use std::collections::BTreeMap;
use std::path::Path;

use rand::Rng;
use specdec::checkpoint::pair::Pair;
use specdec::core::chance::{Request, Seeded};
use specdec::core::clock::RealClock;
use specdec::core::sampling::{
    Controls, Grammar, GrammarKind, History, Logits, Sampler, SamplingParams,
};
use specdec::method::controls::{ControlRequest, GrammarCompiler};
use specdec::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use specdec::method::draft::Tools;

use crate::asking::spec;
use crate::fixtures::seeded;

/// Words with beginnings in common, and with several encodings.
const WORDS: [&str; 5] = ["yes!", "yesterday", "no!", "maybe so!", "ünï"];
const SCHEMA: &str = r#"{"x-guidance": {"whitespace_flexible": false}, "type": "object",
    "properties": {"name": {"enum": ["ann", "bob"]}, "ages": {"type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3}},
    "required": ["name", "ages"], "additionalProperties": false}"#;

fn embedded() -> Pair {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let [target, draft] = ["target", "draft"].map(|name| models.join(name));
    Pair::load(target.to_str().unwrap()).unwrap().with_draft(draft.to_str().unwrap()).unwrap()
}

fn compiled(pair: &Pair, written: (GrammarKind, &str)) -> Grammar {
    let target = &pair.target;
    GrammarCompiler::default().compile(written, &*target.codec, target.model.info()).unwrap()
}

fn words() -> (GrammarKind, &'static str) {
    (GrammarKind::Regex, "yes!|yesterday|no!|maybe so!|ünï")
}

/// The tokens that a grammar leaves after a completion.
fn possible(grammar: &Grammar, pair: &Pair, completion: &[u32]) -> Vec<u32> {
    let set = specdec::core::sampling::ControlSet {
        grammar: Some(grammar.clone()),
        ..Default::default()
    };
    let params = SamplingParams { controls: set.into(), ..SamplingParams::default() };
    let logits = Logits::F32(vec![0.0; pair.target.model.info().vocab]);
    let history = History { prompt_len: 0, context: completion, drafted: &[] };
    let scores = Sampler::new(params).unwrap().scores(&logits, history).unwrap().into_owned();
    (0..scores.len() as u32).filter(|&token| scores.get(token) == 0.0).collect()
}

/// Catches: tokens that break a word or that begin none; an end token before a word is complete;
/// ends but the first; masks that depend on what was asked before.
#[test]
fn masks_leave_what_continues_a_word() {
    let pair = embedded();
    let target = &pair.target;
    let ends = target.model.info().eos.clone();
    let spellings = target.codec.spellings().unwrap();
    let bytes = |tokens: &[u32]| {
        let of = |token: &u32| spellings[*token as usize].as_ref().unwrap().bytes().to_vec();
        tokens.iter().flat_map(of).collect::<Vec<_>>()
    };
    let shared = compiled(&pair, words());
    let (mut rng, mut walked) = (seeded(50), BTreeMap::new());
    for _ in 0..12 {
        let mut completion = Vec::<u32>::new();
        loop {
            let before = bytes(&completion);
            let continues = |token: u32| match spellings
                .get(token as usize)
                .and_then(Option::as_ref)
            {
                _ if ends.contains(&token) => WORDS.iter().any(|word| word.as_bytes() == before),
                Some(spelling) if !spelling.bytes().is_empty() => {
                    let longer = [&before, spelling.bytes()].concat();
                    WORDS.iter().any(|word| word.as_bytes().starts_with(&longer))
                }
                _ => false,
            };
            let vocab = target.model.info().vocab as u32;
            let expected = (0..vocab).filter(|&token| continues(token)).collect::<Vec<_>>();
            assert_eq!(possible(&shared, &pair, &completion), expected, "{completion:?}");
            walked.insert(completion.clone(), expected.clone());
            let next = expected[rng.next_u32() as usize % expected.len()];
            if ends.contains(&next) {
                break;
            }
            completion.push(next);
        }
    }
    assert!(walked.len() > 20, "{}", walked.len());
    // In another order, and by rules that were asked nothing else.
    for (completion, expected) in walked.iter().rev() {
        assert_eq!(&possible(&shared, &pair, completion), expected);
    }
    let fresh = compiled(&pair, words());
    let (completion, expected) = walked.iter().next_back().unwrap();
    assert_eq!(&possible(&fresh, &pair, completion), expected);
    // What follows a broken word, or an end, is never reached.
    let all = target.model.info().vocab;
    assert_eq!(possible(&shared, &pair, &[ends[0]]).len(), all);
    assert_eq!(possible(&shared, &pair, &[300, 300, 300, 300, 300, 300]).len(), all);
}

fn controls(pair: &Pair, request: &ControlRequest) -> Controls {
    let target = &pair.target;
    let compiler = GrammarCompiler::default();
    request.controls(&*target.codec, target.model.info(), &compiler).unwrap()
}

fn requests() -> Vec<ControlRequest> {
    let none = ControlRequest::default();
    let bias = BTreeMap::from([("14".to_owned(), 3.0), ("15".to_owned(), -5.0)]);
    vec![
        ControlRequest { json_schema: Some(SCHEMA.to_owned()), ..none.clone() },
        ControlRequest {
            regex: Some("[a-z ]{3,30}[.!]".to_owned()),
            min_tokens: 4,
            ..none.clone()
        },
        ControlRequest {
            lark: Some("start: (\"(\" start \")\" | \"x\")+".to_owned()),
            logit_bias: bias.clone(),
            ..none.clone()
        },
        ControlRequest {
            bad_words: vec!["the".to_owned(), "a".to_owned()],
            logit_bias: bias,
            ..none
        },
    ]
}

/// A completion up to its end, as tokens and as text.
fn completion(pair: &Pair, method: &MethodSpec, seed: u64) -> (Vec<u32>, String) {
    let (target, codec) = (&*pair.target.model, &*pair.target.codec);
    let tools = Tools { draft: pair.draft_model(), target: Some(target), texts: None };
    let (text, method) = ("fn main() { let names = ", method.build_with(tools).unwrap());
    let stop = StopRules { eos: target.info().eos.clone(), ..StopRules::max_tokens(60) };
    let prompt = codec.encode(text).unwrap();
    let mut own = Generation::new(target, method, &prompt, stop, Some(codec)).unwrap();
    let mut chance = Seeded::new(Request { seed, prompt: text, repeat: 0 });
    generate(&mut own, target, &mut chance, &RealClock::default(), &mut NoObserver).unwrap();
    (own.new_tokens().to_vec(), own.text().to_owned())
}

/// Catches: a mask that a draft changes: a row without one, or with that of a rejected draft.
#[test]
fn controlled_texts_are_the_same_with_and_without_drafts() {
    let pair = embedded();
    for request in requests() {
        let controls = controls(&pair, &request);
        for (temperature, verifier) in [(0.0, "rejection"), (0.8, "gumbel")] {
            let sampling = SamplingParams {
                temperature,
                controls: controls.clone(),
                ..SamplingParams::default()
            };
            let method = |drafter: &str, params: &[(&str, &str)]| MethodSpec {
                verifier: verifier.to_owned(),
                sampling: sampling.clone(),
                ..spec(drafter, 4, params)
            };
            for seed in 0..3 {
                let plain = completion(&pair, &method("none", &[]), seed);
                for (drafter, params) in [
                    ("model", &[][..]),
                    ("model", &[("draft_controls", "0")]),
                    ("model_tree", &[("tree", "2,2,1")]),
                    ("prompt_lookup", &[]),
                    ("ngram_lm", &[]),
                ] {
                    let found = completion(&pair, &method(drafter, params), seed);
                    assert_eq!(
                        found, plain,
                        "{drafter}, {params:?}, T = {temperature}, {request:?}"
                    );
                }
            }
        }
    }
}

/// Catches: sampled texts outside of the grammar, with any verifier of sampled drafts.
#[test]
fn sampled_texts_follow_the_grammar() {
    let pair = embedded();
    let [schema, ..] = &requests()[..] else { panic!() };
    let controls = controls(&pair, schema);
    let mut names = std::collections::BTreeSet::new();
    for seed in 0..24 {
        let verifier = ["rejection", "traversal", "token_match"][seed as usize % 3];
        let own = ["0", "1"][seed as usize % 2];
        let sampling = SamplingParams { controls: controls.clone(), ..SamplingParams::default() };
        let method = MethodSpec {
            verifier: verifier.to_owned(),
            sampling,
            ..spec("model", 4, &[("draft_controls", own)])
        };
        let (_, text) = completion(&pair, &method, seed);
        let value = serde_json::from_str::<serde_json::Value>(&text).unwrap();
        names.insert(value["name"].as_str().unwrap().to_owned());
        assert!(value["ages"].as_array().unwrap().len() <= 3, "{value}");
    }
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn requests_that_make_no_sense_are_refused_by_key() {
    let pair = embedded();
    let none = ControlRequest::default();
    let text = |text: &str| Some(text.to_owned());
    for (request, words) in [
        (ControlRequest { regex: text("("), ..none.clone() }, "grammar regex: "),
        (ControlRequest { json_schema: text("{"), ..none.clone() }, "grammar json_schema: "),
        (ControlRequest { lark: text("start: x"), ..none.clone() }, "grammar lark: "),
        (
            ControlRequest { regex: text("a"), lark: text("start: \"a\""), ..none.clone() },
            "regex and lark are both set",
        ),
        (
            ControlRequest { allowed_token_ids: vec![4096], ..none.clone() },
            "allowed_token_ids: 4096 is no token of",
        ),
        (ControlRequest { stop_token_ids: vec![9999], ..none.clone() }, "stop_token_ids: 9999"),
        (ControlRequest { bad_words: vec![" ".to_owned()], ..none.clone() }, "bad_words: allowed"),
        (
            ControlRequest { logit_bias: BTreeMap::from([("x".to_owned(), 1.0)]), ..none.clone() },
            "logit_bias: \"x\": 1 is not allowed",
        ),
        (
            ControlRequest { logit_bias: BTreeMap::from([("1".to_owned(), 101.0)]), ..none },
            "a number from -100 to 100",
        ),
    ] {
        let target = &pair.target;
        let compiler = GrammarCompiler::default();
        let refused = request.controls(&*target.codec, target.model.info(), &compiler);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(words) && refused.lines().count() == 1, "{refused}");
    }
}

/// Catches: a pass of the draft model for a token that the grammar leaves alone.
#[test]
fn forced_tokens_need_no_pass_of_the_draft_model() {
    let pair = embedded();
    let letters = ["a", "b", "c"].map(|text| pair.target.codec.encode_part(text).unwrap()[0]);
    let ends = pair.target.model.info().eos.clone();
    // A token for each letter.
    let request = ControlRequest {
        regex: Some("ac{11}".to_owned()),
        allowed_token_ids: [&letters[..], &ends].concat(),
        ..ControlRequest::default()
    };
    let sampling = SamplingParams { controls: controls(&pair, &request), ..Default::default() };
    let forwards = |own: &str| {
        let method = spec("model", 4, &[("draft_controls", own)]);
        let method = MethodSpec { sampling: sampling.clone(), ..method };
        let found = pair.generate("abc", &method, 12, 5).unwrap();
        assert!(found.text.ends_with(&"c".repeat(11)), "{}", found.text);
        (found.totals.draft_forwards, found.totals.target_forwards)
    };
    // Rounds of five, five and two tokens.
    assert_eq!(forwards("1"), (0, 3));
    assert!(forwards("0").0 > 8);
}

//! Servers as models that report distributions: what each protocol sends, and the answers it takes.

use serde_json::{Value, json};
use specdec::core::distribution::Token;
use specdec::core::sampling::{History, Logits, Sampler, SamplingParams};
use specdec::core::tree::Draft;
use specdec::gather::{NamedServer, SERVER_APIS, ScoringServer, ScoringSettings};
use specdec::model::{LanguageModel, Want, Work, evaluate_one};

use crate::gather_support::{answer, canned, good};

/// A server with this vocabulary and number of log-probabilities; without a vocabulary, it reports
/// its size.
fn open(
    (url, api): (&str, &str),
    vocab: Option<usize>,
    logprobs: Option<usize>,
) -> Result<ScoringServer, String> {
    let api = SERVER_APIS.iter().find(|known| known.name == api).unwrap();
    let (api_key, rate) = (None, None);
    let server = NamedServer { url, api, api_key, model: Some("m"), concurrency: 1, rate };
    let scored = ScoringSettings { server, vocab, logprobs };
    scored.open().map_err(|error| format!("{error:#}"))
}

/// The rows after a context and after each token of a chain.
fn rows(server: &ScoringServer, context: &[Token], chain: &[Token]) -> Result<Vec<Logits>, String> {
    let mut draft = Draft::empty(server.info().vocab);
    let mut last = None;
    for &token in chain {
        last = Some(draft.certain(last, token));
    }
    let mut session = server.session().unwrap();
    let work = Work { session: &mut session, context, draft: &draft, want: Want::All };
    evaluate_one(server, work).map(|found| found.rows).map_err(|error| error.to_string())
}

/// Log-probabilities of weights.
fn logs(weights: &[f64]) -> Vec<f64> {
    let sum = weights.iter().sum::<f64>();
    weights.iter().map(|weight| if *weight > 0.0 { (weight / sum).ln() } else { -9999.0 }).collect()
}

/// The log-probabilities of one prefix in an answer.
fn entry(api: &str, logs: &[(usize, f64)]) -> Value {
    match api {
        "vllm" | "openai" => {
            let named = logs.iter().map(|(id, log)| (format!("token_id:{id}"), json!(log)));
            json!({"logprobs": {"top_logprobs": [Value::Object(named.collect())]}})
        }
        "sglang" => {
            let top = logs.iter().map(|(id, log)| json!([log, id, null])).collect::<Vec<_>>();
            json!({"meta_info": {"output_top_logprobs": [top]}})
        }
        _ => {
            let top = logs.iter().map(|(id, log)| json!({"id": id, "logprob": log}));
            let top = top.collect::<Vec<_>>();
            json!({"completion_probabilities": [{"id": 0, "top_logprobs": top}]})
        }
    }
}

/// An answer with these entries, in the order of the prompts.
fn answered(api: &str, entries: &[Value]) -> String {
    match api {
        // In any order, as their indices say.
        "vllm" | "openai" => {
            let choice = |(index, entry): (usize, &Value)| {
                let mut choice = entry.clone();
                choice["index"] = json!(index);
                choice
            };
            let mut choices = entries.iter().enumerate().map(choice).collect::<Vec<_>>();
            choices.reverse();
            good(&json!({"choices": choices}))
        }
        "sglang" => good(&json!(entries)),
        _ => good(&entries[0]),
    }
}

fn all(weights: &[f64]) -> Vec<(usize, f64)> {
    logs(weights).into_iter().enumerate().collect()
}

/// What a server answers before any log-probabilities.
fn first(api: &str) -> Vec<String> {
    match api {
        "vllm" => vec![good(&json!({}))],
        "llama_cpp" => vec![good(&json!({"tokens": [7, 2]}))],
        _ => Vec::new(),
    }
}

/// An opened server of this kind with 3 tokens, which then gives these answers.
fn opened(api: &str, count: Option<usize>, answers: Vec<String>) -> ScoringServer {
    let (url, _) = canned([first(api), answers].concat());
    open((&url, api), Some(3), count).unwrap()
}

/// All protocols report the same distributions, each in its own form.
/// Catches: settings without a name are left to the server; answers are taken in the order in which
/// they come, or all after the context alone; an impossible token has a logit.
#[test]
fn servers_of_all_kinds_report_distributions() {
    let weights = [[1.0, 2.0, 5.0], [4.0, 0.0, 4.0]];
    for (api, reports_vocab, path, parts) in [
        (
            "vllm",
            true,
            "POST /v1/completions",
            json!({"prompt": [[2], [2, 1]], "max_tokens": 1,
            "logprobs": -1, "return_tokens_as_token_ids": true, "temperature": 1.0, "top_k": 0,
            "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "ignore_eos": true}),
        ),
        (
            "openai",
            false,
            "POST /v1/completions",
            json!({"prompt": [[2], [2, 1]],
            "max_tokens": 1, "logprobs": 3, "temperature": 1.0, "top_p": 1.0}),
        ),
        (
            "sglang",
            false,
            "POST /generate",
            json!({"input_ids": [[2], [2, 1]],
            "return_logprob": true, "top_logprobs_num": 3, "sampling_params": {
            "max_new_tokens": 1, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0}}),
        ),
        (
            "llama_cpp",
            true,
            "POST /completion",
            json!({"prompt": [2, 1], "n_predict": 1,
            "n_probs": 1 << 30, "post_sampling_probs": false, "logit_bias": [[2, 1e4]],
            "samplers": ["temperature"], "temperature": 1.0}),
        ),
    ] {
        let entries = weights.map(|weights| entry(api, &all(&weights)));
        let probe = reports_vocab.then(|| answered(api, &entries[..1]));
        let answers = match api {
            "llama_cpp" => {
                entries.iter().map(|one| answered(api, std::slice::from_ref(one))).collect()
            }
            _ => vec![answered(api, &entries)],
        };
        let (url, requests) = canned([first(api), probe.into_iter().collect(), answers].concat());
        let vocab = (!reports_vocab).then_some(3);
        let server = open((&url, api), vocab, None).unwrap();
        assert_eq!((server.info().vocab, server.is_partial()), (3, false), "{api}");
        let found = rows(&server, &[2], &[1]).unwrap();
        for (row, weights) in found.iter().zip(&weights) {
            for (token, log) in all(weights) {
                let logit = row.get(token as Token);
                let expected = if log < -9000.0 { f64::NEG_INFINITY } else { log };
                assert!(logit == expected || (logit - expected).abs() < 1e-6, "{api}: {row:?}");
            }
        }
        assert_eq!(found.len(), 2);
        let asked = requests.try_iter().last().unwrap();
        let (head, body) = asked.split_once('\n').unwrap();
        assert!(head.starts_with(path), "{head}");
        let body = serde_json::from_str::<Value>(body).unwrap();
        for (key, value) in parts.as_object().unwrap() {
            assert_eq!(&body[key], value, "{api}: {key} of {body}");
        }
    }
}

/// Long chains take several requests, whose distributions stay in order.
#[test]
fn distributions_stay_in_order() {
    let weights = (1..=20).map(|i| [f64::from(i), 1.0, 1.0]).collect::<Vec<_>>();
    let entries = weights.iter().map(|weights| entry("sglang", &all(weights))).collect::<Vec<_>>();
    let answers = entries.chunks(8).map(|entries| answered("sglang", entries)).collect();
    let found = rows(&opened("sglang", None, answers), &[0], &[1; 19]).unwrap();
    for (row, weights) in found.iter().zip(&weights) {
        assert!((row.get(0) - row.get(1) - weights[0].ln()).abs() < 1e-5);
    }
    assert_eq!(found.len(), 20);
}

/// The two most probable of four tokens give the distribution at top_k = 2 and nothing more. A
/// token that is not reported lies just below them, so it is a tie.
/// Catches: penalties are applied to a part, or to log-probabilities; a token that is not in the
/// part is impossible, or may be drawn; the drawn token counts as one of the most probable.
#[test]
fn a_partial_distribution_is_used_where_it_suffices() {
    let [first, second, third, _] = logs(&[5.0, 1.0, 3.0, 0.5])[..] else { unreachable!() };
    // The token that was drawn is reported, too.
    let more = entry("sglang", &[(1, second), (0, first), (2, third)]);
    let part = entry("sglang", &[(0, first), (2, third)]);
    let (url, _) = canned(vec![answered("sglang", &[more, part])]);
    let server = open((&url, "sglang"), Some(4), Some(2)).unwrap();
    assert!(server.is_partial());
    let top_k = |top_k| SamplingParams { top_k, ..SamplingParams::NEUTRAL };
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL };
    for fits in [top_k(1), top_k(2), greedy.clone(), SamplingParams { top_p: 0.5, ..top_k(2) }] {
        server.check(fits).unwrap();
    }
    for (other, why) in [
        (SamplingParams::NEUTRAL, "a top_k from 1 to 2, and no penalties"),
        (top_k(3), "leave out --logprobs"),
        (SamplingParams { presence_penalty: 0.1, ..top_k(2) }, "no penalties"),
        (SamplingParams { repetition_penalty: 1.1, ..top_k(2) }, "divides logits"),
    ] {
        let refused = server.check(other.clone()).unwrap_err().to_string();
        assert!(refused.contains(why) && refused.contains(&other.words()), "{refused}");
    }
    let found = rows(&server, &[0], &[1]).unwrap();
    assert!((found[0].get(1) - second).abs() < 1e-6);
    for below in [found[0].get(3), found[1].get(1), found[1].get(3)] {
        let gap = f64::from(third as f32) - below;
        assert!(gap > 0.0 && gap < 1e-3, "{gap}");
    }
    let history = History { prompt_len: 1, context: &[0], drafted: &[] };
    for row in &found {
        let dist = Sampler::new(top_k(2)).unwrap().distribution(row, history).unwrap();
        let p = [0, 1, 2, 3].map(|token| dist.p(token));
        assert!((p[0] - 0.625).abs() < 1e-6 && p[1] == 0.0 && p[3] == 0.0, "{p:?}");
    }
    // Whole distributions suffice, except for settings that need logits.
    let server = opened("sglang", None, Vec::new());
    server.check(SamplingParams { presence_penalty: 0.1, ..SamplingParams::NEUTRAL }).unwrap();
    assert!(server.check(SamplingParams { repetition_penalty: 1.1, ..greedy }).is_err());
}

/// Each malformed answer is refused in one sentence.
/// Catches: probabilities need not sum to 1.
#[test]
fn wrong_answers_are_refused() {
    let api = "sglang";
    let right = all(&[1.0, 2.0, 5.0]);
    let twice = [&right[..2], &right[1..2]].concat();
    let short = entry(api, &right[..2]);
    for (entries, why) in [
        (vec![entry(api, &right)], "reports 1 distributions of 2"),
        (
            vec![entry(api, &right), short],
            "the distribution after 3 tokens: it reports 2 log-probabilities of 3",
        ),
        (
            vec![entry(api, &twice), entry(api, &right)],
            "the distribution after 2 tokens: token 1 occurs twice",
        ),
        (vec![entry(api, &all(&[1.0; 4])); 2], "token 3 lies outside the vocabulary of 3 tokens"),
        (vec![entry(api, &[(0, -1.0), (1, -2.0), (2, -3.0)]); 2], "probabilities sum to 0.5530"),
        (vec![entry(api, &[(0, 0.5), (1, -2.0), (2, -3.0)]); 2], "probabilities sum to 1.8338"),
        (
            vec![entry(api, &[(0, f64::NAN), (1, -2.0), (2, -3.0)]); 2],
            "of the form [[logprob, id, text], …]",
        ),
        (vec![json!({"content": "a"}); 2], "it has no \"output_top_logprobs\""),
    ] {
        let server = opened(api, None, vec![answered(api, &entries)]);
        let refused = rows(&server, &[0, 1], &[2]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
        assert!(refused.starts_with("http://") && refused.contains("/generate"), "{refused}");
    }
    let server = opened("llama_cpp", None, vec![good(&json!({"content": "a"}))]);
    let refused = rows(&server, &[0], &[]).unwrap_err();
    assert!(refused.contains("it has no \"completion_probabilities\""), "{refused}");
    let server = opened("vllm", Some(1), vec![answered("vllm", &[entry("vllm", &[(0, 0.1)])])]);
    assert!(rows(&server, &[0], &[]).unwrap_err().contains("sum to 1.1052"));
    let texts = json!({"logprobs": {"top_logprobs": [{"a": -1.0}]}, "index": 0});
    let server = opened("vllm", None, vec![good(&json!({"choices": [texts]}))]);
    assert!(rows(&server, &[0], &[]).unwrap_err().contains("texts alone do not identify tokens"));
}

/// If a server does not report its whole vocabulary, the message says what to do.
#[test]
fn vocabularies_must_be_known() {
    let refused = open(("http://localhost:1", "sglang"), None, None).unwrap_err();
    assert!(refused.contains("the size of the vocabulary: name it with --vocab-size"), "{refused}");
    let (url, _) = canned(vec![good(&json!({})), answer(400, "logprobs is -1: allowed is 20")]);
    let refused = open((&url, "vllm"), None, None).unwrap_err();
    assert!(
        refused.contains("--max-logprobs -1") && refused.contains("allowed is 20"),
        "{refused}"
    );
    let gaps = answered("vllm", &[entry("vllm", &[(0, -1.0), (2, -1.0)])]);
    let (url, _) = canned(vec![good(&json!({})), gaps]);
    let refused = open((&url, "vllm"), None, None).unwrap_err();
    assert!(refused.contains("reports 2 log-probabilities where"), "{refused}");
    let made_up = "{\"speculative_config\": {\"rejection_sample_method\": \"synthetic\"}}";
    let (url, _) = canned(vec![answer(200, made_up)]);
    let refused = open((&url, "vllm"), None, None).unwrap_err();
    assert!(refused.contains("accepts drafts at random"), "{refused}");
}

/// The scoring server tokenizes the prompts.
#[test]
fn servers_encode_prompts() {
    for (api, answer, path, body) in [
        (
            "vllm",
            json!({"choices": [{"prompt_token_ids": [4, 5]}]}),
            "/v1/completions",
            json!({"model": "m", "prompt": "ab", "max_tokens": 1, "return_token_ids": true}),
        ),
        ("sglang", json!({"tokens": [4, 5]}), "/tokenize", json!({"prompt": "ab"})),
        (
            "llama_cpp",
            json!({"tokens": [4, 5]}),
            "/tokenize",
            json!({"content": "ab", "add_special": true}),
        ),
    ] {
        let (url, requests) = canned([first(api), vec![good(&answer), good(&json!({}))]].concat());
        let server = open((&url, api), Some(3), None).unwrap();
        assert_eq!(server.encode("ab").unwrap(), [4, 5]);
        let asked = requests.try_iter().last().unwrap();
        let (head, sent) = asked.split_once('\n').unwrap();
        assert!(head.contains(path), "{head}");
        assert_eq!(serde_json::from_str::<Value>(sent).unwrap(), body);
        assert!(format!("{:#}", server.encode("ab").unwrap_err()).contains("has no"));
    }
}

//! Completions gathered from servers, with answers as real servers write them.

use std::fs;
use std::path::Path;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};
use specdec::core::sampling::SamplingParams;
use specdec::gather::{Gathering, NamedServer, SERVER_APIS};
use specdec::tapes::recording::{SequenceLine, TapePrompt, read_external_sequences};

use crate::gather_support::{answer, canned, good};

/// Two prompts, with `repeats` completions of one token each, sampled at T = 0.7 and top_k = 3.
fn gather(
    (url, api): (&str, &str),
    repeats: u64,
    model: Option<&str>,
    file: &Path,
) -> Result<(), String> {
    let prompt =
        |id: &str, tokens| TapePrompt { id: id.to_owned(), category: String::new(), tokens };
    let gathering = Gathering {
        server: NamedServer {
            url,
            api: SERVER_APIS.iter().find(|known| known.name == api).unwrap(),
            api_key: Some("key"),
            model,
            concurrency: 1,
            rate: None,
        },
        prompts: &[prompt("one", vec![0, 1]), prompt("two", vec![3])],
        sampling: SamplingParams { temperature: 0.7, top_k: 3, ..SamplingParams::NEUTRAL },
        repeats,
        seed: 5,
        max_tokens: 1,
        vocab: 4,
    };
    gathering.run(file).map_err(|error| format!("{error:#}"))
}

/// The bodies of requests.
fn bodies(requests: &Receiver<String>) -> Vec<Value> {
    let body = |request: String| serde_json::from_str(request.split_once('\n').unwrap().1).ok();
    requests.try_iter().filter_map(body).collect()
}

fn lines(file: &Path) -> Vec<SequenceLine> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One completion of one token from a server of each kind.
/// Catches: completions are drawn with neutral settings.
#[test]
fn servers_of_all_kinds_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let named = json!({"choices": [{"finish_reason": "length",
        "logprobs": {"tokens": ["token_id:2"]}}]});
    let vllm = json!({"choices": [{"finish_reason": "stop", "token_ids": [2]}],
        "metrics": {"speculative_decoding": {"per_step_accepted": [0]}}});
    let sglang = json!({"output_ids": [2], "meta_info": {"finish_reason": {"type": "length"}}});
    let llama = json!({"tokens": [2], "stop_type": "limit"});
    for (api, answered, path, parts) in [
        (
            "vllm",
            vllm,
            "POST /v1/completions",
            json!({"prompt": [0, 1], "model": "m", "seed": 5,
            "max_tokens": 1, "temperature": 0.7, "top_k": 3, "top_p": 1.0, "min_p": 0.0,
            "repetition_penalty": 1.0, "return_token_ids": true}),
        ),
        (
            "sglang",
            sglang,
            "POST /generate",
            json!({"input_ids": [0, 1], "sampling_params": {
            "max_new_tokens": 1, "sampling_seed": 5, "temperature": 0.7, "top_k": 3.0}}),
        ),
        (
            "llama_cpp",
            llama,
            "POST /completion",
            json!({"prompt": [0, 1], "n_predict": 1,
            "seed": 5, "temperature": 0.7, "top_k": 3.0, "min_p": 0.0, "repeat_penalty": 1.0}),
        ),
        (
            "openai",
            named,
            "POST /v1/completions",
            json!({"prompt": [0, 1], "model": "m",
            "seed": 5, "temperature": 0.7, "top_k": 3.0}),
        ),
    ] {
        let file = folder.path().join(api);
        let listed = json!({"data": [{"id": "m"}, {"id": "other"}]});
        let first = match api {
            "vllm" => vec![good(&json!({})), good(&listed)],
            "openai" => vec![good(&listed)],
            _ => Vec::new(),
        };
        let (url, requests) = canned([first, vec![good(&answered), good(&answered)]].concat());
        gather((&url, api), 1, None, &file).unwrap();
        let kept = lines(&file);
        assert_eq!((kept.len(), &*kept[0].output_ids), (2, &[2][..]), "{api}");
        assert_eq!(kept[0].accepted.is_some(), api == "vllm");
        let asked = requests.iter().filter(|asked| asked.starts_with("POST")).collect::<Vec<_>>();
        assert!(asked[0].starts_with(path), "{asked:?}");
        let body = serde_json::from_str::<Value>(asked[0].split_once('\n').unwrap().1).unwrap();
        for (key, value) in parts.as_object().unwrap() {
            assert_eq!(&body[key], value, "{api}: {key} of {body}");
        }
    }
}

/// Each completion of a prompt has the next seed. Completions that a file has are not requested
/// again, and a truncated line is.
/// Catches: all completions of a prompt have one seed; a torn line is kept; completions of other
/// settings are added to.
#[test]
fn seeds_follow_each_other_and_truncated_lines_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    let answered = good(&json!({"tokens": [2]}));
    let (url, requests) = canned(vec![answered.clone(); 4]);
    gather((&url, "llama_cpp"), 2, None, &file).unwrap();
    let seeds = |requests| {
        let bodies = bodies(requests).into_iter();
        bodies.map(|body| (body["prompt"].clone(), body["seed"].as_u64().unwrap())).collect()
    };
    let found: Vec<(Value, u64)> = seeds(&requests);
    let all = [(json!([0, 1]), 5), (json!([3]), 5), (json!([0, 1]), 6), (json!([3]), 6)];
    assert_eq!(found, all);
    let whole = fs::read_to_string(&file).unwrap();
    let kept = whole.lines().take(3).collect::<Vec<_>>().join("\n") + "\n{\"prompt\": \"tw";
    fs::write(&file, kept).unwrap();
    let (url, requests) = canned(vec![answered.clone(); 3]);
    gather((&url, "llama_cpp"), 3, None, &file).unwrap();
    let found: Vec<(Value, u64)> = seeds(&requests);
    assert_eq!(found, [all[3].clone(), (json!([0, 1]), 7), (json!([3]), 7)]);
    let kept = lines(&file);
    let names = kept.iter().map(|line| (line.prompt.as_deref().unwrap(), line.seed.unwrap()));
    let expected = [("one", 5), ("two", 5), ("one", 6), ("two", 6), ("one", 7), ("two", 7)];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert!(kept.iter().all(|line| line.sampling.temperature == 0.7 && line.sampling.top_k == 3));
    // Completions with other settings are not mixed with these.
    let line = "{\"prompt_ids\": [1], \"output_ids\": [1]}\n";
    fs::write(&file, line).unwrap();
    let (url, requests) = canned(vec![answered]);
    let refused = gather((&url, "llama_cpp"), 1, None, &file).unwrap_err();
    assert!(refused.contains("was drawn at T = 1, not T = 0.7, top_k = 3"), "{refused}");
    assert_eq!((requests.try_iter().count(), fs::read_to_string(&file).unwrap()), (0, line.into()));
}

/// A busy server is asked again, and a server that refuses is not. A synthetic one is not asked for
/// completions.
/// Catches: a busy server is not asked again, or one that refuses is; completions that are made up
/// are taken.
#[test]
fn servers_in_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, answers: Vec<String>, api: &str| {
        let (url, requests) = canned(answers);
        let file = folder.path().join(name);
        let refused = gather((&url, api), 1, Some("m"), &file).err().unwrap_or_default();
        let kept = fs::read_to_string(file).unwrap_or_default();
        (requests.try_iter().count(), refused, kept)
    };
    let answered = good(&json!({"tokens": [1]}));
    let busy = [answer(503, "loading"), answer(429, "full"), answered.clone(), answered.clone()];
    let (asked, refused, kept) = run("busy", busy.to_vec(), "llama_cpp");
    assert!(asked == 4 && kept.lines().count() == 2, "{asked} {refused}");
    let (asked, refused, kept) =
        run("refusing", vec![answer(400, "no such thing"), answered.clone()], "llama_cpp");
    assert!(asked == 1 && kept.is_empty() && refused.contains("status 400"), "{asked} {refused}");
    assert!(refused.contains("no such thing"), "{refused}");
    let (_, refused, kept) = run("later", vec![answered, answer(404, "gone")], "llama_cpp");
    assert!(refused.contains("prompt two") && kept.lines().count() == 1, "{refused}");
    let (_, refused, _) = run("odd", vec![answer(200, "<html>")], "llama_cpp");
    assert!(refused.contains("its answer is not JSON"), "{refused}");
    let (_, refused, _) = run("empty", vec![answer(200, "{\"x\": 1}")], "llama_cpp");
    assert!(refused.contains("it has no \"tokens\"") && refused.contains("{\"x\":1}"), "{refused}");
    let made_up = "{\"speculative_config\": {\"rejection_sample_method\": \"synthetic\"}}";
    let (asked, refused, _) = run("made_up", vec![answer(200, made_up)], "vllm");
    assert!(asked == 1 && refused.contains("accepts drafts at random"), "{asked} {refused}");
}

/// A completion that could not be read again is refused before it is kept, so that the file still
/// serves.
/// Catches: tokens outside the vocabulary, too many of them, another prompt's completion or
/// impossible rounds are appended, and spoil the file for every audit.
#[test]
fn answers_are_checked_before_they_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    let vllm = |choice: Value| vec![good(&json!({})), good(&json!({"choices": [choice]}))];
    let rounds = json!({"choices": [{"token_ids": [1]}], "metrics": {"speculative_decoding":
        {"per_step_accepted": [2, 0], "per_step_drafted": [1, 0]}}});
    for (answers, part) in [
        (vllm(json!({"token_ids": [u32::MAX]})), "token 4294967295, outside the vocabulary of 4"),
        (vllm(json!({"token_ids": [4]})), "token 4, outside the vocabulary of 4 tokens"),
        (vllm(json!({"token_ids": [1, 2]})), "2 tokens, more than the 1 requested"),
        (
            vllm(json!({"token_ids": [1], "prompt_token_ids": [0, 0, 1]})),
            "another prompt than the requested one",
        ),
        (vec![good(&json!({})), good(&rounds)], "\"accepted\" has 2 where \"drafted\" has 1"),
    ] {
        let (url, _requests) = canned(answers);
        let refused = gather((&url, "vllm"), 1, Some("m"), &file).unwrap_err();
        assert!(refused.contains(part) && refused.contains("prompt one"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
    let right =
        |ids: &[u32]| good(&json!({"choices": [{"token_ids": [3], "prompt_token_ids": ids}]}));
    let (url, _requests) = canned(vec![good(&json!({})), right(&[0, 1]), right(&[3])]);
    gather((&url, "vllm"), 1, Some("m"), &file).unwrap();
    assert_eq!(lines(&file).len(), 2);
    assert_eq!(read_external_sequences(&file).unwrap().tape.sequences.len(), 2);
}

/// Where the system starts no thread, this one asks: in a process of its own, of which no thread's
/// stack fits into memory.
/// Catches: no thread, no completion.
#[test]
fn completions_need_no_thread() {
    const SERVER: &str = "SPECDEC_TEST_SERVER";
    if let Ok(url) = std::env::var(SERVER) {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("completions");
        gather((&url, "llama_cpp"), 2, None, &file).unwrap();
        assert_eq!(lines(&file).len(), 4);
        return;
    }
    let (url, _requests) = canned(vec![good(&json!({"tokens": [1]})); 4]);
    let mut own = std::process::Command::new(std::env::current_exe().unwrap());
    own.args(["--exact", "gather::completions_need_no_thread", "--test-threads", "1"]);
    own.env(SERVER, url).env("RUST_MIN_STACK", (1_u64 << 50).to_string());
    let output = own.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

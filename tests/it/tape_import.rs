//! `specdec tape import`: sequences as other programs log them.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use specdec::checkpoint::{Catalog, load};
use specdec::model::{Codec, Loaded, Role, Spelling};

use crate::cli_support::{refuses, specdec, stdout, text};

/// Sequences that were recorded here, as other programs would have logged them.
struct Logs {
    dir: tempfile::TempDir,
    /// The lines "text" of the tape.
    sequences: Vec<Value>,
    codec: Arc<dyn Codec>,
}

impl Logs {
    fn new(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tape = dir.path().join("own.jsonl");
        let record = ["tape", "record", "--prompts", "code", "--limit", "3", "-n", "12", "--out"];
        stdout(&[&record[..], &[tape.to_str().unwrap()], more].concat());
        let lines = fs::read_to_string(tape).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let sequences = lines.filter_map(|line| line.get("text").cloned()).collect::<Vec<_>>();
        assert_eq!(sequences.len(), 3);
        let source = Catalog::near(dir.path()).model("embedded-target").unwrap();
        let Loaded { codec, .. } = load(source, Role::Target).unwrap();
        Self { dir, sequences, codec }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes one line per sequence; returns the file.
    fn written(&self, line: impl Fn(&Value) -> Value) -> String {
        let file = self.path("log.jsonl");
        let lines = self.sequences.iter().map(|sequence| format!("{}\n", line(sequence)));
        fs::write(&file, lines.collect::<String>()).unwrap();
        file
    }

    /// Imports a log and returns the lines "text" of the tape.
    fn imported(&self, format: &str, file: &str, more: &[&str]) -> Vec<Value> {
        let out = self.path("imported.jsonl");
        let _ = fs::remove_file(&out);
        let import = ["tape", "import", file, "--format", format, "--out", &out];
        stdout(&[&import[..], more].concat());
        let lines = fs::read_to_string(out).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| line.get("text").cloned()).collect()
    }

    fn label(&self, token: &Value) -> String {
        self.codec.decode(&[token.as_u64().unwrap() as u32]).unwrap()
    }

    /// Each token with its logarithm.
    fn tokens<'t>(&self, sequence: &'t Value) -> impl Iterator<Item = (&'t Value, &'t Value)> {
        let logs = sequence["log_p"].as_array().unwrap();
        sequence["tokens"].as_array().unwrap().iter().zip(logs)
    }

    fn vllm(&self, sequence: &Value) -> Value {
        let spelled = self.tokens(sequence).map(|(token, _)| self.label(token)).collect::<Vec<_>>();
        json!({
            "request": {"prompt": sequence["prompt_tokens"]},
            "response": {"id": "cmpl-1", "choices": [{
                "text": spelled.concat(),
                "token_ids": sequence["tokens"],
                "logprobs": {"tokens": spelled, "token_logprobs": sequence["log_p"]},
                "finish_reason": "length",
            }]},
        })
    }

    fn sglang(&self, sequence: &Value) -> Value {
        let entries = self.tokens(sequence).map(|(token, log)| json!([log, token, null]));
        let prompt = sequence["prompt_tokens"].as_array().unwrap();
        let before = prompt.iter().map(|token| json!([null, token, null])).collect::<Vec<_>>();
        json!({
            "text": "",
            "meta_info": {
                "prompt_tokens": prompt.len(),
                "input_token_logprobs": before,
                "output_token_logprobs": entries.collect::<Vec<_>>(),
                "finish_reason": {"type": "stop"},
            },
        })
    }

    fn llama_cpp(&self, sequence: &Value) -> Value {
        let entries = self.tokens(sequence);
        let entries = entries.map(|(token, log)| json!({"id": token, "logprob": log}));
        json!({
            "prompt": sequence["prompt_tokens"],
            "completion_probabilities": entries.collect::<Vec<_>>(),
            "stop_type": "limit",
        })
    }

    /// Bytes alone: the ids must be found.
    fn openai(&self, sequence: &Value) -> Value {
        let spellings = self.codec.spellings().unwrap();
        let bytes = |token: &Value| match &spellings[token.as_u64().unwrap() as usize] {
            Some(Spelling::Control(name)) => name.clone().into_bytes(),
            Some(spelled) => spelled.bytes().to_vec(),
            None => Vec::new(),
        };
        let content = self.tokens(sequence);
        let content = content.map(|(token, log)| json!({"bytes": bytes(token), "logprob": log}));
        let content = content.collect::<Vec<_>>();
        json!({
            "request": {"prompt": sequence["prompt_tokens"]},
            "response": {"choices": [{
                "logprobs": {"content": content},
                "message": {"content": "x"},
                "finish_reason": "length",
            }]},
        })
    }
}

/// The tokens of sequences with their probabilities, without names.
fn drawn(sequences: &[Value]) -> Vec<[Value; 3]> {
    let of =
        |sequence: &Value| ["prompt_tokens", "tokens", "log_p"].map(|key| sequence[key].clone());
    sequences.iter().map(of).collect()
}

#[test]
fn logs_of_other_programs_hold_the_same_sequences() {
    let logs = Logs::new(&[]);
    let own = drawn(&logs.sequences);
    let file = logs.written(|sequence| logs.vllm(sequence));
    let found = logs.imported("vllm", &file, &[]);
    assert_eq!(drawn(&found), own);
    assert!(
        found.iter().all(|sequence| sequence["end"] == "length" && sequence["max_tokens"] == 12)
    );
    let file = logs.written(|sequence| logs.sglang(sequence));
    let found = logs.imported("sglang", &file, &[]);
    assert_eq!(drawn(&found), own);
    assert!(found.iter().all(|sequence| sequence["end"] == "stop" && sequence["max_tokens"] == 13));
    let file = logs.written(|sequence| logs.llama_cpp(sequence));
    assert_eq!(drawn(&logs.imported("llama_cpp", &file, &[])), own);
}

/// Catches: a response of vLLM with its tokens and its rounds counts as two completions.
#[test]
fn a_response_with_tokens_and_rounds_is_one_sequence() {
    let logs = Logs::new(&[]);
    let file = logs.written(|sequence| {
        let mut logged = logs.vllm(sequence);
        let steps = json!({"per_step_accepted": [3, 0, 3, 2], "per_step_drafted": [3, 3, 3, 3]});
        logged["response"]["metrics"] = json!({"speculative_decoding": steps});
        logged["response"]["usage"] = json!({"prompt_tokens": 1, "completion_tokens": 12});
        logged
    });
    let out = logs.path("both.jsonl");
    let import = ["tape", "import", &file, "--format", "vllm", "--out", &out];
    let said = text(&specdec(&import).output().unwrap().stderr);
    assert!(said.contains("3 sequences with logged rounds"), "{said}");
    assert!(!said.contains("only the rounds are known"), "{said}");
    let shown = stdout(&["tape", "show", &out]);
    for line in ["rounds    of 3 sequences", "sampling  temperature = 1: 3 sequences"] {
        assert!(shown.lines().any(|shown| shown == line), "{shown}");
    }
    let lines = fs::read_to_string(&out).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.collect::<Vec<_>>();
    let of = |kind: &str| lines.iter().filter_map(|line| line.get(kind)).collect::<Vec<_>>();
    let (sequences, rounds) = (of("text"), of("log"));
    assert_eq!((sequences.len(), rounds.len()), (3, 3));
    for (at, (sequence, rounds)) in sequences.iter().zip(rounds).enumerate() {
        assert_eq!((&rounds["text"], &rounds["prompt"]), (&at.into(), &sequence["prompt"]));
        let tokens = sequence["prompt_tokens"].as_array().unwrap().len();
        assert_eq!(rounds["prompt_tokens"], tokens);
    }
    let missing = fs::read_to_string(&out).unwrap().replace("\"text\":2", "\"text\":3");
    fs::write(&out, missing).unwrap();
    refuses(&["tape", "show", &out], "the rounds are those of sequence 3, which is missing");
}

/// llama.cpp has an entry only for the last token of a character in several tokens.
#[test]
fn a_token_without_an_entry_moves_no_other() {
    let logs = Logs::new(&[]);
    let skipping = |tokens: bool| {
        logs.written(|sequence| {
            let mut logged = logs.llama_cpp(sequence);
            logged["completion_probabilities"].as_array_mut().unwrap().remove(3);
            logged["tokens_predicted"] = json!(12);
            if tokens {
                logged["tokens"] = sequence["tokens"].clone();
            }
            logged
        })
    };
    let (file, out) = (skipping(false), logs.path("skipped.jsonl"));
    let import = ["tape", "import", &file, "--format", "llama_cpp", "--out", &out];
    refuses(&import, "it has 12 tokens and logs 11: ask for \"return_tokens\"");
    let found = logs.imported("llama_cpp", &skipping(true), &[]);
    for (found, own) in found.iter().zip(&logs.sequences) {
        // If one token has no probability, the sequence has none.
        assert_eq!((&found["tokens"], &found["log_p"]), (&own["tokens"], &Value::Null));
    }
    let target = ["--target", "embedded-target"];
    assert_eq!(
        drawn(&logs.imported("llama_cpp", &skipping(true), &target)),
        drawn(&logs.sequences)
    );
    let other = logs.written(|sequence| {
        let mut logged = logs.llama_cpp(sequence);
        logged["tokens"] = json!([1, 2, 3]);
        logged
    });
    let import = ["tape", "import", &other, "--format", "llama_cpp", "--out", &out];
    refuses(&import, "has other tokens than \"tokens\"");
}

/// The target computes log p itself, bit for bit as it was recorded.
#[test]
fn a_target_computes_what_a_log_lacks() {
    let logs = Logs::new(&["--temperature", "0.7", "--top-p", "0.9"]);
    let own = drawn(&logs.sequences);
    let sampling = ["--temperature", "0.7", "--top-p", "0.9"];
    let file = logs.written(|sequence| {
        let mut logged = logs.vllm(sequence);
        logged["response"]["choices"][0]["logprobs"] = Value::Null;
        logged
    });
    let target = ["--target", "embedded-target"];
    assert_eq!(drawn(&logs.imported("vllm", &file, &[&target[..], &sampling].concat())), own);
    let without = logs.imported("vllm", &file, &sampling);
    assert!(without.iter().all(|sequence| sequence.get("log_p").is_none()));
}

#[test]
fn tokens_are_found_by_their_bytes() {
    let logs = Logs::new(&[]);
    let file = logs.written(|sequence| logs.openai(sequence));
    let out = logs.path("bytes.jsonl");
    let import = ["tape", "import", &file, "--format", "openai", "--out", &out];
    refuses(&import, "name the model with --target");
    let run = specdec(&[&import[..], &["--target", "embedded-target"]].concat()).output().unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("36 of 36 tokens were found by their bytes"));
    let lines = fs::read_to_string(out).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = lines.filter_map(|line| line.get("text").cloned()).collect::<Vec<_>>();
    assert_eq!(drawn(&found), drawn(&logs.sequences));
    // The embedded models have no chat template.
    let file = logs.written(|sequence| {
        let mut logged = logs.openai(sequence);
        logged["request"] = json!({"messages": [{"role": "user", "content": "x"}]});
        logged
    });
    let out = logs.path("chat.jsonl");
    let import = ["tape", "import", &file, "--format", "openai", "--out", &out];
    refuses(&[&import[..], &["--target", "embedded-target"]].concat(), "chat template");
}

#[test]
fn what_log_p_does_not_follow_from_is_refused() {
    let logs = Logs::new(&[]);
    let file = logs.written(|sequence| logs.vllm(sequence));
    let out = logs.path("refused.jsonl");
    let import = ["tape", "import", &file, "--format", "vllm", "--out", &out];
    for more in [["--temperature", "0.7"], ["--top-p", "0.9"]] {
        let args = [&import[..], &more].concat();
        refuses(&args, "are those before temperature, truncation and penalties");
    }
    let processed = ["--temperature", "0.7", "--processed"];
    assert_eq!(drawn(&logs.imported("vllm", &file, &processed)), drawn(&logs.sequences));
    let silent = logs.written(|sequence| {
        let mut logged = logs.llama_cpp(sequence);
        let entries = logged["completion_probabilities"].as_array_mut().unwrap();
        entries.iter_mut().for_each(|entry| entry["logprob"] = json!(0.0));
        logged
    });
    let import = ["tape", "import", &silent, "--format", "llama_cpp", "--out", &out];
    refuses(&import, "as llama.cpp logs under speculation");
    let hot = logs.written(|sequence| {
        let mut logged = logs.vllm(sequence);
        let prompt = logged["request"]["prompt"].take();
        logged["request"] = json!({"prompt": prompt, "temperature": 0.7, "top_k": -1});
        logged
    });
    let import = ["tape", "import", &hot, "--format", "vllm", "--out", &out];
    refuses(&import, "requested with temperature = 0.7, not 1: use --temperature 0.7");
    for (content, part) in [
        ("{\"choices\": [{\"token_ids\": [1]}]}\n", "the prompt is not logged"),
        ("{\"choices\": 3}\n", "\"choices\" is no list"),
        ("{}\n", "it has no field \"choices\""),
        ("{\"choices\": []\n{}\n", "line 1 is not JSON"),
        ("{\"prompt\": [-1], \"choices\": [{}]}\n", "-1 is no token id"),
        (
            "{\"prompt\": [1], \"choices\": [{\"token_ids\": [1], \"logprobs\": {\"token_logprobs\": \
             [0.5]}}]}\n",
            "0.5 is no logarithm of a probability",
        ),
    ] {
        fs::write(&file, content).unwrap();
        refuses(&["tape", "import", &file, "--format", "vllm", "--out", &out], part);
        assert!(!fs::exists(&out).unwrap(), "{content}");
    }
}

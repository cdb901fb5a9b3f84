//! Prompt files of other projects, as they come from there.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use specdec::core::error::Error;
use specdec::model::ChatMessage;
use specdec::run::prompt::{Asked, FORMATS, Question, read};

use crate::cli_support::{specdec, text};

/// Reads a file with this name and content.
fn file(name: &str, bytes: &[u8]) -> Result<Vec<Question>, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, bytes).unwrap();
    let here = format!("{}/", folder.path().display());
    read(&file).map_err(|error| format!("{error:#}").replace(&here, ""))
}

/// The tokens of a first turn without a conversation, whose text is never encoded.
fn alone(asked: &Asked) -> Result<Vec<u32>, String> {
    asked.encode_alone(8, |_| Ok::<_, Error>(Vec::new())).map_err(|error| error.to_string())
}

/// The one question of a line.
#[track_caller]
fn line(row: &str) -> Question {
    let mut questions = file("set.jsonl", row.as_bytes()).unwrap();
    assert_eq!(questions.len(), 1);
    questions.remove(0)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn every_format_gives_its_turns() {
    let cases: [(&str, &str, &str, &[&str]); 30] = [
        (r#"{"prompt": "p"}"#, "set-1", "set", &["p"]),
        (
            r#"{"question_id": 81, "category": "writing", "turns": ["a", "b"], "reference": []}"#,
            "81",
            "writing",
            &["a", "b"],
        ),
        (
            r#"{"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "  pass", "test": "", "entry_point": "f"}"#,
            "HumanEval/0",
            "set",
            &["def f():\n"],
        ),
        (r#"{"question": "1+1?", "answer": "2\n#### 2"}"#, "set-1", "set", &["1+1?"]),
        (r#"{"instruction": "i", "input": "", "output": "o"}"#, "set-1", "set", &["i"]),
        (r#"{"instruction": "i", "input": "x", "output": "o"}"#, "set-1", "set", &["i\n\nx"]),
        (
            r#"{"id": "q", "conversations": [{"from": "human", "value": "h"}, {"from": "gpt", "value": "g"}, {"from": "human", "value": "h2"}]}"#,
            "q",
            "set",
            &["h", "h2"],
        ),
        (
            r#"{"conversation_id": "c", "conversation": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "u2"}]}"#,
            "c",
            "set",
            &["u", "u2"],
        ),
        (r#"{"instruction": "i", "context": "x", "response": "o"}"#, "set-1", "set", &["i\n\nx"]),
        (r#"{"id": "niv", "system_prompt": "", "question": "q"}"#, "niv", "set", &["q"]),
        (r#"{"messages": [{"role": "user", "content": "u"}]}"#, "set-1", "set", &["u"]),
        (
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "text", "text": "v"}]}, {"role": "assistant", "content": "for training"}]}"#,
            "set-1",
            "set",
            &["uv"],
        ),
        (
            r#"{"session_id": "s", "turns": [{"text": "a"}, {"text": "b"}]}"#,
            "set-1",
            "set",
            &["a", "b"],
        ),
        (
            r#"{"problem": "p", "solution": "2", "unique_id": "a/1.json"}"#,
            "a/1.json",
            "set",
            &["p"],
        ),
        (r#"{"id": 60, "problem": "p", "answer": "1", "year": "2024"}"#, "60", "set", &["p"]),
        (
            r#"{"task_id": 601, "text": "t", "code": "c", "test_list": ["assert f()", "assert g()"]}"#,
            "601",
            "set",
            &["t\n\nassert f()\nassert g()"],
        ),
        (r#"{"task_id": 2, "prompt": "t", "test_list": []}"#, "2", "set", &["t"]),
        (
            r#"{"input": "Who?", "context": "c", "answers": ["A"], "all_classes": null, "_id": "ab"}"#,
            "ab",
            "set",
            &["c\n\nWho?"],
        ),
        (
            r#"{"instance_id": "o__n-1", "patch": "d", "problem_statement": "s", "hints_text": ""}"#,
            "o__n-1",
            "set",
            &["s"],
        ),
        (
            r#"{"question_content": "Read N.", "question_id": "1", "starter_code": "def f():"}"#,
            "1",
            "set",
            &["Read N.\n\ndef f():"],
        ),
        (r#"{"article": "a", "highlights": "h", "id": "abc"}"#, "abc", "set", &["a"]),
        (r#"{"Question": "q", "Correct Answer": "a"}"#, "set-1", "set", &["q"]),
        (r#"{"text": "t", "delay": 10}"#, "set-1", "set", &["t"]),
        (
            r#"{"prompt": ["a", "b"], "prompt_id": 8, "category": "writing", "reference": []}"#,
            "8",
            "writing",
            &["a", "b"],
        ),
        (
            r#"{"question_id": "q", "category": "low_entropy", "turns": ["a"], "multiturn": false}"#,
            "q",
            "low_entropy",
            &["a"],
        ),
        (
            r#"{"question_id": "q", "category": "rag", "multiturn": true, "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}"#,
            "q",
            "rag",
            &["a", "b"],
        ),
        (r#"{"prompt_token_ids": [7], "prompt_logprobs": null}"#, "set-1", "set", &[]),
        (r#"{"input_ids": [7], "attention_mask": [1]}"#, "set-1", "set", &[]),
        (r#"{"id": "p", "prompt_tokens": [7]}"#, "p", "set", &[]),
        (r#"{"tokens": [7]}"#, "set-1", "set", &[]),
    ];
    for (row, id, category, turns) in cases {
        let question = line(row);
        assert_eq!((&*question.id, &*question.category), (id, category), "{row}");
        assert_eq!(question.asked.turns, turns, "{row}");
        assert!(question.asked.opening.is_empty(), "{row}");
        assert_eq!(question.asked.tokens, turns.is_empty().then(|| vec![7]), "{row}");
    }
    // Every format is among them.
    for format in FORMATS {
        let key = format!("\"{}\":", format.key);
        assert!(cases.iter().any(|case| case.0.contains(&key)), "{}", format.name);
    }
}

#[test]
fn messages_before_the_last_of_the_user_are_kept() {
    let system = ChatMessage::new("system", "s");
    let open_ai = line(
        r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "v"}]}"#
            .replace('\n', " ")
            .as_str(),
    );
    let opening =
        [system.clone(), ChatMessage::new("user", "u"), ChatMessage::new("assistant", "a")];
    assert_eq!(
        (&*open_ai.asked.opening, &*open_ai.asked.turns),
        (&opening[..], &["v".to_owned()][..])
    );
    let share = line(
        r#"{"conversations": [{"from": "system", "value": "s"}, {"from": "gpt", "value": "g"}, {"from": "human", "value": "h"}]}"#,
    );
    assert_eq!(share.asked.opening, [system]);
    assert_eq!(share.asked.turns, ["h"]);
}

/// Catches: a message of the system, tools or fields of a message that are lost on the way.
#[test]
fn what_belongs_to_a_conversation_is_kept() {
    let system = ChatMessage::new("system", "s");
    for row in [
        r#"{"system": "s", "conversations": [{"from": "human", "value": "h"}]}"#,
        r#"{"id": "flan", "system_prompt": "s", "question": "h", "response": "r"}"#,
    ] {
        let asked = line(row).asked;
        assert_eq!(
            (&*asked.opening, &*asked.turns),
            (&[system.clone()][..], &["h".to_owned()][..])
        );
        assert!(alone(&asked).unwrap_err().contains("set chat = true"), "{row}");
        let own = [system.clone(), ChatMessage::new("user", "h")];
        assert_eq!(asked.messages(Some("another")).unwrap(), own);
    }
    let tools = r#"[{"type": "function", "function": {"name": "f"}}]"#;
    let calls = line(&format!(
        "{{\"tools\": {tools}, \"messages\": [{{\"role\": \"user\", \"content\": \"u\"}}, \
         {{\"role\": \"assistant\", \"content\": null, \"refusal\": null, \"reasoning_content\": \
         \"r\", \"tool_calls\": [{{\"id\": \"1\"}}]}}, {{\"role\": \"tool\", \"tool_call_id\": \"1\", \
         \"content\": \"12\"}}, {{\"role\": \"user\", \"content\": \"v\"}}]}}"
    ));
    let fields = |message: &ChatMessage| serde_json::to_value(&message.fields).unwrap();
    let opening = &calls.asked.opening;
    let call = json!({"content": null, "reasoning_content": "r", "tool_calls": [{"id": "1"}]});
    assert_eq!(fields(&opening[1]), call);
    assert_eq!(fields(&opening[2]), json!({"tool_call_id": "1", "content": "12"}));
    assert_eq!(json!(calls.asked.tools), serde_json::from_str::<Value>(tools).unwrap());
    // Some files have the tools as a text.
    let share = json!({"tools": tools, "conversations": [{"from": "human", "value": "h"}]});
    let share = line(&share.to_string()).asked;
    assert_eq!(share.tools, calls.asked.tools);
    assert!(alone(&share).unwrap_err().starts_with("there are tools for the prompt"));
}

/// Catches: context under a key that a format does not read, and that nobody hears of.
#[test]
fn context_that_is_not_read_is_named_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("p.jsonl"), folder.path().join("t.jsonl"));
    let rows = [
        json!({"prompt": "ab", "system": "s"}),
        json!({"prompt": "ba", "system": "s", "tools": [], "input": null}),
        json!({"question": "bb", "context": "c"}),
        json!({"prompt": "aa"}),
    ];
    let rows = rows.map(|row| row.to_string()).join("\n");
    std::fs::write(&file, rows).unwrap();
    let [file, out] = [file, out].map(|path| path.to_str().unwrap().to_owned());
    let record = ["tape", "record", "--target", "toy:mixed", "--prompts", &file, "--out", &out];
    let record = specdec(&[&record[..], &["--max-tokens", "2"]].concat()).output().unwrap();
    let said = text(&record.stderr);
    assert!(record.status.success(), "{said}");
    let notes = said.lines().filter(|line| line.contains("is left out")).collect::<Vec<_>>();
    assert_eq!(notes.len(), 2, "{said}");
    assert!(notes[0].contains("\"context\" of 1 of 4 rows"), "{said}");
    assert!(notes[1].contains("\"system\" of 2 of 4 rows"), "{said}");
}

#[test]
fn lists_compressed_files_and_plain_texts_are_read() {
    let lines = "{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\"}\n";
    let list = "[{\"prompt\": \"a\"},\n {\"prompt\": \"b\"}]";
    let texts = |questions: Vec<Question>| {
        questions.into_iter().map(|q| (q.id, q.category, q.asked.turns)).collect::<Vec<_>>()
    };
    let wanted = |ids: [&str; 2]| {
        let each = ids.into_iter().zip(["a", "b"]);
        each.map(|(id, t)| (id.to_owned(), "mine".to_owned(), vec![t.to_owned()]))
            .collect::<Vec<_>>()
    };
    for (name, content) in [("mine.jsonl", lines), ("mine.json", lines), ("mine.prompts", lines)] {
        assert_eq!(texts(file(name, content.as_bytes()).unwrap()), wanted(["mine-1", "mine-3"]));
    }
    assert_eq!(texts(file("mine.json", list.as_bytes()).unwrap()), wanted(["mine-1", "mine-2"]));
    let packed = file("mine.jsonl.gz", &gzip(lines.as_bytes())).unwrap();
    assert_eq!(texts(packed), wanted(["mine-1", "mine-3"]));
    let packed = file("mine.json.gz", &gzip(list.as_bytes())).unwrap();
    assert_eq!(texts(packed), wanted(["mine-1", "mine-2"]));
    // Two compressed parts one after the other are one file.
    let halves = lines.split_at(17);
    let parts = [gzip(halves.0.as_bytes()), gzip(halves.1.as_bytes())].concat();
    assert_eq!(texts(file("mine.jsonl.gz", &parts).unwrap()), wanted(["mine-1", "mine-3"]));
    for (name, text) in [("notes.txt", "{a}\n\nb \n"), ("notes.md", "{a}\n\nb \r\n")] {
        let questions = file(name, text.as_bytes()).unwrap();
        assert_eq!(questions, [Question::once("notes", "notes", "{a}\n\nb ")]);
    }
}

#[test]
fn a_bad_entry_is_named_by_file_line_and_reason() {
    for (row, part) in [
        ("{\"turns\": [1]}", "\"turns\" is not a list of at least one text"),
        ("{\"entry_point\": \"f\"}", "there is no \"prompt\""),
        ("{\"question\": 1}", "\"question\" is not a text"),
        ("{\"instruction\": \"i\", \"input\": 3}", "\"input\" is not a text"),
        ("{\"messages\": {}}", "\"messages\" is not a list"),
        ("{\"messages\": []}", "\"messages\" has no message of the role \"user\""),
        ("{\"messages\": [3]}", "\"messages\", number 1: not an object with \"role\""),
        ("{\"messages\": [{\"role\": \"user\"}]}", "number 1: there is no \"content\""),
        (
            "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": null}]}",
            "number 1: \"content\" is not a text",
        ),
        ("{\"messages\": [], \"tools\": {}}", "\"messages\" has no message"),
        (
            "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": [1]}",
            "\"tools\" is not a list of objects",
        ),
        (
            "{\"messages\": [{\"role\": \"|>\", \"content\": \"\"}]}",
            "\"role\" = \"|>\": allowed are letters, digits and _",
        ),
        (
            "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
            "a part of \"content\" is not of the type \"text\"",
        ),
        (
            "{\"conversations\": [{\"from\": \"cat\", \"value\": \"\"}]}",
            "number 1: \"from\" = \"cat\": allowed are human, user, gpt, assistant, system",
        ),
        ("{\"conversation\": 1}", "\"conversation\" is not a list"),
        ("{\"conversatoin\": []}", "(did you mean \"conversation\" by \"conversatoin\"?)"),
        ("{\"words\": 1}", "\"turns\" (Spec-Bench and MT-Bench), \"messages\" (OpenAI)"),
        ("{\"prompt\": [1, -1]}", "\"prompt\" is not a list of at least one text"),
        ("{\"tokens\": 12}", "\"tokens\" is not a list of at least one token id"),
        ("{\"input_ids\": []}", "\"input_ids\" is not a list of at least one token id"),
        ("{\"prompt_token_ids\": [4294967296]}", "is not a list of at least one token id"),
        (
            "{\"multiturn\": false, \"turns\": [\"FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE\"]}",
            "the text is SPEED-Bench's placeholder for that of another data set",
        ),
        ("{\"multiturn\": true}", "\"turns\" is not a list of at least one text"),
    ] {
        let good = "{\"prompt\": \"fine\"}";
        let error = file("bad.jsonl", format!("{good}\n{row}\n").as_bytes()).unwrap_err();
        assert!(error.starts_with("bad.jsonl line 2: ") && error.contains(part), "{row}: {error}");
        let error = file("bad.json", format!("[{good},\n{row}]").as_bytes()).unwrap_err();
        assert!(error.starts_with("bad.json entry 2: ") && error.contains(part), "{row}: {error}");
    }
    let torn = file("bad.json", b"[{\"prompt\": \"a\"},\n{\"prompt\": \"b\"").unwrap_err();
    assert!(torn.starts_with("bad.json line 2: not JSON at column "), "{torn}");
    let single = file("bad.json", b"{\n  \"prompt\": \"a\"\n}").unwrap_err();
    let expected = "expected is a list of objects, or one object per line, {\"prompt\": …}";
    assert_eq!(single, format!("bad.json line 1: not JSON at column 1: {expected}"));
    let large = file("bad.jsonl", b"{\"prompt\": 1e999}").unwrap_err();
    assert!(large.starts_with("bad.jsonl line 1: a number at column "), "{large}");
    let deep = file("bad.jsonl", "[".repeat(200).as_bytes()).unwrap_err();
    assert!(deep.starts_with("bad.jsonl line 1: nested too deeply at column "), "{deep}");
    assert_eq!(file("bad.json", b"[]").unwrap_err(), "bad.json holds no prompt");
    assert_eq!(file("bad.jsonl", b"\n").unwrap_err(), "bad.jsonl holds no prompt");
    let damaged = &gzip(b"{\"prompt\": \"a\"}")[..20];
    let error = file("bad.jsonl.gz", damaged).unwrap_err();
    assert!(error.starts_with("cannot read prompts: bad.jsonl.gz: "), "{error}");
    assert_eq!(
        file("bad.txt", b"\xff").unwrap_err(),
        "cannot read prompts: bad.txt: not UTF-8 text"
    );
}

/// As in ShareGPT's own files.
#[test]
fn rows_that_ask_nothing_are_left_out() {
    let empty =
        "{\"conversations\": []}\n{\"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}]}\n";
    assert_eq!(file("a.jsonl", empty.as_bytes()).unwrap_err(), "a.jsonl holds no prompt");
    let one = format!("\u{feff}{empty}{{\"prompt\": \"fine\"}}\n");
    let questions = file("a.jsonl", one.as_bytes()).unwrap();
    assert_eq!(questions.len(), 1);
    assert_eq!((&*questions[0].id, &*questions[0].asked.turns[0]), ("a-3", "fine"));
}

/// A small file may unpack to any size.
#[test]
fn a_compressed_file_has_a_maximum_size_too() {
    let chunk = gzip(&vec![b' '; 32 << 20]);
    let bomb = chunk.repeat(9);
    assert!(bomb.len() < 1 << 20);
    let error = file("bomb.jsonl.gz", &bomb).unwrap_err();
    assert_eq!(error, "cannot read prompts: bomb.jsonl.gz: larger than 256 MiB, the maximum");
}

#[test]
fn the_page_on_prompts_lists_all_formats() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/prompts.md");
    let page = std::fs::read_to_string(page).unwrap();
    for format in FORMATS {
        let row = format!("| {} | `{}` | {} |", format.name, format.key, format.summary);
        assert!(page.contains(&row), "docs/prompts.md lacks {row}");
    }
}

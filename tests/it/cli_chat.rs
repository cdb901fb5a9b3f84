//! Conversations from the command line, with the embedded model and a template.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use specdec::checkpoint::load;
use specdec::engine::{Settings, Source};
use specdec::measure::rows::{GenerationRow, RoundRow, SummaryRow, TextRow, ThinkingRow};
use specdec::model::{ChatMessage, Conversation, Role};
use specdec::run::experiment::{Cell, read_plan};

use crate::cli_support::{json as output, refuses, stdout};
use crate::experiment_support::{baseline_of, rows};
use crate::run_support::{specdec, succeed};

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n\
                        {% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/// The embedded target with files of a chat template.
pub(crate) fn model(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
    let model = folder.join("model");
    fs::create_dir(&model).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/target");
    for file in ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(source.join(file), model.join(file)).unwrap();
    }
    for (name, text) in files {
        fs::write(model.join(name), text).unwrap();
    }
    model
}

fn config(template: Value) -> String {
    let bos = json!({"content": "<|bos|>", "lstrip": false});
    json!({"bos_token": bos, "eos_token": "<|eos|>", "chat_template": template}).to_string()
}

/// The number of tokens of a text in which control tokens are written out.
fn length(model: &Path, text: &str) -> usize {
    let source = Source::from(model.to_str().unwrap());
    let source = source.with(Settings { special_tokens: true, ..Settings::default() });
    // The tokenizer puts its own token before every text; here the template writes it.
    let text = text.strip_prefix("<|bos|>").unwrap();
    load(source, Role::Target).unwrap().codec.encode(text).unwrap().len()
}

#[test]
fn generate_writes_the_prompt_as_the_template_does() {
    let temporary = tempfile::tempdir().unwrap();
    let model = model(temporary.path(), &[("tokenizer_config.json", &config(TEMPLATE.into()))]);
    let target = model.to_str().unwrap();
    let common = ["generate", "--target", target, "--plain", "-n", "2", "--json"];
    let run = |more: &[&str]| output(&[&common[..], more].concat());
    let report = run(&["--chat", "--system", "be brief ", " x <|eos|> "]);
    let text = "<|bos|>system: be brief\nuser: x <|eos|>\nassistant:";
    let written = length(&model, text);
    let prompt = report["prompt_tokens"].as_u64().unwrap() as usize;
    assert!(prompt > written, "the text \"<|eos|>\" is more than one token: {prompt}, {written}");
    let special = run(&["--chat", "--system", "be brief ", " x <|eos|> ", "--special-tokens"]);
    assert_eq!(special["prompt_tokens"], written);
    let settings = &report["settings"];
    assert_eq!((&settings["chat"], &settings["system"]), (&json!(true), &json!("be brief ")));
    assert!(run(&["x"])["settings"].get("chat").is_none());
    for (more, part) in [
        (&["--system", "s", "x"][..], "--chat"),
        (&["--chat", "--chat-date", "x", "x"], "write YYYY-MM-DD"),
    ] {
        let output = specdec(&[&common[..], more].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(part), "{more:?}: {said}");
    }
    refuses(
        &["generate", "--target", "toy:mixed", "--chat", "ab"],
        "a toy model has no chat template",
    );
}

#[test]
fn the_template_of_a_folder_is_chosen_as_transformers_does() {
    let named = |name: &str| json!([{"name": "tool_use", "template": "a"}, {"name": name, "template": "default here"}]);
    let conversation =
        Conversation { messages: vec![ChatMessage::new("user", "x")], ..Conversation::default() };
    let tokens = |files: &[(&str, &str)]| {
        let temporary = tempfile::tempdir().unwrap();
        let model = model(temporary.path(), files);
        let codec = load(model.to_str().unwrap(), Role::Target).unwrap().codec;
        let plain = |text: &str| codec.encode(text).unwrap()[1..].to_vec();
        let said = codec.encode_chat(&conversation).map_err(|e| e.to_string());
        (said, plain("default here"), plain("from the file"))
    };
    let (said, default, _) = tokens(&[("tokenizer_config.json", &config(named("default")))]);
    assert_eq!(said.unwrap(), default);
    let own = [
        ("tokenizer_config.json", &*config(named("default"))),
        ("chat_template.jinja", "from the file"),
    ];
    let (said, _, file) = tokens(&own);
    assert_eq!(said.unwrap(), file);
    let (said, ..) = tokens(&[("tokenizer_config.json", &config(named("rag")))]);
    let none = "tokenizer_config.json: chat_template has no template called \"default\", only [\"tool_use\", \"rag\"]";
    assert!(said.unwrap_err().ends_with(none));
    let (said, ..) = tokens(&[("tokenizer_config.json", &config(3.into()))]);
    assert!(
        said.unwrap_err()
            .ends_with("chat_template is neither a text nor a list of {name, template}")
    );
    let (said, ..) = tokens(&[]);
    let none = "there is no chat template (chat_template.jinja, or chat_template in tokenizer_config.json or chat_template.json, is missing): leave out chat";
    assert!(said.unwrap_err().ends_with(none));
    // Processors of images and texts had a file for it.
    let processor = json!({"chat_template": "from the file"}).to_string();
    let (said, _, file) = tokens(&[("chat_template.json", &processor)]);
    assert_eq!(said.unwrap(), file);
    let (said, ..) = tokens(&[("tokenizer_config.json", "{")]);
    assert!(said.unwrap_err().contains("tokenizer_config.json: "));
    // The strings of special tokens may stand in a file of their own.
    let map = [
        ("special_tokens_map.json", "{\"pad_token\": \"from the\"}"),
        ("chat_template.jinja", "{{ pad_token }} file"),
    ];
    let (said, _, file) = tokens(&map);
    assert_eq!(said.unwrap(), file);
}

/// The second turn is asked after the answer that `generate` gives to the first.
#[test]
fn an_experiment_runs_turns_after_the_answers_of_the_model() {
    let temporary = tempfile::tempdir().unwrap();
    let (home, out) = (temporary.path(), temporary.path().join("results"));
    let model = model(
        home,
        &[("chat_template.jinja", TEMPLATE), ("tokenizer_config.json", &config(Value::Null))],
    );
    let question =
        "{\"question_id\": 81, \"category\": \"w\", \"turns\": [\"fn main() {\", \"And tests?\"]}";
    fs::write(home.join("mt.jsonl"), question).unwrap();
    let experiment = "target = \"model\"\nprompts = \"mt.jsonl\"\nchat = true\nsystem = \"Write Rust.\"\n\
                      max_tokens = 6\nwarmup = 1\nclock = \"virtual\"\n\
                      [sweep]\ndrafter = \"prompt_lookup\"\ntemperature = [0.0, 1.0]\n";
    fs::create_dir(home.join("talk")).unwrap();
    fs::write(
        home.join("talk/experiment.toml"),
        experiment.replace("\"model\"", "\"../model\"").replace("mt.jsonl", "../mt.jsonl"),
    )
    .unwrap();
    let path = home.join("talk");
    // What the template and the tokenizer add is shown, too.
    let seen = stdout(&["plan", path.to_str().unwrap(), "--show", "1"]);
    let (_, seen) = seen.split_once("\n\nprompt 81 (w), ").unwrap();
    let wanted = "tokens:\n| <|bos|>system: Write Rust.\n| user: fn main() {\n| assistant:\n";
    assert_eq!(seen.split_once(' ').unwrap().1, wanted);
    succeed(
        specdec(&["run", path.to_str().unwrap(), "--out", out.to_str().unwrap()]).output().unwrap(),
    );
    let results = fs::read_dir(out.join("talk")).unwrap().next().unwrap().unwrap().path();
    let generations: Vec<GenerationRow> = rows(&results, "generations.csv");
    assert_eq!(generations.len(), 8, "two turns, two temperatures, plain and speculative");
    let target = model.to_str().unwrap();
    let first = output(&[
        "generate",
        "--target",
        target,
        "--plain",
        "--temperature",
        "0",
        "-n",
        "6",
        "--json",
        "--chat",
        "--system",
        "Write Rust.",
        "fn main() {",
    ]);
    let answer = first["text"].as_str().unwrap();
    let (one, two) = ("<|bos|>system: Write Rust.\nuser: fn main() {\nassistant:", answer.trim());
    let two = format!(
        "<|bos|>system: Write Rust.\nuser: fn main() {{\nassistant: {two}\nuser: And tests?\nassistant:"
    );
    for row in &generations {
        let text = if row.prompt == "81" { one } else { &*two };
        assert!(["81", "81/2"].contains(&&*row.prompt));
        assert_eq!((row.prompt_tokens, &*row.category), (length(&model, text), "w"));
    }
    let report = fs::read_to_string(results.join("report.md")).unwrap();
    assert!(report.contains("prompts as conversations"), "{report}");
    assert!(report.contains("1 questions have several turns"), "{report}");
    let results = results.to_str().unwrap();
    succeed(specdec(&["report", results, "--spec-bench"]).output().unwrap());
    let cell = &generations[0].cell;
    let row = fs::read_to_string(format!("{results}/spec-bench/{cell}.jsonl")).unwrap();
    let row = serde_json::from_str::<Value>(&row).unwrap();
    assert_eq!((&row["question_id"], &row["category"]), (&json!(81), &json!("w")));
    let choice = &row["choices"][0];
    for key in ["turns", "decoding_steps", "new_tokens", "wall_time"] {
        assert_eq!(choice[key].as_array().unwrap().len(), 2, "{key} of both turns");
    }
}

/// Runs an experiment in a folder with these lines, and returns the results folder.
fn results_of(home: &Path, lines: &str) -> PathBuf {
    let (file, out) = (home.join("talk.toml"), home.join("results"));
    fs::write(&file, lines).unwrap();
    let run = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--clock", "virtual"];
    Path::new(stdout(&run).trim()).parent().unwrap().to_owned()
}

/// Catches: arguments that the template does not get, cells compared with the baseline of other
/// arguments, and rounds counted on the wrong side of the thinking.
#[test]
fn chat_arguments_are_axes_and_thinking_is_apart() {
    let temporary = tempfile::tempdir().unwrap();
    let home = temporary.path();
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}\
                    {% if enable_thinking is true %}<think>{% endif %}{{ effort }}";
    model(home, &[("chat_template.jinja", template)]);
    fs::write(
        home.join("p.jsonl"),
        "{\"prompt\": \"fn main() {\"}\n{\"prompt\": \"struct A {\"}\n",
    )
    .unwrap();
    let toml = "target = \"model\"\nprompts = \"p.jsonl\"\nmax_tokens = 24\nwarmup = 1\nchat = true\n\
                chat_arguments = { enable_thinking = [true, false], effort = \"//\" }\n\
                [sweep]\ndrafter = \"prompt_lookup\"\ntemperature = 0.0\n";
    let results = results_of(home, toml);
    let plan = read_plan(&results).unwrap();
    let generations: Vec<GenerationRow> = rows(&results, "generations.csv");
    let summary: Vec<SummaryRow> = rows(&results, "summary.csv");
    let thinking: Vec<ThinkingRow> = rows(&results, "thinking.csv");
    let tokens =
        |cell: &Cell| generations.iter().find(|row| row.cell == cell.id).unwrap().prompt_tokens;
    let words = plan.cells.iter().map(|cell| cell.chat_arguments.to_string()).collect::<Vec<_>>();
    let [on, off] = [true, false].map(|on| format!("enable_thinking = {on}, effort = //"));
    assert_eq!(words, [&on, &on, &off, &off].map(String::as_str));
    assert!(tokens(&plan.cells[1]) > tokens(&plan.cells[3]), "the template writes <think>");
    for (cell, inside) in [(&plan.cells[1], true), (&plan.cells[3], false)] {
        assert_eq!(baseline_of(&plan, cell).chat_arguments, cell.chat_arguments);
        let row = summary.iter().find(|row| row.cell == cell.id).unwrap();
        assert!(
            row.params.ends_with(&format!("enable_thinking={inside};effort=//")),
            "{}",
            row.params
        );
        let own = thinking.iter().filter(|own| own.cell == cell.id);
        for own in own {
            let all = own.thinking == inside;
            assert_eq!(
                (own.rounds, own.accepted > 0),
                if all { (row.rounds, own.accepted > 0) } else { (0, false) }
            );
            assert_eq!(own.block_efficiency, if all { row.block_efficiency } else { None });
        }
    }
    assert_eq!(thinking.len(), 4);
    let report = fs::read_to_string(results.join("report.md")).unwrap();
    assert!(report.contains("## Inside and outside of thinking"), "{report}");
    assert!(report.contains(&format!("T = 0, {on}")), "{report}");
    let plan = ["plan", home.join("talk.toml").to_str().unwrap(), "--show", "1"].map(str::to_owned);
    let plan = plan.iter().map(String::as_str).collect::<Vec<_>>();
    let seen = stdout(&plan);
    assert!(
        seen.contains(&format!(" with {on}, ")) && seen.contains("| fn main() {<think>//\n"),
        "{seen}"
    );
    for (set, part) in [
        ("chat=false", "\"chat_arguments\" is for conversations: set chat = true"),
        ("chat_arguments={effors=1}", "the target's chat template does not read \"effors\""),
        ("chat_arguments={messages=1}", "the template has \"messages\" from the conversation"),
        ("chat_arguments={effort=[1, 1]}", "effort = 1 is listed twice"),
        ("chat_arguments={effort=[]}", "effort is empty: give at least one value"),
        ("chat_arguments={effort={a=1}}", "allowed is a text, a number, true or false, or a list"),
        (
            "chat_arguments=3",
            "\"chat_arguments\" = 3: allowed is a table of values or lists of values",
        ),
        ("thinking=[\"a\"]", "\"thinking\" = [\"a\"]: allowed is a list of two texts"),
    ] {
        refuses(&[&plan[..], &["--set", set]].concat(), part);
    }
}

/// Catches: strings across tokens, a prompt that opens the thinking or closes it, a completion that
/// ends first, and rounds placed by their end. Each token of a toy is a letter.
#[test]
fn thinking_is_found_in_completions() {
    let temporary = tempfile::tempdir().unwrap();
    let home = temporary.path();
    let prompts = ["abd", "bcb", "bcbdab", "aadd"].map(|p| format!("{{\"prompt\": \"{p}\"}}\n"));
    fs::write(home.join("p.jsonl"), prompts.concat()).unwrap();
    let toml = "target = \"toy:mixed\"\nprompts = \"p.jsonl\"\nmax_tokens = 16\nrepeats = 8\nwarmup = 1\n\
                thinking = [\"bc\", \"da\"]\n[sweep]\ndrafter = \"prompt_lookup\"\n";
    let results = results_of(home, toml);
    let generations = fs::read_to_string(results.join("generations.jsonl")).unwrap();
    let generations =
        generations.lines().map(|line| serde_json::from_str::<TextRow>(line).unwrap());
    let generations = generations.collect::<Vec<_>>();
    let rounds: Vec<RoundRow> = rows(&results, "rounds.csv");
    let (mut kinds, mut sums) = ([0; 3], BTreeMap::<(String, bool), usize>::new());
    for row in &generations {
        let opened = row.prompt == "p-2";
        let from = if opened { Some(0) } else { row.text.find("bc") };
        let end = from.and_then(|from| Some(from + row.text[from..].find("da")? + 2));
        let wanted = from.map(|from| [from, end.unwrap_or(row.text.len())]);
        assert_eq!(row.thinking, wanted, "{}: {}", row.prompt, row.text);
        kinds[usize::from(from.is_some()) + usize::from(end.is_some())] += 1;
        let own = rounds
            .iter()
            .filter(|r| (&r.cell, &r.prompt, r.repeat) == (&row.cell, &row.prompt, row.repeat));
        let mut at = 0;
        for round in own {
            let inside = wanted.is_some_and(|[from, to]| (from..to).contains(&at));
            *sums.entry((row.cell.clone(), inside)).or_default() += 1;
            at += round.emitted;
        }
    }
    assert!(kinds.iter().all(|&n| n > 0), "none, open, closed: {kinds:?}");
    let thinking: Vec<ThinkingRow> = rows(&results, "thinking.csv");
    assert_eq!(thinking.len(), 2);
    for row in thinking {
        assert_eq!(row.rounds, sums[&(row.cell.clone(), row.thinking)]);
        assert!(row.block_efficiency >= Some(1.0) && row.proposed >= row.accepted);
    }
}

/// Catches: `content: null`, which clients send with calls of tools, taken for a wrong message.
#[cfg(feature = "serve")]
#[test]
fn a_server_answers_conversations_with_calls_of_tools() {
    use crate::serve_support::TestServer;
    let folder = tempfile::tempdir().unwrap();
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content or '' }}{% for c in \
                    m.tool_calls or [] %}{{ c.function.name }}{% endfor %}\n{% endfor %}";
    let model = model(folder.path(), &[("chat_template.jinja", template)]);
    let server = TestServer::of(model.to_str().unwrap(), &["--plain"]);
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}});
    let prompt = |call: Value| {
        let messages = json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "12 C"},
        ]);
        let body = json!({"messages": messages, "max_tokens": 1, "return_token_ids": true});
        let response = server.post("/v1/chat/completions", &body);
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let named = prompt(call.clone());
    let unnamed =
        json!({"id": "c1", "type": "function", "function": {"name": "", "arguments": "{}"}});
    assert!(named > prompt(unnamed), "the call is in the prompt");
}

/// Catches: a note on missing end tokens that only one command prints.
#[test]
fn commands_that_complete_texts_say_that_nothing_ends_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), &[("generation_config.json", "{\"eos_token_id\": [99999]}")]);
    let config = model.join("config.json");
    let text = fs::read_to_string(&config).unwrap().replace("\"eos_token_id\": 1,", "");
    fs::write(&config, text).unwrap();
    let target = model.to_str().unwrap();
    let note = "it has no end token, so only max_tokens, a stop string or a full context ends";
    let said = |args: &[&str]| {
        let output = specdec(args).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let generate = ["generate", "--target", target, "--plain", "-n", "1", "x"];
    assert!(said(&generate).contains(note));
    let file = folder.path().join("experiment.toml");
    let experiment = format!(
        "target = {target:?}\nprompts = \"smoke\"\nmax_tokens = 2\n[sweep]\ndrafter = \
         \"prompt_lookup\"\n"
    );
    fs::write(&file, experiment).unwrap();
    assert!(said(&["plan", file.to_str().unwrap()]).contains(note));
    #[cfg(feature = "serve")]
    {
        let server = crate::serve_support::TestServer::of(target, &["--plain"]);
        assert!(server.banner.contains(note), "{}", server.banner);
    }
    // One that has an end token says nothing.
    let embedded = ["generate", "--plain", "-n", "1", "x"];
    assert!(!said(&embedded).contains("note: "));
}

//! `specdec audit` on tapes of a toy pair.

use std::fs;

use serde_json::{Value, json};
use specdec::audit::{OTHER_SETTINGS, UNKNOWN_BUGS};
use specdec::bugs;

use crate::cli_support::{refuses, specdec, stdout, text};
use crate::cli_tape_support::TapeFolder;

/// What an audit prints as JSON, and its exit code.
fn audited(args: &[&str]) -> (Value, Option<i32>, String) {
    let run = specdec(&[&["audit", "--json", "--target", "toy:mixed"], args].concat());
    let run = { run }.output().unwrap();
    let mut found = serde_json::from_slice::<Value>(&run.stdout).unwrap_or_default();
    let verdicts = found.get_mut("verdicts").map(Value::take).unwrap_or_default();
    (verdicts, run.status.code(), text(&run.stderr))
}

/// The tape with another sampling setting than its completions were drawn with.
fn renamed(own: &TapeFolder, tape: &str, from: &str, to: &str) -> String {
    let lines = fs::read_to_string(tape).unwrap();
    assert!(lines.contains(from), "{lines}");
    let file = own.path("renamed.jsonl");
    fs::write(&file, lines.replacen(from, to, 1)).unwrap();
    file
}

#[test]
fn recorded_completions_are_not_refuted() {
    let own = TapeFolder::new();
    let tape = own.scored();
    for draft in [&[][..], &["--draft", "toy:mixed"]] {
        let (found, code, stderr) = audited(&[&[&*tape], draft].concat());
        assert_eq!(code, Some(0), "{stderr}");
        // Two temperatures, 36 completions of 40 tokens at each.
        // At temperature 0, the three of each prompt are the same.
        for (verdict, [copies, tokens]) in
            found.as_array().unwrap().iter().zip([[24, 480], [0, 1440]])
        {
            assert_eq!((&verdict["refuted"], &verdict["tokens"]), (&false.into(), &tokens.into()));
            assert_eq!(verdict["copies"], copies);
            assert_eq!((&verdict["bug"], &verdict["impossible"]), (&Value::Null, &0.into()));
            let placed = verdict["bets"].as_array().unwrap().len();
            let not_placed = verdict["not_placed"].as_array().unwrap().len();
            assert_eq!(placed + not_placed, bugs::audited().count() + 1 + UNKNOWN_BUGS.len());
            assert_eq!(placed > 10, !draft.is_empty(), "{verdict}");
        }
    }
}

/// Catches: a file of prompts is answered by the name of a field that no prompt has.
#[test]
fn a_file_of_prompts_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prompts.jsonl").to_str().unwrap().to_owned();
    let audit = ["audit", &file, "--target", "toy:mixed"];
    for prompt in [json!({"prompt": "ab"}), json!({"id": 1, "turns": ["ab"]})] {
        fs::write(&file, format!("{prompt}\n")).unwrap();
        let what = "line 1: it is a prompt without a completion; expected are completions, with \
                    \"prompt_ids\" and \"output_ids\" in each line, or a tape";
        refuses(&audit, what);
        // A server's completions would be appended to the prompts.
        let server = ["--url", "http://127.0.0.1:9", "--prompts", &file];
        refuses(&[&audit[..], &server].concat(), what);
    }
    fs::write(&file, "{\"prompt\": \"ab\", \"output_ids\": [1]}\n").unwrap();
    refuses(&audit, "line 1: missing field `prompt_ids`");
}

/// Catches: two columns of the table are exchanged.
#[test]
fn an_audit_shows_the_numbers_of_its_bets() {
    let own = TapeFolder::new();
    let tape = own.scored();
    let (found, ..) = audited(&[&tape, "--draft", "toy:mixed"]);
    let shown = stdout(&["audit", &tape, "--target", "toy:mixed", "--draft", "toy:mixed"]);
    assert!(shown.contains("\nTV: total variation per token from the target's distribution, "));
    let tables = shown.split("  strength  bug's TV   TV at most  least TV found\n").skip(1);
    let mut differ = 0;
    for (verdict, table) in found.as_array().unwrap().iter().zip(tables) {
        for (bet, line) in verdict["bets"].as_array().unwrap().iter().zip(table.lines()) {
            let number = |key: &str, decimals: usize| {
                bet[key].as_f64().map_or("-".to_owned(), |number| format!("{number:.decimals$}"))
            };
            let numbers = [("log10_e", 1), ("strength", 3), ("tv", 4)];
            let numbers = numbers.iter().chain(&[("tv_bound", 4), ("tv_detectable", 4)]);
            let mut expected = vec![bet["bug"].as_str().unwrap().to_owned()];
            expected.extend(numbers.map(|(key, decimals)| number(key, *decimals)));
            assert_eq!(line.split_whitespace().collect::<Vec<_>>(), expected);
            differ += usize::from(expected[4..].iter().all(|number| number != "-"));
        }
    }
    assert!(differ > 0, "{shown}");
}

/// Completions that were drawn at temperature 1, with a lower temperature in the tape.
#[test]
fn other_distributions_are_refuted_and_named() {
    let own = TapeFolder::new();
    let tape = own.scored();
    let wrong = renamed(&own, &tape, "\"temperature\":1.0", "\"temperature\":0.4");
    let (found, code, stderr) = audited(&[&wrong]);
    assert_eq!(code, Some(1));
    let why = "its completions are not drawn from the target's distribution";
    assert!(stderr.contains(why), "{stderr}");
    let verdict = found.as_array().unwrap().iter().find(|one| one["refuted"] == true).unwrap();
    assert_eq!(verdict["bug"], "raw_target");
    // A deviation that shows without speculation, too, is not due to speculation.
    let (_, code, stderr) = audited(&[&wrong, "--plain", &wrong]);
    assert_eq!(code, Some(0), "{stderr}");
    // At temperature 0 most of these tokens cannot be drawn at all.
    let greedy = renamed(&own, &tape, "\"temperature\":1.0", "\"temperature\":0.0");
    let (found, code, _) = audited(&[&greedy]);
    assert_eq!(code, Some(1));
    let verdict = found.as_array().unwrap().iter().find(|one| one["refuted"] == true).unwrap();
    assert!(verdict["impossible"].as_u64().unwrap() > 100);
    let first = verdict["first_impossible"].as_str().unwrap();
    assert!(first.contains(" at position ") && first.contains(" of prompt "), "{first}");
}

/// The names in a message like `unknown known-wrong method "?": allowed are a, b`.
fn allowed(args: &[&str]) -> Vec<String> {
    let stderr = text(&specdec(args).output().unwrap().stderr);
    let (_, names) = stderr.trim_end().split_once(": allowed are ").unwrap();
    names.split(", ").map(str::to_owned).collect()
}

/// The certificate, `audit`, `audit --planted`, `serve --mutant`, `certify --external` and
/// `docs/bugs.md`, with which the tests of the Python package compare its names.
/// Catches: a place with a bug, a name or an order of its own.
#[test]
fn every_place_has_the_names_of_the_table() {
    let names = |bugs: &mut dyn Iterator<Item = &'static bugs::Bug>| {
        bugs.map(|bug| bug.name.to_owned()).collect::<Vec<_>>()
    };
    let own = TapeFolder::new();
    let (tape, file) = (own.scored(), own.path("certificate.json"));
    stdout(&["certify", "--method", "none", "--json", &file]);
    let certificate = serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
    let refuted = certificate["mutants"].as_array().unwrap().iter();
    let refuted = refuted.map(|mutant| mutant["name"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(refuted, names(&mut bugs::mutants().map(|(bug, _)| bug)));

    let served = names(&mut bugs::of_any_models().map(|(bug, _)| bug));
    assert_eq!(allowed(&["audit", &tape, "--planted", "?"]), served);
    #[cfg(feature = "serve")]
    assert_eq!(allowed(&["serve", "--mutant", "?"]), served);

    let (found, ..) = audited(&[&tape, "--draft", "toy:mixed"]);
    let bets = found[0]["bets"].as_array().unwrap().iter().map(|bet| &bet["bug"]);
    let bets = bets.chain(found[0]["not_placed"].as_array().unwrap());
    let mut bets = bets.map(|name| name.as_str().unwrap()).collect::<Vec<_>>();
    let mut known = names(&mut bugs::audited());
    known.extend(UNKNOWN_BUGS.iter().map(|bug| bug.name.to_owned()));
    known.push(OTHER_SETTINGS.to_owned());
    known.sort_unstable();
    bets.sort_unstable();
    assert_eq!(bets, known);

    // That `certify --external` names each is a test of `external.rs`.
    let forms = |bug: &bugs::Bug| {
        let method = match served.iter().any(|name| name == bug.name) {
            true => "method",
            false => "method on toys",
        };
        let all = [
            bug.mutant.map(|_| method),
            bug.verifier.map(|_| "verifier"),
            bug.distribution.map(|_| "distribution"),
            bug.head.map(|_| "head"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    let row = |bug: &bugs::Bug| {
        let (summary, forms) = (bug.summary.replace('|', "\\|"), forms(bug));
        format!("| `{}` | {summary} | {} | {forms} |\n", bug.name, bug.seen)
    };
    let table = bugs::bugs().map(row).collect::<String>();
    let doc = include_str!("../../docs/bugs.md");
    let rows = doc.split_inclusive('\n').filter(|line| line.starts_with("| `"));
    assert_eq!(rows.collect::<String>(), table, "docs/bugs.md should have this table:\n{table}");
    let lines = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let entry = doc.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(lines(include_str!("../../src/bugs/verifiers.rs")).contains(&lines(entry)), "{entry}");
}

#[test]
fn an_audit_is_documented_and_bad_input_is_refused() {
    let own = TapeFolder::new();
    let tape = own.scored();
    let doc = include_str!("../../docs/audit.md");
    let counts = format!(
        "split over {} bets, on {} known bugs, on other sampling settings and on {} kinds of unknown \
         bugs",
        bugs::audited().count() + 1 + UNKNOWN_BUGS.len(),
        bugs::audited().count(),
        UNKNOWN_BUGS.len()
    );
    assert!(doc.contains(&counts), "the document states other numbers than {counts}");
    let (found, ..) = audited(&[&tape]);
    for field in found[0].as_object().unwrap().keys() {
        assert!(doc.contains(&format!("`{field}`")), "{field} is not documented");
    }
    for field in found[0]["bets"][0].as_object().unwrap().keys() {
        assert!(doc.contains(&format!("`{field}`")), "{field} is not documented");
    }
    let shown = stdout(&["audit", &tape, "--target", "toy:mixed"]);
    assert!(shown.contains("not refuted at level 0.001: 1440 tokens of 36 completions"), "{shown}");
    let args = ["audit", &tape, "--target", "toy:mixed"];
    refuses(&[&args[..], &["-k", "0"]].concat(), "allowed are numbers from 1 to 64");
    let hot = ["--draft", "toy:mixed", "--draft-temperature", "hot"];
    refuses(&[&args[..], &hot].concat(), "draft_temperature");
    refuses(&["audit", &tape, "--target", "toy:close"], "");
    let level = specdec(&[&args[..], &["--level", "2"]].concat()).output().unwrap();
    assert!(text(&level.stderr).contains("allowed is a number from 1e-12 to 0.5"));
}

/// Sequences as JSON lines. Two have the seeds of plain ones, and one of these differs.
#[test]
fn sequences_of_any_program_are_read() {
    let own = TapeFolder::new();
    let line = |tokens: &[u32], seed: u64, accepted: &str| {
        let sampling = "{\"temperature\": 0.5}";
        format!(
            "{{\"prompt_ids\": [0, 1], \"output_ids\": {tokens:?}, \"sampling\": {sampling}, \
             \"seed\": {seed}{accepted}}}\n"
        )
    };
    let (plain, file) = (own.path("plain.jsonl"), own.path("completions.jsonl"));
    fs::write(&plain, line(&[1, 2, 3], 1, "") + &line(&[1, 2, 0], 2, "")).unwrap();
    let reported = ", \"accepted\": [1, 0], \"meta\": {\"engine\": \"x\"}";
    fs::write(&file, line(&[1, 2, 3], 1, reported) + &line(&[1, 3, 0], 2, "")).unwrap();
    let shown = stdout(&["audit", &file, "--plain", &plain, "--target", "toy:mixed"]);
    assert!(shown.contains("6 tokens of 2 completions at T = 0.5"), "{shown}");
    let seeds = "1 of 2 completions with the seed of a plain completion have its tokens; the first \
                 difference is at position 1";
    assert!(shown.contains(seeds), "{shown}");
    // At temperature 0 some of these tokens cannot be drawn, and one is a tie of the toy.
    // At temperature 0, completions of one prompt would be copies.
    let greedy = fs::read_to_string(&file).unwrap().replace("0.5", "0.0");
    let (first, second) = greedy.split_once('\n').unwrap();
    let second = second.replacen("[0, 1]", "[2, 0, 1]", 1);
    fs::write(&file, format!("{first}\n{second}")).unwrap();
    let (found, code, _) = audited(&[&file]);
    assert_eq!((code, &found[0]["ties"]), (Some(1), &1.into()), "{found}");
    assert_eq!(found[0]["impossible"], 3, "{found}");
    let (found, code, _) = audited(&[&file, "--tie", "100"]);
    assert_eq!((code, &found[0]["impossible"]), (Some(0), &0.into()), "{found}");
    assert_eq!(found[0]["ties"], 4, "{found}");
    for (wrong, part) in [
        ("{\"prompt_ids\": [], \"output_ids\": [1]}", "line 1: \"prompt_ids\" is empty"),
        ("{\"prompt_ids\": [0], \"output\": [1]}", "unknown field `output`"),
        ("{\"prompt_ids\": [0], \"output_ids\": [99]}", "token 99"),
        (
            "{\"prompt_ids\": [0], \"output_ids\": [1, 2, 3], \"accepted\": [0]}\n",
            "\"accepted\" accounts for 1 tokens, and \"output_ids\" has 3",
        ),
        (
            "{\"prompt_ids\": [0], \"output_ids\": [1], \"sampling\": {\"top_p\": 2}}",
            "in \"sampling\": top_p",
        ),
    ] {
        fs::write(&file, wrong).unwrap();
        let run = specdec(&["audit", &file, "--target", "toy:mixed"]).output().unwrap();
        let stderr = text(&run.stderr);
        assert!(run.status.code() == Some(1) && stderr.contains(part), "{wrong}: {stderr}");
    }
}

/// Catches: a file that has each completion twice counts twice.
#[test]
fn copies_are_reported_and_count_once() {
    let own = TapeFolder::new();
    let tape = fs::read_to_string(own.scored()).unwrap();
    let lines = tape.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let texts =
        lines.filter_map(|line| line.get("text").cloned()).filter(|text| text["sampling"] == 1);
    let sequence = |(seed, text): (usize, Value)| {
        let line = json!({
            "prompt_ids": text["prompt_tokens"], "output_ids": text["tokens"], "seed": seed,
        });
        format!("{line}\n")
    };
    let once = (0..).zip(texts).map(sequence).collect::<String>();
    let file = own.path("completions.jsonl");
    let of = |lines: &str| {
        fs::write(&file, lines).unwrap();
        let (found, code, stderr) = audited(&[&file]);
        assert!(found[0]["tokens"] == 1440, "{code:?} {stderr}");
        (found[0]["copies"].clone(), found[0]["log10_e"].clone())
    };
    let (none, e) = of(&once);
    assert_eq!(none, 0);
    assert_eq!(of(&once.repeat(3)), (72.into(), e));
    let run = specdec(&["audit", &file, "--target", "toy:mixed"]).output().unwrap();
    let shown = text(&run.stdout);
    assert!(shown.contains("; 72 copies of completions are not counted"), "{shown}");
}

/// Rounds are audited if the sequences report enough of them.
#[test]
fn reported_rounds_are_audited() {
    let own = TapeFolder::new();
    let file = own.path("completions.jsonl");
    let line = |tokens: usize, reported: &str| {
        let tokens = (0..tokens).map(|i| i % 3).collect::<Vec<_>>();
        format!("{{\"prompt_ids\": [0, 1], \"output_ids\": {tokens:?}, {reported}}}\n")
    };
    let shown = |lines: &str, args: &[&str]| {
        fs::write(&file, lines).unwrap();
        let run = specdec(&[&["audit", &file, "--target", "toy:mixed"], args].concat()).output();
        let run = run.unwrap();
        text(&run.stdout) + &text(&run.stderr)
    };
    let (counts, draft) = ("\"accepted\": [2, 4, 4, 0]", ["--draft", "toy:mixed"]);
    let (with, without) = (line(14, counts), line(12, counts));
    let one_k = [&draft[..], &["-k", "4"]].concat();
    let reported = line(14, &format!("{counts}, \"drafted\": [4, 4, 4, 4]"));
    for (lines, args, part) in [
        (&with, &one_k[..], "rounds: each gives one token more than it accepts"),
        (&with, &one_k, "3 rounds: 10 of 11 drafted tokens are accepted, "),
        (&reported, &draft, "3 rounds: 10 of 11 drafted tokens are accepted, "),
        (&without, &one_k, "the bonus token is missing"),
        (&with, &draft, "neither \"drafted\" nor a single --num-speculative-tokens says"),
        (&with, &["-k", "4"], "that needs the draft model (--draft)"),
        (&line(5, counts), &one_k, "their counts do not show which tokens they produced"),
        (&with, &["-k", "3"], "a round accepts 4 tokens: --num-speculative-tokens is 3"),
        (&line(3, "\"seed\": 1"), &["--reported-rounds"], "does not show where rounds ended"),
        (&with, &["--reported-rounds", "--rule", "traversal"], "depend on tokens to come"),
        (&line(2, "\"drafted\": [1]"), &[], "\"drafted\" needs \"accepted\""),
        (&line(2, "\"accepted\": [1], \"drafted\": [1, 1]"), &[], "\"drafted\" has 2 rounds"),
        (&line(2, "\"accepted\": [1], \"drafted\": [0]"), &[], "has 1 where \"drafted\" has 0"),
    ] {
        let shown = shown(lines, args);
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

//! The lesson: its outputs are those of the program, and its notebook is made from it.
//!
//! A step is a code block that begins with `$ specdec`. Below the command stands what it prints:
//! `…` on a line stands for lines that are left out, and within a line for a time. The tests write
//! the lesson and the notebook as they should be to `target/tmp`.

mod notebook;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli_support::{json, text};

const LESSON: &str = "docs/lesson.md";
const FENCE: &str = "```";
const CUT: &str = "…";

/// A piece of the lesson.
#[derive(Debug)]
enum Part {
    Prose(String),
    /// A command, on one line or on several that end with backslashes, and the lines below it.
    Step {
        command: String,
        shown: Vec<String>,
    },
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn lesson() -> String {
    fs::read_to_string(project(LESSON)).unwrap()
}

fn parts(lesson: &str) -> Vec<Part> {
    let (mut parts, mut prose) = (Vec::new(), String::new());
    let mut lines = lesson.lines().peekable();
    while let Some(line) = lines.next() {
        if line == FENCE && lines.peek().is_some_and(|next| next.starts_with("$ ")) {
            parts.push(Part::Prose(std::mem::take(&mut prose)));
            let block = lines.by_ref().take_while(|line| *line != FENCE).collect::<Vec<_>>();
            let more = block.iter().take_while(|line| line.ends_with('\\')).count();
            let (command, shown) = block.split_at(more + 1);
            let command = command.join("\n").trim_start_matches("$ ").to_owned();
            let shown = shown.iter().map(|&line| line.to_owned()).collect();
            parts.push(Part::Step { command, shown });
        } else {
            prose += &format!("{line}\n");
        }
    }
    parts.push(Part::Prose(prose));
    parts
}

fn markdown(parts: &[Part]) -> String {
    let of = |part: &Part| match part {
        Part::Prose(prose) => prose.clone(),
        Part::Step { command, shown } => {
            let lines = shown.iter().map(|line| format!("{line}\n")).collect::<String>();
            format!("{FENCE}\n$ {command}\n{lines}{FENCE}\n")
        }
    };
    parts.iter().map(of).collect()
}

/// What a command prints, without colours and times.
fn printed(command: &str, isa: Option<&str>) -> Vec<String> {
    let program = assert_cmd::cargo::cargo_bin!("specdec").parent().unwrap().to_owned();
    let own = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([program].into_iter().chain(std::env::split_paths(&own)));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(project("")).env("PATH", path.unwrap());
    let output = shell.envs(isa.map(|isa| ("SPECDEC_ISA", isa))).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    let mut all = text(&output.stdout);
    // Of other commands, standard error has the progress alone, which depends on time.
    if command.starts_with("specdec generate") {
        // Statistics begin on a line of their own, notes do not.
        let apart = all.ends_with('\n') || stderr.starts_with('\n');
        all += if apart { "" } else { "\n" };
        all += &stderr;
    }
    all.lines().map(timeless).collect()
}

/// A line with `…` for numbers before a unit of time.
fn timeless(line: &str) -> String {
    let words = line.trim_end().split(' ').collect::<Vec<_>>();
    let is_unit = |word: &&str| {
        ["s", "ms", "tokens/s"].contains(&word.trim_end_matches([':', ';', ',', '.', ')']))
    };
    let of = |i: usize| match words[i].parse::<f64>() {
        Ok(_) if words.get(i + 1).is_some_and(is_unit) => CUT,
        _ => words[i],
    };
    (0..words.len()).map(of).collect::<Vec<_>>().join(" ")
}

/// Whether these are the printed lines, without those for which `…` stands.
fn agrees(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == CUT => {
            (1..=printed.len()).any(|n| agrees(rest, &printed[n..]))
        }
        Some((line, rest)) => printed.first() == Some(line) && agrees(rest, &printed[1..]),
    }
}

/// What a step should show: what it shows, or the printed lines that are most like these.
fn renewed(shown: Vec<String>, printed: &[String]) -> Vec<String> {
    if agrees(&shown, printed) {
        return shown;
    }
    if !shown.iter().any(|line| line == CUT) {
        return printed.to_vec();
    }
    let wanted = shown.into_iter().filter(|line| line != CUT).collect::<Vec<_>>();
    let mut lines = Vec::new();
    for (line, is_kept) in printed.iter().zip(most_alike(&wanted, printed)) {
        if is_kept {
            lines.push(line.clone());
        } else if lines.last().is_none_or(|last| last != CUT) {
            lines.push(CUT.to_owned());
        }
    }
    lines
}

/// Which printed lines are the wanted ones: those in the same order that have most in common.
fn most_alike(wanted: &[String], printed: &[String]) -> Vec<bool> {
    let (n, m) = (wanted.len(), printed.len());
    let mut best = vec![vec![0; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            let both = best[i + 1][j + 1] + likeness(&wanted[i], &printed[j]);
            best[i][j] = both.max(best[i + 1][j]).max(best[i][j + 1]);
        }
    }
    let mut kept = vec![false; m];
    let (mut i, mut j) = (0, 0);
    while i < n && j < m {
        if best[i][j] == best[i + 1][j] {
            i += 1;
        } else if best[i][j] == best[i][j + 1] {
            j += 1;
        } else {
            kept[j] = true;
            (i, j) = (i + 1, j + 1);
        }
    }
    kept
}

/// 100 for equal lines, less for lines with common words, 0 if these are few.
fn likeness(a: &str, b: &str) -> usize {
    if a == b {
        return 100;
    }
    let [a, b] = [a, b].map(|line| line.split_whitespace().collect::<Vec<_>>());
    let common = a.iter().filter(|word| b.contains(word)).count();
    let share = 90 * common / a.len().max(b.len()).max(1);
    if share < 30 { 0 } else { share }
}

/// The lesson with what its commands print now.
fn lesson_as_printed(isa: Option<&str>) -> String {
    let renew = |part| match part {
        Part::Step { command, shown } => {
            let printed = printed(&command, isa);
            Part::Step { shown: renewed(shown, &printed), command }
        }
        prose => prose,
    };
    markdown(&parts(&lesson()).into_iter().map(renew).collect::<Vec<_>>())
}

/// Writes what a file should be, and compares both line by line.
fn check(file: &str, wanted: &str) {
    let own = fs::read_to_string(project(file)).unwrap_or_default();
    let name = Path::new(file).file_name().unwrap();
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&made, wanted).unwrap();
    for (number, (own, wanted)) in (1..).zip(own.lines().zip(wanted.lines())) {
        assert_eq!(own, wanted, "{file}:{number}; the right file is {}", made.display());
    }
    assert!(own == wanted, "{file} ends elsewhere; the right file is {}", made.display());
}

/// Catches: the program prints something else than the lesson.
#[test]
fn the_lesson_shows_what_its_commands_print() {
    let steps = parts(&lesson()).into_iter().filter_map(|part| match part {
        Part::Step { command, .. } => Some(command),
        Part::Prose(_) => None,
    });
    let steps = steps.collect::<Vec<_>>();
    assert!(steps.len() > 15, "{steps:?}");
    for command in &steps {
        // A notebook replaces what stands behind these characters.
        assert!(command.starts_with("specdec ") && !command.contains(['$', '{']), "{command}");
    }
    check(LESSON, &lesson_as_printed(None));
}

/// Catches: a number of the lesson that depends on the instruction set.
#[test]
fn the_lesson_is_the_same_with_portable_code() {
    let printed = lesson_as_printed(Some("portable"));
    for (own, portable) in lesson().lines().zip(printed.lines()) {
        assert_eq!(own, portable);
    }
}

/// Catches: a number in the lesson's sentences that does not follow from its outputs.
#[test]
fn the_sums_of_the_lesson_follow_from_its_outputs() {
    let shown = |more: &[&str]| {
        let inspect = ["inspect", "let x = ", "--draft", "embedded-draft", "--json"];
        json(&[&inspect[..], more].concat())
    };
    let (raw, processed) = (shown(&[]), shown(&["--temperature", "0.7", "--top-k", "5"]));
    let number = |value: &Value| value.as_f64().unwrap();
    let row = |label: &str| {
        let rows = raw["tokens"].as_array().unwrap();
        let row = rows.iter().find(|row| row["label"] == label).unwrap();
        let p = number(&row["probabilities"][0]);
        (number(&row["logit"]), p, number(&row["q"]), number(&row["min_pq"]))
    };
    let ((z1, p1, q1, min1), (z2, ..), (_, p0, q0, _)) = (row("1"), row("2"), row("0"));
    let (entropy, alpha) = (number(&raw["stages"][0]["entropy"]), number(&raw["overlap"]));
    let mass = |n: usize| {
        let rows = processed["tokens"].as_array().unwrap()[..n].iter();
        rows.map(|row| number(&row["probabilities"][2])).sum::<f64>()
    };
    let config = fs::read_to_string(project("models/target/config.json")).unwrap();
    let config = serde_json::from_str::<Value>(&config).unwrap();
    let [layers, heads, size] = ["num_hidden_layers", "num_key_value_heads", "head_dim"]
        .map(|key| config[key].as_u64().unwrap());
    let bytes = 2 * layers * heads * size * 4;
    let rounds = |more: &[&str]| {
        let generate = ["generate", "impl Iterator for", "--json"];
        let stats = json(&[&generate[..], more].concat())["stats"].clone();
        ["rounds", "accepted", "new_tokens"].map(|key| stats[key].as_u64().unwrap())
    };
    let [passes, accepted, tokens] = rounds(&["-n", "21", "--seed", "5"]);
    let [greedy, _, plain] = rounds(&["-n", "24", "--temperature", "0"]);
    let forecast = lesson();
    let forecast = forecast.split("T = 1, model").nth(1).unwrap().lines().nth(1).unwrap();
    let forecast = forecast.split_whitespace().collect::<Vec<_>>();
    let [k, tau, conditional, speedup] = [0, 1, 5, 6].map(|i| forecast[i].parse::<f64>().unwrap());
    let formula = (1.0 - conditional.powf(k + 1.0)) / (1.0 - conditional);
    let wanted = [
        format!("exp({z1:.4} − {z2:.4}) = {:.2} times", (z1 - z2).exp()),
        format!("exp({entropy:.4}) = {:.1} equally", entropy.exp()),
        format!("first three have a mass of {:.3}, the first four of {:.3}", mass(3), mass(4)),
        format!("{layers} layers × {heads} heads × {size} numbers"),
        format!("{},{:03} bytes in f32", bytes / 1000, bytes % 1000),
        format!("log {p1:.4}, from step 1"),
        format!("{p0:.6} / {q0:.6} = {:.2}.", p0 / q0),
        format!("here {alpha:.4}."),
        format!("`1` has a residual of {:.2}, and", (p1 - q1) / (1.0 - alpha)),
        format!("{min1:.4} + {:.4} = {p1:.4}.", p1 - q1),
        format!("{:.4} instead of {p1:.4}.", min1 + (1.0 - alpha) * p1),
        format!("{passes} rounds accepted {accepted} tokens and added {passes}, which"),
        format!("{tokens} tokens in {passes} passes instead of {tokens}, or τ"),
        format!("τ = {tokens} / {passes} = {:.1} tokens", tokens as f64 / passes as f64),
        format!("in {greedy} passes instead of {plain}."),
        format!("At T = 1 and K = {k}, "),
        format!("gives {formula:.2} tokens. The exact expectation is {tau:.3}:"),
        format!("{tau:.3} / {speedup:.3} = {:.2} times as long", tau / speedup),
        format!("p(`1`) = {p1:.4}, the overlap"),
    ];
    for part in wanted {
        assert!(lesson().contains(&part), "{LESSON} lacks: {part}");
    }
}

#[test]
fn changed_outputs_keep_what_a_step_leaves_out() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let check = |shown: &str, printed: &str, wanted: &str| {
        assert_eq!(renewed(lines(shown), &lines(printed)), lines(wanted), "{shown}");
    };
    check("a b c\n…\nd e", "a b c\nx\ny\nd e", "a b c\n…\nd e");
    check("a b c\n…\nd e", "a b 3\nx\ny\nz\nd e f", "a b 3\n…\nd e f");
    check("a b c\n…\nd e", "new\na b c\nx\nd e", "…\na b c\n…\nd e");
    check("a b c\n…", "x y z", "…");
    check("a b\nc", "a b\nc\nd", "a b\nc\nd");
    check("", "all\nof it", "all\nof it");
    assert!(!agrees(&lines("a\n…\nb"), &lines("a\nb")), "a cut stands for something");
    assert_eq!(
        timeless("3 tokens in 0.5 s: 6.0 tokens/s, 4 s."),
        "3 tokens in … s: … tokens/s, … s."
    );
}

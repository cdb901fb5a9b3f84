//! `specdec bench` on a small checkpoint, and on servers.

use std::fs;
use std::path::Path;

use serde_json::Value;
use specdec::core::lanes::IsaKind;
use specdec::measure::bench::{BestLength, RoundCosts};

use crate::checkpoint::{Checkpoint, VOCAB};
use crate::cli_support::{refuses, specdec, stdout, text};
use crate::gather_support::{answer, canned, good};
use crate::serve_support::TestServer;

/// A folder with a target and a draft, and their paths.
fn pair() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (target, draft) = (path("target"), path("draft"));
    let shape = Checkpoint { hidden: 64, intermediate: 96, head_dim: 16, ..Checkpoint::default() };
    Checkpoint { layers: 4, ..shape.clone() }.write(Path::new(&target));
    Checkpoint { layers: 1, ..shape }.write(Path::new(&draft));
    (folder, target, draft)
}

#[test]
fn measures_a_pair_and_writes_csv() {
    let (folder, target, draft) = pair();
    let csv = folder.path().join("passes.csv").to_str().unwrap().to_owned();
    let args = ["bench", "--target", &target, "--draft", &draft, "--seconds", "0"];
    let more = ["--dtype", "q8_0", "--csv", &csv];
    let table = stdout(&[&args[..], &more].concat());
    for part in [
        "; reading as much: ",
        "GB/s  of reading  kept",
        "of the peak of",
        "at K = 0, T = 1",
        "at K = 4, T = 1",
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
    // Whether there is a conclusion depends on other work on the machine.
    let concludes = ["at alpha = 0.7", "even"].iter().all(|part| table.contains(part));
    assert_ne!(concludes, table.contains("no conclusion"), "{table}");
    let rows = fs::read_to_string(csv).unwrap();
    let mut lines = rows.lines();
    let header = "shape,dtype,device,threads,isa,m,median_us,min_us,spread,gb_per_s,\
                  bandwidth_share,kept,dropped,experts";
    assert_eq!(lines.next(), Some(header));
    let m = lines.map(|row| row.split(',').nth(5).unwrap().parse::<usize>().unwrap());
    assert!(m.eq(1..=16));
}

/// The content of the figure is tested in `bench.rs`, on a simulated clock.
#[test]
fn bench_draws_a_figure_or_says_why_not_after_the_table() {
    let (folder, target, _) = pair();
    let figure = folder.path().join("passes.svg");
    let args = ["bench", "--target", &target, "--seconds", "0", "--figure"];
    let output = specdec(&args).arg(&figure).output().unwrap();
    let (table, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(table.contains("T(m)/T(1)"), "{stderr}");
    assert_eq!(output.status.success(), figure.exists());
    assert!(figure.exists() || stderr.contains("nothing to draw: too few"), "{stderr}");
}

#[test]
fn answers_requests_one_by_one() {
    let (_folder, target, _) = pair();
    let args = ["bench", "--target", &target, "--interactive"];
    let requests = "pass 5\nprefill 40\nread\nbeams 3 4\nlogits 2\nquit\npass 1\n";
    let output = specdec(&args).write_stdin(requests).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answers = text(&output.stdout);
    let answers = answers.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let answers = answers.collect::<Vec<_>>();
    assert_eq!(answers.len(), 6, "nothing after quit");
    assert_eq!(answers[0]["ready"], true);
    assert!(answers[0]["bytes_per_token"].as_u64().unwrap() > 0);
    for timed in &answers[1..5] {
        assert!(timed["micros"].as_f64().unwrap() > 0.0);
        assert!((0.0..).contains(&timed["queue_share"].as_f64().unwrap()));
    }
    // One row for the prompt, then three per step.
    assert_eq!(answers[4]["rows"], 10);
    assert_eq!(answers[5]["logits"].as_array().unwrap().len(), VOCAB);
}

/// The logits after given tokens do not depend on what was asked before.
#[test]
fn answers_with_the_logits_after_given_tokens() {
    let (_folder, target, _) = pair();
    let logits = |requests: &str| {
        let args = ["bench", "--target", &target, "--context", "2", "--interactive"];
        let output = specdec(&args).write_stdin(requests).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let answers = text(&output.stdout);
        let answers = answers.lines().skip(1).map(|l| serde_json::from_str::<Value>(l).unwrap());
        answers.map(|answer| answer["logits"].clone()).collect::<Vec<_>>()
    };
    // The text of `logits M` is 3, 10, 17, ...
    let fixed = logits("logits 1\nlogits 2\n");
    let given = logits("logits-after 3 10 17\nlogits-after 3 11\nlogits-after 3 10\n");
    assert_eq!((&given[2], &given[0]), (&fixed[0], &fixed[1]));
    assert_ne!(given[1], given[2]);
    assert_eq!(logits("logits-after 3 11\n")[0], given[1]);
}

#[test]
fn wrong_requests_and_options_are_refused() {
    let (_folder, target, _) = pair();
    for (request, part) in [
        ("pass none", "allowed is 1 to 33 here"),
        ("pass 0", "allowed is 1 to 33 here"),
        ("logits 18446744073709551615", "allowed is 1 to 33 here"),
        (
            "passes 3",
            "allowed are pass M BATCH shared, tapped M, prefill N, score N, read, beams B STEPS, ",
        ),
        ("logits-after", "allowed are pass M BATCH"),
        ("logits-after 0 -1", "token \"-1\": allowed is 0 to "),
        ("logits-after 4294967295", "token \"4294967295\": allowed is 0 to "),
        ("prefill 97", "allowed is 1 to 96 here"),
    ] {
        let args = ["bench", "--target", &target, "--interactive"];
        let output = specdec(&args).write_stdin(format!("{request}\n")).output().unwrap();
        let stderr = text(&output.stderr);
        assert!(!output.status.success() && stderr.starts_with("error: "), "{request}: {stderr}");
        assert!(stderr.contains(part), "{request}: {stderr}");
    }
    refuses(&["bench", "--target", &target, "--figure", "a.pdf"], "must end in .svg");
    let bench = ["bench", "--target", &target, "--context"];
    for (context, more, most) in [
        ("0", &[][..], "1 to 81"),
        ("82", &[], "96 positions and 15 tokens follow"),
        ("18446744073709551615", &[], "1 to 81"),
        ("97", &["--interactive"], "1 to 96"),
    ] {
        refuses(&[&bench[..], &[context], more].concat(), most);
    }
    refuses(&["bench", "--shape", "3m"], "15m, 110m, 1.1b");
    let output = specdec(&["bench", "--target", &target, "--engine", "torch"]).output().unwrap();
    assert!(text(&output.stderr).contains("possible values: native, candle"));
    let output = specdec(&["bench", "--shape", "110m", "--draft", &target]).output().unwrap();
    assert!(text(&output.stderr).contains("cannot be used with"));
}

#[test]
fn the_best_length_follows_from_the_costs() {
    let passes = vec![10.0, 10.0, 12.0];
    let costs = RoundCosts { passes, draft: 1.0, at_once: false, outside: 1.0, plain_outside: 0.5 };
    assert_eq!(costs.speedup(0.5, 1), 1.5 * 10.5 / 12.0);
    assert_eq!(costs.speedup(0.5, 2), 1.75 * 10.5 / 15.0);
    let best =
        |acceptance, length| BestLength { length, speedup: costs.speedup(acceptance, length) };
    assert_eq!(costs.best(0.5), best(0.5, 1));
    assert_eq!(costs.best(1.0), best(1.0, 2));
    // (1 + a) 10.5 >= 12 for a >= 1/7.
    assert_eq!(costs.break_even(), Some(0.143));
    let costly = RoundCosts { passes: vec![10.0, 30.0], ..costs };
    assert_eq!(costly.break_even(), None);
}

/// Workers without work sleep: waiting for a request takes no processor time.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_engine_sleeps() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let (_folder, target, _) = pair();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("specdec"))
        .args(["bench", "--target", &target, "--threads", "2", "--interactive"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    answers.read_line(&mut String::new()).unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    let ticks = || {
        let stat = fs::read_to_string(&stat).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace().collect::<Vec<_>>();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let sleep = std::thread::sleep;
    sleep(std::time::Duration::from_millis(50));
    let before = ticks();
    sleep(std::time::Duration::from_millis(500));
    // A tick is 10 ms; a thread that polls for work would take 50.
    assert!(ticks() - before <= 1, "{} ticks while idle", ticks() - before);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_instruction_set_can_be_forced_and_a_wrong_one_is_refused() {
    let run = |isa: &str| {
        let args = ["generate", "--prompt", "fn main() {", "-n", "3", "--json"];
        specdec(&args).env("SPECDEC_ISA", isa).output().unwrap()
    };
    for isa in IsaKind::ALL.into_iter().filter(|isa| isa.is_available()) {
        assert!(run(isa.name()).status.success(), "{}", isa.name());
    }
    let output = run("sse2");
    assert!(!output.status.success());
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: ") && stderr.contains("SPECDEC_ISA=sse2"), "{stderr}");
}

/// A file with a prompt of letters that toy models know.
fn letters(folder: &Path) -> String {
    let prompts = folder.join("prompts.jsonl");
    fs::write(&prompts, format!("{{\"prompt\": \"{}\"}}\n", "abcdab".repeat(50))).unwrap();
    prompts.to_str().unwrap().to_owned()
}

/// Two servers of the embedded pair, one of which drafts three tokens per round. How long their rounds
/// take depends on other work here; what is counted does not. The samples are kept even if they
/// disagree.
///
/// Catches: rounds counted as tokens, or the server without drafts as one with them; prompts or
/// requests of another number.
#[test]
fn servers_are_timed_by_rounds_in_turns() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("served.csv").display().to_string();
    let start = |method: &[&str]| TestServer::of("embedded-target", method);
    let (plain, drafts) = (start(&["--plain"]), start(&["-k", "3"]));
    let servers = ["bench", "--plain-url", &plain.url(), "--url", &drafts.url()].map(str::to_owned);
    let options = "--concurrency 1,3 --prompt-tokens 8,24 -n 64 --seconds 0 --temperature 1 --csv";
    let run = specdec(&servers.iter().map(String::as_str).collect::<Vec<_>>())
        .args(options.split(' '))
        .arg(&csv)
        .output()
        .unwrap();
    let (table, stderr) = (text(&run.stdout), text(&run.stderr));
    assert!(table.starts_with("K  requests  prompt  context  ms/round"), "{table}{stderr}");
    assert!(run.status.success() || stderr.contains("settings disagree by more than"), "{stderr}");
    let samples = specdec::measure::bench::read_served(csv.as_ref()).unwrap();
    for (url, k) in [(plain.url(), 0), (drafts.url(), 3)] {
        for (batch, prompt) in [(1, 8), (1, 24), (3, 8), (3, 24)] {
            let own = samples.iter().filter(|one| one.server == url);
            let own = own.filter(|one| (one.batch, one.prompt) == (batch, prompt));
            let own = own.collect::<Vec<_>>();
            assert!(own.len() >= 3, "{url}: {} samples of {batch}, {prompt}", own.len());
            for one in own {
                assert_eq!(one.k, k, "{one:?}");
                // Only the last round of a completion may draft less.
                assert!(one.drafted <= k as f64 && one.drafted > 0.7 * k as f64 - 0.01, "{one:?}");
                // The context grows while it decodes; tokens have different lengths.
                let grown = one.context - prompt as f64;
                assert!((8.0..=500.0).contains(&grown) && one.first_ms > 0.0, "{one:?}");
                let per_round = one.tokens_per_s * one.round_ms / 1e3 / batch as f64;
                let most = 1.0 + k as f64;
                assert!((0.9..=most * 1.1).contains(&per_round), "{per_round}: {one:?}");
            }
        }
    }
}

/// What a server says decides; nothing is measured of one that does not say enough.
#[test]
fn servers_that_do_not_report_enough_are_refused() {
    let stream = |events: &str| answer(200, events);
    let models = || good(&serde_json::json!({"data": [{"id": "m"}]}));
    for (events, part) in [
        ("data: {\"choices\": [{\"text\": \"a\"}]}\n\ndata: [DONE]\n\n", "no \"usage\""),
        ("data: {\"error\": {\"message\": \"full\"}}\n\n", "it sends an error"),
        ("data: {\n\n", "an event is not JSON"),
    ] {
        let (url, _requests) = canned(vec![models(), stream(events)]);
        refuses(&["bench", "--url", &url, "--concurrency", "1", "--prompt-tokens", "8"], part);
    }
    let server = TestServer::start(&["-k", "2"]);
    let (url, folder) = (server.url(), tempfile::tempdir().unwrap());
    let prompts = letters(folder.path());
    let bench = ["bench", "--url", &url, "--concurrency", "1", "--prompt-tokens", "8"];
    let bench = [&bench[..], &["-n", "16", "--seconds", "0", "--prompts", &prompts]].concat();
    let run = specdec(&bench).output().unwrap();
    let stderr = text(&run.stderr);
    assert!(
        stderr.contains("no setting decodes plainly") || stderr.contains("settings disagree"),
        "{stderr}"
    );
    refuses(&[&bench[..], &["-k", "2,4"]].concat(), "-k has 2 lengths");
    let plain = [&["bench", "--plain-url", &url], &bench[3..]].concat();
    refuses(&plain, "it drafts: name a server that decodes plainly");
    for (option, value, part) in [
        ("--concurrency", "0", "from 1 to 256"),
        ("--max-tokens", "0", ">= 1"),
        ("--temperature", "-1", "from 0 to 100"),
    ] {
        let args = ["bench", "--url", "http://localhost:1", &format!("{option}={value}")];
        refuses(&args, part);
    }
}

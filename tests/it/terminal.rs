//! Output on a terminal and elsewhere, streams that are closed or full, and Ctrl-C.

mod drafts;
mod narrow;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use specdec::run::experiment::{Manifest, Status};

use crate::checkpoint::Checkpoint;
use crate::cli_support::{json, refuses, stdout, text};
use crate::run_support::{fail, folder, run, spawn, specdec, succeed, wait_for_a_block};

/// What a command prints on a terminal of `columns` columns.
fn on_terminal(columns: usize, args: &[&str]) -> String {
    after(&format!("stty rows 24 cols {columns}"), args)
}

/// What a command prints on a terminal after another one in the same shell.
fn after(first: &str, args: &[&str]) -> String {
    let quoted = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
    let program = env!("CARGO_BIN_EXE_specdec");
    let mut script = Command::new("script");
    let command = format!("{first}; exec {program} {quoted}");
    script.current_dir(env!("CARGO_MANIFEST_DIR")).env("TERM", "xterm").env_remove("NO_COLOR");
    let output =
        script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    let shown = text(&output.stdout).replace("\r\n", "\n");
    assert!(output.status.success(), "{shown}");
    shown
}

const SMOKE: [&str; 4] = ["run", "experiments/00-smoke", "--clock", "virtual"];

/// The program as a shell starts it, with these redirections.
fn redirected(args: &[&str], redirections: &str) -> Output {
    let command = format!("exec \"$0\" \"$@\" {redirections}");
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", &command, env!("CARGO_BIN_EXE_specdec")]).args(args);
    shell.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
}

#[test]
fn the_progress_line_is_narrower_than_the_terminal() {
    let out = tempfile::tempdir().unwrap();
    let more = ["--set", "repeats=20", "--out", out.path().to_str().unwrap()];
    let shown = on_terminal(60, &[&SMOKE[..], &more].concat());
    let frames = shown.split("\r\u{1b}[2K").skip(1).map(|frame| frame.lines().next().unwrap_or(""));
    let frames = frames.filter(|frame| frame.contains("generations")).map(str::trim_end);
    let frames = frames.collect::<Vec<_>>();
    assert!(!frames.is_empty(), "{shown}");
    for frame in frames {
        assert!(frame.chars().count() < 60 && frame.contains(" left; "), "{frame}");
    }
    let lines = shown.lines().collect::<Vec<_>>();
    assert!(lines[lines.len() - 1].ends_with("report.md"), "{shown}");
    let head = lines.iter().position(|line| line.starts_with("method ")).unwrap();
    let (table, path) = lines[head..].split_at(lines.len() - 1 - head);
    assert!(table.iter().all(|line| line.chars().count() <= 60), "{shown}");
    assert!(path[0].split_whitespace().count() == 1 && shown.contains("prompt_lookup"), "{shown}");
}

#[test]
fn output_without_a_terminal_is_short_and_plain() {
    let out = tempfile::tempdir().unwrap();
    let output = run(out.path(), &["--set", "repeats=4"]);
    let error = text(&output.stderr);
    assert!(!error.chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
    assert!(error.lines().count() < 60, "{error}");
    assert_eq!(text(&output.stdout).lines().count(), 1, "the path of the report alone");
}

#[test]
fn a_run_prints_its_results_last() {
    let out = tempfile::tempdir().unwrap();
    let output = run(out.path(), &[]);
    let error = text(&output.stderr);
    let from = |start: &str| error.lines().position(|line| line.starts_with(start));
    let (warning, head) = (from("warning: Times").unwrap(), from("method ").unwrap());
    assert!(warning < head, "{error}");
    let table = error.lines().skip(head).collect::<Vec<_>>();
    assert!(table[0].split_whitespace().eq([
        "method",
        "sampling",
        "class",
        // Times of a virtual clock choose no K.
        "max",
        "K",
        "speedup",
        "[95",
        "%]",
        "acceptance",
        "verdict"
    ]));
    assert_eq!(table.len(), 1 + 12 + 1, "{error}");
    assert!(table[1..13].iter().all(|line| line.ends_with("  withheld")), "{error}");
    assert_eq!(table[13], "class D lossless, G greedy-exact");
    assert!(error.lines().all(|line| line.chars().count() <= 100 || line.starts_with("results:")));
    // Making the report again prints the same.
    let folder = folder(out.path());
    let again = specdec(&["report", folder.to_str().unwrap()]).output().unwrap();
    assert!(text(&again.stderr).ends_with(&format!("{}\n", table.join("\n"))));
    assert_eq!(text(&again.stdout), text(&output.stdout));
}

#[test]
fn closed_pipes_and_a_full_stderr_do_not_stop_a_run() {
    for redirections in ["2>&1 | head -n 1", "2>/dev/full", "2>&-", "| head -c 0", ">&- 2>&-"] {
        let out = tempfile::tempdir().unwrap();
        let args = [&SMOKE[..], &["--out", out.path().to_str().unwrap()]].concat();
        let output = redirected(&args, redirections);
        assert!(output.status.success(), "{redirections}: {}", text(&output.stderr));
        let status = Manifest::read(&folder(out.path())).unwrap().status;
        assert_eq!(status, Status::Finished, "{redirections}");
    }
    let output = redirected(&["generate", "--target", "toy:mixed", "ab"], ">/dev/full 2>&1");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_full_standard_output_is_an_error() {
    let out = tempfile::tempdir().unwrap();
    let run = [&SMOKE[..], &["--out", out.path().to_str().unwrap()]].concat();
    for args in [&run[..], &["list"], &["--help"], &["generate", "--target", "toy:mixed", "ab"]] {
        let output = redirected(args, ">/dev/full");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let error = text(&output.stderr);
        let last = error.lines().last().unwrap();
        assert!(last.starts_with("error: cannot write to standard output: No space"), "{error}");
    }
    assert_eq!(Manifest::read(&folder(out.path())).unwrap().status, Status::Finished);
}

#[test]
fn non_utf8_arguments_are_refused_with_their_position() {
    let mut command = specdec(&["generate", "--target"]);
    let output = command.arg(std::ffi::OsStr::from_bytes(b"a\xff")).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(error, "error: argument 3 is not UTF-8 text: a\u{fffd}\n");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_prompt_may_be_given_without_an_option() {
    let seeded = ["generate", "--target", "toy:mixed", "--seed", "3"];
    let with = |more: &[&str]| stdout(&[&seeded[..], more].concat());
    assert_eq!(with(&["ab"]), with(&["--prompt", "ab"]));
    assert!(stdout(&["inspect", "--target", "toy:mixed", "ab"]).contains("after 2 prompt tokens"));
    let both = specdec(&["generate", "ab", "--prompt", "ab"]).output().unwrap();
    assert!(text(&both.stderr).contains("cannot be used with"));
}

#[test]
fn resume_does_not_take_the_experiment_as_its_value() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let out = out.path().to_str().unwrap();
    let resume = ["run", "--resume", "experiments/00-smoke", "--clock", "virtual", "--out", out];
    fail(specdec(&resume).output().unwrap(), &["nothing to resume"]);
    // A results folder is not an experiment.
    let named = ["run", "--resume", folder.to_str().unwrap()];
    refuses(&named, &format!("add --resume={}", folder.display()));
}

#[test]
fn generated_text_is_harmless_on_a_terminal_and_raw_elsewhere() {
    let place = tempfile::tempdir().unwrap();
    let model = place.path().join("model");
    Checkpoint::default().write(&model);
    let args = ["generate", "--target", model.to_str().unwrap(), "--plain", "--ignore-eos", "the"];
    let controls = |text: &str| text.chars().filter(|c| c.is_control() && *c != '\n').count();
    let whole = json(&[&args[..], &["--json"]].concat());
    let whole = whole["text"].as_str().unwrap();
    assert!(controls(whole) > 0, "a random model generates control characters: {whole:?}");
    assert_eq!(stdout(&args), whole);
    let shown = on_terminal(80, &args);
    assert_eq!(controls(&shown.replace('\t', "")), 0, "{shown:?}");
    assert!(shown.contains('\u{fffd}'));
}

/// Sends an interrupt to a program.
fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

/// Waits for a program to end as an interrupted one, and returns its errors.
fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    text(&output.stderr)
}

#[test]
fn the_first_interrupt_is_answered_at_once() {
    let out = tempfile::tempdir().unwrap();
    let child = spawn(out.path());
    let folder = wait_for_a_block(out.path());
    interrupt(&child);
    let error = ended(child);
    let answer = "interrupted: finishing the current round; press Ctrl-C again to stop at once";
    assert!(error.lines().any(|line| line == answer), "{error}");
    let last = "interrupted: all finished blocks are kept; continue with --resume";
    assert_eq!(error.lines().last(), Some(last));
    assert_eq!(Manifest::read(&folder).unwrap().status, Status::Interrupted);
}

#[test]
fn an_interrupt_while_loading_ends_at_once() {
    let mut command = specdec(&["run", "/dev/stdin"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // More than the pipe holds can be written only once the program reads it.
    let mut writer = child.stdin.take().unwrap();
    writer.write_all("# slow\n".repeat(1 << 15).as_bytes()).unwrap();
    interrupt(&child);
    assert_eq!(ended(child), "interrupted while loading: nothing was run\n");
}

#[test]
fn an_interrupt_while_reporting_loses_nothing() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let (figure, summary) = (folder.join("figures/speedup.svg"), folder.join("summary.csv"));
    let out = out.path().to_str().unwrap();
    // Other work may hold up this test until the report is written: then it tries again.
    let interrupted = || {
        let mut manifest = Manifest::read(&folder).unwrap();
        manifest.status = Status::Measured;
        manifest.write(&folder).unwrap();
        fs::remove_file(&summary).unwrap();
        let mut command = specdec(&[&SMOKE[..], &["--out", out, "--resume"]].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        while !summary.exists() {
            std::thread::sleep(Duration::from_micros(100));
        }
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        (!output.status.success()).then_some(output)
    };
    let output = (0..50).find_map(|_| interrupted()).expect("no report was interrupted");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.ends_with("all rows are kept; --resume writes the report\n"), "{error}");
    succeed(run(Path::new(out), &["--resume"]));
    assert_eq!(Manifest::read(&folder).unwrap().status, Status::Finished);
    assert!(File::open(figure).unwrap().metadata().unwrap().is_file());
}

/// Runs a test of this file in a process of its own.
fn alone(test: &str, backtrace: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("RUST_BACKTRACE", backtrace);
    command.env("SPECDEC_TEST_ALONE", "1").output().unwrap()
}

#[test]
fn a_panic_is_reported_in_one_sentence() {
    if std::env::var_os("SPECDEC_TEST_ALONE").is_some() {
        specdec::cli::report_bugs();
        panic!("the impossible\nhappened");
    }
    let name = "terminal::a_panic_is_reported_in_one_sentence";
    let output = alone(name, "0");
    let error = text(&output.stderr);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("error: this is a bug in specdec: the impossible happened at tests"));
    assert!(error.contains(&format!("please report it with version {version}")), "{error}");
    assert_eq!(output.status.code(), Some(101));
    assert!(text(&alone(name, "1").stderr).lines().count() > 5, "a backtrace if it is asked for");
}

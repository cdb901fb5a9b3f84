//! Terminals with room for sixty characters in a line.

use super::drafts::without_escapes;
use super::{after, on_terminal};
use crate::cli_tape_support::TapeFolder;

/// What a command prints to standard output on a terminal of `columns` columns.
fn printed(columns: usize, args: &[&str]) -> String {
    after(&format!("stty rows 24 cols {columns}; exec 2>/dev/null"), args)
}

fn check_width(shown: &str) {
    for line in without_escapes(shown).lines() {
        let is_word = line.split_whitespace().count() < 2;
        assert!(line.chars().count() <= 60 || is_word, "{line:?} in\n{shown}");
    }
}

/// The words, without rules of tables, and without numbers, some of which are times.
fn words(shown: &str) -> Vec<&str> {
    let is_word = |word: &&str| !word.starts_with("---") && !word.contains(char::is_numeric);
    shown.split_whitespace().filter(is_word).collect()
}

/// Catches: a terminal breaks a word in two, since a line is longer than it.
#[test]
fn no_word_is_broken() {
    let own = TapeFolder::new();
    let tape = own.scored();
    let mixed = ["inspect", "--target", "toy:mixed", "ab"];
    let drafted =
        ["--draft", "toy:mixed", "--temperature", "0.5", "--top-k", "3", "--top-p", "0.9"];
    for args in [
        &["list"][..],
        &["--help"],
        &["certify", "--method", "none"],
        &[
            "plan",
            "experiments/00-smoke",
            "--set",
            "question=why is it so and not otherwise in any case?",
        ],
        &["forecast", &tape],
        &["models"],
        &[&mixed[..], &drafted].concat(),
        &[&mixed[..], &["--beams", "3", "--tokens", "6"]].concat(),
    ] {
        let (narrow, wide) = (printed(60, args), printed(500, args));
        check_width(&narrow);
        assert_eq!(words(&narrow), words(&wide), "{args:?}");
        assert!(wide.lines().any(|line| line.chars().count() > 60), "{args:?} has no long line");
    }
}

#[test]
fn help_and_statistics_fit() {
    for command in ["generate", "certify", "run", "forecast", "list", "inspect"] {
        check_width(&on_terminal(60, &[command, "--help"]));
    }
    let shown = on_terminal(60, &["generate", "--target", "toy:mixed", "ab", "-n", "20"]);
    check_width(&shown);
    let said = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("distribution is that of sampling from the processed target"), "{shown}");
}

/// Catches: JSON and files for programs are broken into lines.
#[test]
fn json_stays_on_one_line() {
    let shown = on_terminal(60, &["inspect", "--target", "toy:mixed", "ab", "--json"]);
    assert_eq!(shown.lines().count(), 1);
    assert!(shown.starts_with('{') && shown.len() > 60);
}

/// Catches: `COLUMNS` is ignored by a terminal that reports no width.
#[test]
fn the_width_may_be_stated() {
    let shown = after("stty rows 0 cols 0; export COLUMNS=40", &["list"]);
    assert!(
        shown
            .lines()
            .filter(|line| line.split_whitespace().count() > 1)
            .all(|line| { line.chars().count() <= 40 })
    );
}

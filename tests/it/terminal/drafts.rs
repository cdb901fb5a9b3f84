//! `specdec generate --show-draft` on a terminal.

use specdec::io::shown::lines;

use super::{after, json, on_terminal, stdout};
use crate::checkpoint::Checkpoint;

const COLOURS: [&str; 3] = ["\x1b[32m", "\x1b[4;31m", "\x1b[36m"];

fn arguments(toy: &str) -> [&str; 7] {
    ["generate", "--target", toy, "--prompt", "ab", "-n", "24"]
}

/// A text without colours.
pub(super) fn without_escapes(painted: &str) -> String {
    let mut plain = String::new();
    let mut rest = painted;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain + rest
}

/// Catches: the legend comes before the text; a token has the colour of another origin.
#[test]
fn accepted_corrected_and_bonus_tokens_are_coloured() {
    let [accepted, corrected, bonus] = COLOURS;
    let run = |toy: &str| {
        let args = arguments(toy);
        let shown = on_terminal(80, &[&args[..], &["--show-draft"]].concat());
        let (text, said) = shown.split_once('\n').unwrap();
        assert_eq!(without_escapes(text), stdout(&args), "{toy}");
        let (legend, statistics) = said.split_once("24 tokens in ").unwrap();
        assert!(COLOURS.iter().all(|colour| legend.contains(colour)), "{legend:?}");
        assert!(!statistics.contains('\x1b'), "{statistics:?}");
        text.to_owned()
    };
    // If p = q all drafts are kept; if p and q are disjoint, none is.
    let equal = run("toy:equal");
    assert!(equal.contains(accepted) && equal.contains(bonus) && !equal.contains(corrected));
    let disjoint = run("toy:disjoint");
    assert!(!disjoint.contains(accepted) && disjoint.contains(corrected));
    let mixed = run("toy:mixed");
    assert!(mixed.contains(accepted) && mixed.contains(corrected));
}

/// A random model emits bytes that are not valid UTF-8, and characters of several tokens.
#[test]
fn coloured_text_is_complete_and_in_whole_characters() {
    let place = tempfile::tempdir().unwrap();
    let model = place.path().join("model");
    Checkpoint::default().write(&model);
    let model = model.to_str().unwrap();
    for seed in ["1", "2", "3"] {
        let names = ["generate", "--target", model, "--draft", model, "the", "--ignore-eos"];
        let args = [&names[..], &["-n", "40", "--draft-temperature", "2", "--seed", seed]].concat();
        let whole = json(&[&args[..], &["--json"]].concat());
        let painted = on_terminal(80, &[&args[..], &["--show-draft"]].concat());
        assert!(painted.contains(COLOURS[0]), "{painted:?}");
        let text = lines(whole["text"].as_str().unwrap());
        assert!(without_escapes(&painted).contains(&text), "{painted:?} is not {text:?}");
    }
}

#[test]
fn colours_end_before_a_stop_string() {
    let stopping = ["--temperature", "0", "--stop", "baab", "--show-draft"];
    let shown = on_terminal(80, &[&arguments("toy:mixed")[..], &stopping].concat());
    assert_eq!(without_escapes(shown.split('\n').next().unwrap()), "aa");
}

#[test]
fn no_color_is_respected() {
    let args = [&arguments("toy:mixed")[..], &["--show-draft"]].concat();
    let shown = after("export NO_COLOR=1", &args);
    assert!(shown.contains("note: NO_COLOR is set") && !shown.contains('\x1b'), "{shown:?}");
    let shown = after("export NO_COLOR=", &args);
    assert!(shown.contains('\x1b'), "an empty NO_COLOR counts as unset");
}

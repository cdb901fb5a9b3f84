//! What `specdec generate` says next to the completion.

use super::{specdec, text, with};

fn said(args: &[&str]) -> String {
    text(&specdec(&with(args)).output().unwrap().stderr)
}

/// Catches: `--plain` claims a guarantee, as if something could be lost.
#[test]
fn plain_decoding_guarantees_nothing() {
    assert!(said(&["-n", "9"]).contains("\nguarantee D lossless: "));
    let plain = said(&["-n", "9", "--plain"]);
    assert!(!plain.contains("guarantee") && plain.ends_with(")\n"), "{plain}");
}

#[test]
fn the_token_of_a_round_without_a_draft_is_counted() {
    let lookup = said(&["-n", "9", "--drafter", "prompt_lookup", "--temperature", "0"]);
    let line = lookup.lines().find(|line| line.contains(" accepted, ")).unwrap();
    assert!(line.ends_with(" from rounds without a draft"), "{line}");
    // If p = q, every round emits three tokens.
    let equal = ["generate", "--target", "toy:equal", "ab", "-k", "2", "-n", "9"];
    let equal = text(&specdec(&equal).output().unwrap().stderr);
    assert!(equal.contains("6 accepted, 0 corrected, 3 bonus tokens\n"), "{equal}");
}

#[test]
fn without_a_cache_there_is_no_prefill() {
    for more in [&[][..], &["--num-beams", "2"]] {
        assert!(said(&[&["-n", "9"], more].concat()).contains("(prefill of 2 tokens: "));
        let uncached = said(&[&["-n", "9", "--no-kv-cache"], more].concat());
        let why = "(no prefill: without a KV cache, every pass reads the whole text)";
        assert!(uncached.contains(why) && !uncached.contains("prefill of"), "{uncached}");
    }
}

/// Catches: one completion of eight is shown, and nothing says that it was chosen.
#[test]
fn samples_say_which_completion_is_shown() {
    let best = said(&["-n", "6", "--samples", "8"]);
    assert!(best.contains("\nthe text is that of completion "), "{best}");
    assert!(
        best.contains(", chosen by logprob: log p -") && best.ends_with("; --json prints all 8\n")
    );
}

/// Catches: statistics continue the last line of the completion.
#[test]
fn statistics_begin_on_a_line_of_their_own() {
    for more in [&[][..], &["--samples", "2"], &["--num-beams", "2"]] {
        let both = said(&[&["-n", "9"], more].concat());
        assert!(both.starts_with('\n') && !both.starts_with("\n\n"), "{both:?}");
    }
}

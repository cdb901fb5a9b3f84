//! The built-in toy pairs, reachable everywhere as `toy:NAME`.
//!
//! Their distributions depend on the last two tokens, so that a wrong context, row or
//! cache slot changes them. Weights come from a fixed integer hash: the tables
//! never change.

use std::collections::BTreeMap;

pub use super::random_toy::random;
use super::toy::{contexts, key};
use super::{ToyDrafts, ToyPair, Words};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::UnknownName;

/// A built-in toy pair.
#[derive(Debug, Clone, Copy)]
pub struct ToyEntry {
    /// Its name after `toy:`.
    pub name: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// Builds it.
    pub build: fn() -> ToyPair,
}

/// All built-in toy pairs.
pub const TOYS: &[ToyEntry] = &[
    ToyEntry {
        name: "mixed",
        summary: "4 tokens, overlapping distributions of both models",
        build: || pair(4, |c, t| weight(1, c, t), |c, t| weight(2, c, t)),
    },
    ToyEntry {
        name: "close",
        summary: "3 tokens, a draft near the target (high acceptance)",
        build: || pair(3, |c, t| weight(3, c, t), |c, t| 3 * weight(3, c, t) + weight(4, c, t)),
    },
    ToyEntry {
        name: "apart",
        summary: "3 tokens, each model prefers what the other finds improbable (low acceptance)",
        build: || pair(3, |c, t| weight(14, c, t).pow(2), |c, t| (10 - weight(14, c, t)).pow(2)),
    },
    ToyEntry {
        name: "gaps",
        summary: "3 tokens, each model excludes some tokens",
        build: || pair(3, |c, t| some(15, c, t), |c, t| some(16, c, t)),
    },
    ToyEntry {
        name: "equal",
        summary: "3 tokens, draft = target: nothing is ever rejected",
        build: || pair(3, |c, t| weight(5, c, t), |c, t| weight(5, c, t)),
    },
    ToyEntry {
        name: "disjoint",
        summary: "4 tokens, draft and target never agree: everything is rejected",
        build: || {
            let side = |c: &[Token], t: Token| (t as usize + c.len()) % 2;
            pair(
                4,
                move |c, t| if side(c, t) == 0 { weight(6, c, t) } else { 0 },
                move |c, t| if side(c, t) == 1 { weight(7, c, t) } else { 0 },
            )
        },
    },
    ToyEntry {
        name: "one_hot",
        summary: "3 tokens, a one-hot draft against a soft target",
        build: || {
            let hot = |c: &[Token], t: Token| u64::from(mix(8, c, 0) % 3 == u64::from(t));
            pair(3, |c, t| weight(9, c, t), hot)
        },
    },
    ToyEntry {
        name: "zeros",
        summary: "4 tokens, each model excludes some tokens",
        build: || pair(4, |c, t| some(10, c, t), |c, t| some(11, c, t)),
    },
    ToyEntry {
        name: "binary",
        summary: "2 tokens, small enough to enumerate whole generations",
        build: || pair(2, |c, t| weight(12, c, t), |c, t| weight(13, c, t)),
    },
    ToyEntry {
        name: "thirds",
        summary: "2 tokens, p = (1/3, 2/3), q = (2/3, 1/3): a fixture with closed forms",
        build: || pair(2, |_, t| u64::from(t) + 1, |_, t| 2 - u64::from(t)),
    },
];

/// Built-in toy pairs whose draft has a vocabulary of its own: what it drafts for the target
/// is the intersection of both.
pub const OTHER_VOCABULARIES: &[ToyEntry] = &[
    ToyEntry {
        name: "syllables",
        summary: "4 tokens, 3 of which the draft has under other numbers (--vocabulary intersection)",
        build: || {
            let words = [Words(&["a", "b", "c", "bc"]), Words(&["c", "a", "b", "ca"])];
            pair_of_words(words, |c, t| weight(17, c, t), |c, t| weight(18, c, t))
        },
    },
    ToyEntry {
        name: "foreign",
        summary: "3 tokens, one of which ends a text; 2 of the draft's 4 (--vocabulary intersection)",
        build: || {
            let words = [Words(&["a", "b", "c"]), Words(&["x", "c", "y", "a"])];
            // After some texts it has nothing to say that the target understands.
            let silent = |c: &[Token]| mix(21, c, 0).is_multiple_of(4);
            let draft = |c: &[Token], t| if silent(c) && t % 2 == 1 { 0 } else { some(20, c, t) };
            let mut pair = pair_of_words(words, |c, t| weight(19, c, t), draft);
            pair.eos = vec![2];
            pair
        },
    },
];

/// Built-in toy pairs whose draft reads hidden states of the target, or drafts in parallel.
pub const HEADS: &[ToyEntry] = &[
    ToyEntry {
        name: "head",
        summary: "4 tokens, the draft is a head that reads states of the target",
        build: || {
            let pair = pair(4, |c, t| weight(22, c, t), |c, t| weight(23, c, t));
            pair.drafting_with(ToyDrafts::Head)
        },
    },
    ToyEntry {
        name: "exit",
        summary: "3 tokens, the draft is the target's first layers",
        build: || {
            let pair = pair(3, |c, t| some(24, c, t), |c, t| weight(25, c, t));
            pair.drafting_with(ToyDrafts::FirstLayers)
        },
    },
    ToyEntry {
        name: "block",
        summary: "3 tokens, the draft is a block: its rows depend on context, depth and last token",
        build: || {
            let pair = pair(3, |c, t| weight(26, c, t), |c, t| some(27, c, t));
            pair.drafting_with(ToyDrafts::Block)
        },
    },
    ToyEntry {
        name: "parallel",
        summary: "3 tokens, the draft has masks for the tokens drafted before: its rows depend on \
                  context and depth",
        build: || {
            let pair = pair(3, |c, t| some(28, c, t), |c, t| weight(29, c, t));
            pair.drafting_with(ToyDrafts::Parallel)
        },
    },
];

/// The built-in pair called `name`, or a random one: `random-7`.
///
/// # Errors
/// If there is none; the sentence lists the allowed names.
pub fn toy(name: &str) -> Result<ToyPair, Error> {
    if let Some(number) = name.strip_prefix("random-").and_then(|number| number.parse().ok()) {
        return Ok(random(number));
    }
    let all = || TOYS.iter().chain(OTHER_VOCABULARIES).chain(HEADS);
    let entry = all().find(|t| t.name == name).ok_or_else(|| {
        let names = all().map(|t| t.name).chain(["random-0 to random-4294967295"]);
        UnknownName::new("toy model", name, names)
    })?;
    Ok((entry.build)())
}

fn pair(
    vocab: usize,
    target: impl Fn(&[Token], Token) -> u64,
    draft: impl Fn(&[Token], Token) -> u64,
) -> ToyPair {
    ToyPair::new(vocab, 2, table(vocab, target), table(vocab, draft))
}

/// A pair whose models have vocabularies of their own: those of the target and the draft.
fn pair_of_words(
    words: [Words; 2],
    target: impl Fn(&[Token], Token) -> u64,
    draft: impl Fn(&[Token], Token) -> u64,
) -> ToyPair {
    let [vocab, own] = words.map(|Words(words)| words.len());
    let mut pair = ToyPair::new(vocab, 2, table(vocab, target), table(own, draft));
    pair.words = Some(words);
    pair
}

fn table(vocab: usize, weight: impl Fn(&[Token], Token) -> u64) -> BTreeMap<String, Vec<f64>> {
    let contexts = contexts(vocab, 2).into_iter();
    contexts.map(|c| (key(&c), distribution(vocab, |t| weight(&c, t)))).collect()
}

fn distribution(vocab: usize, weight: impl Fn(Token) -> u64) -> Vec<f64> {
    let weights = (0..vocab as Token).map(weight).collect::<Vec<_>>();
    let total = weights.iter().sum::<u64>() as f64;
    weights.into_iter().map(|w| w as f64 / total).collect()
}

/// A weight from 1 to 9.
fn weight(seed: u64, context: &[Token], token: Token) -> u64 {
    mix(seed, context, token) % 9 + 1
}

/// The same, but about a third of the tokens have weight 0; token 0 is always possible,
/// so no distribution is empty.
fn some(seed: u64, context: &[Token], token: Token) -> u64 {
    let excluded = token != 0 && mix(seed, context, token).is_multiple_of(3);
    if excluded { 0 } else { weight(seed, context, token) }
}

/// FNV-1a with a final avalanche.
fn mix(seed: u64, context: &[Token], token: Token) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for word in
        [seed, context.len() as u64].into_iter().chain(context.iter().map(|&t| u64::from(t)))
    {
        h = (h ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h = (h ^ u64::from(token)).wrapping_mul(0x0000_0100_0000_01b3);
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

//! What bets look at that no known bug has told of.

use super::groups::{Grouped, TextPast, grouped, ranges};
use super::laws::PlaceLaws;
use super::masses::dense;
use crate::distribution::Token;

/// What a bet looks at.
#[derive(Debug, Clone, Copy)]
pub struct UnknownBug {
    /// The name of the bet.
    pub name: &'static str,
    /// What it finds.
    pub summary: &'static str,
    /// The groups of a place, and that of its token; `None` if laws that they need are not known.
    pub(super) groups: fn(&PlaceLaws<'_>, &TextPast, Token) -> Option<Grouped>,
}

/// All bets that learn.
pub const UNKNOWN_BUGS: &[UnknownBug] = &[
    UnknownBug {
        name: "by_probability",
        summary: "a bug of no list, by which p decides what comes too often",
        groups: |laws, _, token| Some(ranges(laws.target, |_, p| p, token)),
    },
    UnknownBug {
        name: "by_ratio",
        summary: "a bug of no list, by which q/p decides what comes too often",
        groups: |laws, _, token| {
            let draft = laws.draft?;
            // Where q is nearly p, other arithmetic would order the tokens otherwise.
            Some(ranges(laws.target, |token, p| (1e3 * draft.p(token) / p).round(), token))
        },
    },
    UnknownBug {
        name: "by_token",
        summary: "a bug of no list, by which some tokens come too often or too seldom",
        groups: |laws, _, token| {
            Some(Grouped { masses: dense(laws.target), own: vec![(token as usize, 1.0)] })
        },
    },
    UnknownBug {
        name: "by_repeat",
        summary: "a bug of no list, which tells tokens apart that the text has already",
        groups: |laws, past, token| {
            let last = past.tokens.len().saturating_sub(1);
            let recent = last.saturating_sub(15);
            let sets = [&past.tokens[last..], &past.tokens[recent..last]];
            let near = |token| sets.iter().position(|set| set.contains(&token));
            let group = |token| near(token).or(past.taken.contains(&token).then_some(2));
            Some(grouped::<3>(laws.target, past.taken.iter(), group, token))
        },
    },
    UnknownBug {
        name: "by_rejection",
        summary: "a bug of no list, which tells tokens apart that were drafted and not taken",
        groups: |laws, past, token| {
            laws.draft?;
            let sets = [&past.taken, &past.not_taken];
            let group = |token| sets.iter().position(|set| set.contains(&token));
            Some(grouped::<2>(laws.target, past.taken.union(&past.not_taken), group, token))
        },
    },
];

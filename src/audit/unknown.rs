//! The groupings of bets on unknown bugs.

use super::groups::{Grouped, PastTokens, grouped, ranges};
use crate::bugs::PositionDists;
use crate::bugs::masses::dense;
use crate::core::distribution::Token;

/// What a learning bet looks at.
#[derive(Debug, Clone, Copy)]
pub struct UnknownBug {
    /// The name of the bet.
    pub name: &'static str,
    /// What it finds.
    pub summary: &'static str,
    /// The groups of a position and that of its token; `None` if it needs an unknown distribution.
    pub(super) groups: fn(&PositionDists<'_>, &PastTokens, Token) -> Option<Grouped>,
}

/// All learning bets.
pub const UNKNOWN_BUGS: &[UnknownBug] = &[
    UnknownBug {
        name: "by_probability",
        summary: "an unknown bug whose error depends on p",
        groups: |dists, _, token| Some(ranges(dists.target, |_, p| p, token)),
    },
    UnknownBug {
        name: "by_ratio",
        summary: "an unknown bug whose error depends on q/p",
        groups: |dists, _, token| by_ratio(dists, token),
    },
    UnknownBug {
        name: "by_previous_ratio",
        summary: "an unknown bug whose error depends on q/p at the token before and at the token",
        groups: |dists, past, token| {
            let last = *past.tokens.last()?;
            let before = dists.draft_before?.p(last) / dists.before?.p(last);
            // Rejection sampling always keeps a token whose q/p is at most 1.
            let bounds = [0.5, 1.0, 2.0];
            let part = bounds.iter().filter(|&&bound| before > bound).count();
            Some(by_ratio(dists, token)?.in_part(part, bounds.len() + 1))
        },
    },
    UnknownBug {
        name: "by_token",
        summary: "an unknown bug that draws some tokens too often or too rarely",
        groups: |dists, _, token| {
            Some(Grouped { masses: dense(dists.target), own: vec![(token as usize, 1.0)] })
        },
    },
    UnknownBug {
        name: "by_repeat",
        summary: "an unknown bug that treats tokens that occurred before differently",
        groups: |dists, past, token| {
            let last = past.tokens.len().saturating_sub(1);
            let recent = last.saturating_sub(15);
            let sets = [&past.tokens[last..], &past.tokens[recent..last]];
            let near = |token| sets.iter().position(|set| set.contains(&token));
            let group = |token| near(token).or(past.taken.contains(&token).then_some(2));
            Some(grouped::<3>(dists.target, past.taken.iter(), group, token))
        },
    },
    UnknownBug {
        name: "by_rejection",
        summary: "an unknown bug that treats rejected tokens differently",
        groups: |dists, past, token| {
            dists.draft?;
            let sets = [&past.taken, &past.not_taken];
            let group = |token| sets.iter().position(|set| set.contains(&token));
            Some(grouped::<2>(dists.target, past.taken.union(&past.not_taken), group, token))
        },
    },
];

/// Ranges of q/p.
fn by_ratio(dists: &PositionDists<'_>, token: Token) -> Option<Grouped> {
    let draft = dists.draft?;
    // Where q is close to p, rounding differences would change the order of the tokens.
    Some(ranges(dists.target, |token, p| (1e3 * draft.p(token) / p).round(), token))
}

//! Mistakes with what a request forbids: masks of grammars in the wrong rows, or for the wrong
//! completion, and ends that come too early or too late.

use std::sync::Arc;

use super::drafters::{DRAWS_USED_RECORDS_ASKED, forger};
use super::mutant::{CASE, Case, Mutant, PROMPT, RIGHT};
use super::rejection::{OtherInputs, SAME_INPUTS};
use super::{BUG, Bug};
use crate::core::distribution::{Dist, Token};
use crate::core::sampling::{
    ControlSet, Controls, Grammar, GrammarKind, SamplingParams, TokenRules, TokenSet,
};
use crate::core::tree::Draft;

/// A grammar whose state is the parity of the position.
#[derive(Debug)]
struct Alternating;

impl TokenRules for Alternating {
    fn allowed(&self, completion: &[Token]) -> Result<Option<Arc<TokenSet>>, String> {
        let follows = completion.iter().enumerate().all(|(at, &token)| may_be_at(at, token));
        let next = (0..4).filter(|&token| may_be_at(completion.len(), token));
        Ok(follows.then(|| Arc::new(TokenSet::new(next))))
    }
}

/// Tokens 0 and 1 at even positions of the completion, the others and 1 at odd ones.
fn may_be_at(position: usize, token: Token) -> bool {
    token == 1 || position.is_multiple_of(2) == (token == 0)
}

fn alternating() -> Controls {
    let text = "((a|b)(b|c|d))*".to_owned();
    let grammar = Grammar::new(GrammarKind::Regex, text, Arc::new(Alternating));
    ControlSet { grammar: Some(grammar), ..ControlSet::default() }.into()
}

/// The tokens before which token 1 may not end a completion.
const MIN_TOKENS: usize = 3;
const END: Token = 1;

fn ending_after(min_tokens: usize) -> Controls {
    ControlSet { min_tokens, ends: vec![END], ..ControlSet::default() }.into()
}

const GRAMMAR: Case = Case { controls: [alternating; 2], ..CASE };
const LATE_END: Case = Case { controls: [|| ending_after(MIN_TOKENS); 2], ..CASE };
/// A sampler that leaves controls to the verifier.
const UNCONTROLLED: fn(SamplingParams) -> SamplingParams =
    |params| SamplingParams { controls: Controls::NONE, ..params };

/// The targets of a chain, each with the tokens that may be in its row. The row has a number, which
/// is that of the drafted tokens before it.
fn masked(targets: &[Dist], may: impl Fn(usize, Token) -> bool) -> Vec<Dist> {
    let mut masked = Vec::with_capacity(targets.len());
    for (row, p) in targets.iter().enumerate() {
        let tokens = (0..p.vocab() as Token).map(|t| if may(row, t) { p.p(t) } else { 0.0 });
        masked.push(Dist::from_weights(tokens.collect()).unwrap_or_else(|_| p.clone()));
    }
    masked
}

/// The position of a row in the completion.
fn position(draft: &Draft, row: usize) -> usize {
    draft.start() - PROMPT.len() + row
}

/// A verifier that masks the targets by the grammar.
pub(super) const RIGHT_MASKS: Mutant = Mutant {
    verifier: &OtherInputs {
        targets: |draft, targets| masked(targets, |row, t| may_be_at(position(draft, row), t)),
        ..SAME_INPUTS
    },
    ..CONTROLLED_BY_VERIFIER
};

const CONTROLLED_BY_VERIFIER: Mutant = Mutant { case: GRAMMAR, sampler: UNCONTROLLED, ..RIGHT };

const fn wrong(verifier: &'static OtherInputs) -> Bug {
    Bug { mutant: Some(Mutant { verifier, ..CONTROLLED_BY_VERIFIER }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "grammar_in_first_row",
        summary: "the grammar masks the first row alone, not those after drafted tokens",
        ..wrong(&OtherInputs {
            targets: |draft, targets| {
                masked(targets, |row, t| row > 0 || may_be_at(position(draft, row), t))
            },
            ..SAME_INPUTS
        })
    },
    Bug {
        name: "grammar_after_rejected",
        summary: "all rows are masked by the state of the grammar after the whole draft",
        ..wrong(&OtherInputs {
            targets: |draft, targets| {
                masked(targets, |_, t| may_be_at(position(draft, draft.len()), t))
            },
            ..SAME_INPUTS
        })
    },
    Bug {
        name: "grammar_without_bonus",
        summary: "the row of the bonus token is not masked",
        ..wrong(&OtherInputs {
            targets: |draft, targets| {
                let bonus = draft.len();
                masked(targets, |row, t| row == bonus || may_be_at(position(draft, row), t))
            },
            ..SAME_INPUTS
        })
    },
    Bug {
        name: "grammar_masked_draft_raw_q",
        summary: "the draft is drawn from the masked q, and the unmasked one is recorded",
        mutant: Some(Mutant {
            case: Case { controls: [alternating, || Controls::NONE], ..CASE },
            drafter: |params| {
                let masked = |own| SamplingParams { controls: alternating(), ..own };
                forger(params, masked, DRAWS_USED_RECORDS_ASKED, 0.0)
            },
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "min_tokens_early_end",
        summary: "an end token is allowed one token before min_tokens",
        mutant: Some(Mutant {
            case: LATE_END,
            sampler: |params| SamplingParams { controls: ending_after(MIN_TOKENS - 1), ..params },
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "min_tokens_of_draft",
        summary: "min_tokens counts from the beginning of the draft",
        mutant: Some(Mutant {
            case: LATE_END,
            sampler: UNCONTROLLED,
            verifier: &OtherInputs {
                targets: |_, targets| masked(targets, |row, t| row >= MIN_TOKENS || t != END),
                ..SAME_INPUTS
            },
            ..RIGHT
        }),
        ..BUG
    },
];

//! Known-wrong verifiers whose distributions name the bug of a tested verifier.

use super::round::{ExternalChance, ExternalRound};
use crate::distribution::Token;
use crate::error::Error;

/// A known-wrong verifier of chains. [`crate::exactness::mutants`] has further ones.
#[derive(Debug, Clone, Copy)]
pub struct Suspect {
    /// Its name.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub imitates: &'static str,
    /// The verifier.
    pub verify: fn(&ExternalRound, &mut dyn ExternalChance) -> Result<Vec<Token>, Error>,
}

/// Rejection sampling of a chain with replaceable parts; as [`RIGHT`] it is correct.
struct RejectionParts {
    /// Probability of accepting the i-th token.
    accept: fn(&ExternalRound, usize) -> f64,
    /// Weights of the correction if the i-th token is rejected.
    correction: fn(&ExternalRound, usize) -> Vec<f64>,
    /// Weights of the token after a whole draft.
    bonus: fn(&ExternalRound) -> Vec<f64>,
}

const RIGHT: RejectionParts = RejectionParts {
    accept: |round, i| drafted(&round.p[i], round, i) / drafted(&round.q[i], round, i),
    correction: |round, i| residual(&round.p[i], &round.q[i]),
    bonus: |round| round.p[round.draft.len()].clone(),
};

/// All known-wrong verifiers of this module.
pub const SUSPECTS: &[Suspect] = &[
    Suspect {
        name: "accepts_all",
        imitates: "every drafted token is accepted",
        verify: |round, chance| run(round, chance, &RejectionParts { accept: |_, _| 1.0, ..RIGHT }),
    },
    Suspect {
        name: "last_draft_unverified",
        imitates: "the last drafted token is accepted unseen",
        verify: |round, chance| {
            let accept = |round: &ExternalRound, i| match i + 1 < round.draft.len() {
                true => (RIGHT.accept)(round, i),
                false => 1.0,
            };
            run(round, chance, &RejectionParts { accept, ..RIGHT })
        },
    },
    Suspect {
        name: "lenient",
        imitates: "a drafted token is accepted with probability min(1, 2 p/q)",
        verify: |round, chance| {
            let accept = |round: &ExternalRound, i| 2.0 * (RIGHT.accept)(round, i);
            run(round, chance, &RejectionParts { accept, ..RIGHT })
        },
    },
    Suspect {
        name: "accepts_with_p",
        imitates: "a drafted token is accepted with probability p, as if q were one-hot, and the \
                   correction is drawn from (p - q)+",
        verify: |round, chance| {
            let accept = |round: &ExternalRound, i: usize| drafted(&round.p[i], round, i);
            run(round, chance, &RejectionParts { accept, ..RIGHT })
        },
    },
    Suspect {
        name: "correction_without_draft",
        imitates: "the correction is drawn from p without the rejected token, as if q were \
                   one-hot",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i: usize| {
                let mut weights = round.p[i].clone();
                weights[round.draft[i] as usize] = 0.0;
                weights
            };
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "correction_from_q",
        imitates: "the correction is drawn from the draft's distribution",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i: usize| round.q[i].clone();
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "correction_uniform",
        imitates: "the correction is drawn uniformly",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, _| vec![1.0; round.vocab()];
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "correction_from_argmax_of_p",
        imitates: "the correction is the target's most probable token",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i: usize| one_hot(&round.p[i]);
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "correction_from_next_row",
        imitates: "the correction is drawn from the target's row after the rejected token",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i: usize| round.p[i + 1].clone();
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "residual_absolute",
        imitates: "the correction is drawn from |p - q|",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i: usize| {
                let rows = round.p[i].iter().zip(&round.q[i]);
                rows.map(|(p, q)| (p - q).abs()).collect()
            };
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "residual_not_normalised_last",
        imitates: "(p - q)+ is not normalised: a uniform number beyond its sum gives the last \
                   token",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i| unnormalised(round, i, round.vocab() - 1);
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "residual_not_normalised_first",
        imitates: "(p - q)+ is not normalised: a uniform number beyond its sum gives token 0",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, i| unnormalised(round, i, 0);
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "residual_of_first_row",
        imitates: "the residual is that of the first row, whichever token was rejected",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, _| residual(&round.p[0], &round.q[0]);
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "residual_of_last_row",
        imitates: "the residual is that of the last drafted row, whichever token was rejected",
        verify: |round, chance| {
            let correction = |round: &ExternalRound, _| {
                let last = round.q.len() - 1;
                residual(&round.p[last], &round.q[last])
            };
            run(round, chance, &RejectionParts { correction, ..RIGHT })
        },
    },
    Suspect {
        name: "argmax",
        imitates: "the target's most probable token in the place of a draw",
        verify: |round, chance| {
            run(&with_target(round, |_, row| one_hot(row)), chance, &RejectionParts { ..MATCHING })
        },
    },
    Suspect {
        name: "uniform",
        imitates: "the target is taken for uniform: logits divided by anything",
        verify: |round, chance| {
            let flat = with_target(round, |_, row| vec![1.0 / row.len() as f64; row.len()]);
            run(&flat, chance, &RIGHT)
        },
    },
    Suspect {
        name: "target_row_early",
        imitates: "every token is verified against the target's row of the token before",
        verify: |round, chance| {
            let early = with_target(round, |i, _| round.p[i.saturating_sub(1)].clone());
            run(&early, chance, &RIGHT)
        },
    },
    Suspect {
        name: "target_row_late",
        imitates: "every token is verified against the target's row of the token after",
        verify: |round, chance| {
            let last = round.draft.len();
            let late = with_target(round, |i, _| round.p[(i + 1).min(last)].clone());
            run(&late, chance, &RIGHT)
        },
    },
    Suspect {
        name: "draft_row_early",
        imitates: "every token is verified against the draft's row of the token before",
        verify: |round, chance| {
            let q = (0..round.q.len()).map(|i: usize| round.q[i.saturating_sub(1)].clone());
            run(&ExternalRound { q: q.collect(), ..round.clone() }, chance, &RIGHT)
        },
    },
    Suspect {
        name: "bonus_from_stale_row",
        imitates: "the token after a whole accepted draft is drawn from the row before",
        verify: |round, chance| {
            let bonus = |round: &ExternalRound| round.p[round.draft.len() - 1].clone();
            run(round, chance, &RejectionParts { bonus, ..RIGHT })
        },
    },
    Suspect {
        name: "bonus_is_argmax",
        imitates: "the token after a whole accepted draft is the target's most probable one",
        verify: |round, chance| {
            let bonus = |round: &ExternalRound| one_hot(&round.p[round.draft.len()]);
            run(round, chance, &RejectionParts { bonus, ..RIGHT })
        },
    },
    Suspect {
        name: "one_coin",
        imitates: "one uniform number decides on all tokens of the draft",
        verify: |round, chance| {
            // The first n tokens are all accepted with the smallest of their ratios.
            let mut most = 1.0_f64;
            let reached = (0..round.draft.len()).map(|i| {
                let before = most;
                most = most.min((RIGHT.accept)(round, i));
                before - most
            });
            let mut weights = reached.collect::<Vec<_>>();
            weights.push(most);
            let accepted = chance.choose(&weights)?;
            ended(round, chance, accepted, &RIGHT)
        },
    },
    Suspect {
        name: "counts_accepted",
        imitates: "the accepted tokens are counted, also those after a rejected one, and as many \
                   are kept",
        verify: |round, chance| {
            let mut accepted = 0;
            for i in 0..round.draft.len() {
                accepted += usize::from(coin(chance, (RIGHT.accept)(round, i))?);
            }
            ended(round, chance, accepted, &RIGHT)
        },
    },
];

/// Accepts a token with probability p, and else draws the correction from p.
const MATCHING: RejectionParts = RejectionParts {
    accept: |round, i| drafted(&round.p[i], round, i),
    correction: |round, i| round.p[i].clone(),
    ..RIGHT
};

/// The probability of the i-th drafted token in a row.
fn drafted(row: &[f64], round: &ExternalRound, i: usize) -> f64 {
    row[round.draft[i] as usize]
}

/// (p - q)+, not normalised.
fn residual(p: &[f64], q: &[f64]) -> Vec<f64> {
    p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect()
}

/// (p - q)+ with the mass missing to 1 added at a token.
fn unnormalised(round: &ExternalRound, i: usize, token: usize) -> Vec<f64> {
    let mut weights = residual(&round.p[i], &round.q[i]);
    weights[token] += (1.0 - weights.iter().sum::<f64>()).max(0.0);
    weights
}

/// The first of the most probable tokens as a distribution.
fn one_hot(row: &[f64]) -> Vec<f64> {
    let most = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
    (0..row.len()).map(|token| f64::from(u8::from(Some(token) == most))).collect()
}

/// The round with replaced target rows.
fn with_target(round: &ExternalRound, row: impl Fn(usize, &[f64]) -> Vec<f64>) -> ExternalRound {
    let p = round.p.iter().enumerate().map(|(i, p)| row(i, p)).collect();
    ExternalRound { p, ..round.clone() }
}

fn coin(chance: &mut dyn ExternalChance, p: f64) -> Result<bool, Error> {
    // 0/0 accepts nothing, because comparisons with NaN are false.
    let p = if p > 0.0 { p.min(1.0) } else { 0.0 };
    Ok(p >= 1.0 || (p > 0.0 && chance.choose(&[p, 1.0 - p])? == 0))
}

fn run(
    round: &ExternalRound,
    chance: &mut dyn ExternalChance,
    parts: &RejectionParts,
) -> Result<Vec<Token>, Error> {
    let mut accepted = 0;
    while accepted < round.draft.len() && coin(chance, (parts.accept)(round, accepted))? {
        accepted += 1;
    }
    ended(round, chance, accepted, parts)
}

/// The accepted tokens and the next one.
fn ended(
    round: &ExternalRound,
    chance: &mut dyn ExternalChance,
    accepted: usize,
    parts: &RejectionParts,
) -> Result<Vec<Token>, Error> {
    let mut weights = if accepted == round.draft.len() {
        (parts.bonus)(round)
    } else {
        (parts.correction)(round, accepted)
    };
    if weights.iter().all(|&weight| weight <= 0.0) {
        // Implementations fall back to p if the weights have no mass.
        weights.clone_from(&round.p[accepted]);
    }
    let next = chance.choose(&weights)? as Token;
    Ok(round.draft[..accepted].iter().copied().chain([next]).collect())
}

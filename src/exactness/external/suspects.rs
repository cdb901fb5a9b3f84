//! Known-wrong verifiers whose distributions name the bug of a tested verifier.

use super::round::{ExternalChance, ExternalRound, ExternalVerifier};
use crate::distribution::Token;
use crate::error::Error;

/// A known-wrong verifier of chains: rejection sampling with one part replaced.
/// [`crate::exactness::mutants`] has further ones.
#[derive(Debug, Clone, Copy)]
pub struct Suspect {
    /// Its name.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub imitates: &'static str,
    /// The round that it verifies in place of the given one.
    reads: Option<fn(&ExternalRound) -> ExternalRound>,
    accept: Accept,
    /// Number of accepted tokens.
    accepted: fn(&ExternalRound, &mut dyn ExternalChance, Accept) -> Result<usize, Error>,
    /// Weights of the correction if the i-th token is rejected.
    correction: fn(&ExternalRound, usize) -> Vec<f64>,
    /// Weights of the token after a whole draft.
    bonus: fn(&ExternalRound) -> Vec<f64>,
}

/// The probability of accepting the i-th token.
type Accept = fn(&ExternalRound, usize) -> f64;

/// Rejection sampling without a mistake.
const RIGHT: Suspect = Suspect {
    name: "right",
    imitates: "nothing",
    reads: None,
    accept: |round, i| drafted(&round.p[i], round, i) / drafted(&round.q[i], round, i),
    accepted: |round, chance, accept| {
        let mut accepted = 0;
        while accepted < round.draft.len() && coin(chance, accept(round, accepted))? {
            accepted += 1;
        }
        Ok(accepted)
    },
    correction: |round, i| residual(&round.p[i], &round.q[i]),
    bonus: |round| round.p[round.draft.len()].clone(),
};

/// All known-wrong verifiers of this module.
pub const SUSPECTS: &[Suspect] = &[
    Suspect {
        name: "accepts_all",
        imitates: "every drafted token is accepted",
        accept: |_, _| 1.0,
        ..RIGHT
    },
    Suspect {
        name: "last_draft_unverified",
        imitates: "the last drafted token is accepted unseen",
        accept: |round, i| match i + 1 < round.draft.len() {
            true => (RIGHT.accept)(round, i),
            false => 1.0,
        },
        ..RIGHT
    },
    Suspect {
        name: "lenient",
        imitates: "a drafted token is accepted with probability min(1, 2 p/q)",
        accept: |round, i| 2.0 * (RIGHT.accept)(round, i),
        ..RIGHT
    },
    Suspect {
        name: "accepts_with_p",
        imitates: "a drafted token is accepted with probability p, as if q were one-hot, and the \
                   correction is drawn from (p - q)+",
        accept: |round, i| drafted(&round.p[i], round, i),
        ..RIGHT
    },
    Suspect {
        name: "correction_without_draft",
        imitates: "the correction is drawn from p without the rejected token, as if q were \
                   one-hot",
        correction: |round, i| {
            let mut weights = round.p[i].clone();
            weights[round.draft[i] as usize] = 0.0;
            weights
        },
        ..RIGHT
    },
    Suspect {
        name: "correction_from_q",
        imitates: "the correction is drawn from the draft's distribution",
        correction: |round, i| round.q[i].clone(),
        ..RIGHT
    },
    Suspect {
        name: "correction_uniform",
        imitates: "the correction is drawn uniformly",
        correction: |round, _| vec![1.0; round.vocab()],
        ..RIGHT
    },
    Suspect {
        name: "correction_from_argmax_of_p",
        imitates: "the correction is the target's most probable token",
        correction: |round, i| one_hot(&round.p[i]),
        ..RIGHT
    },
    Suspect {
        name: "correction_from_next_row",
        imitates: "the correction is drawn from the target's row after the rejected token",
        correction: |round, i| round.p[i + 1].clone(),
        ..RIGHT
    },
    Suspect {
        name: "residual_absolute",
        imitates: "the correction is drawn from |p - q|",
        correction: |round, i| {
            let rows = round.p[i].iter().zip(&round.q[i]);
            rows.map(|(p, q)| (p - q).abs()).collect()
        },
        ..RIGHT
    },
    Suspect {
        name: "residual_not_normalised_last",
        imitates: "(p - q)+ is not normalised: a uniform number beyond its sum gives the last \
                   token",
        correction: |round, i| unnormalised(round, i, round.vocab() - 1),
        ..RIGHT
    },
    Suspect {
        name: "residual_not_normalised_first",
        imitates: "(p - q)+ is not normalised: a uniform number beyond its sum gives token 0",
        correction: |round, i| unnormalised(round, i, 0),
        ..RIGHT
    },
    Suspect {
        name: "residual_of_first_row",
        imitates: "the residual is that of the first row, whichever token was rejected",
        correction: |round, _| residual(&round.p[0], &round.q[0]),
        ..RIGHT
    },
    Suspect {
        name: "residual_of_last_row",
        imitates: "the residual is that of the last drafted row, whichever token was rejected",
        correction: |round, _| {
            let last = round.q.len() - 1;
            residual(&round.p[last], &round.q[last])
        },
        ..RIGHT
    },
    Suspect {
        name: "argmax",
        imitates: "the target's most probable token in the place of a draw",
        reads: Some(|round| with_target(round, |_, row| one_hot(row))),
        // Accepts a token with probability p, and else draws the correction from p.
        accept: |round, i| drafted(&round.p[i], round, i),
        correction: |round, i| round.p[i].clone(),
        ..RIGHT
    },
    Suspect {
        name: "uniform",
        imitates: "the target is taken for uniform: logits divided by anything",
        reads: Some(|round| with_target(round, |_, row| vec![1.0 / row.len() as f64; row.len()])),
        ..RIGHT
    },
    Suspect {
        name: "target_row_early",
        imitates: "every token is verified against the target's row of the token before",
        reads: Some(|round| with_target(round, |i, _| round.p[i.saturating_sub(1)].clone())),
        ..RIGHT
    },
    Suspect {
        name: "target_row_late",
        imitates: "every token is verified against the target's row of the token after",
        reads: Some(|round| {
            let last = round.draft.len();
            with_target(round, |i, _| round.p[(i + 1).min(last)].clone())
        }),
        ..RIGHT
    },
    Suspect {
        name: "draft_row_early",
        imitates: "every token is verified against the draft's row of the token before",
        reads: Some(|round| {
            let q = (0..round.q.len()).map(|i: usize| round.q[i.saturating_sub(1)].clone());
            ExternalRound { q: q.collect(), ..round.clone() }
        }),
        ..RIGHT
    },
    Suspect {
        name: "bonus_from_stale_row",
        imitates: "the token after a whole accepted draft is drawn from the row before",
        bonus: |round| round.p[round.draft.len() - 1].clone(),
        ..RIGHT
    },
    Suspect {
        name: "bonus_is_argmax",
        imitates: "the token after a whole accepted draft is the target's most probable one",
        bonus: |round| one_hot(&round.p[round.draft.len()]),
        ..RIGHT
    },
    Suspect {
        name: "one_coin",
        imitates: "one uniform number decides on all tokens of the draft",
        accepted: |round, chance, accept| {
            // The first n tokens are all accepted with the smallest of their ratios.
            let mut most = 1.0_f64;
            let reached = (0..round.draft.len()).map(|i| {
                let before = most;
                most = most.min(accept(round, i));
                before - most
            });
            let mut weights = reached.collect::<Vec<_>>();
            weights.push(most);
            chance.choose(&weights)
        },
        ..RIGHT
    },
    Suspect {
        name: "counts_accepted",
        imitates: "the accepted tokens are counted, also those after a rejected one, and as many \
                   are kept",
        accepted: |round, chance, accept| {
            let mut accepted = 0;
            for i in 0..round.draft.len() {
                accepted += usize::from(coin(chance, accept(round, i))?);
            }
            Ok(accepted)
        },
        ..RIGHT
    },
];

impl ExternalVerifier for Suspect {
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error> {
        let read = self.reads.map(|reads| reads(round));
        let round = read.as_ref().unwrap_or(round);
        let accepted = (self.accepted)(round, chance, self.accept)?;
        let mut weights = match accepted < round.draft.len() {
            true => (self.correction)(round, accepted),
            false => (self.bonus)(round),
        };
        if weights.iter().all(|&weight| weight <= 0.0) {
            // Implementations fall back to p if the weights have no mass.
            weights.clone_from(&round.p[accepted]);
        }
        let next = chance.choose(&weights)? as Token;
        Ok(round.draft[..accepted].iter().copied().chain([next]).collect())
    }
}

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

//! Runs an external verifier with every outcome of every decision.

use std::collections::BTreeMap;

use super::cases::RoundCase;
use super::draws::SampledChance;
use super::round::{ExternalChance, ExternalRound, ExternalVerifier, total};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::proof::joint::JointDistribution;

/// The largest number of decisions in a round and of paths of a case. A verifier with more of them
/// is sampled: it may draw in a loop, which has paths of any length.
const MOST_DECISIONS: usize = 1000;
const MOST_PATHS: u64 = 10_000_000;

/// The result of a walk.
#[derive(Debug)]
pub(super) enum CaseWalk {
    /// The distribution of the tokens of a round, and the number of paths.
    Enumerated(JointDistribution, u64),
    /// The verifier requested a uniform number, or has too many paths.
    Opaque,
    /// The verifier broke a rule of the interface.
    Fault(String),
}

/// A decision on a path.
#[derive(Debug)]
struct AskedChoice {
    weights: Vec<f64>,
    total: f64,
    choice: usize,
}

/// A path through the tree of all decisions.
#[derive(Debug, Default)]
struct DecisionWalk {
    path: Vec<AskedChoice>,
    cursor: usize,
    weight: f64,
    /// Decides at random once the round cannot be enumerated, so that the verifier can end it.
    sampled: Option<SampledChance>,
    /// The first request that was refused.
    refused: Option<Error>,
}

impl DecisionWalk {
    fn restart(&mut self) {
        self.cursor = 0;
        self.weight = 1.0;
    }

    /// Moves to the next path; false after the last one.
    fn advance(&mut self) -> bool {
        while let Some(last) = self.path.last_mut() {
            let rest = &last.weights[last.choice + 1..];
            if let Some(next) = rest.iter().position(|&weight| weight > 0.0) {
                last.choice += 1 + next;
                self.restart();
                return true;
            }
            self.path.pop();
        }
        false
    }

    fn decide(&mut self, weights: &[f64]) -> Result<usize, Error> {
        if self.cursor == self.path.len() {
            let total = total(weights)?;
            let choice = weights.iter().position(|&weight| weight > 0.0).unwrap_or_default();
            self.path.push(AskedChoice { weights: weights.to_vec(), total, choice });
        }
        let decision = &self.path[self.cursor];
        if decision.weights != weights {
            return Err(Error::input(format!(
                "it is not a function of the round and of its choices: after the same ones it \
                 asked to choose by {weights:?} where it asked by {:?} before",
                decision.weights
            )));
        }
        self.cursor += 1;
        self.weight *= decision.weights[decision.choice] / decision.total;
        Ok(decision.choice)
    }
}

impl DecisionWalk {
    fn is_opaque(&self) -> bool {
        self.sampled.is_some()
    }

    fn sampled(&mut self) -> &mut SampledChance {
        self.sampled.get_or_insert_with(|| SampledChance::new(0, 0))
    }
}

impl ExternalChance for DecisionWalk {
    fn choose(&mut self, weights: &[f64]) -> Result<usize, Error> {
        if self.is_opaque() || self.cursor == MOST_DECISIONS {
            return self.sampled().choose(weights);
        }
        let chosen = self.decide(weights);
        if let Err(error) = &chosen {
            self.refused.get_or_insert(error.clone());
        }
        chosen
    }

    fn uniform(&mut self) -> Result<f64, Error> {
        self.sampled().uniform()
    }

    fn foreseen(&self) -> Vec<usize> {
        self.path[self.cursor..].iter().map(|asked| asked.choice).collect()
    }
}

/// Enumerates the rounds of a case: every draft, every outcome.
pub(super) fn walk_case(verifier: &mut dyn ExternalVerifier, case: &RoundCase) -> CaseWalk {
    let (mut dist, mut paths) = (BTreeMap::new(), 0);
    for (draft, mass) in case.drafts() {
        let round = case.round(&draft);
        let mut walk = DecisionWalk::default();
        walk.restart();
        let mut first = true;
        loop {
            let found = one_path(verifier, &round, &mut walk);
            // A verifier with its own randomness may return something else when called again.
            let found = match found {
                Ok(tokens) if first && !walk.is_opaque() => {
                    walk.restart();
                    one_path(verifier, &round, &mut walk).and_then(|again| same(tokens, again))
                }
                found => found,
            };
            first = false;
            match found {
                Ok(_) if walk.is_opaque() => return CaseWalk::Opaque,
                Ok(tokens) => *dist.entry(tokens).or_insert(0.0) += mass * walk.weight,
                Err(why) => return CaseWalk::Fault(placed(case, &draft, &why)),
            }
            paths += 1;
            if paths > MOST_PATHS {
                return CaseWalk::Opaque;
            }
            if !walk.advance() {
                break;
            }
        }
    }
    CaseWalk::Enumerated(dist, paths)
}

/// The message with its case and draft.
pub(super) fn placed(case: &RoundCase, draft: &[Token], why: &str) -> String {
    format!("case {}, draft {draft:?}: {why}", case.kind.name)
}

/// The tokens that a verifier returned, or a message on what is wrong; `refused` is the error of a
/// refused request.
pub(super) fn outcome(
    round: &ExternalRound,
    refused: Option<&Error>,
    found: Result<Vec<Token>, Error>,
) -> Result<Vec<Token>, String> {
    if let Some(error) = refused {
        return Err(error.to_string());
    }
    let tokens = found.map_err(|error| format!("it failed: {error}"))?;
    round.fault(&tokens).map_or(Ok(tokens), Err)
}

fn one_path(
    verifier: &mut dyn ExternalVerifier,
    round: &ExternalRound,
    walk: &mut DecisionWalk,
) -> Result<Vec<Token>, String> {
    let found = verifier.verify(round, walk);
    let refused = walk.sampled.as_ref().map_or(&walk.refused, |sampled| &sampled.refused);
    let tokens = outcome(round, refused.as_ref(), found)?;
    if walk.is_opaque() {
        return Ok(tokens);
    }
    let (made, before) = (walk.cursor, walk.path.len());
    if made < before {
        return Err(format!(
            "it is not a function of the round and of its choices: after the same ones it \
             returned {tokens:?} without choice {}, which it asked for before",
            made + 1
        ));
    }
    Ok(tokens)
}

fn same(tokens: Vec<Token>, again: Vec<Token>) -> Result<Vec<Token>, String> {
    if tokens == again {
        return Ok(tokens);
    }
    Err(format!(
        "it is not a function of the round and of its choices: after the same ones it returned \
         {tokens:?} and then {again:?}"
    ))
}

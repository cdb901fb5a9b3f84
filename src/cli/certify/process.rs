//! A verifier in another program. `docs/external.md` describes the protocol.

use serde::{Deserialize, Serialize};

use super::program::Program;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::proof::external::{ExternalChance, ExternalRound, ExternalVerifier};

/// The maximum number of results sent before they are requested: fewer than fill a pipe.
const MOST_AHEAD: usize = 1000;
/// The maximum number of uniform numbers per request.
const MOST_UNIFORMS: usize = 100_000;
/// What the program may answer.
const ANSWERS: &str = "{\"choose\": [weights]}, {\"uniform\": n} or {\"tokens\": [tokens]}";

/// The messages to the program.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ToProgram<'m> {
    Verify(&'m ExternalRound),
    Chosen(usize),
    Uniform(Vec<f64>),
}

/// The messages from the program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FromProgram {
    Choose(Vec<f64>),
    Uniform(usize),
    Tokens(Vec<Token>),
}

/// A running program.
#[derive(Debug)]
pub(super) struct ProcessVerifier(pub(super) Program);

impl ExternalVerifier for ProcessVerifier {
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error> {
        // Known results are sent in advance, because waiting for the program takes most of the
        // time.
        let mut ahead = chance.foreseen();
        ahead.truncate(MOST_AHEAD);
        let answers = ahead.iter().map(|&index| ToProgram::Chosen(index));
        self.0.send(&[ToProgram::Verify(round)].into_iter().chain(answers).collect::<Vec<_>>())?;
        let mut unasked = ahead.len();
        loop {
            let reply = match self.0.answer(ANSWERS)? {
                FromProgram::Tokens(tokens) => return Ok(tokens),
                FromProgram::Choose(weights) => {
                    let index = chance.choose(&weights)?;
                    if unasked > 0 {
                        unasked -= 1;
                        continue;
                    }
                    ToProgram::Chosen(index)
                }
                FromProgram::Uniform(_) if unasked > 0 => {
                    return Err(Error::input(
                        "it is not a function of the round and of its choices: after the same \
                         ones it asked for uniform numbers where it asked to choose before",
                    ));
                }
                FromProgram::Uniform(n) if (1..=MOST_UNIFORMS).contains(&n) => {
                    let numbers = (0..n).map(|_| chance.uniform());
                    ToProgram::Uniform(numbers.collect::<Result<_, _>>()?)
                }
                FromProgram::Uniform(n) => {
                    return Err(Error::input(format!(
                        "the program asked for {n} uniform numbers: allowed are 1 to \
                         {MOST_UNIFORMS}"
                    )));
                }
            };
            self.0.send(&[reply])?;
        }
    }
}

//! Closed forms for chains: the expected acceptance of a method, computed from the tables alone.
//!
//! A method can have the right distribution and still accept too little: never drawing the bonus
//! token changes no probability. So E\[L\] is checked, too.

use std::collections::BTreeMap;

use super::joint::row;
use super::reference::TableRows;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Sampler;
use crate::method::verify::Rule;
use crate::model::{LanguageModel, Toy};

/// A draft model and a target with their samplers, after a prompt.
#[derive(Debug, Clone, Copy)]
pub struct ChainCase<'a> {
    /// The target's table.
    pub target: &'a Toy,
    /// The target's sampler.
    pub target_sampler: &'a Sampler,
    /// The draft model's table.
    pub draft: &'a dyn TableRows,
    /// The draft model's sampler.
    pub draft_sampler: &'a Sampler,
    /// The prompt.
    pub prompt: &'a [Token],
}

impl ChainCase<'_> {
    /// E\[accepted\] of the first round with K drafted tokens:
    /// `Σ_i S(i)`, with `S(i)` the probability that the first `i` are accepted.
    ///
    /// # Errors
    /// If a sampler leaves no token at some context.
    pub fn expected_accepted(&self, rule: Rule, k: usize) -> Result<f64, Error> {
        self.walk(self.prompt.to_vec(), k, rule, 1.0, &[])
    }

    /// E\[L\]: the expected number of tokens of the first round. One more token follows the
    /// accepted ones unless one of them is an end token.
    ///
    /// # Errors
    /// As [`Self::expected_accepted`].
    pub fn expected_emitted(&self, rule: Rule, k: usize) -> Result<f64, Error> {
        let eos = &self.target.info().eos;
        Ok(1.0 + self.walk(self.prompt.to_vec(), k, rule, 1.0, eos)?)
    }

    /// The largest E\[accepted\] that any exact verifier of one sampled chain
    /// can reach: `Σ_i Σ_x min(Π p, Π q)` over the prefixes of length `i`
    /// (Sun et al. 2024, arXiv 2403.10444).
    ///
    /// # Errors
    /// If a sampler leaves no token at some context.
    pub fn accepted_bound(&self, k: usize) -> Result<f64, Error> {
        let mut level = BTreeMap::from([(self.prompt.to_vec(), (1.0, 1.0))]);
        let mut bound = 0.0;
        for _ in 0..k {
            let mut next = BTreeMap::new();
            for (sequence, (p_sequence, q_sequence)) in &level {
                for (token, p, q) in self.drafted(sequence)? {
                    let sequence = [&sequence[..], &[token]].concat();
                    next.insert(sequence, (p_sequence * p, q_sequence * q));
                }
            }
            bound += next.values().map(|(p, q): &(f64, f64)| p.min(*q)).sum::<f64>();
            level = next;
        }
        Ok(bound)
    }

    /// The expected number of accepted tokens before the first of `ends`.
    fn walk(
        &self,
        sequence: Vec<Token>,
        k: usize,
        rule: Rule,
        w: f64,
        ends: &[Token],
    ) -> Result<f64, Error> {
        if k == 0 || w == 0.0 {
            return Ok(0.0);
        }
        let mut expected = 0.0;
        for (token, p, q) in self.drafted(&sequence)? {
            if ends.contains(&token) {
                continue;
            }
            let w = rule.kept(w, p, q);
            let sequence = [&sequence[..], &[token]].concat();
            expected += q * (w + self.walk(sequence, k - 1, rule, w, ends)?);
        }
        Ok(expected)
    }

    /// The tokens that can be drafted after a sequence, each with its p and q.
    fn drafted(&self, sequence: &[Token]) -> Result<Vec<(Token, f64, f64)>, Error> {
        let prompt_len = self.prompt.len();
        let target = row(self.target, self.target_sampler, prompt_len, sequence)?;
        let target = target.into_iter().collect::<BTreeMap<_, _>>();
        let p = |token| target.get(&token).copied().unwrap_or(0.0);
        let draft = row(self.draft, self.draft_sampler, prompt_len, sequence)?;
        Ok(draft.into_iter().map(|(token, q)| (token, p(token), q)).collect())
    }
}

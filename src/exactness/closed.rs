//! Closed forms for chains: what the acceptance of a method must be, computed
//! from the tables alone.
//!
//! A law can be right while speculation is worth less than it should be (a
//! bonus token that is never drawn changes no probability), so E\[L\] is
//! checked as well.

use std::collections::BTreeMap;

use super::law::row;
use crate::dist::Token;
use crate::model::{ModelError, Toy};
use crate::sampling::Sampler;

/// How a token of the draft is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// With probability min(1, p/q): Leviathan et al. 2023, arXiv 2211.17192.
    Rejection,
    /// With probability p: the target's own draw must be the same token.
    Match,
}

impl Rule {
    /// The rule of a registered verifier on a chain, where a closed form is
    /// known.
    pub fn of(verifier: &str) -> Option<Self> {
        match verifier {
            "rejection" => Some(Rule::Rejection),
            "token_match" => Some(Rule::Match),
            _ => None,
        }
    }

    fn accepts(self, p: f64, q: f64) -> f64 {
        match self {
            Rule::Rejection => (p / q).min(1.0),
            Rule::Match => p,
        }
    }
}

/// A draft model and a target with their samplers, after a prompt.
#[derive(Debug, Clone, Copy)]
pub struct ChainCase<'a> {
    /// The target's table.
    pub target: &'a Toy,
    /// The target's sampler.
    pub target_sampler: &'a Sampler,
    /// The draft model's table.
    pub draft: &'a Toy,
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
    pub fn expected_accepted(&self, rule: Rule, k: usize) -> Result<f64, ModelError> {
        self.walk(self.prompt.to_vec(), k, rule)
    }

    /// The largest E\[accepted\] that any exact verifier of one sampled chain
    /// can reach: `Σ_i Σ_x min(Π p, Π q)` over the prefixes of length `i`
    /// (Sun et al. 2024, arXiv 2403.10444).
    ///
    /// # Errors
    /// If a sampler leaves no token at some context.
    pub fn accepted_bound(&self, k: usize) -> Result<f64, ModelError> {
        let mut level = BTreeMap::from([(self.prompt.to_vec(), (1.0, 1.0))]);
        let mut bound = 0.0;
        for _ in 0..k {
            let mut next = BTreeMap::new();
            for (text, (p_text, q_text)) in &level {
                let target = self.target_row(text)?;
                for (token, q) in self.draft_row(text)? {
                    let p = target.get(&token).copied().unwrap_or(0.0);
                    next.insert([&text[..], &[token]].concat(), (p_text * p, q_text * q));
                }
            }
            bound += next.values().map(|(p, q): &(f64, f64)| p.min(*q)).sum::<f64>();
            level = next;
        }
        Ok(bound)
    }

    fn walk(&self, text: Vec<Token>, k: usize, rule: Rule) -> Result<f64, ModelError> {
        if k == 0 {
            return Ok(0.0);
        }
        let target = self.target_row(&text)?;
        let mut expected = 0.0;
        for (token, q) in self.draft_row(&text)? {
            let p = target.get(&token).copied().unwrap_or(0.0);
            let kept = q * rule.accepts(p, q);
            if kept > 0.0 {
                let deeper = self.walk([&text[..], &[token]].concat(), k - 1, rule)?;
                expected += kept * (1.0 + deeper);
            }
        }
        Ok(expected)
    }

    fn target_row(&self, text: &[Token]) -> Result<BTreeMap<Token, f64>, ModelError> {
        let law = row(self.target, self.target_sampler, self.prompt.len(), text)?;
        Ok(law.into_iter().collect())
    }

    fn draft_row(&self, text: &[Token]) -> Result<Vec<(Token, f64)>, ModelError> {
        row(self.draft, self.draft_sampler, self.prompt.len(), text)
    }
}

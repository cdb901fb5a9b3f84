//! What was found out about a verifier from outside.

use serde::Serialize;

use super::round::ExternalRound;
use crate::distribution::Token;

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalVerdict {
    /// Every outcome was enumerated, and the law is the target's.
    Exact,
    /// Rounds were sampled, and nothing refutes that their law is the target's.
    NotRefuted,
    /// The law is not the target's.
    Wrong,
    /// It did what no verifier may do.
    Invalid,
}

/// A case and what was found in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalCase {
    /// Its name.
    pub name: &'static str,
    /// What p and q are like.
    pub about: &'static str,
    /// Paths that were enumerated, or rounds that were sampled.
    pub rounds: u64,
    /// Total variation of the next K + 1 tokens. Of sampled rounds: between their frequencies
    /// and the target's law.
    pub tv_joint: f64,
    /// Total variation of the first token.
    pub tv_first_token: f64,
    /// The largest difference at one text.
    pub max_error: f64,
    /// What `tv_joint` of sampled rounds would be on average if they were exact; 0 if
    /// they were enumerated.
    pub noise: f64,
}

/// Where a law leaves the target's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalWitness {
    /// The case.
    pub case: &'static str,
    /// A round along the way, whose draft goes along with `after` as far as q allows.
    #[serde(flatten)]
    pub round: ExternalRound,
    /// The tokens after which the next has another law than p.
    pub after: Vec<Token>,
    /// The law that it should have, which is p.
    pub expected: Vec<f64>,
    /// The law that it has.
    pub found: Vec<f64>,
}

/// A known bug with its distance from what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalBug {
    /// Its name.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub imitates: &'static str,
    /// The largest total variation between its law and the law that was found, over the cases
    /// that speak for it.
    pub tv: f64,
    /// Cases in which the laws are the same, of all.
    pub cases: [usize; 2],
}

/// How rounds were sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalSampling {
    /// The probability that an exact verifier is refuted is at most this.
    pub level: f64,
    /// A verifier this far off in total variation, in the root mean square over the cases, is
    /// refuted with probability 0.9, however the difference is spread.
    pub min_detectable_tv: f64,
    /// The logarithm to base 10 of what bets on the laws of known bugs have won.
    pub log10_wealth: f64,
    /// Pearson's X², summed over the cases; none if the bets ended the sampling before.
    pub statistic: Option<f64>,
    /// X² above this has a probability of half the level.
    pub critical: f64,
    /// Rounds with a text that the target never has; one refutes.
    pub impossible: u64,
}

/// What was found out about a verifier from outside.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalCertificate {
    /// Number of tokens of the vocabulary.
    pub vocab: usize,
    /// Number of drafted tokens.
    pub k: usize,
    /// What came out.
    pub verdict: ExternalVerdict,
    /// Differences up to this count as rounding.
    pub bar: f64,
    /// Paths that were enumerated, or rounds that were sampled.
    pub rounds: u64,
    /// The largest total variation of the next K + 1 tokens over the cases.
    pub max_tv: f64,
    /// The largest difference at one text over the cases.
    pub max_error: f64,
    /// Case by case.
    pub cases: Vec<ExternalCase>,
    /// Where the law leaves the target's, in the case in which it does so the most.
    pub worst: Option<ExternalWitness>,
    /// What it did that no verifier may do.
    pub fault: Option<String>,
    /// The known bug that has the same law.
    pub likely_bug: Option<ExternalBug>,
    /// If none has: the known bug with the closest law in the first case.
    pub closest_bug: Option<ExternalBug>,
    /// How rounds were sampled; none if they were enumerated.
    pub sampling: Option<ExternalSampling>,
}

impl ExternalCertificate {
    /// Whether nothing speaks against the verifier.
    pub fn holds(&self) -> bool {
        matches!(self.verdict, ExternalVerdict::Exact | ExternalVerdict::NotRefuted)
    }
}

//! The certificate of an external verifier.

use serde::Serialize;

use super::round::ExternalRound;
use crate::core::distribution::Token;

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalVerdict {
    /// Every outcome was enumerated, and the joint distribution is the target's.
    Exact,
    /// Rounds were sampled, and no test refutes that their distribution is the target's.
    NotRefuted,
    /// The distribution is not the target's.
    Wrong,
    /// The verifier broke a rule of the interface.
    #[default]
    Invalid,
}

/// The result in one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalCase {
    /// Its name.
    pub name: &'static str,
    /// A description of p and q.
    pub about: &'static str,
    /// Number of tokens of the vocabulary.
    pub vocab: usize,
    /// Number of drafted tokens.
    pub k: usize,
    /// Number of enumerated paths or sampled rounds.
    pub rounds: u64,
    /// Total variation of the next K + 1 tokens. For sampled rounds, between their frequencies and
    /// the target's distribution.
    pub tv_joint: f64,
    /// Total variation of the first token.
    pub tv_first_token: f64,
    /// The largest difference in the probability of one sequence.
    pub max_error: f64,
    /// The share of drafted tokens that are accepted.
    pub acceptance: f64,
    /// The share that rejection sampling accepts.
    pub rejection_acceptance: f64,
    /// The expected `tv_joint` of an exact verifier for sampled rounds; 0 for enumerated ones.
    pub noise: f64,
}

/// Where a distribution differs from the target's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalWitness {
    /// The case.
    pub case: &'static str,
    /// A round on the way there, whose draft follows `after` as far as q allows.
    #[serde(flatten)]
    pub round: ExternalRound,
    /// The tokens after which the next token's distribution differs from p.
    pub after: Vec<Token>,
    /// The expected distribution, p.
    pub expected: Vec<f64>,
    /// The found distribution.
    pub found: Vec<f64>,
}

/// A known bug and its distance from the found distribution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalBug {
    /// Its name.
    pub name: &'static str,
    /// The mistake in one sentence.
    pub imitates: &'static str,
    /// The largest total variation between its distribution and the found one, over the cases that
    /// decide.
    pub tv: f64,
    /// The number of cases with the same distribution, and of all cases.
    pub cases: [usize; 2],
}

/// Results of sampling.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExternalSampling {
    /// An exact verifier is refuted with at most this probability.
    pub level: f64,
    /// A verifier with this total variation, as the root mean square over the cases, is refuted
    /// with probability 0.9 for any spread of the difference.
    pub min_detectable_tv: f64,
    /// The base-10 logarithm of the winnings of bets on the distributions of known bugs.
    pub log10_wealth: f64,
    /// Pearson's X², summed over the cases; none if the bets ended the sampling early.
    pub statistic: Option<f64>,
    /// X² exceeds this with a probability of half the level.
    pub critical: f64,
    /// Number of rounds with a sequence that the target cannot generate; one is enough to refute.
    pub impossible: u64,
}

/// The certificate of an external verifier.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ExternalCertificate {
    /// Number of tokens of the vocabulary in most cases.
    pub vocab: usize,
    /// Number of drafted tokens in most cases.
    pub k: usize,
    /// The verdict.
    pub verdict: ExternalVerdict,
    /// Differences up to this value count as rounding.
    pub bar: f64,
    /// Number of enumerated paths or sampled rounds.
    pub rounds: u64,
    /// The largest total variation of the next K + 1 tokens over the cases.
    pub max_tv: f64,
    /// The largest difference in the probability of one sequence over the cases.
    pub max_error: f64,
    /// The share of drafted tokens that are accepted, as the mean over the cases.
    pub acceptance: f64,
    /// The same for rejection sampling.
    pub rejection_acceptance: f64,
    /// The results case by case.
    pub cases: Vec<ExternalCase>,
    /// Where the distribution differs from the target's, in the case with the largest difference.
    pub worst: Option<ExternalWitness>,
    /// The rule of the interface that it broke.
    pub fault: Option<String>,
    /// The known bug with the same distribution, if all others are excluded.
    pub likely_bug: Option<ExternalBug>,
    /// Several known bugs with the same distribution, if there are several.
    pub alike: Vec<ExternalBug>,
    /// If there are none, the known bug with the closest distribution in the first case.
    pub closest_bug: Option<ExternalBug>,
    /// Results of sampling; none if rounds were enumerated.
    pub sampling: Option<ExternalSampling>,
}

impl ExternalCertificate {
    /// Whether the verifier is exact or was not refuted.
    pub fn holds(&self) -> bool {
        matches!(self.verdict, ExternalVerdict::Exact | ExternalVerdict::NotRefuted)
    }
}

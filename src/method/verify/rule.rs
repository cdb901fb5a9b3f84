//! The closed forms of acceptance on chains.

/// The probability that a drafted chain is accepted up to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Token by token, with min(1, p/q): Leviathan et al. 2023, arXiv 2211.17192.
    Rejection,
    /// Token by token, with p: the target must draw the same token.
    Match,
    /// As a whole, with w ← min(1, w·p/q): Sun et al. 2024, arXiv 2403.10444.
    Block,
}

impl Rule {
    /// The rule of a registered verifier on a chain; none without a known closed form.
    pub fn of(verifier: &str) -> Option<Self> {
        match verifier {
            "rejection" | "k_seq" | "spechub" | "greedy_multi" => Some(Rule::Rejection),
            "token_match" => Some(Rule::Match),
            "traversal" => Some(Rule::Block),
            _ => None,
        }
    }

    /// The probability of accepting up to a token, from that of its parent.
    pub(crate) fn kept(self, w: f64, p: f64, q: f64) -> f64 {
        match self {
            Rule::Rejection => w * (p / q).min(1.0),
            Rule::Match => w * p,
            Rule::Block => (w * p / q).min(1.0),
        }
    }
}

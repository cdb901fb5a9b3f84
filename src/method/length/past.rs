//! The acceptance of a sequence's earlier rounds, for draft length policies.

/// The factor on the weight of older tokens per newer token: about 1000 tokens count.
const KEEP: f64 = 0.999;

/// The factor on the weight of the past per round without drafts. A guess takes the lost weight;
/// without it, a policy that has stopped drafting would never start again.
const LEFT: f64 = 0.98;

/// Discounted counts of decided and accepted draft tokens. Older tokens count less.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PastAcceptance {
    /// Number of tokens that the verifier decided on.
    pub reached: f64,
    /// Number of tokens that were accepted.
    pub kept: f64,
}

/// The information that policies have on one sequence before a round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SequencePast {
    /// The acceptance in its earlier rounds.
    pub acceptance: PastAcceptance,
    /// The maximum number of draft levels, by the tokens that it may still generate.
    pub room: usize,
}

/// The sequences that share a round, before anything is drafted in it.
///
/// Policies see only earlier rounds. A length must not depend on drawn tokens of this round, of any
/// sequence: cutting a draft because of its tokens changes the distribution of the completion.
#[derive(Debug, Clone, Copy)]
pub struct BatchView<'b> {
    /// All sequences.
    pub sequences: &'b [SequencePast],
    /// The index of the policy's own sequence.
    pub own: usize,
}

impl PastAcceptance {
    /// The guess before the first round.
    pub const GUESS: Self = Self { reached: 10.0, kept: 7.0 };

    /// The estimated probability that the next drafted token is accepted; NaN without a past.
    pub fn alpha(self) -> f64 {
        self.kept / self.reached
    }

    /// The estimate of [`Self::alpha`], pooled with a prior `alpha` that has the weight of `tokens`
    /// tokens.
    pub fn pooled_with(self, alpha: f64, tokens: f64) -> f64 {
        (tokens * alpha + self.kept) / (tokens + self.reached)
    }

    /// The sum of both counts.
    pub fn and(self, other: Self) -> Self {
        Self { reached: self.reached + other.reached, kept: self.kept + other.kept }
    }

    /// Adds a round that accepted `accepted` of `drafted` levels. A round without drafts moves the
    /// counts towards `guess`.
    pub fn add_round(&mut self, drafted: usize, accepted: usize, guess: Self) {
        if drafted == 0 {
            return self.forget(guess);
        }
        self.add(drafted, accepted);
    }

    /// Adds a round that accepted `accepted` of `drafted` levels.
    pub fn add(&mut self, drafted: usize, accepted: usize) {
        let reached = (accepted + 1).min(drafted);
        let left = KEEP.powi(reached as i32);
        self.reached = left * self.reached + reached as f64;
        self.kept = left * self.kept + accepted as f64;
    }

    /// Moves the counts towards a guess.
    pub fn forget(&mut self, guess: Self) {
        self.reached = LEFT * self.reached + (1.0 - LEFT) * guess.reached;
        self.kept = LEFT * self.kept + (1.0 - LEFT) * guess.kept;
    }

    /// Its bits, for state keys.
    pub fn key(self) -> Vec<u8> {
        [self.reached, self.kept].iter().flat_map(|x| x.to_bits().to_le_bytes()).collect()
    }
}

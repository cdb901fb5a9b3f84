//! What earlier rounds show of how far drafts survive.

/// How much older tokens count for each newer one: about 1000 are held.
const KEEP: f64 = 0.999;

/// How much of the past is left after a round without drafts. What is forgotten gives way to a
/// guess; or else a policy that once stopped drafting would never learn that it pays again.
const LEFT: f64 = 0.98;

/// Drafted tokens that were decided on, and those of them that were accepted; older ones count
/// less.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PastAcceptance {
    /// Number of tokens that were decided on.
    pub reached: f64,
    /// Number of tokens that were accepted.
    pub kept: f64,
}

/// What a policy sees of one sequence before a round.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SequencePast {
    /// What its earlier rounds show.
    pub acceptance: PastAcceptance,
    /// Number of levels that its text has room for.
    pub room: usize,
}

/// The sequences that share a round, as they are before anything is drafted in it.
///
/// Policies see the past alone. What the tokens of this round show, those of other sequences
/// included, is nothing that a length may be chosen by once they are drawn: a draft that is cut
/// because of its tokens changes the distribution of the text.
#[derive(Debug, Clone, Copy)]
pub struct BatchView<'b> {
    /// All of them.
    pub sequences: &'b [SequencePast],
    /// The place of the policy's own.
    pub own: usize,
}

impl PastAcceptance {
    /// What is guessed before the first round.
    pub const GUESS: Self = Self { reached: 10.0, kept: 7.0 };

    /// The probability that the next drafted token is accepted; not a number without a past.
    pub fn alpha(self) -> f64 {
        self.kept / self.reached
    }

    /// This, beside a probability that counts for so many tokens.
    pub fn beside(self, alpha: f64, tokens: f64) -> f64 {
        (tokens * alpha + self.kept) / (tokens + self.reached)
    }

    /// Both.
    pub fn and(self, other: Self) -> Self {
        Self { reached: self.reached + other.reached, kept: self.kept + other.kept }
    }

    /// Adds a round that accepted so many of the levels that it drafted; one without drafts comes
    /// nearer to `guess`.
    pub fn add_round(&mut self, drafted: usize, accepted: usize, guess: Self) {
        if drafted == 0 {
            return self.forget(guess);
        }
        self.add(drafted, accepted);
    }

    /// Adds a round that accepted so many of the levels that it drafted.
    pub fn add(&mut self, drafted: usize, accepted: usize) {
        let reached = (accepted + 1).min(drafted);
        let left = KEEP.powi(reached as i32);
        self.reached = left * self.reached + reached as f64;
        self.kept = left * self.kept + accepted as f64;
    }

    /// Comes nearer to a guess.
    pub fn forget(&mut self, guess: Self) {
        self.reached = LEFT * self.reached + (1.0 - LEFT) * guess.reached;
        self.kept = LEFT * self.kept + (1.0 - LEFT) * guess.kept;
    }

    /// Its bits.
    pub fn key(self) -> Vec<u8> {
        [self.reached, self.kept].iter().flat_map(|x| x.to_bits().to_le_bytes()).collect()
    }
}

//! The sequences that requests ask for.

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::arrivals::shuffle;
use crate::tapes::tape::{
    AcceptanceRule, DrawnBeliefs, LoggedRound, SequenceOdds, TapeLog, TapeSequence,
};

/// A sequence, and what the rounds that decode its completion draft and accept.
#[derive(Debug, Clone)]
pub struct SimulatedSequence<'t> {
    /// Id of the prompt.
    pub id: &'t str,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the completion.
    pub tokens: usize,
    rounds: SequenceRounds<'t>,
}

#[derive(Debug, Clone)]
enum SequenceRounds<'t> {
    /// Rounds that are drawn: any division of the completion.
    Drawn { odds: SequenceOdds<'t>, rule: AcceptanceRule },
    /// Logged rounds.
    Logged(Vec<LoggedRound>),
}

/// The progress of a request in its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestProgress {
    /// Tokens so far.
    pub token: usize,
    /// Rounds so far.
    pub round: usize,
}

impl<'t> SimulatedSequence<'t> {
    /// A sequence of a tape with a drafter and a rule.
    pub fn recorded(
        sequence: &'t TapeSequence,
        odds: SequenceOdds<'t>,
        rule: AcceptanceRule,
    ) -> Self {
        Self {
            id: &sequence.prompt,
            prompt: sequence.prompt_tokens.len(),
            tokens: odds.length().tokens,
            rounds: SequenceRounds::Drawn { odds, rule },
        }
    }

    /// A completion of which only the rounds are known. If their order is unknown, they are
    /// shuffled.
    ///
    /// Servers do not log rounds without a draft, and the first token often comes from the prompt's
    /// pass. So tokens that the logged rounds do not emit come first, one per round.
    pub fn logged(log: &'t TapeLog) -> Self {
        let mut rounds = log.rounds.clone();
        if log.unordered {
            let mut rng = ChaCha8Rng::seed_from_u64(rounds.len() as u64);
            shuffle(&mut rounds, &mut rng);
        }
        let emitted = rounds.iter().map(|round| round.accepted + 1).sum::<usize>();
        let plain = LoggedRound { accepted: 0, drafted: 0 };
        let missing = log.tokens.saturating_sub(emitted);
        let rounds = std::iter::repeat_n(plain, missing).chain(rounds).collect();
        Self {
            id: &log.prompt,
            prompt: log.prompt_tokens,
            tokens: log.tokens,
            rounds: SequenceRounds::Logged(rounds),
        }
    }

    /// The length of a draft of at most `k` tokens at this point.
    pub fn drafted(&self, progress: RequestProgress, k: usize) -> usize {
        match &self.rounds {
            SequenceRounds::Drawn { odds, .. } => odds.drafted(progress.token, k),
            SequenceRounds::Logged(rounds) => logged_at(rounds, progress).drafted.min(k),
        }
    }

    /// What draft length policies see of the draft of a round with this draw. `None` if the tape
    /// does not hold it, or if the rule is not rejection sampling: under another rule, rejected
    /// tokens have another distribution.
    pub fn drawn(
        &self,
        progress: RequestProgress,
        uniform: impl FnOnce() -> f64,
    ) -> Option<DrawnBeliefs<'t>> {
        match &self.rounds {
            SequenceRounds::Drawn { odds, rule: AcceptanceRule::Token } if odds.seen() > 0 => {
                let most = odds.drafted(progress.token, odds.seen());
                odds.drawn(progress.token, self.accepted(progress, most, uniform()))
            }
            _ => None,
        }
    }

    /// The largest K for which policies can see drafts; 0 if none.
    pub fn seen(&self) -> usize {
        match &self.rounds {
            SequenceRounds::Drawn { odds, rule: AcceptanceRule::Token } => odds.seen(),
            _ => 0,
        }
    }

    /// How many of `drafted` tokens are accepted, where `uniform` is a draw from [0, 1).
    pub fn accepted(&self, progress: RequestProgress, drafted: usize, uniform: f64) -> usize {
        match &self.rounds {
            SequenceRounds::Drawn { odds, rule } => {
                let mut survival = Vec::with_capacity(drafted);
                odds.survival(*rule, progress.token, drafted, &mut survival);
                survival.iter().take_while(|&&survives| survives > uniform).count()
            }
            SequenceRounds::Logged(rounds) => logged_at(rounds, progress).accepted.min(drafted),
        }
    }

    /// The expected rounds with drafts of at most `k` tokens, by the number of tokens that they
    /// draft.
    pub(super) fn outlook(&self, k: usize) -> Vec<f64> {
        match &self.rounds {
            SequenceRounds::Drawn { odds, rule } => odds.forecast(*rule, k).drafts,
            SequenceRounds::Logged(_) => {
                let (mut drafts, mut progress) = (vec![0.0; k + 1], RequestProgress::default());
                while progress.token < self.tokens {
                    let drafted = self.drafted(progress, k);
                    drafts[drafted] += 1.0;
                    progress.token += self.accepted(progress, drafted, 0.0) + 1;
                    progress.round += 1;
                }
                drafts
            }
        }
    }
}

/// The logged round at this point. Shorter drafts take more rounds than were logged; then the
/// logged rounds repeat.
fn logged_at(rounds: &[LoggedRound], progress: RequestProgress) -> LoggedRound {
    rounds[progress.round % rounds.len()]
}

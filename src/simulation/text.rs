//! The texts that requests ask for.

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::arrivals::shuffle;
use crate::tape::{ChainLaw, DrawnBeliefs, LoggedRound, TapeLog, TapeText, TextOdds};

/// A text, and what the rounds that decode it draft and accept.
#[derive(Debug, Clone)]
pub struct SimulatedText<'t> {
    /// Id of the prompt.
    pub id: &'t str,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of the text.
    pub tokens: usize,
    rounds: TextRounds<'t>,
}

#[derive(Debug, Clone)]
enum TextRounds<'t> {
    /// Any rounds that can divide the text.
    Any { odds: TextOdds<'t>, law: ChainLaw },
    /// Those that were logged.
    Logged(Vec<LoggedRound>),
}

/// Where a request is in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServedPlace {
    /// Tokens that it has.
    pub token: usize,
    /// Rounds that it has had.
    pub round: usize,
}

impl<'t> SimulatedText<'t> {
    /// A text of a tape with a drafter and a rule.
    pub fn any(text: &'t TapeText, odds: TextOdds<'t>, law: ChainLaw) -> Self {
        Self {
            id: &text.prompt,
            prompt: text.prompt_tokens.len(),
            tokens: odds.text().tokens,
            rounds: TextRounds::Any { odds, law },
        }
    }

    /// A text of which only the rounds are known. If their order is not, they are shuffled.
    ///
    /// Servers do not log rounds without a draft, and the first token often comes from the
    /// prompt's pass: what the logged rounds have not emitted comes first, token by token.
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
            rounds: TextRounds::Logged(rounds),
        }
    }

    /// How many tokens a draft of at most `k` has at a place.
    pub fn drafted(&self, place: ServedPlace, k: usize) -> usize {
        match &self.rounds {
            TextRounds::Any { odds, .. } => odds.drafted(place.token, k),
            TextRounds::Logged(rounds) => logged_at(rounds, place).drafted.min(k),
        }
    }

    /// What draft length policies see of the draft of a round with this draw; `None` if the tape
    /// does not tell, or if another rule than rejection sampling decides: with another one, the
    /// law of what it rejects is another.
    pub fn drawn(
        &self,
        place: ServedPlace,
        uniform: impl FnOnce() -> f64,
    ) -> Option<DrawnBeliefs<'t>> {
        match &self.rounds {
            TextRounds::Any { odds, law: ChainLaw::Token } if odds.seen() > 0 => {
                let most = odds.drafted(place.token, odds.seen());
                odds.drawn(place.token, self.accepted(place, most, uniform()))
            }
            _ => None,
        }
    }

    /// The largest K that policies can see drafts of; 0 if none.
    pub fn seen(&self) -> usize {
        match &self.rounds {
            TextRounds::Any { odds, law: ChainLaw::Token } => odds.seen(),
            _ => 0,
        }
    }

    /// How many tokens of a draft of so many are accepted, where `uniform` is a draw from
    /// [0, 1).
    pub fn accepted(&self, place: ServedPlace, drafted: usize, uniform: f64) -> usize {
        match &self.rounds {
            TextRounds::Any { odds, law } => {
                let mut survival = Vec::with_capacity(drafted);
                odds.survival(*law, place.token, drafted, &mut survival);
                survival.iter().take_while(|&&survives| survives > uniform).count()
            }
            TextRounds::Logged(rounds) => logged_at(rounds, place).accepted.min(drafted),
        }
    }

    /// The rounds that the text is expected to take with drafts of at most `k` tokens, by the
    /// number of tokens that they draft.
    pub(super) fn outlook(&self, k: usize) -> Vec<f64> {
        match &self.rounds {
            TextRounds::Any { odds, law } => odds.forecast(*law, k).drafts,
            TextRounds::Logged(_) => {
                let (mut drafts, mut place) = (vec![0.0; k + 1], ServedPlace::default());
                while place.token < self.tokens {
                    let drafted = self.drafted(place, k);
                    drafts[drafted] += 1.0;
                    place.token += self.accepted(place, drafted, 0.0) + 1;
                    place.round += 1;
                }
                drafts
            }
        }
    }
}

/// The logged round at a place. A shorter draft takes more rounds than were logged; then they
/// begin anew.
fn logged_at(rounds: &[LoggedRound], place: ServedPlace) -> LoggedRound {
    rounds[place.round % rounds.len()]
}

//! Where in its round a token may stand, which completions do not show.
//!
//! A decoder may report where its rounds ended. Under a rule that decides token by token
//! (rejection, matching), the next token has distribution p given everything known about earlier
//! rounds, so a bet may use this information. Under block verification it may not: whether a round
//! has ended depends on tokens to come.

use super::placed::{BugAtToken, BugShows};

/// The probabilities of all positions in a round, given the tokens before. For each K, entry i is
/// the probability that i drafted tokens of the current round were accepted before this token. The
/// last entry is the probability that no round has begun: the prompt's pass may give the first
/// token.
#[derive(Debug, Clone)]
pub(super) struct RoundPositions {
    begin: Vec<Vec<f64>>,
    now: Vec<Vec<f64>>,
}

impl RoundPositions {
    /// The state at the first token, with all of these K equally likely.
    pub(super) fn new(ks: &[usize]) -> Self {
        let share = 0.5 / ks.len() as f64;
        let each = ks.iter().map(|&k| {
            let mut places = vec![0.0; k + 2];
            (places[0], places[k + 1]) = (share, share);
            places
        });
        let begin = each.collect::<Vec<_>>();
        Self { now: begin.clone(), begin }
    }

    /// Starts a new sequence.
    pub(super) fn restart(&mut self) {
        self.now.clone_from(&self.begin);
    }

    /// The probability that the next token stands where the bug takes effect.
    pub(super) fn share(&self, shows: BugShows) -> f64 {
        let at: fn(&Vec<f64>) -> f64 = match shows {
            BugShows::Everywhere => return 1.0,
            BugShows::Drafted => |places| places[..places.len() - 2].iter().sum(),
            BugShows::Bonus => |places| places[places.len() - 2],
        };
        self.now.iter().map(at).sum::<f64>().min(1.0)
    }

    /// Updates the probabilities after a token. `ended` says whether it ended its round, if that is
    /// known. A token that the bug cannot draw resets them.
    pub(super) fn observe(&mut self, seen: &BugAtToken, ended: Option<bool>) {
        if seen.shows == BugShows::Everywhere {
            return;
        }
        let [may_end, may_continue] =
            [ended != Some(false), ended != Some(true)].map(|may| f64::from(u8::from(may)));
        for places in &mut self.now {
            let k = places.len() - 2;
            let inside = places[..k].iter().sum::<f64>();
            let ends =
                inside * seen.corrected + places[k] * seen.bonus + places[k + 1] * seen.exact;
            places.copy_within(..k, 1);
            places[1..=k].iter_mut().for_each(|place| *place *= may_continue * seen.accepted);
            (places[0], places[k + 1]) = (may_end * ends, 0.0);
        }
        let mass = self.now.iter().flatten().sum::<f64>();
        if mass > 0.0 {
            for place in self.now.iter_mut().flatten() {
                *place /= mass;
            }
        } else {
            self.restart();
        }
    }
}

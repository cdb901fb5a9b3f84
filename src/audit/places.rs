//! Where a token may stand in its round, which texts do not tell.
//!
//! A decoder may tell where its rounds ended. Under a rule that decides token by token
//! (rejection, matching), what is known of the tokens before leaves the law of the next one p,
//! so that a bet may know it, too. Under block verification it does not: a round that has not
//! ended tells of tokens to come, and bets must not be told.

use super::placed::{BugAtToken, BugShows};

/// The probabilities of all places, given the tokens before: by K, how many drafted tokens of its
/// round were accepted before the token; last, that no round has begun, since the first token of
/// a text may come from the prompt's pass.
#[derive(Debug, Clone)]
pub(super) struct RoundPlaces {
    begin: Vec<Vec<f64>>,
    now: Vec<Vec<f64>>,
}

impl RoundPlaces {
    /// The first token of a text, if all of these K are as likely.
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

    /// Begins a text.
    pub(super) fn restart(&mut self) {
        self.now.clone_from(&self.begin);
    }

    /// The probability that the next token stands where the bug shows.
    pub(super) fn share(&self, shows: BugShows) -> f64 {
        let at: fn(&Vec<f64>) -> f64 = match shows {
            BugShows::Everywhere => return 1.0,
            BugShows::Drafted => |places| places[..places.len() - 2].iter().sum(),
            BugShows::Bonus => |places| places[places.len() - 2],
        };
        self.now.iter().map(at).sum::<f64>().min(1.0)
    }

    /// Goes on after a token, which `ended` its round or did not, where that is known; one that
    /// the bug cannot draw tells nothing of places.
    pub(super) fn observe(&mut self, seen: &BugAtToken, ended: Option<bool>) {
        if seen.shows == BugShows::Everywhere {
            return;
        }
        let [may_end, may_go_on] =
            [ended != Some(false), ended != Some(true)].map(|may| f64::from(u8::from(may)));
        for places in &mut self.now {
            let k = places.len() - 2;
            let inside = places[..k].iter().sum::<f64>();
            let ends =
                inside * seen.corrected + places[k] * seen.bonus + places[k + 1] * seen.exact;
            places.copy_within(..k, 1);
            places[1..=k].iter_mut().for_each(|place| *place *= may_go_on * seen.accepted);
            (places[0], places[k + 1]) = (may_end * ends, 0.0);
        }
        let mass = self.now.iter().flatten().sum::<f64>();
        if mass > 0.0 {
            self.now.iter_mut().flatten().for_each(|place| *place /= mass);
        } else {
            self.restart();
        }
    }
}

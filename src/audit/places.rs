//! Where a token may stand in its round, which texts do not tell.
//!
//! A decoder may tell where its rounds ended. Under a rule that decides token by token
//! (rejection, matching), what is known of the tokens before leaves the law of the next one p,
//! so that a bet may know it, too. Under block verification it does not: a round that has not
//! ended tells of tokens to come, and bets must not be told.

use super::laws::BugLaw;
use crate::distribution::{Dist, Token};

/// The probabilities of all places, given the tokens before: by K, how many drafted tokens of its
/// round were accepted before the token; last, that no round has begun, since the first token of
/// a text may come from the prompt's pass.
#[derive(Debug, Clone)]
pub struct RoundPlaces {
    begin: Vec<Vec<f64>>,
    now: Vec<Vec<f64>>,
}

impl RoundPlaces {
    /// The first token of a text, if all of these K are as likely.
    pub fn new(ks: &[usize]) -> Self {
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
    pub fn restart(&mut self) {
        self.now.clone_from(&self.begin);
    }

    /// The law of the next token, in the order of tokens.
    pub fn law(&self, bug: &BugLaw, target: &Dist) -> Vec<f64> {
        let (accepted, corrected, bonus) = match bug {
            BugLaw::Everywhere(law) => return law.clone(),
            BugLaw::Rounds { accepted, corrected, bonus } => (accepted, corrected, bonus),
        };
        let [inside, last] = self.sums();
        let plain = (1.0 - inside - last).max(0.0);
        let own = bonus.as_ref().map_or(0.0, |_| last);
        let exact = plain + last - own;
        let mut law = target.zip(target, |p, _| exact * p);
        for (mass, (accepted, corrected)) in law.iter_mut().zip(accepted.iter().zip(corrected)) {
            *mass += inside * (accepted + corrected);
        }
        if let Some(bonus) = bonus {
            law.iter_mut().zip(bonus).for_each(|(mass, bonus)| *mass += own * bonus);
        }
        law
    }

    /// Goes on after a token, which `ended` its round or did not, where that is known; one that
    /// the bug cannot draw tells nothing of places.
    pub fn observe(&mut self, bug: &BugLaw, target: &Dist, (token, ended): (Token, Option<bool>)) {
        let BugLaw::Rounds { accepted, corrected, bonus } = bug else { return };
        let at = token as usize;
        let exact = target.p(token);
        let last = bonus.as_ref().map_or(exact, |bonus| bonus[at]);
        let [may_end, may_go_on] =
            [ended != Some(false), ended != Some(true)].map(|may| f64::from(u8::from(may)));
        let next = self.now.iter().map(|places| {
            let k = places.len() - 2;
            let inside = places[..k].iter().sum::<f64>();
            let ends = inside * corrected[at] + places[k] * last + places[k + 1] * exact;
            let goes_on = places[..k].iter().map(|place| may_go_on * place * accepted[at]);
            [may_end * ends].into_iter().chain(goes_on).chain([0.0]).collect::<Vec<_>>()
        });
        let next = next.collect::<Vec<_>>();
        let mass = next.iter().flatten().sum::<f64>();
        if mass > 0.0 {
            self.now = next;
            self.now.iter_mut().flatten().for_each(|place| *place /= mass);
        } else {
            self.restart();
        }
    }

    /// The probabilities that the token is drafted or corrects a draft, and that it is a bonus.
    fn sums(&self) -> [f64; 2] {
        let inside = self.now.iter().map(|places| places[..places.len() - 2].iter().sum::<f64>());
        let last = self.now.iter().map(|places| places[places.len() - 2]);
        [inside.sum(), last.sum()]
    }
}

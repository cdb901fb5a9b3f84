//! What a bet needs of a bug's law at a token.

use std::borrow::Cow;

use super::bug_law::BugLaw;
use super::masses::{PlaceMasses, sum, sum_of, support, zip};
use crate::distribution::Token;

/// Which tokens of a round have the law of a bug; all others have the target's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BugShows {
    /// All.
    Everywhere,
    /// Drafted ones, and those in their place.
    Drafted,
    /// The one after a whole accepted draft.
    Bonus,
}

/// A bug's law b, where it shows, at a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct BugAtToken {
    pub(super) shows: BugShows,
    /// b/p of the token; none if p is 0.
    pub(super) ratio: Option<f64>,
    /// The total variation between b and p.
    pub(super) distance: f64,
    /// b/p of a token that was drawn from p, and of one that was drawn from b, at some places.
    pub(super) drawn: Option<[f64; 2]>,
    /// The probability that the token is drafted and accepted; this and the next two are 0 for a
    /// bug that shows everywhere.
    pub(super) accepted: f64,
    /// That it takes the place of a rejected one.
    pub(super) corrected: f64,
    /// That it is the token after a whole accepted draft.
    pub(super) bonus: f64,
    /// p of the token.
    pub(super) exact: f64,
}

impl BugLaw {
    /// What a bet needs of this law at a token; a uniform number draws others, if there is one.
    pub(super) fn at(&self, token: Token, place: &PlaceMasses, number: Option<f64>) -> BugAtToken {
        let at = token as usize;
        let (target, exact) = (&place.target, place.target[at]);
        let kept = place.draft.as_ref().map_or(0.0, |draft| draft[at].min(exact));
        let (shows, law, [accepted, corrected, bonus]) = match self {
            Self::Everywhere(law) => (BugShows::Everywhere, Cow::from(law), [0.0; 3]),
            Self::Drafted { accepted, corrected } => {
                let law = zip(accepted, corrected, |accepted, corrected| accepted + corrected);
                (BugShows::Drafted, Cow::from(law), [accepted[at], corrected[at], exact])
            }
            Self::Bonus(law) => (BugShows::Bonus, Cow::from(law), [kept, exact - kept, law[at]]),
        };
        let ratio = |token: usize| law[token] / target[token];
        BugAtToken {
            shows,
            ratio: (exact > 0.0).then(|| ratio(at)),
            distance: sum_of(target, &law, |p, own| (p - own).max(0.0)),
            drawn: number.map(|number| {
                [target, &*law].map(|drawn| quantile(drawn, number).map_or(1.0, ratio))
            }),
            accepted,
            corrected,
            bonus,
            exact,
        }
    }
}

/// The token whose interval of the cumulative law contains a number from 0 to 1; none if the law
/// is zero.
fn quantile(law: &[f64], number: f64) -> Option<usize> {
    let mut left = number * sum(law);
    let mut found = support(law).skip_while(|(_, mass)| {
        left -= mass;
        left >= 0.0
    });
    // Rounding may leave a bit of the largest numbers.
    found.next().or_else(|| support(law).last()).map(|(token, _)| token)
}

//! What a bet needs to know about a bug's distribution at a token.

use std::borrow::Cow;

use crate::bugs::masses::{sum, sum_of, support, zip};
use crate::bugs::{BugDistribution, PositionMasses};
use crate::core::distribution::Token;

/// Which tokens of a round have the bug's distribution; all others have the target's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BugShows {
    /// All tokens.
    Everywhere,
    /// Drafted tokens and their replacements.
    Drafted,
    /// The bonus token.
    Bonus,
}

/// A bug's distribution b at a token, where the bug takes effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct BugAtToken {
    pub(super) shows: BugShows,
    /// b/p of the token; none if p is 0.
    pub(super) ratio: Option<f64>,
    /// The total variation between b and p.
    pub(super) distance: f64,
    /// b/p of a token drawn from p, and of one drawn from b; kept at some positions only.
    pub(super) drawn: Option<[f64; 2]>,
    /// The probability that the token is drafted and accepted. This and the next two fields are 0
    /// for a bug that takes effect everywhere.
    pub(super) accepted: f64,
    /// The probability that it replaces a rejected token.
    pub(super) corrected: f64,
    /// The probability that it is the bonus token.
    pub(super) bonus: f64,
    /// p of the token.
    pub(super) exact: f64,
}

impl BugDistribution {
    /// What a bet needs at a token. `number`, if given, is a uniform number for draws from p and b.
    pub(super) fn at(
        &self,
        token: Token,
        place: &PositionMasses,
        number: Option<f64>,
    ) -> BugAtToken {
        let at = token as usize;
        let (target, exact) = (&place.target, place.target[at]);
        let kept = place.draft.as_ref().map_or(0.0, |draft| draft[at].min(exact));
        let (shows, dist, [accepted, corrected, bonus]) = match self {
            Self::Everywhere(dist) => (BugShows::Everywhere, Cow::from(dist), [0.0; 3]),
            Self::Drafted { accepted, corrected } => {
                let dist = zip(accepted, corrected, |accepted, corrected| accepted + corrected);
                (BugShows::Drafted, Cow::from(dist), [accepted[at], corrected[at], exact])
            }
            Self::Bonus(dist) => (BugShows::Bonus, Cow::from(dist), [kept, exact - kept, dist[at]]),
        };
        let ratio = |token: usize| dist[token] / target[token];
        BugAtToken {
            shows,
            ratio: (exact > 0.0).then(|| ratio(at)),
            distance: sum_of(target, &dist, |p, own| (p - own).max(0.0)),
            drawn: number.map(|number| {
                [target, &*dist].map(|drawn| quantile(drawn, number).map_or(1.0, ratio))
            }),
            accepted,
            corrected,
            bonus,
            exact,
        }
    }
}

/// The token whose interval of the cumulative distribution contains `number`, from 0 to 1; none if
/// all masses are zero.
fn quantile(dist: &[f64], number: f64) -> Option<usize> {
    let mut left = number * sum(dist);
    let mut found = support(dist).skip_while(|(_, mass)| {
        left -= mass;
        left >= 0.0
    });
    // Rounding may leave a remainder for numbers close to 1.
    found.next().or_else(|| support(dist).last()).map(|(token, _)| token)
}

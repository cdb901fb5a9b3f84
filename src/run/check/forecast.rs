//! The speedup that every K would have, from the costs of rounds and from drafts of the
//! largest K: a shorter draft is the beginning of a longer one.

use serde::Serialize;

use super::MAX_K;
use super::rounds::PromptRounds;
use crate::measure::statistics::Ratio;

/// Costs of rounds, in µs.
#[derive(Debug, Clone)]
pub(super) struct CheckCosts {
    /// T(m) for m from 1.
    pub passes: Option<Vec<f64>>,
    /// The time to draft a token.
    pub draft: Option<f64>,
    /// Whether that is the time of all tokens of a round.
    pub at_once: bool,
    /// The time outside passes, per round.
    pub outside: Option<f64>,
    /// The time outside passes in plain decoding, per token.
    pub plain_outside: Option<f64>,
}

/// The forecast for one K.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LengthForecast {
    /// K.
    pub length: usize,
    /// Accepted ÷ proposed tokens.
    pub acceptance: Option<f64>,
    /// Tokens per round.
    pub tokens_per_round: Option<f64>,
    /// Speedup over plain decoding; none if a cost could not be measured.
    pub speedup: Option<f64>,
    /// The lower end of the 95 % interval of the speedup over prompts, given the costs; none with
    /// too few prompts.
    pub lo: Option<f64>,
    /// Its upper end.
    pub hi: Option<f64>,
}

/// The forecasts for K from 1 to [`MAX_K`].
pub(super) fn forecasts(costs: &CheckCosts, prompts: &[PromptRounds]) -> Vec<LengthForecast> {
    (1..=MAX_K).map(|length| forecast(costs, prompts, length)).collect()
}

fn forecast(costs: &CheckCosts, prompts: &[PromptRounds], length: usize) -> LengthForecast {
    let speedup = speedup(costs, prompts, length);
    let interval = speedup.as_ref().and_then(Ratio::interval);
    LengthForecast {
        length,
        acceptance: by_prompt(prompts, |accepted, proposed| {
            [accepted.min(length) as f64, proposed.min(length) as f64]
        })
        .value(),
        tokens_per_round: by_prompt(prompts, |accepted, _| {
            [accepted.min(length) as f64 + 1.0, 1.0]
        })
        .value(),
        speedup: speedup.and_then(|ratio| ratio.value()),
        lo: interval.map(|interval| interval.lo),
        hi: interval.map(|interval| interval.hi),
    }
}

/// The time in which plain decoding would emit the tokens of the rounds ÷ the time of the
/// rounds.
fn speedup(costs: &CheckCosts, prompts: &[PromptRounds], length: usize) -> Option<Ratio> {
    let passes = costs.passes.as_ref()?;
    let plain = passes[0] + costs.plain_outside?;
    let (draft, outside) = (costs.draft.unwrap_or(0.0), costs.outside?);
    Some(by_prompt(prompts, |accepted, proposed| {
        let drafted = proposed.min(length);
        let draft_passes = if costs.at_once { drafted.min(1) } else { drafted };
        let round = draft_passes as f64 * draft + passes[drafted] + outside;
        [(accepted.min(length) as f64 + 1.0) * plain, round]
    }))
}

/// A ratio of two sums over rounds.
fn by_prompt(prompts: &[PromptRounds], of: impl Fn(usize, usize) -> [f64; 2]) -> Ratio {
    Ratio::of(prompts.iter().map(|prompt| {
        let rounds = prompt.rounds.iter().map(|round| of(round.accepted, round.proposed));
        let [above, below] = rounds.fold([0.0; 2], |[a, b], [x, y]| [a + x, b + y]);
        ([above], [below])
    }))
}

#[cfg(test)]
mod tests {
    use super::super::rounds::SeenRound;
    use super::*;

    fn prompt(rounds: &[(usize, usize)]) -> PromptRounds {
        let round = |&(proposed, accepted)| SeenRound {
            proposed,
            accepted,
            draft_us: 0.0,
            outside_us: 0.0,
        };
        PromptRounds { rounds: rounds.iter().map(round).collect(), ..PromptRounds::default() }
    }

    /// Passes of 10 µs and 1 µs more for every further row, 2 µs per drafted token.
    fn costs() -> CheckCosts {
        CheckCosts {
            passes: Some((0..=MAX_K).map(|m| 10.0 + m as f64).collect()),
            draft: Some(2.0),
            at_once: false,
            outside: Some(1.0),
            plain_outside: Some(2.0),
        }
    }

    #[test]
    fn a_short_draft_is_the_beginning_of_a_long_one() {
        let prompts = [prompt(&[(8, 8), (8, 0)]), prompt(&[(8, 3), (0, 0)])];
        let all = forecasts(&costs(), &prompts);
        // K = 2: 2, 0, 2 and 0 tokens are accepted of 2, 2, 2 and 0; rounds take 2·2 + 12 + 1,
        // and 10 + 1 without a draft; a token takes 12.
        assert_eq!(all[1].acceptance, Some(4.0 / 6.0));
        assert_eq!(all[1].tokens_per_round, Some(2.0));
        assert_eq!(all[1].speedup, Some(8.0 * 12.0 / (3.0 * 17.0 + 11.0)));
        // K = 8: 8, 0, 3 and 0; rounds take 16 + 18 + 1, and 11.
        assert_eq!(all[7].speedup, Some(15.0 * 12.0 / (3.0 * 35.0 + 11.0)));
        assert_eq!(all[7].lo, None, "two prompts give no interval");
    }

    #[test]
    fn without_a_cost_there_is_no_speedup() {
        let prompts = [prompt(&[(8, 8)])];
        let all = forecasts(&CheckCosts { passes: None, ..costs() }, &prompts);
        assert!(all.iter().all(|f| f.speedup.is_none() && f.acceptance.is_some()));
    }
}

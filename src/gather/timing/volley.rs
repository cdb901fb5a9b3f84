//! Requests that decode at the same time.

use super::request::TimedCompletion;

/// Fewer rounds of a request than these, while all requests decode, give no sample.
const LEAST_ROUNDS: f64 = 8.0;

/// Means over the time in which all requests of a volley decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SharedRounds {
    pub(super) round_ms: f64,
    pub(super) tokens_per_s: f64,
    pub(super) context: f64,
}

/// What the requests of a volley show together; `None` if they decoded too few rounds at the same
/// time.
pub(super) fn shared_rounds(requests: &[TimedCompletion]) -> Option<SharedRounds> {
    let first = requests.iter().filter_map(|own| own.arrivals.first()).copied();
    let last = requests.iter().filter_map(|own| own.arrivals.last()).copied();
    let (begin, end) = (first.fold(0.0, f64::max), last.fold(f64::INFINITY, f64::min));
    let (mut ms, mut rounds, mut rate, mut context) = (0.0, 0.0, 0.0, 0.0);
    for own in requests {
        let inside = |at: &f64| (begin..=end).contains(at);
        let within = own.arrivals.iter().copied().filter(inside).collect::<Vec<_>>();
        let (chunks, all) = (within.len().checked_sub(1)?, own.arrivals.len() - 1);
        let share = chunks as f64 / all.max(1) as f64;
        let (took, own_rounds) = (within.last()? - within.first()?, share * own.rounds_between());
        if own_rounds < LEAST_ROUNDS || took <= 0.0 {
            return None;
        }
        let before = own.arrivals.iter().filter(|at| **at < begin).count();
        let middle = (before as f64 + chunks as f64 / 2.0) / own.arrivals.len() as f64;
        ms += took;
        rounds += own_rounds;
        // A round emits as many tokens here as in the whole completion.
        rate += 1e3 * own_rounds * own.per_round() / took;
        context += own.prompt as f64 + middle * own.tokens as f64;
    }
    let context = context / requests.len() as f64;
    Some(SharedRounds { round_ms: ms / rounds, tokens_per_s: rate, context })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A completion with a chunk per round.
    fn completion(first: f64, gap: f64, rounds: usize, per_round: usize) -> TimedCompletion {
        TimedCompletion {
            prompt: 100,
            tokens: rounds * per_round,
            arrivals: (0..rounds).map(|i| first + gap * i as f64).collect(),
            rounds: rounds as f64,
            first_before: false,
            drafted: None,
            most: 0,
        }
    }

    #[test]
    fn only_the_time_counts_in_which_all_requests_decode() {
        let slow_start = completion(500.0, 10.0, 40, 2);
        // This one decodes alone, and faster, until the other has its first token.
        let mut early = completion(0.0, 5.0, 100, 2);
        early.arrivals.extend((0..40).map(|i| 505.0 + 10.0 * f64::from(i)));
        (early.rounds, early.tokens) = (140.0, 280);
        let found = shared_rounds(&[slow_start, early]).unwrap();
        assert!((found.round_ms - 10.0).abs() < 1e-9, "{found:?}");
        assert!((found.tokens_per_s - 400.0).abs() < 1e-6, "{found:?}");
        // The middle of each: 19.5 rounds of 40, and 100 + 19 of 140, with 2 tokens each.
        let middle = (19.5 / 40.0 * 80.0 + 119.0 / 140.0 * 280.0) / 2.0;
        assert!((found.context - 100.0 - middle).abs() < 1.0, "{found:?}");
    }

    /// Catches: counting chunks as rounds, or chunks as tokens.
    #[test]
    fn rounds_and_tokens_are_those_that_the_server_counts() {
        let mut split = completion(0.0, 5.0, 81, 1);
        // Each round arrives as two chunks, and has three tokens.
        (split.rounds, split.tokens) = (41.0, 123);
        let found = shared_rounds(&[split]).unwrap();
        assert!((found.round_ms - 10.0).abs() < 1e-9, "{found:?}");
        assert!((found.tokens_per_s - 300.0).abs() < 1e-6, "{found:?}");
    }

    /// vLLM's prefill gives a token before the first round.
    #[test]
    fn a_token_of_the_prefill_is_no_round() {
        let mut own = completion(0.0, 10.0, 21, 1);
        (own.rounds, own.tokens, own.first_before) = (20.0, 61, true);
        let found = shared_rounds(&[own]).unwrap();
        assert!((found.round_ms - 10.0).abs() < 1e-9, "{found:?}");
        assert!((found.tokens_per_s - 300.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn requests_that_decode_one_after_the_other_give_nothing() {
        let (one, other) = (completion(0.0, 1.0, 50, 1), completion(100.0, 1.0, 50, 1));
        assert_eq!(shared_rounds(&[one, other]), None);
    }
}

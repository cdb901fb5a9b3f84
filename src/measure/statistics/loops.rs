//! Repetition loops: stretches in which a completion repeats itself. Any drafter is accepted there,
//! so a speedup on loops says little about other text.

use super::sample::{Sample, share_of_tokens};

/// The longest period of a loop, in tokens.
const LONGEST_PERIOD: usize = 20;

/// A loop has at least this many tokens after its first period.
const FEWEST_REPEATED: usize = 8;

/// If loops hold a larger share of plain decoding's tokens, verdicts rest on the generations
/// without loops.
pub const MOST_LOOPED: f64 = 0.1;

/// The number of tokens in loops: those in stretches of at least 8 tokens, and at least one period,
/// each of which equals the token one period before; a period has up to 20 tokens.
pub fn looped_tokens(tokens: &[u32]) -> usize {
    let mut looped = vec![false; tokens.len()];
    for period in 1..=LONGEST_PERIOD {
        let mut begin = period;
        for at in period..=tokens.len() {
            if at == tokens.len() || tokens[at] != tokens[at - period] {
                if at - begin >= period.max(FEWEST_REPEATED) {
                    looped[begin..at].fill(true);
                }
                begin = at + 1;
            }
        }
    }
    looped.into_iter().filter(|looped| *looped).count()
}

/// The share of the tokens of some samples that lie in loops; `None` without tokens.
pub fn loop_share<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<f64> {
    share_of_tokens(samples, |sample| sample.looped)
}

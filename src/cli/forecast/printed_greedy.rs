//! What `specdec forecast` prints of drawn and greedy drafts.

use std::fmt::Write;

use anyhow::Result;

use super::printed_forecast::ForecastText;
use crate::tapes::forecasting::{Bounded, GreedyLevel};

impl ForecastText<'_> {
    pub(super) fn greedy(&self, text: &mut String) -> Result<()> {
        if self.0.greedy.is_empty() {
            return Ok(());
        }
        writeln!(text, "\ndrafts drawn from q, or greedy ones, the most probable tokens of q:")?;
        for own in &self.0.greedy {
            let sampling = self.0.tape.header.samplings[own.sampling].words();
            writeln!(text, "{sampling}, {}:", self.drafter(own.drafter))?;
            for level in &own.levels {
                writeln!(text, "  {}", sentence(level))?;
            }
            for chain in &own.chains {
                writeln!(
                    text,
                    "  K = {}: {} tokens per round drawn ({} by block verification), {} greedy: {} \
                     times",
                    chain.num_speculative_tokens,
                    shown(&chain.rejection),
                    shown(&chain.traversal),
                    shown(&chain.greedy),
                    shown(&chain.ratio)
                )?;
            }
            for what in &own.lacks {
                writeln!(text, "  the tape lacks {what}")?;
            }
        }
        Ok(())
    }
}

fn sentence(level: &GreedyLevel) -> String {
    let what = match level.tokens {
        1 => "a token is accepted with probability".to_owned(),
        tokens => format!("one of {tokens} {} tokens is accepted with probability", level.draws),
    };
    let best = level.drawn.iter().map(|drawn| match level.tokens {
        1 => format!("{} if drawn", shown(drawn)),
        _ => format!("{} at most if drawn", shown(drawn)),
    });
    let rejection = level.rejection.iter().filter(|_| level.tokens > 1);
    let rejection =
        rejection.map(|rejection| format!("{} if drawn, by rejection", shown(rejection)));
    let greedy = format!("{} if greedy", shown(&level.greedy));
    let all = best.chain(rejection).chain([greedy]).collect::<Vec<_>>().join(", ");
    let better = level
        .greedy_better
        .map(|share| format!("; greedy is better at {:.1} % of the positions", 100.0 * share));
    format!("{what} {all}{}", better.unwrap_or_default())
}

fn shown(found: &Bounded) -> String {
    let ends = found.lo.zip(found.hi).map(|(lo, hi)| format!(" [{lo:.3}, {hi:.3}]"));
    format!("{:.3}{}", found.value, ends.unwrap_or_default())
}

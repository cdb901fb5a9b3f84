//! Rounds as servers log them: step by step, or as a histogram.

use anyhow::{Result, bail};
use serde_json::Value;

use super::logged::{LoggedRounds, count, counts};
use crate::tapes::tape::LoggedRound;

/// The rounds of vLLM's `metrics.speculative_decoding` or of a record in its shape; `None` if
/// there are none. Rounds of a histogram have no order, and all draft the same number of tokens.
pub(super) fn rounds(record: &Value) -> Result<Option<LoggedRounds>> {
    let accepted = counts(record.get("per_step_accepted"))?;
    if let Some(accepted) = accepted {
        let drafted = counts(record.get("per_step_drafted"))?;
        let drafted_known = drafted.is_some();
        let drafted = drafted.unwrap_or_else(|| accepted.clone());
        if drafted.len() != accepted.len() {
            bail!("{} steps accept tokens, and {} draft some", accepted.len(), drafted.len());
        }
        let rounds = accepted.into_iter().zip(drafted).map(LoggedRound::from);
        return Ok(Some(LoggedRounds {
            rounds: rounds.collect(),
            drafted_known,
            ..LoggedRounds::default()
        }));
    }
    let Some(histogram) = histogram(record.get("acceptance_histogram"))? else { return Ok(None) };
    let all = histogram.iter().map(|(_, steps)| *steps).fold(0, usize::saturating_add);
    if all > MAX_STEPS {
        bail!("\"acceptance_histogram\" counts {all} steps: allowed are up to {MAX_STEPS}");
    }
    let k = count(record.get("num_spec_tokens"));
    let steps = |(accepted, steps): (usize, usize)| {
        let drafted = k.unwrap_or(accepted).max(accepted);
        std::iter::repeat_n(LoggedRound { accepted, drafted }, steps)
    };
    let rounds = histogram.into_iter().flat_map(steps).collect();
    let drafted_known = k.is_some();
    Ok(Some(LoggedRounds { rounds, drafted_known, unordered: true, ..LoggedRounds::default() }))
}

/// Maximum number of steps of a completion.
const MAX_STEPS: usize = 1 << 24;

/// Numbers of accepted tokens, each with its number of steps, from a list or from an object with
/// the numbers of accepted tokens as keys.
fn histogram(value: Option<&Value>) -> Result<Option<Vec<(usize, usize)>>> {
    if let Some(Value::Object(sparse)) = value {
        let entry = |(key, steps): (&String, &Value)| match (key.parse(), count(Some(steps))) {
            (Ok(accepted), Some(steps)) => Ok((accepted, steps)),
            _ => bail!("\"acceptance_histogram\" has the entry {key}: {steps}"),
        };
        let mut sparse = sparse.iter().map(entry).collect::<Result<Vec<_>>>()?;
        sparse.sort_unstable();
        return Ok(Some(sparse));
    }
    Ok(counts(value)?.map(|steps| steps.into_iter().enumerate().collect()))
}

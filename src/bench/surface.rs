//! What passes cost at several lengths of context, as the rows that `specdec forecast` reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sample::{Stopwatch, Task};
use super::{DRAFTED, MOST_ROWS, Outside, Timing, check_room, drafting, pass, prefill};
use crate::clock::Clock;
use crate::error::Error;
use crate::model::LanguageModel;

/// A row of a file of costs. `docs/tape.md` describes the columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct CostRow {
    #[serde(default)]
    pub what: String,
    pub rows: usize,
    pub context: usize,
    pub batch: usize,
    pub ms: f64,
}

/// The value of [`CostRow::what`] for a pass of the target.
pub const TARGET_COST: &str = "target";
/// That for a pass of the draft model.
pub const DRAFT_COST: &str = "draft";
/// That for reading a prompt, which needs no logits.
pub const PREFILL_COST: &str = "prefill";
/// That for what a round takes outside passes.
pub const OUTSIDE_COST: &str = "outside";

/// The lengths of the prompts that are timed, as far as the target has room for them.
const PROMPTS: [usize; 4] = [1, 16, 64, 256];

/// Times passes of 1 to 17 rows at each of some lengths of context, and prompts of several
/// lengths, `budget` for each, and adds what rounds take `outside` of them. Where too few samples
/// were undisturbed, there is no row.
///
/// Unlike those of [`super::measure`], these passes take turns with nothing that reads other
/// memory: in the rounds of a text, nothing but the draft model comes between two passes of the
/// target either, and a part of the weights may stay in the caches.
///
/// # Errors
/// If a model fails or has no room for a context.
pub fn cost_rows(
    target: &dyn LanguageModel,
    draft: Option<&dyn LanguageModel>,
    contexts: &[usize],
    outside: &[Outside],
    budget: Duration,
    clock: &dyn Clock,
) -> Result<Vec<CostRow>, Error> {
    let row = |what: &str, rows, context, us: f64| CostRow {
        what: what.to_owned(),
        rows,
        context,
        batch: 1,
        ms: us / 1000.0,
    };
    let mut found = Vec::new();
    for &context in contexts {
        let mut models = [Some(target), draft].into_iter().flatten();
        models.try_for_each(|model| check_room(model, context, MOST_ROWS))?;
        let passes = (1..=MOST_ROWS + 1).map(|rows| pass(target, context, rows));
        let mut tasks = passes.collect::<Result<Vec<Task<'_>>, _>>()?;
        tasks.extend(draft.map(|draft| drafting(draft, context)).transpose()?);
        let times = Stopwatch::new(clock).in_turns(&mut tasks, budget)?;
        let (passes, drafted) = times.split_at(MOST_ROWS + 1);
        let passes = (1..).zip(passes.iter().map(Timing::median));
        found.extend(passes.filter_map(|(m, us)| Some(row(TARGET_COST, m, context, us?))));
        let drafted = drafted.iter().filter_map(Timing::median);
        found.extend(drafted.map(|us| row(DRAFT_COST, 1, context, us / DRAFTED as f64)));
    }
    let room = target.info().context_length;
    let prompts = PROMPTS.into_iter().filter(|&length| length <= room).collect::<Vec<_>>();
    let mut tasks = prompts.iter().map(|&length| prompt(target, length)).collect::<Vec<_>>();
    let times = Stopwatch::new(clock).in_turns(&mut tasks, budget)?;
    let times = prompts.into_iter().zip(times.iter().map(Timing::median));
    found.extend(times.filter_map(|(length, us)| Some(row(PREFILL_COST, length, 1, us?))));
    for outside in outside.iter().filter(|outside| outside.temperature > 0.0) {
        found.extend(outside.micros().map(|us| row(OUTSIDE_COST, outside.drafted + 1, 0, us)));
    }
    Ok(found)
}

/// A task that reads a prompt.
fn prompt(model: &dyn LanguageModel, length: usize) -> Task<'_> {
    Box::new(move || prefill(model, length))
}

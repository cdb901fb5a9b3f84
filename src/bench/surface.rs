//! What passes cost at several lengths of context, as the rows that `specdec forecast` reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MOST_ROWS, Outside, PassTimes, Timing, time_passes};
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
/// That for what a round takes outside passes.
pub const OUTSIDE_COST: &str = "outside";

/// Times passes of 1 to 17 rows at each of some lengths of context, `budget` for each, and adds
/// what rounds take `outside` of them. Where too few samples were undisturbed, there is no row.
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
        let place = (context, MOST_ROWS + 1);
        let PassTimes { passes, draft, .. } = time_passes(target, draft, place, budget, clock)?;
        let passes = (1..).zip(passes.iter().map(Timing::median));
        found.extend(passes.filter_map(|(m, us)| Some(row(TARGET_COST, m, context, us?))));
        let draft = draft.as_ref().and_then(Timing::median);
        found.extend(draft.map(|us| row(DRAFT_COST, 1, context, us)));
    }
    for outside in outside.iter().filter(|outside| outside.temperature > 0.0) {
        found.extend(outside.micros().map(|us| row(OUTSIDE_COST, outside.drafted + 1, 0, us)));
    }
    Ok(found)
}

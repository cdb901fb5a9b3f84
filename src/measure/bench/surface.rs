//! What passes cost at several lengths of context, as the rows that `specdec forecast` reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outside::{TimedDraft, outside};
use super::sample::{Stopwatch, Task};
use super::tasks::{BenchPlace, BenchSequences, check_room, drafting, prefill};
use super::{DRAFTED, MOST_ROWS, Timing};
use crate::core::clock::Clock;
use crate::core::error::Error;
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
    #[serde(default)]
    pub shared: usize,
    pub ms: f64,
}

/// The value of [`CostRow::what`] for a pass of the target.
pub const TARGET_COST: &str = "target";
/// That for a pass of the draft model.
pub const DRAFT_COST: &str = "draft";
/// That for reading a prompt, which needs no logits.
pub const PREFILL_COST: &str = "prefill";
/// That for the draft model's reading of a prompt.
pub const DRAFT_PREFILL_COST: &str = "draft_prefill";
/// That for what a round takes outside passes.
pub const OUTSIDE_COST: &str = "outside";

/// The lengths of the prompts that are timed, as far as a model has room for them.
const PROMPTS: [usize; 4] = [1, 16, 64, 256];

/// The numbers of rows of a sequence that are timed in a batch; with one sequence it is every
/// number up to 17.
const BATCHED_ROWS: [usize; 6] = [1, 2, 3, 5, 9, 17];

/// Where costs are measured.
#[derive(Debug, Clone, Copy)]
pub struct CostPlaces<'a> {
    /// Context tokens.
    pub contexts: &'a [usize],
    /// Numbers of sequences in a pass, each with a cache of its own.
    pub batches: &'a [usize],
    /// Whether to time batches that share their contexts, too.
    pub shared: bool,
}

/// Times passes of 1 to 17 rows of each sequence at some lengths of context and in some batches,
/// what rounds take outside passes, and prompts of several lengths, `budget` for each. Where too
/// few samples were undisturbed, there is no row.
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
    places: CostPlaces<'_>,
    budget: Duration,
    clock: &dyn Clock,
) -> Result<Vec<CostRow>, Error> {
    let (mut found, first) = (Vec::new(), places.contexts.first());
    for &batch in places.batches {
        for &context in places.contexts {
            for shared in
                [false, true].into_iter().take(1 + usize::from(places.shared && batch > 1))
            {
                let place = BenchPlace { context, batch, shared };
                let (passes, drafting) = of_passes(target, draft, place, budget, clock)?;
                found.extend(passes);
                // What rounds take in addition to passes does not depend on the context.
                if let Some(draft) = draft.filter(|_| !shared && Some(&context) == first) {
                    let draft = TimedDraft::of(draft, drafting.as_ref());
                    found.extend(of_rounds(target, draft, place, clock)?);
                }
            }
        }
    }
    found.extend(of_prompts(target, draft, budget, clock)?);
    Ok(found)
}

fn row(what: &str, rows: usize, place: BenchPlace, us: f64) -> CostRow {
    let BenchPlace { context, batch, shared } = place;
    let shared = if shared { context - 1 } else { 0 };
    CostRow { what: what.to_owned(), rows, context, batch, shared, ms: us / 1000.0 }
}

/// What passes of target and draft model cost, and the time of one of the draft model.
fn of_passes(
    target: &dyn LanguageModel,
    draft: Option<&dyn LanguageModel>,
    place: BenchPlace,
    budget: Duration,
    clock: &dyn Clock,
) -> Result<(Vec<CostRow>, Option<Timing>), Error> {
    let models = [Some(target), draft].into_iter().flatten();
    for model in models {
        check_room(model, place.context, MOST_ROWS)?;
    }
    let rows = if place.batch == 1 { (1..=MOST_ROWS + 1).collect() } else { BATCHED_ROWS.to_vec() };
    let sequences = BenchSequences::new(target, place)?;
    let mut tasks = rows.iter().map(|&rows| sequences.pass(rows)).collect::<Vec<_>>();
    tasks.extend(draft.map(|draft| drafting(draft, place)).transpose()?);
    let times = Stopwatch::new(clock).in_turns(&mut tasks, budget)?;
    let mut times = times.into_iter();
    let passes = rows.iter().zip(times.by_ref());
    let passes = passes.filter_map(|(&m, time)| Some(row(TARGET_COST, m, place, time.median()?)));
    let mut found = passes.collect::<Vec<_>>();
    let drafted = times.next().map(|time| time.per(DRAFTED as f64));
    let us = drafted.as_ref().and_then(Timing::median);
    found.extend(us.map(|us| row(DRAFT_COST, 1, place, us)));
    Ok((found, drafted))
}

/// What rounds take outside passes at temperature 1, without drafts and with.
fn of_rounds(
    target: &dyn LanguageModel,
    draft: TimedDraft<'_>,
    place: BenchPlace,
    clock: &dyn Clock,
) -> Result<Vec<CostRow>, Error> {
    let mut found = Vec::new();
    for drafted in [0, 1, DRAFTED] {
        let rounds = outside((target, draft), place, (drafted, 1.0), &Stopwatch::new(clock))?;
        let at = BenchPlace { context: 0, ..place };
        found.extend(rounds.micros().map(|us| row(OUTSIDE_COST, drafted + 1, at, us)));
    }
    Ok(found)
}

fn of_prompts(
    target: &dyn LanguageModel,
    draft: Option<&dyn LanguageModel>,
    budget: Duration,
    clock: &dyn Clock,
) -> Result<Vec<CostRow>, Error> {
    let models = [Some((PREFILL_COST, target)), draft.map(|draft| (DRAFT_PREFILL_COST, draft))];
    let prompts = models.into_iter().flatten().flat_map(|(what, model)| {
        let room = model.info().context_length;
        PROMPTS.into_iter().filter(move |&length| length <= room).map(move |n| (what, model, n))
    });
    let prompts = prompts.collect::<Vec<_>>();
    let reading = |&(_, model, length): &(_, _, usize)| -> Task<'_> {
        Box::new(move || prefill(model, length))
    };
    let mut tasks = prompts.iter().map(reading).collect::<Vec<_>>();
    let times = Stopwatch::new(clock).in_turns(&mut tasks, budget)?;
    let times = prompts.iter().zip(times.iter().map(Timing::median));
    let place = BenchPlace::alone(1);
    Ok(times.filter_map(|(&(what, _, length), us)| Some(row(what, length, place, us?))).collect())
}

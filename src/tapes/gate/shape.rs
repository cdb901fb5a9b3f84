//! Where in drafts and completions acceptance has changed.

use super::pairs::{Paired, PairedPrompt, PlacedStep};
use crate::measure::statistics::MIN_PROMPTS;
use crate::tapes::tape::{ShareChange, ShareChanges, early_and_late};

/// Accepted tokens, and those that were decided on.
type Counts = [f64; 2];

/// Changes by place; `None` for few prompts, and where a log has sums or no order.
pub(super) fn changes(found: &Paired) -> Option<ShareChanges> {
    let known = |own: &&PairedPrompt| own.steps.iter().all(|steps| !steps.is_empty());
    let prompts = found.prompts.iter().filter(known).collect::<Vec<_>>();
    let mut steps = prompts.iter().flat_map(|own| own.steps.iter().flatten());
    if prompts.len() < MIN_PROMPTS || steps.any(|step| step.place.is_none()) {
        return None;
    }
    let part = |step: &PlacedStep| early_and_late(step.place.unwrap_or(0.0));
    Some(ShareChanges {
        first: change(&prompts, |step| decided(step, 1..2))?,
        later: change(&prompts, |step| decided(step, 2..usize::MAX))?,
        early: change(&prompts, |step| decided(step, if part(step)[0] { ALL } else { NONE }))?,
        late: change(&prompts, |step| decided(step, if part(step)[1] { ALL } else { NONE }))?,
    })
}

const ALL: std::ops::Range<usize> = 1..usize::MAX;
const NONE: std::ops::Range<usize> = 0..0;

/// The counts of a round at positions of its draft, from 1.
fn decided(step: &PlacedStep, positions: std::ops::Range<usize>) -> Counts {
    let accepted = step.round.accepted;
    let reached = step.round.drafted.min(accepted + 1);
    let up_to = |most: usize| (most + 1).min(positions.end).saturating_sub(positions.start) as f64;
    [up_to(accepted), up_to(reached)]
}

/// The change of a share between logs, with its standard error over prompts; `None` if one has no
/// such token.
fn change(prompts: &[&PairedPrompt], of: impl Fn(&PlacedStep) -> Counts) -> Option<ShareChange> {
    let sum = |steps: &[PlacedStep]| {
        steps.iter().map(&of).fold([0.0; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]])
    };
    let counts = prompts.iter().map(|own| [sum(&own.steps[0]), sum(&own.steps[1])]);
    let counts = counts.collect::<Vec<_>>();
    let all = [0, 1].map(|log| {
        counts.iter().fold([0.0; 2], |sum, own| [sum[0] + own[log][0], sum[1] + own[log][1]])
    });
    if all.iter().any(|[_, decided]| *decided == 0.0) {
        return None;
    }
    let share = all.map(|[accepted, decided]| accepted / decided);
    // What a prompt adds to the share of a log, to first order.
    let own =
        |log: usize, [accepted, decided]: Counts| (accepted - share[log] * decided) / all[log][1];
    let squares = counts.iter().map(|logs| (own(1, logs[1]) - own(0, logs[0])).powi(2));
    let n = prompts.len() as f64;
    let error = (squares.sum::<f64>() * n / (n - 1.0)).sqrt();
    Some(ShareChange { change: share[1] - share[0], error })
}

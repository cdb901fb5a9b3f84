//! Cells that were run twice: what differs there differs by chance, or because
//! the machine was disturbed.

use super::load::Results;
use super::tables::{markdown, number, with_interval};
use crate::experiment::describe;
use crate::experiment::statistics::{
    Interval, holm, pair_by_prompt, sign_flip, speedup, speedup_interval,
};

/// Two runs of one cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Control {
    /// The cell in words.
    cell: String,
    /// Time per token of the first ÷ that of the second.
    ratio: Option<f64>,
    interval: Option<Interval>,
    /// Of the sign-flip test, by itself and after Holm.
    p: (f64, f64),
}

/// The level at which a run counts as disturbed.
pub(super) const LEVEL: f64 = 0.01;

impl Control {
    /// Whether the two runs differ by more than chance.
    pub(super) fn differs(&self) -> bool {
        self.p.1 < LEVEL
    }
}

/// All cells that were run twice and timed.
pub(super) fn controls(results: &Results) -> Vec<Control> {
    let mut controls = Vec::new();
    for (first, again) in results.plan.controls() {
        let pairs = pair_by_prompt(results.samples(&first.id), results.samples(&again.id));
        let Some(p) = sign_flip(pairs.values()) else { continue };
        controls.push(Control {
            cell: describe(first),
            ratio: speedup(pairs.values()),
            interval: speedup_interval(&pairs),
            p: (p, p),
        });
    }
    let adjusted = holm(&controls.iter().map(|c| c.p.0).collect::<Vec<_>>());
    controls.iter_mut().zip(adjusted).for_each(|(control, p)| control.p.1 = p);
    controls
}

/// The table of all controls; empty if nothing was run twice.
pub(super) fn section(results: &Results) -> String {
    let rows = controls(results).into_iter().map(|control| {
        let (lo, hi) = (control.interval.map(|i| i.lo), control.interval.map(|i| i.hi));
        let verdict = if control.differs() { "**DISTURBED**" } else { "no difference" };
        vec![
            control.cell,
            with_interval(control.ratio, lo, hi, 3),
            number(Some(control.p.0), 4),
            number(Some(control.p.1), 4),
            verdict.to_owned(),
        ]
    });
    let rows = rows.collect::<Vec<_>>();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["cell", "first ÷ second [95 %]:", "p:", "p after Holm:", "verdict"];
    format!(
        "## The same cell twice\n\nThese cells took two turns in every block. Whatever differs \
         between the turns is no property of a method. The test is a sign-flip test over prompts; \
         below {LEVEL} after Holm the run counts as disturbed.\n\n{}\n",
        markdown(&head, &rows)
    )
}

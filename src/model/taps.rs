//! Hidden states: which ones a model can return, which ones it reads, and their rows.

use std::fmt;
use std::sync::Arc;

use super::head_fault::{HeadFault, RejectedRows};
use crate::core::error::Error;

/// A place in a decoder at which the hidden state of a token is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tap {
    /// After this many layers: 0 is the embedding, and all layers end before the last norm.
    After(usize),
    /// After the last norm: what the head multiplies.
    Normed,
}

impl fmt::Display for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(layers) => write!(f, "after {layers} layers"),
            Self::Normed => f.write_str("after the last norm"),
        }
    }
}

/// The hidden states that a model can return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenStates {
    /// Number of layers.
    pub layers: usize,
    /// Numbers in a state.
    pub width: usize,
}

impl HiddenStates {
    /// Whether there is such a state.
    pub fn has(self, tap: Tap) -> bool {
        match tap {
            Tap::After(layers) => layers <= self.layers,
            Tap::Normed => true,
        }
    }
}

/// What the rows of a model depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ModelInputs {
    /// Tokens alone: a language model.
    #[default]
    Tokens,
    /// A head: also hidden states of the target, one row for each committed token.
    Features(Features),
    /// The target's own first layers, in the target's sequence, which keeps the state after them.
    FirstLayers(Vec<Tap>),
}

impl ModelInputs {
    /// The hidden states of the target that it reads.
    pub fn taps(&self) -> &[Tap] {
        match self {
            Self::Tokens => &[],
            Self::Features(features) => &features.taps,
            Self::FirstLayers(taps) => taps,
        }
    }
}

/// The features of a head: hidden states of its target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// The states of a token, side by side.
    pub taps: Vec<Tap>,
    /// Numbers in the feature of a token.
    pub width: usize,
    /// Whether the first token of a text has a row, whose feature is zero. The row of any other
    /// token has the feature of the token before it.
    pub first_row: bool,
    /// Whether it estimates the acceptance of a token before it is drawn.
    pub estimates: bool,
    /// A mistake, for studies of what finds it.
    pub fault: Option<HeadFault>,
}

impl Features {
    /// The same features with a mistake, of a target with `layers` layers.
    ///
    /// # Errors
    /// If there is no such state.
    pub(crate) fn with_fault(mut self, fault: HeadFault, layers: usize) -> Result<Self, Error> {
        self.fault = Some(fault);
        let shift = |tap: &Tap| match (fault, *tap) {
            (HeadFault::TapEarly, Tap::After(after)) => after.checked_sub(1).map(Tap::After),
            (HeadFault::TapEarly, Tap::Normed) => Some(Tap::After(layers)),
            (HeadFault::TapLate, Tap::After(after)) if after == layers => Some(Tap::Normed),
            (HeadFault::TapLate, Tap::After(after)) => Some(Tap::After(after + 1)),
            (HeadFault::TapLate, Tap::Normed) => None,
            (_, tap) => Some(tap),
        };
        let shifted = self.taps.iter().map(shift).collect::<Option<Vec<_>>>();
        self.taps = shifted.ok_or_else(|| {
            Error::setting(format!("fault = {}: the target has no such state", fault.name()))
        })?;
        if fault == HeadFault::TapsReversed {
            self.taps.reverse();
        }
        Ok(self)
    }
}

/// Rows of numbers by slot, all of one width.
#[derive(Debug, Clone, Default)]
pub(super) struct StateRows {
    width: usize,
    numbers: Vec<f32>,
}

impl StateRows {
    /// No rows yet.
    pub(super) fn of_width(width: usize) -> Self {
        Self { width, numbers: Vec::new() }
    }

    /// Writes a row.
    pub(super) fn put(&mut self, slot: usize, row: &[f32]) {
        let end = (slot + 1) * self.width;
        self.numbers.resize(self.numbers.len().max(end), 0.0);
        self.numbers[slot * self.width..end].copy_from_slice(row);
    }

    /// Replaces all rows.
    pub(super) fn replace(&mut self, rows: &[f32]) {
        self.numbers.clear();
        self.numbers.extend_from_slice(rows);
    }

    /// The row of a slot that has one.
    pub(super) fn row(&self, slot: usize) -> Option<&[f32]> {
        self.numbers.get(slot * self.width..(slot + 1) * self.width)
    }

    /// Copies the row in slot `from`, if there is one, to slot `to`.
    pub(super) fn copy_row(&mut self, from: usize, to: usize) {
        let end = (from + 1) * self.width;
        if end <= self.numbers.len() {
            self.numbers.copy_within(from * self.width..end, to * self.width);
        }
    }

    /// The first `slots` rows.
    pub(super) fn first(&self, slots: usize) -> Self {
        let end = self.numbers.len().min(slots * self.width);
        Self { width: self.width, numbers: self.numbers[..end].to_vec() }
    }

    /// The content of the first `slots` rows, for telling two states apart.
    pub(super) fn key(&self, slots: usize) -> impl Iterator<Item = u8> {
        let numbers = self.numbers.iter().take(slots * self.width);
        numbers.flat_map(|number| number.to_bits().to_le_bytes())
    }
}

/// The hidden states that a session keeps of its tokens, by slot.
#[derive(Debug, Clone, Default)]
pub(super) struct KeptStates {
    /// Ascending.
    pub(super) taps: Vec<Tap>,
    width: usize,
    pub(super) rows: StateRows,
}

impl KeptStates {
    /// No rows yet of these states, each of `width` numbers.
    pub(super) fn of(taps: &[Tap], width: usize) -> Self {
        let mut taps = taps.to_vec();
        taps.sort_unstable();
        taps.dedup();
        let rows = StateRows::of_width(taps.len() * width);
        Self { taps, width, rows }
    }

    /// No rows yet of what a head continues from.
    pub(super) fn of_head(width: usize) -> Self {
        Self { rows: StateRows::of_width(width), ..Self::default() }
    }

    /// Whether these states are kept.
    pub(super) fn has(&self, taps: &[Tap]) -> bool {
        taps.iter().all(|tap| self.taps.contains(tap))
    }

    /// The same states without rows.
    pub(super) fn empty(&self) -> Self {
        self.first(0)
    }

    /// The first `slots` rows.
    pub(super) fn first(&self, slots: usize) -> Self {
        Self { taps: self.taps.clone(), width: self.width, rows: self.rows.first(slots) }
    }

    /// `only`, which keeps some of the same states, with the first `slots` rows of these.
    pub(super) fn only(&self, mut only: Self, slots: usize) -> Self {
        let mut row = Vec::with_capacity(only.rows.width);
        for slot in 0..slots {
            row.clear();
            if self.states(slot, &only.taps, &mut row) {
                only.rows.put(slot, &row);
            }
        }
        only
    }

    /// Appends the states of a slot at `taps`, in their order, and returns whether there are any.
    pub(super) fn states(&self, slot: usize, taps: &[Tap], to: &mut Vec<f32>) -> bool {
        let Some(row) = self.rows.row(slot) else { return false };
        for tap in taps {
            let Some(at) = self.taps.iter().position(|kept| kept == tap) else { return false };
            to.extend_from_slice(&row[at * self.width..(at + 1) * self.width]);
        }
        true
    }
}

/// Checks that a model returns these states.
///
/// # Errors
/// If it does not; the sentence names the first one.
pub(super) fn check(
    taps: &[Tap],
    (model, has): (&str, Option<HiddenStates>),
) -> Result<usize, Error> {
    let Some(has) = has else {
        return Err(Error::setting(format!(
            "target {model} returns no hidden states, which the head needs: heads run with \
             engine = native"
        )));
    };
    match taps.iter().find(|tap| !has.has(**tap)) {
        None => Ok(has.width),
        Some(tap) => Err(Error::setting(format!(
            "the head reads the state {tap} of target {model}, which has {} layers",
            has.layers
        ))),
    }
}

/// Features of consecutive tokens, from slot `first` on.
#[derive(Debug, Clone, Default)]
pub(super) struct Supplied {
    pub(super) first: usize,
    pub(super) rows: StateRows,
    pub(super) fault: Option<HeadFault>,
    pub(super) rejected: RejectedRows,
    /// The feature of masks, which stand for drafted tokens where a head drafts in parallel.
    pub(super) mask: Option<Arc<[f32]>>,
}

impl Supplied {
    /// None yet.
    pub(super) fn of(features: &Features) -> Self {
        let rows = StateRows::of_width(features.width);
        Self { rows, fault: features.fault, ..Self::default() }
    }
}

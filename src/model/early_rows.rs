//! Rows of which only the first layers have been computed.

/// The layers that a pass computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All of them.
    #[default]
    All,
    /// This many, and then the last norm and the head.
    First(usize),
    /// All but this many.
    Rest(usize),
}

/// Slots of which only the first layers have been computed.
#[derive(Debug, Clone, Default)]
pub(super) struct EarlyRows {
    slots: Vec<bool>,
    /// How many layers these are.
    layers: usize,
}

impl EarlyRows {
    /// The first slot below `end` of which only the first layers have been computed.
    pub(super) fn first_below(&self, end: usize) -> Option<usize> {
        self.slots.iter().take(end).position(|early| *early)
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.slots.get(slot).copied().unwrap_or(false)
    }

    pub(super) fn copy(&mut self, from: usize, to: usize) {
        let early = self.has(from);
        self.set(to, early);
    }

    /// How many layers rows hold that are early.
    pub(super) fn layers(&self) -> usize {
        self.layers
    }

    fn set(&mut self, slot: usize, early: bool) {
        if early && slot >= self.slots.len() {
            self.slots.resize(slot + 1, false);
        }
        if let Some(mark) = self.slots.get_mut(slot) {
            *mark = early;
        }
    }

    /// Notes that layers of a slot have been computed.
    pub(super) fn mark(&mut self, slot: usize, part: Part) {
        if let Part::First(layers) = part {
            self.layers = layers;
        }
        self.set(slot, matches!(part, Part::First(_)));
    }
}

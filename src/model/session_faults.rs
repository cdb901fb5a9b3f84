//! The mistakes of wrong heads that are in their sequences.

use super::session::child;
use super::taps::Supplied;
use super::{HeadFault, HeadStep, Session};
use crate::core::distribution::Token;

impl Session {
    /// Makes the mistake of its head, if any, in what a level of a pass reads.
    pub(super) fn spoil(&self, step: &mut HeadStep, level: usize) {
        let Some(Supplied { fault: Some(fault), rejected, .. }) = &self.supplied else { return };
        if *fault == HeadFault::TokenEarly && level == 0 {
            let first = step.feed.first().and_then(|feed| feed.slot.checked_sub(1));
            let mut before = first.and_then(|slot| self.context.get(slot).copied());
            for feed in &mut step.feed {
                let own = feed.token;
                feed.token = before.unwrap_or(own);
                before = Some(own);
            }
        }
        for feed in &mut step.feed {
            match fault {
                HeadFault::RejectedRowsKept => {
                    feed.token = rejected.token(feed.slot).unwrap_or(feed.token);
                }
                HeadFault::DraftPositionsLate if level > 0 => feed.position += 1,
                HeadFault::AllPositionsLate => feed.position += 1,
                _ => {}
            }
        }
    }

    /// Whether it is the sequence of a head with this mistake.
    pub(super) fn is_wrong(&self, fault: HeadFault) -> bool {
        self.supplied.as_ref().is_some_and(|supplied| supplied.fault == Some(fault))
    }

    /// Of a head that keeps the rows of rejected tokens: called before a pass over `own`.
    pub(crate) fn keep_rejected(&mut self, own: &[Token]) {
        let held = self.context.len();
        let last = own.len().saturating_sub(1);
        let rejected = if held <= last { self.rejected_by(own) } else { None };
        let Some(supplied) = &mut self.supplied else { return };
        if let Some(slot) = supplied.rejected.open.filter(|slot| *slot < last) {
            self.context.truncate(slot);
            supplied.rejected.open = None;
        }
        if let Some((slot, token)) = rejected {
            supplied.rejected.rows.push((slot, token));
            supplied.rejected.open = Some(slot);
        }
    }

    /// The first drafted token that `own` does not have, with its slot.
    fn rejected_by(&self, own: &[Token]) -> Option<(usize, Token)> {
        let (mut last, mut slot) = (None, self.context.len());
        while let Some(id) = child(&self.tree, last, *own.get(slot)?, 0) {
            (last, slot) = (Some(id), slot + 1);
        }
        let rejected = self.tree.iter().find(|node| node.filled && node.parent == last)?;
        Some((slot, rejected.token))
    }
}

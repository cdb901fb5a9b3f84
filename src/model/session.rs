//! One sequence: its tokens and its KV cache in one object, so that they cannot
//! disagree.
//!
//! No other code computes a rollback length. A pass names its context and draft; the
//! session finds the longest part that it already holds, moves the rows of an accepted
//! tree path together, forgets the rest in O(1), and returns the tokens that are still
//! to be computed.
//!
//! Rows live in *slots*. A context token's slot is its position; node `i` of
//! the draft sits in slot `context.len() + i`, wherever in the tree it is.

use std::sync::Arc;

use super::block::BlockAfter;
use super::early_rows::{EarlyRows, Part};
use super::step::{Feed, Step};
use super::taps::{KeptStates, Supplied};
use super::{KvCache, Work};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::tree::{Draft, NodeId};

/// Slots that a session expects for the nodes of a tree off its deepest path.
const OFF_PATH: usize = 64;

/// A sequence of tokens with its cache.
#[derive(Debug)]
pub struct Session {
    cache: Box<dyn KvCache>,
    slots: usize,
    positions: usize,
    pub(super) context: Vec<Token>,
    pub(super) tree: Vec<Cached>,
    /// Hidden states of a target's tokens, or those that a head continues from.
    pub(super) kept: KeptStates,
    /// Of a head: the features that the target has supplied.
    pub(super) supplied: Option<Supplied>,
    /// Rows of which only the first layers have been computed.
    pub(super) early: EarlyRows,
    /// Of a drafter of blocks: the last one.
    pub(super) block: Option<Arc<BlockAfter>>,
}

/// What slot `context.len() + i` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) token: Token,
    pub(super) parent: Option<NodeId>,
    pub(super) filled: bool,
}

impl Session {
    /// An empty sequence over `cache`, which has room for `slots` rows and
    /// serves a model with `positions` positions.
    pub fn new(cache: Box<dyn KvCache>, slots: usize, positions: usize) -> Self {
        Self {
            cache,
            slots,
            positions,
            context: Vec::new(),
            tree: Vec::new(),
            kept: KeptStates::default(),
            supplied: None,
            early: EarlyRows::default(),
            block: None,
        }
    }

    /// The engine's cache.
    pub fn cache(&mut self) -> &mut dyn KvCache {
        &mut *self.cache
    }

    /// The same sequence with its cache wrapped, for adapters around an engine's cache.
    #[cfg(feature = "engine")]
    pub(crate) fn map_cache(self, wrap: impl FnOnce(Box<dyn KvCache>) -> Box<dyn KvCache>) -> Self {
        Self { cache: wrap(self.cache), ..self }
    }

    /// The sequence may grow to `tokens` tokens. Nothing but the time of later passes depends on it.
    ///
    /// # Errors
    /// If the engine has no memory for their rows.
    pub fn expect(&mut self, tokens: usize) -> Result<(), Error> {
        self.cache.expect(tokens.saturating_add(OFF_PATH).min(self.slots))
    }

    /// An independent copy, for beams and best-of-n, which expects as many tokens.
    ///
    /// # Errors
    /// If the engine fails to copy its rows.
    pub fn try_clone(&self) -> Result<Self, Error> {
        Ok(Self {
            cache: self.cache.try_clone(self.context.len() + self.tree.len())?,
            slots: self.slots,
            positions: self.positions,
            context: self.context.clone(),
            tree: self.tree.clone(),
            kept: self.kept.first(self.context.len() + self.tree.len()),
            supplied: self.supplied.clone(),
            early: self.early.clone(),
            block: self.block.clone(),
        })
    }

    /// A sequence of the first `tokens` tokens of the context, which shares their rows with this
    /// one where the engine can.
    ///
    /// # Errors
    /// If the engine fails to copy rows.
    pub fn share(&mut self, tokens: usize) -> Result<Self, Error> {
        let tokens = tokens.min(self.context.len());
        let cache = self.cache.share(tokens, self.context.len() + self.tree.len())?;
        let context = self.context[..tokens].to_vec();
        let (kept, supplied) = (self.kept.first(tokens), self.supplied.clone());
        let (early, block) = (self.early.clone(), self.block.clone());
        Ok(Self { cache, context, tree: Vec::new(), kept, supplied, early, block, ..*self })
    }

    /// The tokens whose rows it holds, without a draft's.
    pub fn context(&self) -> &[Token] {
        &self.context
    }

    /// Number of tokens at the beginning of `context` whose rows it holds, without a draft's.
    pub(crate) fn holds(&self, context: &[Token]) -> usize {
        self.context.iter().zip(context).take_while(|(held, token)| held == token).count()
    }

    /// Becomes a copy of another sequence of the same model. Rows of the tokens with which both
    /// begin stay where they are: on a row-invariant engine they have the same bits.
    ///
    /// # Errors
    /// If the engine fails to copy its rows.
    pub fn copy_from(&mut self, other: &mut Self) -> Result<(), Error> {
        let common = self.holds(&other.context);
        let held = other.context.len() + other.tree.len();
        if !self.cache.copy_rows(&mut *other.cache, common..held)? {
            self.cache = other.cache.try_clone(held)?;
        }
        self.context.clone_from(&other.context);
        self.tree.clone_from(&other.tree);
        self.kept = other.kept.first(held);
        self.supplied.clone_from(&other.supplied);
        self.early.clone_from(&other.early);
        self.block.clone_from(&other.block);
        Ok(())
    }

    /// Reconciles `work` with the cache and returns what to compute. The engine must
    /// fill the rows of `Step::feed` and then call [`Session::commit`]; if it fails
    /// before that, the rows count as not computed and will be computed again.
    ///
    /// # Errors
    /// If the context is empty or does not fit.
    pub fn prepare(work: &mut Work<'_>) -> Result<Step, Error> {
        Self::prepare_part(work, Part::All)
    }

    /// The same for a pass of the first layers alone, or of all of them.
    pub(super) fn prepare_part(work: &mut Work<'_>, part: Part) -> Result<Step, Error> {
        let (context, draft) = (work.context, work.draft);
        let session = &mut *work.session;
        session.check_room(context, draft)?;
        session.reconcile(context, draft)?;
        let wanted = work.want.rows(draft.len());
        // Where all layers are computed, rows of the first ones alone are completed.
        let (held, base) = (session.context.len(), context.len());
        let holds = |slot: usize| match slot.checked_sub(base) {
            None => slot < held,
            Some(node) => session.tree.get(node).is_some_and(|cached| cached.filled),
        };
        let open = |slot| part == Part::All && holds(slot) && session.early.has(slot);
        let completed = if part == Part::All { session.early.first_below(held) } else { None };
        let first = completed.unwrap_or(held);
        let first = if wanted.contains(&0) { first.min(context.len() - 1) } else { first };
        let mut feed = Vec::with_capacity(context.len() - first + draft.len());
        feed.extend((first..context.len()).map(|i| Feed {
            token: context[i],
            slot: i,
            position: i,
            prefix: i + 1,
            ancestors: Vec::new(),
        }));
        let needed =
            session.needed(draft, &wanted, |node| open(base + node)).into_iter().enumerate();
        let needed = needed.filter_map(|(id, needed)| needed.then_some(id));
        feed.extend(needed.map(|id| feed_of(draft, id, context.len())));
        let rows = wanted
            .into_iter()
            .map(|row| {
                let slot = context.len() - 1 + row;
                let found = feed.iter().position(|f| f.slot == slot);
                found.ok_or_else(|| {
                    Error::input(format!(
                        "row {row} is wanted of a draft with {} nodes",
                        draft.len()
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        let resumed = feed.iter().map(|feed| open(feed.slot)).collect();
        let (taps, inputs) = (session.kept.taps.clone(), Vec::new());
        Ok(Step { feed, rows, taps, resumed, part, inputs })
    }

    /// Records that the rows of `step` have been computed.
    pub fn commit(work: &mut Work<'_>, step: &Step) {
        let (context, draft) = (work.context, work.draft);
        let session = &mut *work.session;
        for feed in &step.feed {
            session.early.mark(feed.slot, step.part);
        }
        session.context.truncate(context.len());
        session.context.extend_from_slice(&context[session.context.len()..]);
        session.tree = draft
            .nodes()
            .iter()
            .enumerate()
            .map(|(id, node)| Cached {
                token: node.token,
                parent: node.parent,
                filled: session.tree.get(id).is_some_and(|c| c.filled)
                    || step.feed.iter().any(|f| f.slot == context.len() + id),
            })
            .collect();
    }

    /// Drops everything that does not belong to `context`, without computing.
    ///
    /// # Errors
    /// If the engine fails to move a row.
    pub fn rewind(&mut self, context: &[Token]) -> Result<(), Error> {
        self.block = self.block.take().filter(|kept| kept.is_after(context));
        self.reconcile(context, &Draft::empty(0))?;
        self.cache.rewind(context)
    }

    /// The tokens and the cached content: two sessions with equal keys behave
    /// identically from here on.
    pub fn state_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        for token in &self.context {
            key.extend(token.to_le_bytes());
        }
        key.push(b'|');
        for node in &self.tree {
            key.extend(node.token.to_le_bytes());
            key.extend(node.parent.map_or(usize::MAX, |p| p).to_le_bytes());
            key.push(u8::from(node.filled));
        }
        key.push(b'|');
        let held = self.context.len() + self.tree.len();
        key.extend(self.kept.rows.key(held));
        key.extend((0..held).map(|slot| u8::from(self.early.has(slot))));
        key.extend(self.cache.key(held));
        key
    }

    fn check_room(&self, context: &[Token], draft: &Draft) -> Result<(), Error> {
        if context.is_empty() {
            return Err(Error::input("an empty context cannot be evaluated"));
        }
        let (positions, slots) = (context.len() + draft.depth(), context.len() + draft.len());
        if positions > self.positions {
            let room = self.positions;
            return Err(Error::input(format!("{positions} tokens do not fit a context of {room}")));
        }
        if slots > self.slots {
            return Err(Error::input(format!(
                "a context of {} tokens and a draft of {} do not fit a cache of {} rows",
                context.len(),
                draft.len(),
                self.slots
            )));
        }
        Ok(())
    }

    /// Keeps the longest part of `context` and `draft` that is cached, with
    /// every kept row in its right slot.
    fn reconcile(&mut self, context: &[Token], draft: &Draft) -> Result<(), Error> {
        let old = self.context.len();
        let common = self.holds(context);
        let tree = std::mem::take(&mut self.tree);
        if common < old {
            self.context.truncate(common);
            return Ok(());
        }
        // Follow the new context down the cached tree as far as possible. What a head computed of
        // drafted tokens came from states of its own.
        let mut last = None;
        let reusable = if self.keeps_drafted_rows() { context } else { &[] };
        while let Some(&token) = reusable.get(self.context.len()) {
            let Some(id) = child(&tree, last, token, 0) else { break };
            self.move_row(old + id, self.context.len())?;
            self.context.push(token);
            last = Some(id);
        }
        if self.context.len() == context.len() {
            self.tree = self.keep_nodes(&tree, last, old, draft)?;
        }
        Ok(())
    }

    /// Keeps the cached rows of draft nodes below `root`. Rows only ever move
    /// towards lower slots, and the slots are filled in ascending order, so no
    /// row is overwritten before it is read.
    fn keep_nodes(
        &mut self,
        tree: &[Cached],
        root: Option<NodeId>,
        old: usize,
        draft: &Draft,
    ) -> Result<Vec<Cached>, Error> {
        let base = self.context.len();
        let mut home: Vec<Option<NodeId>> = Vec::with_capacity(draft.len());
        let mut kept = Vec::with_capacity(draft.len());
        for (id, node) in draft.nodes().iter().enumerate() {
            let parent = match node.parent {
                None => Some(root),
                Some(p) => home[p].map(Some),
            };
            let found = parent.and_then(|p| child(tree, p, node.token, base + id - old));
            if let Some(from) = found {
                self.move_row(old + from, base + id)?;
            }
            home.push(found);
            kept.push(Cached { token: node.token, parent: node.parent, filled: found.is_some() });
        }
        Ok(kept)
    }

    fn move_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        if from == to {
            return Ok(());
        }
        self.kept.rows.copy_row(from, to);
        self.early.copy(from, to);
        self.cache.copy_row(from, to)
    }

    /// By node whether it is to be computed: the wanted ones and their missing ancestors.
    fn needed(&self, draft: &Draft, wanted: &[usize], open: impl Fn(NodeId) -> bool) -> Vec<bool> {
        let mut needed = vec![false; draft.len()];
        for &row in wanted.iter().filter(|&&row| row > 0) {
            needed[row - 1] = true;
            for id in draft.upwards(row - 1) {
                needed[id] |= open(id) || !self.tree.get(id).is_some_and(|c| c.filled);
            }
        }
        needed
    }
}

pub(super) fn child(
    tree: &[Cached],
    parent: Option<NodeId>,
    token: Token,
    from: NodeId,
) -> Option<NodeId> {
    (from..tree.len())
        .find(|&id| tree[id].filled && tree[id].parent == parent && tree[id].token == token)
}

fn feed_of(draft: &Draft, id: NodeId, base: usize) -> Feed {
    let slots = draft.path(id).into_iter().map(|n| base + n).collect::<Vec<_>>();
    // As long as the path lies in consecutive slots it is part of the prefix,
    // so a chain needs no tree attention at all.
    let straight = slots.iter().enumerate().take_while(|(i, s)| **s == base + i).count();
    let node = draft.node(id);
    Feed {
        token: node.token,
        slot: base + id,
        position: base + node.depth - 1,
        prefix: base + straight,
        ancestors: slots[straight..].to_vec(),
    }
}

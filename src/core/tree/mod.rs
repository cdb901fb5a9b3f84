//! The draft: a tree of proposed tokens.
//!
//! A chain is a tree in which every node has at most one child. Sampled tokens are drawn *inside*
//! [`Draft`], from the distribution recorded with them. This rules out the most common exactness
//! bug: a recorded `q` that is not the distribution from which the token was drawn.

mod belief;
mod row;
mod shape;

use std::rc::Rc;

use self::belief::Belief;
pub use belief::TokenBelief;
pub use row::Row;
pub use shape::{DraftShape, Siblings};

use crate::core::chance::{Chance, Purpose, Site};
use crate::core::distribution::{Dist, Token};

/// Index of a node of a [`Draft`], in the order of proposal; a parent always
/// comes before its children.
pub type NodeId = usize;

/// The maximum number of nodes of a draft: a cache has this many rows beyond those of
/// the context.
pub const MAX_NODES: usize = 64;

/// How a node's token was chosen.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Drawn from this distribution, conditioned on the earlier siblings: the `q` (for
    /// siblings, the `s_j`) of the verification rules.
    Sampled(Rc<Dist>),
    /// Deterministic: looked up, or an argmax. Its distribution is one-hot.
    Certain,
    /// The winner of a race with position-keyed noise under this distribution; valid
    /// only for verifiers that race against the same noise.
    Coupled(Rc<Dist>),
}

/// One proposed token.
#[derive(Debug, Clone)]
pub struct Node {
    /// The proposed token.
    pub token: Token,
    /// The parent; `None` for a first token after the context.
    pub parent: Option<NodeId>,
    /// Distance from the context: 1 for a first token.
    pub depth: usize,
    /// How the token was chosen.
    pub origin: Origin,
    /// How it was chosen together with its siblings, if any.
    siblings: Siblings,
    /// How often it was proposed: races on several lists may have the same winner.
    pub multiplicity: usize,
    /// The belief that was recorded, if any.
    belief: Option<Belief>,
}

/// A tree of proposed tokens over a vocabulary of known size.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    vocab: usize,
    start: usize,
    nodes: Vec<Node>,
}

impl Draft {
    /// The empty draft: the round is then one step of plain decoding.
    pub const fn empty(vocab: usize) -> Self {
        Self { vocab, start: 0, nodes: Vec::new() }
    }

    /// Number of tokens in the vocabulary.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// The same draft after a context of `start` tokens.
    #[must_use]
    pub fn at(self, start: usize) -> Self {
        Self { start, ..self }
    }

    /// Number of tokens before the draft.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Number of proposed tokens.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing is proposed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes in the order of proposal.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Draws a token from `dist` as a further child of `parent` and records
    /// both. Call it several times on one parent for independent siblings; the
    /// order of the calls is the draw order that verification relies on.
    pub fn sample(
        &mut self,
        parent: Option<NodeId>,
        dist: &Rc<Dist>,
        chance: &mut dyn Chance,
    ) -> NodeId {
        self.draw(parent, Rc::clone(dist), Siblings::Independent, chance)
    }

    /// Draws up to `count` distinct tokens from `dist` without replacement; fewer if its
    /// support is smaller. The tokens and their order have the distribution of Gumbel
    /// top-k (Kool et al. 2019, arXiv 1903.06059).
    pub fn sample_distinct(
        &mut self,
        parent: Option<NodeId>,
        dist: &Rc<Dist>,
        count: usize,
        chance: &mut dyn Chance,
    ) {
        let mut left = Some(Rc::clone(dist));
        for _ in 0..count {
            let Some(dist) = left else { return };
            let id = self.draw(parent, Rc::clone(&dist), Siblings::Distinct, chance);
            left = self.without(&dist, id);
        }
    }

    /// Adds the `count − 1` most probable tokens of `dist`, then one drawn from
    /// `dist` without them: a draft for [`crate::method::verify`]'s `greedy_multi`.
    pub fn sample_last(
        &mut self,
        parent: Option<NodeId>,
        dist: &Rc<Dist>,
        count: usize,
        chance: &mut dyn Chance,
    ) {
        let mut left = Some(Rc::clone(dist));
        for _ in 1..count {
            let Some(dist) = left else { return };
            let id = self.push(parent, dist.argmax(), Origin::Certain, Siblings::LastSampled);
            left = self.without(&dist, id);
        }
        if let Some(dist) = left {
            self.draw(parent, dist, Siblings::LastSampled, chance);
        }
    }

    /// Draws a token from `dist` and adds the most probable token as its sibling. If the
    /// two are the same, the sibling is drawn from `dist` without that token.
    pub fn sample_hub(&mut self, parent: Option<NodeId>, dist: &Rc<Dist>, chance: &mut dyn Chance) {
        let hub = dist.argmax();
        let first = self.draw(parent, Rc::clone(dist), Siblings::Hub, chance);
        if self.nodes[first].token != hub {
            self.push(parent, hub, Origin::Certain, Siblings::Hub);
        } else if let Some(rest) = self.without(dist, first) {
            self.draw(parent, rest, Siblings::Hub, chance);
        }
    }

    /// Adds the winner of the race on one noise list at `position`, the position of the
    /// new node. A sibling with the same token counts as the same proposal: its
    /// [`Node::multiplicity`] goes up and no node is added.
    pub fn race(
        &mut self,
        parent: Option<NodeId>,
        dist: &Rc<Dist>,
        (position, list): (usize, usize),
        chance: &mut dyn Chance,
    ) -> NodeId {
        let token = chance.race(position, list..list + 1, dist);
        let twin = self.children(parent).find(|&id| self.nodes[id].token == token);
        match twin {
            Some(id) => {
                self.nodes[id].multiplicity += 1;
                id
            }
            None => {
                let origin = Origin::Coupled(Rc::clone(dist));
                self.push(parent, token, origin, Siblings::Independent)
            }
        }
    }

    /// Adds a deterministic token. A deterministic sibling with the same token counts
    /// as the same proposal, so its node is returned and no second one is added.
    pub fn certain(&mut self, parent: Option<NodeId>, token: Token) -> NodeId {
        let twin = self.children(parent).find(|&id| {
            self.nodes[id].token == token && matches!(self.nodes[id].origin, Origin::Certain)
        });
        match twin {
            Some(id) => id,
            None => self.push(parent, token, Origin::Certain, Siblings::TopK),
        }
    }

    /// The same tree with mapped token ids, after a context of `start` tokens in a vocabulary of
    /// `vocab`, for a model with other ids. Siblings that map to the same id remain separate nodes.
    /// Distributions are left out.
    pub(crate) fn renumbered(
        &self,
        (start, vocab): (usize, usize),
        id: impl Fn(Token) -> Token,
    ) -> Self {
        let mut renumbered = Self::empty(vocab).at(start);
        for Node { parent, token, .. } in &self.nodes {
            renumbered.push(*parent, id(*token), Origin::Certain, Siblings::Independent);
        }
        renumbered
    }

    /// Adds a node with a distribution from which this draft did not draw its token. Only the
    /// known-wrong methods of [`crate::proof`] and code that takes external drafts use it.
    pub(crate) fn forge(&mut self, parent: Option<NodeId>, token: Token, origin: Origin) -> NodeId {
        self.push(parent, token, origin, Siblings::Independent)
    }

    /// Records the drafter's distribution at the position of `id` if it differs from the
    /// distribution of the draw, as for one of several siblings or a greedy choice. Draft length
    /// policies use it; verifiers do not.
    pub fn believe(&mut self, id: NodeId, belief: &Rc<Dist>) {
        self.nodes[id].belief = Some(Belief::Distribution(Rc::clone(belief)));
    }

    /// As [`Self::believe`], with the known properties of a distribution that was not kept.
    pub fn remember(&mut self, id: NodeId, belief: TokenBelief) {
        self.nodes[id].belief = Some(Belief::Known(belief));
    }

    fn draw(
        &mut self,
        parent: Option<NodeId>,
        dist: Rc<Dist>,
        siblings: Siblings,
        chance: &mut dyn Chance,
    ) -> NodeId {
        let site = Site { purpose: Purpose::Draft, node: self.nodes.len() };
        let token = chance.categorical(site, &dist);
        self.push(parent, token, Origin::Sampled(dist), siblings)
    }

    /// `dist` conditioned on not drawing the token of `id`; `None` if no other token has
    /// mass.
    fn without(&self, dist: &Dist, id: NodeId) -> Option<Rc<Dist>> {
        dist.residual(&Dist::one_hot(self.vocab, self.nodes[id].token)).map(Rc::new)
    }

    /// The children of a node (of the context for `None`) in draw order.
    pub fn children(&self, parent: Option<NodeId>) -> impl Iterator<Item = NodeId> + '_ {
        // A parent comes before its children.
        let from = parent.unwrap_or(0);
        (from..self.nodes.len()).filter(move |&id| self.nodes[id].parent == parent)
    }

    /// The nodes from the context down to and including `id`.
    pub fn path(&self, id: NodeId) -> Vec<NodeId> {
        let mut path = Vec::with_capacity(self.nodes[id].depth);
        path.extend(self.upwards(id));
        path.reverse();
        path
    }

    /// The nodes from `id` up to the context.
    pub(crate) fn upwards(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |&id| self.nodes[id].parent)
    }

    /// The tokens from the context down to and including `id`.
    pub fn tokens_to(&self, id: NodeId) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(self.nodes[id].depth);
        tokens.extend(self.upwards(id).map(|n| self.nodes[n].token));
        tokens.reverse();
        tokens
    }

    /// The largest depth; 0 for the empty draft.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|n| n.depth).max().unwrap_or(0)
    }

    /// How the children of a node were chosen together.
    pub fn siblings(&self, parent: Option<NodeId>) -> Siblings {
        let mut nodes = self.children(parent).map(|id| &self.nodes[id]);
        let Some(first) = nodes.next() else { return Siblings::TopK };
        let alike = |node: &Node| {
            let independent = node.siblings == Siblings::Independent;
            node.siblings == first.siblings && (!independent || node.same_distribution(first))
        };
        if nodes.all(alike) { first.siblings } else { Siblings::Mixed }
    }

    /// The kinds of nodes and siblings in the draft.
    pub fn shape(&self) -> DraftShape {
        let mut shape = DraftShape::NOTHING;
        for node in &self.nodes {
            match node.origin {
                Origin::Sampled(_) => shape.sampled = true,
                Origin::Certain => shape.certain = true,
                Origin::Coupled(_) => shape.coupled = true,
            }
        }
        let inner = [None].into_iter().chain((0..self.nodes.len()).map(Some));
        let forks = inner.filter(|&parent| self.children(parent).nth(1).is_some());
        forks.fold(shape, |shape, parent| shape.with(self.siblings(parent)))
    }

    fn push(
        &mut self,
        parent: Option<NodeId>,
        token: Token,
        origin: Origin,
        siblings: Siblings,
    ) -> NodeId {
        let depth = parent.map_or(1, |id| self.nodes[id].depth + 1);
        self.nodes.push(Node {
            token,
            parent,
            depth,
            origin,
            siblings,
            multiplicity: 1,
            belief: None,
        });
        self.nodes.len() - 1
    }
}

impl Node {
    /// Probability of `token` under the distribution this node was drawn from.
    pub fn q(&self, token: Token) -> f64 {
        match &self.origin {
            Origin::Sampled(dist) | Origin::Coupled(dist) => dist.p(token),
            Origin::Certain => f64::from(u8::from(token == self.token)),
        }
    }

    /// Whether both were drawn from the same distribution object; equal objects do not
    /// count.
    fn same_distribution(&self, other: &Self) -> bool {
        match (&self.origin, &other.origin) {
            (Origin::Sampled(a), Origin::Sampled(b)) | (Origin::Coupled(a), Origin::Coupled(b)) => {
                Rc::ptr_eq(a, b)
            }
            _ => false,
        }
    }

    /// The distribution this node was drawn from; one-hot for a deterministic node.
    pub fn distribution(&self, vocab: usize) -> Rc<Dist> {
        match &self.origin {
            Origin::Sampled(dist) | Origin::Coupled(dist) => Rc::clone(dist),
            Origin::Certain => Rc::new(Dist::one_hot(vocab, self.token)),
        }
    }
}

//! The draft: a tree of proposed tokens.
//!
//! A chain is a tree in which every node has one child.
//! Sampled tokens are drawn *inside* [`Draft`], from the very law that is
//! recorded beside them: a recorded `q` cannot be one that was never sampled
//! from, which is the most common exactness bug of the field.

use std::rc::Rc;

use crate::chance::{Chance, Purpose, Site};
use crate::dist::{Dist, Token};

/// Index of a node of a [`Draft`], in the order of proposal; a parent always
/// comes before its children.
pub type NodeId = usize;

/// How a node's token came about.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Drawn from this law, given that the earlier siblings were drawn before
    /// it: the `q` (for siblings, the `s_j`) of the verification rules.
    Sampled(Rc<Dist>),
    /// Not random: looked up, or an argmax. Its law is one-hot.
    Certain,
}

/// One proposed token.
#[derive(Debug, Clone)]
pub struct Node {
    /// The proposed token.
    pub token: Token,
    /// The node it follows; `None` for a first token after the context.
    pub parent: Option<NodeId>,
    /// Distance from the context: 1 for a first token.
    pub depth: usize,
    /// How the token was chosen.
    pub origin: Origin,
}

/// A tree of proposed tokens over a vocabulary of known size.
#[derive(Debug, Clone)]
pub struct Draft {
    vocab: usize,
    nodes: Vec<Node>,
}

/// What a verifier must know to say whether it is exact for a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DraftShape {
    /// Some node (or the root) has more than one child.
    pub branches: bool,
    /// Some node was sampled from a law.
    pub sampled: bool,
    /// Some node is certain.
    pub certain: bool,
}

impl Draft {
    /// The empty draft of no vocabulary, for passes that only fill a cache.
    pub const fn none() -> Self {
        Self { vocab: 0, nodes: Vec::new() }
    }

    /// The empty draft: the round is then one step of plain decoding.
    pub fn empty(vocab: usize) -> Self {
        Self { vocab, nodes: Vec::new() }
    }

    /// Size of the vocabulary the tokens are taken from.
    pub fn vocab(&self) -> usize {
        self.vocab
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

    /// Draws a token from `law` as a further child of `parent` and records
    /// both. Call it several times on one parent for independent siblings; the
    /// order of the calls is the draw order that verification relies on.
    pub fn sample(
        &mut self,
        parent: Option<NodeId>,
        law: &Rc<Dist>,
        chance: &mut dyn Chance,
    ) -> NodeId {
        let site = Site { purpose: Purpose::Draft, node: self.nodes.len() };
        let token = chance.categorical(site, law);
        self.push(parent, token, Origin::Sampled(Rc::clone(law)))
    }

    /// Adds a token that is not random. A certain sibling with the same token
    /// is the same proposal, so that node is returned instead of a second one.
    pub fn certain(&mut self, parent: Option<NodeId>, token: Token) -> NodeId {
        let twin = self.children(parent).find(|&id| {
            self.nodes[id].token == token && matches!(self.nodes[id].origin, Origin::Certain)
        });
        match twin {
            Some(id) => id,
            None => self.push(parent, token, Origin::Certain),
        }
    }

    /// Writes a node with a law that its token was not drawn from. Only the
    /// known-wrong methods of [`crate::exactness`] do this.
    pub(crate) fn forge(&mut self, parent: Option<NodeId>, token: Token, origin: Origin) -> NodeId {
        self.push(parent, token, origin)
    }

    /// The children of a node (of the context for `None`) in draw order.
    pub fn children(&self, parent: Option<NodeId>) -> impl Iterator<Item = NodeId> + '_ {
        let from = parent.map_or(0, |id| id + 1);
        (from..self.nodes.len()).filter(move |&id| self.nodes[id].parent == parent)
    }

    /// The nodes from the context down to and including `id`.
    pub fn path(&self, id: NodeId) -> Vec<NodeId> {
        let mut path = vec![id];
        while let Some(parent) = self.nodes[path[path.len() - 1]].parent {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// The tokens from the context down to and including `id`.
    pub fn tokens_to(&self, id: NodeId) -> Vec<Token> {
        self.path(id).into_iter().map(|n| self.nodes[n].token).collect()
    }

    /// The largest depth; 0 for the empty draft.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|n| n.depth).max().unwrap_or(0)
    }

    /// What kinds of nodes and branching the draft contains.
    pub fn shape(&self) -> DraftShape {
        let mut parents = self.nodes.iter().map(|n| n.parent).collect::<Vec<_>>();
        parents.sort_unstable();
        DraftShape {
            branches: parents.windows(2).any(|pair| pair[0] == pair[1]),
            sampled: self.nodes.iter().any(|n| matches!(n.origin, Origin::Sampled(_))),
            certain: self.nodes.iter().any(|n| matches!(n.origin, Origin::Certain)),
        }
    }

    fn push(&mut self, parent: Option<NodeId>, token: Token, origin: Origin) -> NodeId {
        let depth = parent.map_or(1, |id| self.nodes[id].depth + 1);
        self.nodes.push(Node { token, parent, depth, origin });
        self.nodes.len() - 1
    }
}

impl Node {
    /// Probability of `token` under the law this node was drawn from.
    pub fn q(&self, token: Token) -> f64 {
        match &self.origin {
            Origin::Sampled(law) => law.p(token),
            Origin::Certain => f64::from(u8::from(token == self.token)),
        }
    }

    /// The law this node was drawn from; one-hot for a certain node.
    pub fn law(&self, vocab: usize) -> Rc<Dist> {
        match &self.origin {
            Origin::Sampled(law) => Rc::clone(law),
            Origin::Certain => Rc::new(Dist::one_hot(vocab, self.token)),
        }
    }
}

//! What a policy can see of a draft without knowing the target.

use crate::tree::{Draft, Node};

/// The last drafted token; none before the first.
pub(super) fn last(draft: &Draft) -> Option<&Node> {
    draft.nodes().last()
}

/// Probability of a drafted token under the law it was drawn from.
pub(super) fn confidence(node: &Node) -> f64 {
    node.q(node.token)
}

/// Entropy, in nats, of the law a token was drawn from.
pub(super) fn entropy(node: &Node, draft: &Draft) -> f64 {
    node.law(draft.vocab()).entropy()
}

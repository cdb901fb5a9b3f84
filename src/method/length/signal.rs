//! Properties of a draft that a policy can use without knowing the target.

use crate::core::tree::{Draft, Node, NodeId};

/// The path from the context to a deepest node. If there are several, the one with the
/// largest product of draft probabilities is taken, and the earliest of equals.
pub(super) fn best_path(draft: &Draft) -> Vec<&Node> {
    let depth = draft.depth();
    let deepest = (0..draft.len()).filter(|&id| draft.node(id).depth == depth);
    let probable = |id: NodeId| {
        let path = draft.path(id).into_iter();
        path.map(|id| draft.node(id).confidence(draft.vocab())).product::<f64>()
    };
    let rank =
        |&a: &NodeId, &b: &NodeId| probable(a).total_cmp(&probable(b)).then_with(|| b.cmp(&a));
    let best = deepest.max_by(rank).map(|id| draft.path(id)).unwrap_or_default();
    best.into_iter().map(|id| draft.node(id)).collect()
}

/// The last node of the best path; `None` before the first token.
pub(super) fn last(draft: &Draft) -> Option<&Node> {
    best_path(draft).pop()
}

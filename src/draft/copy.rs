//! Copying the tokens that followed an earlier position of the text.

use crate::distribution::Token;
use crate::tree::{Draft, NodeId};

use super::Round;

/// Drafts a copy of the text from position `next` on. Past the end of the context it
/// continues with the tokens just copied, which extends periodic text.
pub(super) fn copy_from(next: usize, round: &mut Round<'_>, draft: &mut Draft) {
    let mut parent = draft.len().checked_sub(1);
    let mut next = next;
    while round.go_deeper(draft) {
        parent = Some(draft.certain(parent, token_at(next, round.context, draft)));
        next += 1;
    }
}

fn token_at(at: usize, context: &[Token], draft: &Draft) -> Token {
    let drafted = |id: NodeId| draft.node(id).token;
    context.get(at).copied().unwrap_or_else(|| drafted(at - context.len()))
}

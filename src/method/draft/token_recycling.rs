//! A draft tree of the target's most recent predictions after each token.
//!
//! The target's logits of a round give the most probable successors of every token in
//! the draft, rejected tokens included. These successors are stored by token, and
//! drafts combine them into a tree of fixed shape.

use std::collections::BTreeMap;

use super::model_tree::parse_tree;
use super::{BuildDrafter, Drafter, PassDesk, Pausing, Round};
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::tree::{Draft, DraftShape, NodeId, Siblings};

const TREE: Param =
    Param::text("recycling_tree", "2,2,1,1", "children per node, by depth, as in 2,2,1,1");

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "token_recycling",
    aliases: &["recycling"],
    params: &[TREE],
    summary: "a tree of the tokens that the target last ranked highest after each token",
    paper: "Luo et al. 2024, Token Recycling, arXiv 2408.08696",
    build: BuildDrafter {
        needs_model: false,
        shape: |params| {
            let tree = parse_tree(TREE.key, &params.text(&TREE))?;
            let branches = tree.iter().any(|&children| children > 1);
            let shape = DraftShape::CERTAIN;
            Ok(if branches { shape.with(Siblings::TopK) } else { shape })
        },
        make: |params| {
            let tree = parse_tree(TREE.key, &params.params.text(&TREE))?;
            Ok(Box::new(TokenRecycling { tree, successors: BTreeMap::new() }))
        },
    },
};

#[derive(Debug, Clone)]
struct TokenRecycling {
    tree: Vec<usize>,
    /// The target's most probable tokens after each token, best first.
    successors: BTreeMap<Token, Vec<Token>>,
}

impl<'a> Drafter<'a> for TokenRecycling {
    fn prefill(&mut self, desk: &PassDesk<'a, '_>, _clock: &dyn Clock) -> Result<(), Error> {
        // Until the target has scored the successors of a token, its last successor in
        // the prompt is used.
        for pair in desk.context().windows(2) {
            self.successors.insert(pair[0], vec![pair[1]]);
        }
        Ok(())
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let mut draft = Draft::empty(round.vocab);
            let mut level: Vec<Option<NodeId>> = vec![None];
            for &children in &self.tree {
                if !round.go_deeper(&draft) {
                    break;
                }
                let known = draft.len();
                for &parent in &level {
                    let token =
                        parent.map_or(round.context.last(), |id| Some(&draft.node(id).token));
                    let next = token.and_then(|token| self.successors.get(token));
                    for &token in next.into_iter().flatten().take(children) {
                        draft.certain(parent, token);
                    }
                }
                let open = (known..draft.len()).filter(|&id| round.is_open(&draft, id));
                level = open.map(Some).collect();
            }
            Ok(draft)
        })
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        let most = self.tree.iter().copied().max().unwrap_or(0);
        let before = [event.context.last().copied()].into_iter();
        let tokens = before.chain(event.draft.nodes().iter().map(|node| Some(node.token)));
        for (token, logits) in tokens.zip(event.logits) {
            if let Some(token) = token {
                self.successors.insert(token, logits.largest(most));
            }
        }
    }

    fn state_key(&mut self, _context: &[Token]) -> Result<Vec<u8>, Error> {
        let entry = |(token, next): (&Token, &Vec<Token>)| {
            let count = next.len() as Token;
            [*token, count].into_iter().chain(next.iter().copied()).collect::<Vec<_>>()
        };
        Ok(self.successors.iter().flat_map(entry).flat_map(Token::to_le_bytes).collect())
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(self.clone()))
    }
}

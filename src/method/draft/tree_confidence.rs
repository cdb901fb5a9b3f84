//! A tree that grows where the draft model is confident.
//!
//! The value of a node is the product of the draft probabilities on its path. Level by level, the
//! nodes with the largest values get their most probable children. Of all nodes, those with the
//! largest values are proposed. A child's value never exceeds its parent's, and among equal values
//! the earlier node is taken, so the proposed nodes form a tree. Nodes that can no longer be
//! proposed are not added.

use std::rc::Rc;

use super::reader::Reader;
use super::{BuildDrafter, Drafter, Pausing, Round, with_draft_sampling};
use crate::core::distribution::Dist;
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape, MAX_NODES, NodeId, Row, Siblings};

const NODES: Param = Param::count("tree_nodes", 8, 1..=32, "number of nodes proposed");
const WIDTH: Param = Param::count(
    "tree_width",
    3,
    1..=8,
    "nodes expanded per level, and children per expanded node",
);

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "tree_confidence",
    aliases: &["eagle2_tree", "dynamic_tree"],
    params: with_draft_sampling!(NODES, WIDTH),
    summary: "a tree of the most probable tokens that grows where the draft model is confident",
    paper: "Li et al. 2024, EAGLE-2, arXiv 2406.16858",
    build: BuildDrafter {
        needs_model: true,
        shape: |_| Ok(DraftShape::CERTAIN.with(Siblings::TopK)),
        make: |params| {
            let reader =
                Reader::new(params.model("tree_confidence")?, params.sampler.clone())?.ranking();
            let (nodes, width) = (params.params.count(&NODES), params.params.count(&WIDTH));
            Ok(Box::new(TreeConfidence { reader, nodes, width }))
        },
    },
};

#[derive(Debug)]
struct TreeConfidence<'a> {
    reader: Reader<'a>,
    nodes: usize,
    width: usize,
}

impl<'a> Drafter<'a> for TreeConfidence<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        Some(&mut self.reader)
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.reader.limit(round)?;
            let mut grown = Draft::empty(round.vocab);
            let mut values = Vec::new();
            let mut level: Vec<Option<NodeId>> = vec![None];
            while !level.is_empty() && grown.len() < MAX_NODES && round.go_deeper(&grown) {
                let known = grown.len();
                let rows = level.iter().map(|&parent| Row::after(parent)).collect();
                let predictions = self.reader.predict(round, &mut grown, rows).await?;
                let expanded = level.iter().zip(&predictions);
                for (&parent, prediction) in expanded.filter(|(_, row)| round.is_worth(row)) {
                    let value = parent.map_or(1.0, |id| values[id]);
                    self.expand(&mut grown, &mut values, (parent, value), &prediction.belief);
                }
                let open = (known..grown.len()).filter(|&id| round.is_open(&grown, id));
                let mut next = open.collect::<Vec<_>>();
                next.sort_by(|&a, &b| f64::total_cmp(&values[b], &values[a]));
                next.truncate(self.width);
                next.sort_unstable();
                level = next.into_iter().map(Some).collect();
            }
            Ok(best_of(&grown, &values, self.nodes))
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let reader = self.reader.try_clone()?;
        Ok(Box::new(Self { reader, nodes: self.nodes, width: self.width }))
    }
}

impl TreeConfidence<'_> {
    fn expand(
        &self,
        grown: &mut Draft,
        values: &mut Vec<f64>,
        (parent, value): (Option<NodeId>, f64),
        belief: &Rc<Dist>,
    ) {
        for token in belief.most_probable(self.width) {
            let value = value * belief.p(token);
            let better = values.iter().filter(|&&other| other >= value).count();
            if better < self.nodes && grown.len() < MAX_NODES {
                let id = grown.certain(parent, token);
                grown.believe(id, belief);
                values.push(value);
            }
        }
    }
}

/// A draft of the `count` nodes with the largest values, in the same order.
fn best_of(grown: &Draft, values: &[f64], count: usize) -> Draft {
    let mut ranked = (0..grown.len()).collect::<Vec<_>>();
    ranked.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    ranked.truncate(count);
    ranked.sort_unstable();
    let mut draft = Draft::empty(grown.vocab());
    let mut places = vec![None; grown.len()];
    for id in ranked {
        let node = grown.node(id);
        let parent = node.parent.and_then(|parent| places[parent]);
        let place = draft.certain(parent, node.token);
        draft.believe(place, &node.belief(grown.vocab()));
        places[id] = Some(place);
    }
    draft
}

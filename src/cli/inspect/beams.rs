//! `specdec inspect --beams`: a beam search as a tree.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;

use crate::core::distribution::Token;
use crate::method::beam::{BeamObserver, BeamStep, Hypothesis};
use crate::method::decode::StopReason;
use crate::model::Codec;

/// All beams of a search.
#[derive(Debug, Default)]
pub(super) struct BeamTree {
    /// A parent comes before its children.
    pub(super) nodes: Vec<BeamNode>,
    /// Nodes by group and tokens.
    places: BTreeMap<(usize, Vec<Token>), usize>,
    steps: usize,
}

/// A beam that was kept in a step: its parent and one more token.
#[derive(Debug, Serialize)]
pub(super) struct BeamNode {
    group: usize,
    parent: Option<usize>,
    token: Token,
    /// The number of its tokens.
    step: usize,
    log_prob: f64,
    /// The score of a finished beam.
    score: Option<f64>,
    stop_reason: Option<StopReason>,
}

impl BeamObserver for BeamTree {
    fn step(&mut self, step: &BeamStep<'_>) -> ControlFlow<()> {
        self.steps = step.number;
        for (group, beams) in step.groups.iter().enumerate() {
            for beam in beams.live {
                self.add(group, &beam.tokens, beam.log_prob, None);
            }
            for hypothesis in beams.finished {
                self.add(group, &hypothesis.tokens, hypothesis.log_prob, Some(hypothesis));
            }
        }
        ControlFlow::Continue(())
    }
}

impl BeamTree {
    fn add(
        &mut self,
        group: usize,
        tokens: &[Token],
        log_prob: f64,
        finished: Option<&Hypothesis>,
    ) {
        let Some((&token, before)) = tokens.split_last() else { return };
        let (key, step) = ((group, tokens.to_vec()), tokens.len());
        if self.places.contains_key(&key) {
            return;
        }
        let parent = self.places.get(&(group, before.to_vec())).copied();
        let (score, stop_reason) = (finished.map(|h| h.score), finished.map(|h| h.reason));
        self.places.insert(key, self.nodes.len());
        self.nodes.push(BeamNode { group, parent, token, step, log_prob, score, stop_reason });
    }

    /// The tree, one line per node, best first.
    pub(super) fn drawn(&self, codec: &dyn Codec) -> String {
        let mut text = String::new();
        let groups = self.nodes.iter().map(|node| node.group + 1).max().unwrap_or(0);
        for group in 0..groups {
            if groups > 1 {
                text += &format!("group {}\n", group + 1);
            }
            self.draw(group, None, "", codec, &mut text);
        }
        text
    }

    /// Draws the descendants of a node, on lines that begin with `before`.
    fn draw(
        &self,
        group: usize,
        parent: Option<usize>,
        before: &str,
        codec: &dyn Codec,
        text: &mut String,
    ) {
        let children = self.children(group, parent);
        for (i, &child) in children.iter().enumerate() {
            let last = i + 1 == children.len();
            let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let node = &self.nodes[child];
            let label = codec.token_label(node.token);
            let end = self.end(child);
            *text += &format!("{before}{branch}{:.4} {label:?}{end}\n", node.log_prob);
            self.draw(group, Some(child), &format!("{before}{below}"), codec, text);
        }
    }

    fn children(&self, group: usize, parent: Option<usize>) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        let own = nodes.filter(|(_, node)| node.group == group && node.parent == parent);
        let mut children = own.map(|(id, _)| id).collect::<Vec<_>>();
        children.sort_by(|&a, &b| self.nodes[b].log_prob.total_cmp(&self.nodes[a].log_prob));
        children
    }

    /// The fate of a beam.
    fn end(&self, id: usize) -> String {
        let node = &self.nodes[id];
        let continues = self.nodes.iter().any(|other| other.parent == Some(id));
        match (node.score, node.stop_reason) {
            (Some(score), Some(reason)) => {
                format!("  finished: {}, score {score:.4}", reason.name())
            }
            _ if continues => String::new(),
            _ if node.step == self.steps => "  unfinished".to_owned(),
            _ => "  dropped".to_owned(),
        }
    }
}

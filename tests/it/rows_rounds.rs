//! The fields of a round and of a drafted token, from the models' tables.

use std::collections::BTreeMap;

use specdec::core::clock::Who;
use specdec::core::distribution::Token;
use specdec::measure::rows::{PositionRow, RoundRow};
use specdec::run::experiment::Cell;
use specdec::run::experiment::prompts::Prompt;

use crate::rows_distributions::{
    Drawn, ceiling, distribution, entropy, gap, lenient, one_hot, overlap,
};
use crate::rows_distributions::{total_variation, typical, without};
use crate::rows_replay::Replay;
use crate::rows_steps::Step;
use crate::rows_support::{look_ns, pass_ns};

impl Replay<'_> {
    pub(crate) fn round(
        &self,
        cell: &Cell,
        (prompt, repeat, round): (&Prompt, u32, u64),
        step: &Step,
        emitted: usize,
    ) -> RoundRow {
        let forks = step.forks();
        let (p, first) = (|at| self.p(cell, step, at), |at| step.children(at)[0]);
        let ceilings = forks.iter().map(|&at| {
            let children = step.children(at).into_iter().map(|id| step.nodes[id].0 as usize);
            ceiling(&p(at), &self.drawn(cell, step, at), &children.collect::<Vec<_>>())
        });
        // The clock is read twice around a generation's prefill and six times in each round: at
        // both ends of draft, target, verify and the two parts of other, which follow each other.
        let look = |n: u64| look_ns(2 + 6 * round + n);
        let drafting = step.draft_rows.iter().map(|&rows| pass_ns(Who::Draft, rows)).sum::<u64>();
        RoundRow {
            cell: cell.id.clone(),
            prompt: prompt.id.clone(),
            repeat,
            round,
            context_tokens: step.context.len(),
            proposed: step.nodes.len(),
            depth: (0..step.nodes.len()).map(|id| step.line(Some(id)).len()).max().unwrap_or(0),
            accepted: step.path.len(),
            emitted,
            truncated: emitted < step.accepted + 1,
            reached: (0..step.nodes.len()).filter(|&id| step.reached(id)).count(),
            overlap_sum: forks
                .iter()
                .map(|&at| overlap(&p(at), &self.q(cell, step, first(at))))
                .sum(),
            forks: forks.len(),
            ceiling_sum: ceilings.sum(),
            tv_sum: self.tv_sum(cell, step),
            residual_fallbacks: step.fallbacks,
            draft_forwards: step.draft_rows.len(),
            draft_us: (look(0) + drafting) as f64 / 1e3,
            target_us: (look(1) + pass_ns(Who::Target, step.target_rows)) as f64 / 1e3,
            verify_us: look(2) as f64 / 1e3,
            other_us: (look(3) + look(4)) as f64 / 1e3,
            accepted_raw: Some(step.accepted),
            experts: Some(0),
        }
    }

    pub(crate) fn position(
        &self,
        cell: &Cell,
        (prompt, repeat, round): (&Prompt, u32, u64),
        step: &Step,
        id: usize,
    ) -> PositionRow {
        let (token, parent) = step.nodes[id];
        let (p, q) = (self.p(cell, step, parent), self.q(cell, step, id));
        PositionRow {
            cell: cell.id.clone(),
            prompt: prompt.id.clone(),
            repeat,
            round,
            node: id,
            parent,
            depth: step.line(Some(id)).len(),
            token,
            p: p[token as usize],
            q: q[token as usize],
            overlap: overlap(&p, &q),
            p_entropy: entropy(&p),
            q_entropy: entropy(&q),
            top2_gap: gap(&self.logits(&step.text(parent), true)),
            accepted: step.path.contains(&id),
        }
    }

    /// The target's logits after a text.
    pub(crate) fn logits(&self, text: &[Token], drafted: bool) -> Vec<f64> {
        let mut logits = table(&self.pair.target, self.pair.order, text);
        self.quirks.change(&mut logits, text.len(), drafted);
        logits
    }

    /// The target's distribution after a node.
    pub(crate) fn p(&self, cell: &Cell, step: &Step, at: Option<usize>) -> Vec<f64> {
        let drafted = !step.nodes.is_empty();
        distribution(&self.logits(&step.text(at), drafted), cell.method.sampling.temperature)
    }

    /// How the children of a node were chosen.
    fn drawn(&self, cell: &Cell, step: &Step, at: Option<usize>) -> Drawn {
        let temperature = cell.method.sampling.temperature;
        let dist =
            distribution(&table(&self.pair.draft, self.pair.order, &step.text(at)), temperature);
        let asked = setting(cell, "tree").map(|tree| {
            tree.split(',').nth(step.line(at).len()).unwrap().parse::<usize>().unwrap()
        });
        // Draws that share their noise count as one.
        let lists = setting(cell, "gumbel_lists").map(|lists| lists.parse().unwrap());
        match (cell.method.drafter.as_str(), setting(cell, "siblings").as_deref()) {
            ("prompt_lookup", _) => Drawn::Certain,
            ("model", _) => Drawn::Independently(dist, 1),
            (_, Some("independent")) => {
                Drawn::Independently(dist, asked.unwrap().min(lists.unwrap_or(usize::MAX)))
            }
            (_, Some("distinct")) if temperature > 0.0 => Drawn::Distinct(dist),
            (_, Some("distinct")) => Drawn::Certain,
            other => panic!("no replay of drafts by {other:?}"),
        }
    }

    /// The distribution that a node was drawn from.
    pub(crate) fn q(&self, cell: &Cell, step: &Step, id: usize) -> Vec<f64> {
        let (token, parent) = step.nodes[id];
        match self.drawn(cell, step, parent) {
            Drawn::Independently(dist, _) => dist,
            Drawn::Certain => one_hot(self.pair.vocab, token as usize),
            Drawn::Distinct(dist) => {
                let earlier = step.children(parent).into_iter().filter(|&other| other < id);
                earlier
                    .fold(dist, |dist, other| without(&dist, step.nodes[other].0 as usize).unwrap())
            }
        }
    }

    fn tv_sum(&self, cell: &Cell, step: &Step) -> Option<f64> {
        let number = |key: &str| setting(cell, key).unwrap().parse::<f64>().unwrap();
        let made_of = |p: &[f64], q: &[f64]| match cell.method.verifier.as_str() {
            "lenient" => Some(lenient(p, q, number("lenience"))),
            "typical" => Some(typical(p, q, number("typical_epsilon"), number("typical_delta"))),
            _ => None,
        };
        if !cell.class.starts_with('X') {
            return None;
        }
        let distances = step.forks().into_iter().map(|at| match step.children(at)[..] {
            [only] => {
                let (p, q) = (self.p(cell, step, at), self.q(cell, step, only));
                Some(total_variation(&p, &made_of(&p, &q)?))
            }
            _ => None,
        });
        distances.sum()
    }
}

/// A setting of the cell's method.
fn setting(cell: &Cell, key: &str) -> Option<String> {
    cell.method.params.iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_string())
}

/// The logits of a table after a text.
fn table(dists: &BTreeMap<String, Vec<f64>>, order: usize, text: &[Token]) -> Vec<f64> {
    let tail = text[text.len().saturating_sub(order)..].iter().map(Token::to_string);
    dists[&tail.collect::<Vec<_>>().join(",")].iter().map(|p| p.ln()).collect()
}

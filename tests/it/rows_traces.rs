//! The lines of `traces.jsonl`, from the models' tables.

use std::collections::{BTreeMap, BTreeSet};

use specdec::core::chance::{Chance, Purpose, Request, Seeded, Site};
use specdec::core::distribution::Token;
use specdec::measure::rows::{TraceNode, TraceRound, TraceRow};
use specdec::run::experiment::Cell;

use crate::rows_distributions::overlap;
use crate::rows_replay::Replay;
use crate::rows_steps::Step;

/// Probabilities below this are rounding: there is nothing left of p where it equals q.
const NOTHING: f64 = 1e-9;

type Top = Vec<(Token, f64)>;

impl Replay<'_> {
    /// The rounds of a generation with distributions.
    pub(crate) fn trace(
        &self,
        cell: &Cell,
        (prompt, repeat): (&str, u32),
        steps: &[Step],
        tokens: &[Token],
    ) -> TraceRow {
        let mut rounds = steps.iter().map(|step| self.traced(cell, step)).collect::<Vec<_>>();
        if cell.method.verifier == "rejection" {
            let seed = self.setup.plan.seed;
            let mut chance = Seeded::new(Request { seed, prompt, repeat });
            for (number, round) in (0..).zip(&mut rounds) {
                chance.begin_round(number);
                for (node, traced) in round.nodes.iter_mut().enumerate() {
                    traced.uniform = traced.reached.then(|| digits(uniform(&mut chance, node)));
                }
            }
        }
        let mut named = tokens.iter().copied().collect::<BTreeSet<_>>();
        for round in &rounds {
            named.extend(round.last.iter().map(|top| top.0));
            for node in &round.nodes {
                named.insert(node.token);
                let tops = [&node.target, &node.draft, &node.residual];
                named.extend(tops.into_iter().flatten().map(|top| top.0));
            }
        }
        let letter = |token: Token| (token, char::from(b'a' + token as u8).to_string());
        TraceRow {
            cell: cell.id.clone(),
            prompt: prompt.to_owned(),
            repeat,
            strings: named.into_iter().map(letter).collect(),
            rounds,
        }
    }

    fn traced(&self, cell: &Cell, step: &Step) -> TraceRound {
        // What is left of p once earlier siblings were rejected.
        let mut left = BTreeMap::<Option<usize>, Vec<f64>>::new();
        let mut nodes = Vec::new();
        for (id, &(token, parent)) in step.nodes.iter().enumerate() {
            let (p, q) = (self.p(cell, step, parent), self.q(cell, step, id));
            let before = left.get(&parent).unwrap_or(&p);
            let at = token as usize;
            let acceptance = if q[at] > 0.0 { (before[at] / q[at]).min(1.0) } else { 0.0 };
            let rest = rest(before, &q);
            let reached = step.reached(id);
            let of = |dist: &[f64]| if reached { top(dist) } else { Vec::new() };
            nodes.push(TraceNode {
                token,
                parent,
                depth: step.line(Some(id)).len(),
                p: digits(p[at]),
                q: digits(q[at]),
                overlap: digits(overlap(&p, &q)),
                acceptance: digits(acceptance),
                uniform: None,
                reached,
                accepted: step.path.contains(&id),
                target: of(&p),
                draft: of(&q),
                residual: rest.as_deref().map_or_else(Vec::new, of),
            });
            left.extend(rest.map(|rest| (parent, rest)));
        }
        TraceRound { nodes, last: top(&self.p(cell, step, step.path.last().copied())) }
    }
}

/// The uniform number by which a node is accepted, as the smallest probability that accepts it.
fn uniform(chance: &mut Seeded, node: usize) -> f64 {
    let site = Site { purpose: Purpose::Accept, node };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if chance.bernoulli(site, middle) { high = middle } else { low = middle }
    }
    low
}

/// norm((p − q)⁺), if p and q differ.
fn rest(p: &[f64], q: &[f64]) -> Option<Vec<f64>> {
    let more = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect::<Vec<_>>();
    let mass = more.iter().sum::<f64>();
    (mass > NOTHING).then(|| more.into_iter().map(|x| x / mass).collect())
}

/// The four most probable tokens.
fn top(dist: &[f64]) -> Top {
    let possible = (0..).zip(dist).filter(|(_, p)| **p > 0.0);
    let mut all = possible.map(|(token, p)| (token, digits(*p))).collect::<Top>();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(4);
    all
}

/// Six significant digits.
fn digits(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap()
}

/// The rows with tokens of equal recorded probabilities in the order of their ids: which of
/// them is more probable depends on rounding.
pub(crate) fn in_order(mut rows: Vec<TraceRow>) -> Vec<TraceRow> {
    let sort = |top: &mut Top| top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    for round in rows.iter_mut().flat_map(|row| &mut row.rounds) {
        sort(&mut round.last);
        for node in &mut round.nodes {
            [&mut node.target, &mut node.draft, &mut node.residual].into_iter().for_each(sort);
        }
    }
    rows
}

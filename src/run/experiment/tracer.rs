//! Records what the report's token microscope shows of a generation. All of it is computed
//! outside every timed span.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::BlockText;
use super::cell::Cell;
use super::setup::Setup;
use crate::core::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::round::RoundEvent;
use crate::core::tree::{NodeId, Row};
use crate::measure::rows::{TopTokens, TraceNode, TraceRound, TraceRow};
use crate::model::Codec;

/// How many tokens of a distribution are recorded.
const TOP: usize = 4;

/// A residual with less mass than this is rounding.
const NOTHING: f64 = 1e-9;

/// Significant digits of recorded probabilities, after the first.
const DIGITS: usize = 5;

/// Whether the generations of a text are recorded: with `trace`, all are; without, those of the
/// first prompt of every category.
pub(super) fn records(setup: &Setup<'_>, text: &BlockText<'_>) -> bool {
    let of_category = |id: &str| setup.prompts.iter().find(|prompt| prompt.category == id);
    let first = of_category(&text.prompt.category);
    let sampled = text.repeat == 0 && first.is_some_and(|first| first.id == text.prompt.id);
    setup.plan.trace || sampled
}

/// The verifier that accepts a token if a uniform number is below its acceptance probability.
const BY_UNIFORM: &str = "rejection";

/// Collects the rounds of one generation.
#[derive(Debug)]
pub(super) struct Tracer {
    /// The random numbers of the generation, if its verifier compares them with acceptance
    /// probabilities. They have addresses, so they can be read again.
    chance: Option<Seeded>,
    rounds: Vec<TraceRound>,
}

impl Tracer {
    pub(super) fn new(cell: &Cell, request: Request<'_>) -> Self {
        let by_uniform = cell.method.verifier == BY_UNIFORM;
        Self { chance: by_uniform.then(|| Seeded::new(request)), rounds: Vec::new() }
    }

    pub(super) fn round(&mut self, event: &RoundEvent<'_>) {
        let last = &event.targets[event.verdict.last_row().number()];
        let mut nodes = nodes(event);
        if let Some(chance) = &mut self.chance {
            chance.begin_round(event.round);
            for (node, traced) in nodes.iter_mut().enumerate().filter(|(_, node)| node.reached) {
                let uniform = chance.uniform(Site { purpose: Purpose::Accept, node });
                traced.uniform = Some(rounded(uniform));
            }
        }
        self.rounds.push(TraceRound { nodes, last: top(last) });
    }

    /// The row of the generation with these new tokens.
    pub(super) fn row(
        self,
        codec: &dyn Codec,
        cell: &Cell,
        text: &BlockText<'_>,
        tokens: &[Token],
    ) -> TraceRow {
        let mut named = tokens.iter().copied().collect::<BTreeSet<_>>();
        for round in &self.rounds {
            named.extend(round.last.iter().map(|(token, _)| token));
            for node in &round.nodes {
                named.insert(node.token);
                let shown = [&node.target, &node.draft, &node.residual];
                named.extend(shown.into_iter().flatten().map(|(token, _)| token));
            }
        }
        let strings = named.into_iter().map(|token| (token, codec.token_label(token)));
        TraceRow {
            cell: cell.id.clone(),
            prompt: text.prompt.id.clone(),
            repeat: text.repeat,
            strings: strings.collect(),
            rounds: self.rounds,
        }
    }
}

fn nodes(event: &RoundEvent<'_>) -> Vec<TraceNode> {
    let (draft, path) = (event.draft, &event.verdict.path);
    let reached = event.reached();
    // What rejection sampling has left of the target's distribution after every node, by the
    // node before it.
    let mut left = BTreeMap::<Option<NodeId>, Dist>::new();
    let nodes = draft.nodes().iter().enumerate().map(|(id, node)| {
        let at = node.parent;
        let target = &event.targets[Row::after(at).number()];
        let q = node.distribution(draft.vocab());
        let before = left.get(&at).unwrap_or(target);
        let residual = before.residual(&q).filter(|_| before.overlap(&q) < 1.0 - NOTHING);
        let acceptance = match q.p(node.token) {
            q if q > 0.0 => (before.p(node.token) / q).min(1.0),
            _ => 0.0,
        };
        let reached = reached.contains(&id);
        let of = |dist: &Dist| if reached { top(dist) } else { TopTokens::new() };
        let traced = TraceNode {
            token: node.token,
            parent: at,
            depth: node.depth,
            p: rounded(target.p(node.token)),
            q: rounded(q.p(node.token)),
            overlap: rounded(target.overlap(&q)),
            acceptance: rounded(acceptance),
            uniform: None,
            reached,
            accepted: path.contains(&id),
            target: of(target),
            draft: of(&q),
            residual: residual.as_ref().map_or_else(TopTokens::new, of),
        };
        if let Some(residual) = residual {
            left.insert(at, residual);
        }
        traced
    });
    nodes.collect()
}

fn top(dist: &Dist) -> TopTokens {
    dist.most_probable(TOP).into_iter().map(|token| (token, rounded(dist.p(token)))).collect()
}

/// A probability with few digits, which keep the file small.
fn rounded(probability: f64) -> f64 {
    format!("{probability:.DIGITS$e}").parse().unwrap_or(probability)
}

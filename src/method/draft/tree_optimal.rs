//! A tree whose shape is optimal for the acceptance observed so far and the measured
//! cost of passes.
//!
//! Past rounds show how often the r-th sibling is kept and what a target pass costs by its number
//! of rows. The next tree maximises the expected accepted tokens plus one, divided by the expected
//! time of the round.

use std::collections::BTreeMap;

use super::best_tree::{Planned, best_tree};
use super::reader::Reader;
use super::{BuildDrafter, Drafter, Pausing, Round, with_draft_sampling};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::tree::{Draft, DraftShape, MAX_NODES, NodeId, Row, Siblings};

const NODES: Param =
    Param::count("tree_most_nodes", 16, 1..=MAX_NODES, "nodes of the largest tree considered");

/// Number of sibling ranks with separate acceptance estimates.
const RANKS: usize = 4;
/// Initial acceptance by rank, with the weight of [`PRIOR_ROUNDS`] rounds.
const PRIOR: [f64; RANKS] = [0.6, 0.15, 0.06, 0.03];
const PRIOR_ROUNDS: f64 = 4.0;
/// Initial costs: of a target pass without rows, of a row and of a draft pass. The unit
/// is the sum of the first two, a target pass of one row.
const COSTS: (f64, f64, f64) = (0.95, 0.05, 0.1);

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "tree_optimal",
    aliases: &["sequoia"],
    params: with_draft_sampling!(NODES),
    summary: "a tree, drawn without replacement, of the optimal shape for the measured \
              acceptance and cost of passes",
    paper: "Chen et al. 2024, Sequoia, arXiv 2402.12374",
    build: BuildDrafter {
        needs_model: true,
        shape: |_| {
            let shape = DraftShape { certain: true, ..DraftShape::SAMPLED };
            Ok(shape.with(Siblings::Distinct).with(Siblings::TopK))
        },
        make: |params| {
            let reader =
                Reader::new(params.model("tree_optimal")?, params.sampler.clone())?.ranking();
            let most = params.params.count(&NODES);
            Ok(Box::new(TreeOptimal { reader, most, learned: Learned::default() }))
        },
    },
};

#[derive(Debug)]
struct TreeOptimal<'a> {
    reader: Reader<'a>,
    most: usize,
    learned: Learned,
}

/// Estimates from past rounds.
#[derive(Debug, Clone, Copy)]
struct Learned {
    /// By rank: how often a node on the accepted path had a child of this rank, and how
    /// often this child was kept.
    decided: [f64; RANKS],
    kept: [f64; RANKS],
    /// Sums over rounds: 1, rows, rows², seconds, rows × seconds of the target's pass.
    target: [f64; 5],
    /// Draft passes and their seconds.
    draft: [f64; 2],
}

impl Default for Learned {
    fn default() -> Self {
        let kept = PRIOR.map(|p| p * PRIOR_ROUNDS);
        Self { decided: [PRIOR_ROUNDS; RANKS], kept, target: [0.0; 5], draft: [0.0; 2] }
    }
}

impl Learned {
    /// `P_r` by rank, made non-increasing.
    fn by_rank(&self) -> [f64; RANKS] {
        let mut least = 1.0_f64;
        std::array::from_fn(|rank| {
            least = least.min(self.kept[rank] / self.decided[rank]);
            least
        })
    }

    /// Seconds of a target pass without rows, per row, and per draft pass; [`COSTS`] as
    /// long as there is too little data.
    fn costs(&self) -> (f64, f64, f64) {
        let [n, x, xx, y, xy] = self.target;
        let spread = n * xx - x * x;
        if spread < 0.5 || self.draft[0] == 0.0 {
            return COSTS;
        }
        let row = ((n * xy - x * y) / spread).max(0.0);
        (((y - row * x) / n).max(0.0), row, self.draft[1] / self.draft[0])
    }

    /// The tree with the largest expected number of tokens per unit of time.
    fn tree(&self, most: usize, depth: usize) -> Vec<Planned> {
        let (pass, row, draft) = self.costs();
        let mut best = (0.0, Vec::new());
        for depth in 1..=depth.min(most) {
            let mut tree = best_tree(&self.by_rank(), most, depth);
            let mut tokens = 1.0;
            let rates = tree.iter().enumerate().map(|(i, node)| {
                tokens += node.value;
                let rows = (i + 2) as f64;
                (i + 1, tokens / (pass + row * rows + draft * depth as f64))
            });
            let (size, rate) = rates.fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
            if rate > best.0 {
                tree.truncate(size);
                best = (rate, tree);
            }
        }
        best.1
    }

    fn learn(&mut self, event: &RoundEvent<'_>) {
        let mut at = None;
        for step in 0..=event.verdict.path.len() {
            let kept = event.verdict.path.get(step).copied();
            for (rank, child) in event.draft.children(at).take(RANKS).enumerate() {
                self.decided[rank] += 1.0;
                self.kept[rank] += f64::from(u8::from(Some(child) == kept));
            }
            at = kept;
        }
        let (rows, seconds) = (event.draft.len() as f64 + 1.0, event.times.target.as_secs_f64());
        let sums = [1.0, rows, rows * rows, seconds, rows * seconds];
        for (sum, x) in self.target.iter_mut().zip(sums) {
            *sum += x;
        }
        self.draft[0] += event.draft_forwards as f64;
        self.draft[1] += event.times.draft.as_secs_f64();
    }
}

impl<'a> Drafter<'a> for TreeOptimal<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        Some(&mut self.reader)
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.reader.limit(round)?;
            let mut draft = Draft::empty(round.vocab);
            let tree = self.learned.tree(self.most, round.limit);
            // The draft node of each planned node.
            let mut places: Vec<Option<NodeId>> = vec![None; tree.len()];
            let coupled = round.coupling.is_some();
            let siblings = if coupled { Siblings::Independent } else { Siblings::Distinct };
            let mut depth = 1;
            while round.go_deeper(&draft) && tree.iter().any(|node| node.depth == depth) {
                let level = tree.iter().enumerate().filter(|(_, node)| node.depth == depth);
                // The draft nodes of the parents, with the nodes planned below each. A node
                // whose parent could not be drawn, or ends the completion, is left out.
                let mut below = BTreeMap::<Option<NodeId>, Vec<usize>>::new();
                for (id, node) in level {
                    let open = |at: &NodeId| round.is_open(&draft, *at);
                    let place = node.parent.map(|parent| places[parent].filter(open));
                    if let Some(at) = place.map_or(Some(None), |place| place.map(Some)) {
                        below.entry(at).or_default().push(id);
                    }
                }
                if below.is_empty() {
                    break;
                }
                let rows = below.keys().map(|&at| Row::after(at)).collect();
                let predictions = self.reader.predict(round, &mut draft, rows).await?;
                for ((at, ids), prediction) in below.into_iter().zip(&predictions) {
                    let known = draft.len();
                    round.grow(&mut draft, (at, prediction), (siblings, ids.len()));
                    for (id, at) in ids.into_iter().zip(known..draft.len()) {
                        places[id] = Some(at);
                    }
                }
                depth += 1;
            }
            Ok(draft)
        })
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        self.learned.learn(event);
    }

    fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, Error> {
        let Learned { decided, kept, target, draft } = self.learned;
        let numbers = decided.into_iter().chain(kept).chain(target).chain(draft);
        let mut key = self.reader.state_key(context)?;
        key.extend(numbers.flat_map(|x| x.to_bits().to_le_bytes()));
        Ok(key)
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let (most, learned) = (self.most, self.learned);
        Ok(Box::new(Self { reader: self.reader.try_clone()?, most, learned }))
    }
}

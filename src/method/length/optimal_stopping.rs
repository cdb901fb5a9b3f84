//! Drafts another token as long as its expected gain is worth its time.
//!
//! Let λ be the tokens per second so far. The next token is drafted if
//! `A·a > λ·(t_d + T(n + 1) − T(n))`. A is the probability that all drafted tokens are kept, and a
//! the probability that the next one is. The factor of λ is the time that one more token costs in
//! drafting and in the target's pass. This maximises `E[tokens] / E[time]` (Dinkelbach's fixed
//! point). Costs and acceptance are learned from past rounds; a drafted token's acceptance is
//! predicted from its draft probability. The first token is always drafted. In a tree, the same
//! applies to levels, with A of the best path to the deepest level.

use super::signal::best_path;
use super::{BuildLength, DraftLength, INSTANT};
use crate::core::registry::Entry;
use crate::core::round::RoundEvent;
use crate::core::tree::{Draft, Node};

pub(super) const ENTRY: Entry<BuildLength> = Entry {
    name: "optimal_stopping",
    aliases: &[],
    params: &[],
    summary: "at most K; another token while survival times predicted acceptance is worth its cost",
    paper: "renewal reward with Dinkelbach's fixed point; cf. Huang et al. 2025, SpecDec++, \
            arXiv 2405.19715",
    build: |params| Ok(Box::new(OptimalStopping::new(params.num_speculative_tokens))),
};

/// Number of classes of draft probabilities, of equal width.
const CLASSES: usize = 5;
/// Initial counts of a class: decided tokens, and kept ones among them.
const PRIOR: (f64, f64) = (2.0, 1.4);
/// Rounds at full length before the first decision, to measure costs.
const WARMUP: u64 = 2;

#[derive(Debug, Clone)]
struct OptimalStopping {
    k: usize,
    rounds: u64,
    tokens: f64,
    seconds: f64,
    /// Decided and kept tokens by class of draft probability.
    classes: [(f64, f64); CLASSES],
    draft: LineFit,
    target: LineFit,
}

/// Least squares of seconds over a count.
#[derive(Debug, Clone, Copy, Default)]
struct LineFit {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl LineFit {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Seconds per unit of the count, never negative. If all counts were equal, the slope of a line
    /// through the origin.
    fn slope(&self) -> f64 {
        let spread = self.n * self.xx - self.x * self.x;
        let slope = if spread > 0.5 {
            (self.n * self.xy - self.x * self.y) / spread
        } else {
            self.y / self.x.max(1.0)
        };
        slope.max(0.0)
    }
}

impl OptimalStopping {
    fn new(k: usize) -> Self {
        Self {
            k,
            rounds: 0,
            tokens: 0.0,
            seconds: 0.0,
            classes: [PRIOR; CLASSES],
            draft: LineFit::default(),
            target: LineFit::default(),
        }
    }

    /// Predicted acceptance of a token drafted with this probability.
    fn acceptance(&self, confidence: f64) -> f64 {
        let (decided, kept) = self.classes[class(confidence)];
        kept / decided
    }

    /// Predicted acceptance of a token that is not yet drafted.
    fn mean_acceptance(&self) -> f64 {
        let (decided, kept) =
            self.classes.iter().fold((0.0, 0.0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
        kept / decided
    }
}

fn class(confidence: f64) -> usize {
    ((confidence * CLASSES as f64) as usize).min(CLASSES - 1)
}

impl DraftLength for OptimalStopping {
    fn max_depth(&self) -> usize {
        self.k
    }

    fn should_continue(&mut self, draft: &Draft) -> bool {
        if self.rounds < WARMUP || draft.is_empty() {
            return true;
        }
        let kept = |node: &Node| self.acceptance(node.confidence(draft.vocab()));
        let survival = best_path(draft).into_iter().map(kept).product::<f64>();
        let rate = self.tokens / self.seconds.max(INSTANT);
        survival * self.mean_acceptance() > rate * (self.draft.slope() + self.target.slope())
    }

    fn observe(&mut self, event: &RoundEvent<'_>) {
        self.rounds += 1;
        self.tokens += event.verdict.path.len() as f64 + 1.0;
        self.seconds += event.times.total().as_secs_f64();
        let depth = event.draft.depth() as f64;
        self.draft.add(depth, event.times.draft.as_secs_f64());
        self.target.add(depth + 1.0, event.times.target.as_secs_f64());
        for id in event.reached() {
            let class =
                &mut self.classes[class(event.draft.node(id).confidence(event.draft.vocab()))];
            class.0 += 1.0;
            class.1 += f64::from(u8::from(event.verdict.path.contains(&id)));
        }
    }

    fn state_key(&self) -> Vec<u8> {
        let lines = [self.draft, self.target];
        let sums = lines.iter().flat_map(|l| [l.n, l.x, l.y, l.xx, l.xy]);
        let classes = self.classes.iter().flat_map(|c| [c.0, c.1]);
        let all = [self.rounds as f64, self.tokens, self.seconds].into_iter();
        all.chain(sums).chain(classes).flat_map(|x| x.to_bits().to_le_bytes()).collect()
    }
}

//! What is certified: every method on every toy under every kind of sampling.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::methods::{Combination, Settings, set};
use crate::model::zoo::{TOYS, ToyEntry};
use crate::params::Params;
use crate::registry::Class;
use crate::sampling::SamplingParams;

/// A kind of sampling.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its name in the certificate.
    pub(super) name: &'static str,
    /// The target's settings.
    pub(super) target: SamplingParams,
    /// Where the draft model's settings differ.
    draft: Settings,
}

const fn setting(name: &'static str, target: SamplingParams) -> Setting {
    Setting { name, target, draft: &[] }
}

const PENALISED: SamplingParams = SamplingParams {
    repetition_penalty: 1.3,
    presence_penalty: 0.4,
    frequency_penalty: 0.3,
    ..SamplingParams::NEUTRAL
};

/// All kinds of sampling.
pub(super) const SETTINGS: &[Setting] = &[
    setting("T=1", SamplingParams::NEUTRAL),
    setting("T=0.7", SamplingParams { temperature: 0.7, ..SamplingParams::NEUTRAL }),
    setting("T=0", SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL }),
    setting("top_k=2", SamplingParams { top_k: 2, ..SamplingParams::NEUTRAL }),
    setting("top_p=0.7", SamplingParams { top_p: 0.7, ..SamplingParams::NEUTRAL }),
    setting("min_p=0.4", SamplingParams { min_p: 0.4, ..SamplingParams::NEUTRAL }),
    setting("penalties", PENALISED),
    setting(
        "T=1.3+top_k=3+top_p=0.9+min_p=0.2+penalties",
        SamplingParams { temperature: 1.3, top_k: 3, top_p: 0.9, min_p: 0.2, ..PENALISED },
    ),
    Setting {
        draft: &[("draft_temperature", "0.5")],
        ..setting("T=1,draft_T=0.5", SamplingParams::NEUTRAL)
    },
    Setting {
        draft: &[("draft_temperature", "0")],
        ..setting("T=1,draft_T=0", SamplingParams::NEUTRAL)
    },
    Setting {
        draft: &[("draft_top_k", "2")],
        ..setting("T=1,draft_top_k=2", SamplingParams::NEUTRAL)
    },
    Setting {
        draft: &[("draft_top_p", "0.7")],
        ..setting("T=1,draft_top_p=0.7", SamplingParams::NEUTRAL)
    },
    Setting {
        draft: &[("draft_temperature", "1")],
        ..setting("T=0,draft_T=1", SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL })
    },
];

/// One enumeration to be done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) method: Combination,
    pub(super) setting: &'static Setting,
    pub(super) toy: &'static ToyEntry,
    pub(super) k: usize,
    vocab: usize,
}

impl Cell {
    pub(super) fn new(
        method: Combination,
        setting: &'static Setting,
        toy: &'static ToyEntry,
        k: usize,
    ) -> Self {
        Self { method, setting, toy, k, vocab: (toy.build)().vocab }
    }

    /// Tokens of the joint law: a full first round, its bonus and at least one
    /// token of the next round. One more, so that a full second round follows
    /// an early rejection, where the number of outcomes allows it; and some more
    /// for a length policy to learn from, on the chains that it is judged by.
    pub(super) fn tokens(&self) -> usize {
        let further = match self.cost() {
            ..=8 if self.may_stop() => 6,
            ..=64 => 3,
            _ => 2,
        };
        self.k + further
    }

    /// Tokens of the joint law where it is sampled: one of the next round, too,
    /// where there are few enough texts to be counted.
    pub(super) fn sampled_tokens(&self) -> usize {
        let next = self.vocab.pow(self.k as u32 + 2) <= 256;
        self.k + if next { 2 } else { 1 }
    }

    /// Whether the length policy has anything to decide.
    pub(super) fn adapts(&self) -> bool {
        self.method.length.entry.name != "fixed"
    }

    /// Whether any length policy but `fixed` may well end a draft before K: there
    /// is more than one token to draft, the laws that it sees are undecided, and a
    /// walk is long enough to learn from.
    pub(super) fn may_stop(&self) -> bool {
        let walked = self.claims() && !self.method.is_coupled();
        walked && self.adapts() && self.k >= 2 && self.method.proposer.draws_chains()
    }

    /// Whether the method claims to have the target's law at this sampling. A
    /// verifier that promises nothing is approximate.
    pub(super) fn claims(&self) -> bool {
        match self.method.verifier.entry.build.class {
            Class::D | Class::P => true,
            Class::G => self.setting.target.is_greedy(),
            Class::X => false,
        }
    }

    /// All settings that are not the defaults.
    pub(super) fn params(&self) -> Params {
        set(self.method.params(), self.setting.draft)
    }

    /// The properties whose pairs the quick form covers.
    fn factors(&self) -> Vec<String> {
        vec![
            self.method.verifier.name(),
            self.method.proposer.name(),
            self.method.length.name(),
            self.setting.name.to_owned(),
            self.toy.name.to_owned(),
            self.k.to_string(),
        ]
    }

    /// The same with the method as one property.
    fn factors_of_method(&self) -> Vec<String> {
        let [verifier, drafter, length, rest @ ..] = &self.factors()[..] else { return Vec::new() };
        [&[format!("{verifier}+{drafter}+{length}")], rest].concat()
    }

    /// Roughly the number of drafts in the largest round.
    fn cost(&self) -> usize {
        let nodes = match self.method.proposer.tree() {
            Some(tree) => {
                let wider = |nodes: &mut usize, children: &usize| {
                    *nodes *= children;
                    Some(*nodes)
                };
                tree[..self.k].iter().scan(1, wider).sum()
            }
            None => self.k,
        };
        self.vocab.pow(nodes as u32)
    }
}

/// The cells of the given methods. With the first length policy every cell; in
/// the quick form, and where cells can only be sampled or claim nothing, all pairs
/// of properties, each verifier with each drafter being one. With the other
/// policies, which only stop drafting earlier, all pairs of properties; in the full
/// form each verifier with each drafter and policy is one. Further settings of
/// verifiers and policies are among those that are paired.
pub(super) fn cells(methods: &[Combination], full: bool) -> Vec<Cell> {
    let (main, varied): (Vec<Combination>, Vec<_>) =
        methods.iter().partition(|method| method.has_first_settings());
    let (first, others): (Vec<Combination>, Vec<_>) =
        main.iter().partition(|method| method.is_first_of_lengths(methods));
    let (first, others, varied) = (complete(&first), complete(&others), complete(&varied));
    let proved = |cell: &Cell| {
        cell.method.verifier.entry.build.class != Class::X && !cell.method.is_coupled()
    };
    let (walked, rest) = first.into_iter().partition::<Vec<_>, _>(|cell| full && proved(cell));
    let factors = if full { Cell::factors_of_method } else { Cell::factors };
    let paired = [
        pairwise(&rest, Cell::factors_of_method),
        pairwise(&others, factors),
        pairwise(&varied, Cell::factors),
    ];
    [walked, paired.concat()].concat()
}

/// Every cell of the given methods.
fn complete(methods: &[Combination]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &method in methods {
        let most = if method.proposer.proposes() { 3 } else { 1 };
        let lengths = 1..=method.proposer.tree().map_or(most, |tree| tree.len());
        for toy in TOYS {
            // The rest would be the same cells twice.
            for setting in SETTINGS.iter().filter(|s| method.proposer.reads(s.draft)) {
                cells.extend(lengths.clone().map(|k| Cell::new(method, setting, toy, k)));
            }
        }
    }
    // Trees of 4 tokens have too many outcomes.
    cells.retain(|c| c.method.proposer.tree().is_none() || c.vocab <= 3);
    cells
}

/// Few cells in which every pair of properties that occurs in `cells` occurs:
/// greedily the cell with the most new pairs, the one with more outcomes of equals.
fn pairwise(cells: &[Cell], factors: fn(&Cell) -> Vec<String>) -> Vec<Cell> {
    let mut numbers = BTreeMap::new();
    let mut pairs_of = |cell: &Cell| {
        let factors = factors(cell).into_iter().enumerate();
        let numbered = factors.map(|factor| {
            let next = numbers.len();
            *numbers.entry(factor).or_insert(next)
        });
        pairs(&numbered.collect::<Vec<_>>())
    };
    let pairs = cells.iter().map(&mut pairs_of).collect::<Vec<_>>();
    let mut open = pairs.iter().flatten().copied().collect::<HashSet<_>>();
    // A cell never gains pairs, so what it had is a bound, and most need no look.
    let mut bounds = pairs.iter().map(Vec::len).collect::<Vec<_>>();
    let mut order = (0..cells.len()).collect::<Vec<_>>();
    order.sort_by_key(|&i| (Reverse(cells[i].cost()), Reverse(i)));
    let mut chosen = Vec::new();
    while !open.is_empty() {
        let mut best = (0, 0);
        for &i in &order {
            if bounds[i] > best.0 {
                bounds[i] = pairs[i].iter().filter(|pair| open.contains(*pair)).count();
                if bounds[i] > best.0 {
                    best = (bounds[i], i);
                }
            }
        }
        pairs[best.1].iter().for_each(|pair| _ = open.remove(pair));
        chosen.push(best.1);
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|i| cells[i]).collect()
}

fn pairs(numbers: &[usize]) -> Vec<(usize, usize)> {
    let rest = |i| numbers[i + 1..].iter().map(move |&b| (numbers[i], b));
    (0..numbers.len()).flat_map(rest).collect()
}

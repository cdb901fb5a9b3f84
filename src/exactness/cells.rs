//! What is certified: every method on every toy under every kind of sampling.
//!
//! The lists are the registries themselves, so a new verifier, drafter or
//! length policy is covered by its registry line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::mutants::PLAIN;
use crate::decode::PLAIN as PLAIN_DECODING;
use crate::draft::{BuildDrafter, DRAFTERS};
use crate::length::{BuildLength, LENGTHS};
use crate::model::zoo::{TOYS, ToyEntry};
use crate::params::Params;
use crate::registry::{Class, Entry, UnknownName};
use crate::sampling::SamplingParams;
use crate::tree::{DraftShape, Siblings};
use crate::verify::{BuildVerifier, VERIFIERS};

/// A kind of sampling.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its name in the certificate.
    pub(super) name: &'static str,
    /// The target's settings; the draft shares all but the temperature.
    pub(super) target: SamplingParams,
    /// The draft's temperature.
    pub(super) draft_temperature: f64,
}

const fn setting(name: &'static str, target: SamplingParams) -> Setting {
    Setting { name, draft_temperature: target.temperature, target }
}

const PENALISED: SamplingParams = SamplingParams {
    repetition_penalty: 1.3,
    presence_penalty: 0.4,
    frequency_penalty: 0.3,
    ..PLAIN
};

/// All kinds of sampling.
pub(super) const SETTINGS: &[Setting] = &[
    setting("T=1", PLAIN),
    setting("T=0.7", SamplingParams { temperature: 0.7, ..PLAIN }),
    setting("T=0", SamplingParams { temperature: 0.0, ..PLAIN }),
    setting("top_k=2", SamplingParams { top_k: 2, ..PLAIN }),
    setting("top_p=0.7", SamplingParams { top_p: 0.7, ..PLAIN }),
    setting("min_p=0.4", SamplingParams { min_p: 0.4, ..PLAIN }),
    setting("penalties", PENALISED),
    setting(
        "T=1.3+top_k=3+top_p=0.9+min_p=0.2+penalties",
        SamplingParams { temperature: 1.3, top_k: 3, top_p: 0.9, min_p: 0.2, ..PENALISED },
    ),
    Setting { draft_temperature: 0.5, ..setting("T=1,draft_T=0.5", PLAIN) },
    Setting { draft_temperature: 0.0, ..setting("T=1,draft_T=0", PLAIN) },
    Setting {
        draft_temperature: 1.0,
        ..setting("T=0,draft_T=1", SamplingParams { temperature: 0.0, ..PLAIN })
    },
];

/// Who proposes in a cell: a drafter with some of its settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proposer {
    pub(super) entry: &'static Entry<BuildDrafter>,
    settings: &'static [(&'static str, &'static str)],
}

/// Settings that drafters are certified with, instead of their defaults: trees
/// small enough to enumerate.
const SETTINGS_OF: &[(&str, &[(&str, &str)])] = &[
    ("model_tree", &[("tree", "2,1"), ("siblings", "independent")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "independent")]),
    ("model_tree", &[("tree", "3"), ("siblings", "independent")]),
    ("model_tree", &[("tree", "2,1"), ("siblings", "distinct")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "distinct")]),
    ("model_tree", &[("tree", "2,1"), ("siblings", "top_k")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "top_k")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "last_sampled")]),
    ("model_tree", &[("tree", "3,1"), ("siblings", "last_sampled")]),
    ("model_tree", &[("tree", "2,1"), ("siblings", "hub")]),
    ("model_tree", &[("tree", "2,2"), ("siblings", "hub")]),
    ("tree_optimal", &[("tree_most_nodes", "3")]),
];

impl Proposer {
    fn all() -> Vec<Self> {
        let of = |entry: &'static Entry<BuildDrafter>| {
            let own = SETTINGS_OF.iter().filter(move |(name, _)| *name == entry.name);
            let mut all = own.map(|(_, settings)| Self { entry, settings }).collect::<Vec<_>>();
            if all.is_empty() {
                all.push(Self { entry, settings: &[] });
            }
            all
        };
        DRAFTERS.iter().flat_map(of).collect()
    }

    /// The drafter, with its settings if they are not the defaults.
    pub(super) fn name(self) -> String {
        match &*self.settings() {
            "" => self.entry.name.to_owned(),
            settings => format!("{}({settings})", self.entry.name),
        }
    }

    /// The values of the settings that are not the defaults.
    pub(super) fn settings(self) -> String {
        self.settings.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(" ")
    }

    /// The settings that are not the defaults.
    pub(super) fn params(self) -> Params {
        let set = |params: Params, (key, value): &(&str, &str)| match value.parse() {
            Ok(value) => params.with(key, value),
            Err(never) => match never {},
        };
        self.settings.iter().fold(Params::default(), set)
    }

    /// All that its drafts may hold.
    fn shape(self) -> Option<DraftShape> {
        let params = self.params().of(self.entry.params).ok()?;
        (self.entry.build.shape)(&params).ok()
    }

    /// Children per node, by depth, of a drafter of trees.
    fn tree(self) -> Option<Vec<usize>> {
        let (_, tree) = self.settings.iter().find(|(key, _)| *key == "tree")?;
        tree.split(',').map(|part| part.parse().ok()).collect()
    }

    /// Plain decoding proposes nothing, whatever K is.
    pub(super) fn proposes(self) -> bool {
        self.entry.name != PLAIN_DECODING
    }
}

/// A verifier with a drafter and a length policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Combination {
    pub(super) verifier: &'static Entry<BuildVerifier>,
    pub(super) proposer: Proposer,
    pub(super) length: &'static Entry<BuildLength>,
}

impl Combination {
    /// All that the verifiers support, in registry order.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for verifier in VERIFIERS {
            let built = (verifier.build.make)(&Params::default());
            for proposer in Proposer::all() {
                if proposer.shape().is_some_and(|shape| built.supports(&shape)) {
                    // Plain decoding asks no length policy.
                    let lengths = if proposer.proposes() { LENGTHS } else { &LENGTHS[..1] };
                    all.extend(lengths.iter().map(|length| Self { verifier, proposer, length }));
                }
            }
        }
        all
    }

    pub(super) fn name(&self) -> String {
        format!("{}+{}+{}", self.verifier.name, self.proposer.name(), self.length.name)
    }

    /// Whether no other of `methods` differs in the length policy alone and comes
    /// before.
    pub(super) fn is_first_of_lengths(&self, methods: &[Self]) -> bool {
        let same = |other: &&Self| {
            other.verifier.name == self.verifier.name
                && other.proposer.name() == self.proposer.name()
        };
        methods.iter().find(same).is_some_and(|first| first.length.name == self.length.name)
    }

    /// Whether drafts share the verifier's noise, which no walk over independent
    /// outcomes can express: such a method is sampled.
    pub(super) fn is_coupled(&self) -> bool {
        let races = (self.verifier.build.make)(&Params::default()).coupling().is_some();
        let drawn = |shape: DraftShape| shape.sampled && shape.only(&[Siblings::Independent]);
        races && self.proposer.shape().is_some_and(drawn)
    }

    /// Whether every part of `method`, as in `rejection+model`, is one of the
    /// combination's.
    fn matches(&self, method: &str) -> bool {
        method.split('+').all(|part| {
            let drafter = is(self.proposer.entry, part) || self.proposer.name() == part;
            drafter || is(self.verifier, part) || is(self.length, part)
        })
    }

    /// The combinations that one of the given methods names; all for none.
    ///
    /// # Errors
    /// If a method names no combination.
    pub(super) fn matching(methods: &[String]) -> Result<Vec<Self>, UnknownName> {
        let all = Self::all();
        if let Some(unknown) = methods.iter().find(|m| !all.iter().any(|c| c.matches(m))) {
            let verifiers = VERIFIERS.iter().map(|e| e.name);
            let drafters = DRAFTERS.iter().map(|e| e.name);
            let lengths = LENGTHS.iter().map(|e| e.name);
            let allowed = verifiers.chain(drafters).chain(lengths);
            return Err(UnknownName::new("method", unknown, allowed));
        }
        let chosen = |c: &Self| methods.is_empty() || methods.iter().any(|m| c.matches(m));
        Ok(all.into_iter().filter(chosen).collect())
    }
}

fn is<B>(entry: &Entry<B>, name: &str) -> bool {
    entry.name == name || entry.aliases.contains(&name)
}

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
    /// an early rejection, where the number of outcomes allows it.
    pub(super) fn tokens(&self) -> usize {
        self.k + if self.cost() <= 64 { 3 } else { 2 }
    }

    /// The properties whose pairs the quick form covers.
    fn factors(&self) -> Vec<String> {
        vec![
            self.method.verifier.name.to_owned(),
            self.method.proposer.name(),
            self.method.length.name.to_owned(),
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
/// form each verifier with each drafter and policy is one.
pub(super) fn cells(methods: &[Combination], full: bool) -> Vec<Cell> {
    let (first, others) =
        methods.iter().partition::<Vec<_>, _>(|method| method.is_first_of_lengths(methods));
    let (first, others) = (complete(&first), complete(&others));
    let proved =
        |cell: &Cell| cell.method.verifier.build.class != Class::X && !cell.method.is_coupled();
    let (walked, rest) = first.into_iter().partition::<Vec<_>, _>(|cell| full && proved(cell));
    let factors = if full { Cell::factors_of_method } else { Cell::factors };
    [walked, pairwise(&rest, Cell::factors_of_method), pairwise(&others, factors)].concat()
}

/// Every cell of the given methods.
fn complete(methods: &[Combination]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &method in methods {
        let most = if method.proposer.proposes() { 3 } else { 1 };
        let lengths = 1..=method.proposer.tree().map_or(most, |tree| tree.len());
        for toy in TOYS {
            for setting in SETTINGS {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_drafter_is_left_out_for_its_settings() {
        assert!(Proposer::all().into_iter().all(|proposer| proposer.shape().is_some()));
    }
}

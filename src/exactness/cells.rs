//! What is certified: every method on every toy under every kind of sampling.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::methods::{Combination, set};
use super::pairwise::pairwise;
use super::place::{Place, choices};
use super::settings::{SETTINGS, SamplingSetting};
use crate::model::Vocabulary;
use crate::model::zoo::{OTHER_VOCABULARIES, TOYS, ToyEntry};
use crate::params::Params;
use crate::registry::Class;

/// The longest chains, and how long they are in the complete product.
const MOST_TOKENS: usize = 5;
const TOKENS: usize = 3;
/// The most drafts of a round, as [`ExactnessCell::cost`] counts them, for a cell to be
/// walked; and of one on a random toy.
const MOST_DRAFTS: usize = 729;
const MOST_RANDOM_DRAFTS: usize = 300;
/// Random toys in the full form and in the quick one.
const RANDOM_TOYS: [u32; 2] = [240, 40];
/// The seed of K and the sampling on random toys.
const SEED: u64 = 2026;

/// One enumeration to be done.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactnessCell {
    pub(super) method: Combination,
    pub(super) setting: &'static SamplingSetting,
    pub(super) place: Place,
    pub(super) k: usize,
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    /// Whether texts may end before they are full.
    pub(super) ends: bool,
    /// Whether the draft model has the target's vocabulary.
    pub(super) vocabulary: Vocabulary,
    vocab: usize,
    /// Tokens that are possible after a text.
    choices: usize,
}

impl ExactnessCell {
    pub(super) fn new(
        method: Combination,
        setting: &'static SamplingSetting,
        place: Place,
        k: usize,
    ) -> Self {
        let pair = place.pair();
        let (prompt, ends) = (pair.prompt.len(), !pair.eos.is_empty());
        let vocabulary = pair.vocabulary();
        let (vocab, choices) = (pair.vocab, choices(&pair));
        Self { method, setting, place, k, prompt, ends, vocabulary, vocab, choices }
    }

    /// Tokens of the joint distribution: a full first round, its bonus and at least one
    /// token of the next round. One more, so that a full second round follows
    /// an early rejection, where the number of outcomes allows it; and some more
    /// for a length policy to learn from, on the chains that it is judged by.
    pub(super) fn tokens(&self) -> usize {
        let further = match self.vocab.pow(self.nodes() as u32) {
            ..=8 if self.may_stop() => 6,
            ..=64 => 3,
            _ => 2,
        };
        self.k + further
    }

    /// Tokens of the joint distribution where it is sampled: one of the next round, too,
    /// where there are few enough texts to be counted.
    pub(super) fn sampled_tokens(&self) -> usize {
        let next = self.vocab.pow(self.k as u32 + 2) <= 256;
        self.k + if next { 2 } else { 1 }
    }

    /// Whether it is on a toy that is there for a reason.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.place, Place::Named(_))
    }

    /// Whether the length policy has anything to decide.
    pub(super) fn adapts(&self) -> bool {
        self.method.adapts()
    }

    /// Whether any length policy but `fixed` may well end a draft before K: there is
    /// more than one token to draft, the distributions that it sees are undecided,
    /// and a walk is long enough to learn from.
    pub(super) fn may_stop(&self) -> bool {
        let walked = self.claims() && !self.method.is_coupled();
        walked && self.adapts() && self.k >= 2 && self.method.proposer.draws_chains()
    }

    /// Whether the method claims to have the target's distribution at this sampling. A
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
    pub(super) fn factors(&self) -> Vec<String> {
        vec![
            self.method.verifier.name(),
            self.method.proposer.name(),
            self.method.length.name(),
            self.setting.name.to_owned(),
            self.place.name(),
            self.k.to_string(),
        ]
    }

    /// The same with the method as one property.
    pub(super) fn factors_of_method(&self) -> Vec<String> {
        let [verifier, drafter, length, rest @ ..] = &self.factors()[..] else { return Vec::new() };
        [&[format!("{verifier}+{drafter}+{length}")], rest].concat()
    }

    /// The number of tokens in the largest draft, of drafters of trees of a given
    /// shape; of others the least that it may be.
    fn nodes(&self) -> usize {
        match self.method.proposer.tree() {
            Some(tree) => {
                let wider = |nodes: &mut usize, children: &usize| {
                    *nodes *= children;
                    Some(*nodes)
                };
                tree[..self.k].iter().scan(1, wider).sum()
            }
            None => self.k,
        }
    }

    /// Roughly the number of drafts in the largest round.
    pub(super) fn cost(&self) -> usize {
        let own_trees = self.method.proposer.draws_trees() && self.method.proposer.tree().is_none();
        self.choices.pow(self.nodes() as u32 * if own_trees { 2 } else { 1 })
    }
}

/// The cells of the given methods. On the toys that are there for a reason, with
/// the first length policy every cell of up to three tokens or levels; in the quick
/// form, of longer chains, and where cells can only be sampled or claim nothing,
/// all pairs of properties, each verifier with each drafter being one. With the
/// other policies, which only stop drafting earlier, all pairs of properties; in
/// the full form each verifier with each drafter and policy is one. Further
/// settings of verifiers and policies are among those that are paired. The same follows, for
/// methods that use a draft model, on toys whose draft has a vocabulary of its own. Random
/// toys come last.
pub(super) fn cells(methods: &[Combination], full: bool) -> Vec<ExactnessCell> {
    let readers = methods.iter().filter(|method| method.proposer.entry.build.needs_model);
    let readers = readers.copied().collect::<Vec<_>>();
    [
        on_toys(methods, TOYS, full),
        on_toys(&readers, OTHER_VOCABULARIES, full),
        on_random_toys(methods, full),
    ]
    .concat()
}

/// The cells on toys that are there for a reason.
fn on_toys(methods: &[Combination], toys: &'static [ToyEntry], full: bool) -> Vec<ExactnessCell> {
    let complete = |methods: &[Combination]| complete(methods, toys, full);
    let (main, varied): (Vec<Combination>, Vec<_>) =
        methods.iter().partition(|method| method.has_first_settings());
    let (first, others): (Vec<Combination>, Vec<_>) =
        main.iter().partition(|method| method.is_first_of_lengths(methods));
    let (first, others, varied) = (complete(&first), complete(&others), complete(&varied));
    let proved = |cell: &ExactnessCell| is_walked(&cell.method) && cell.k <= TOKENS;
    let (walked, rest) = first.into_iter().partition::<Vec<_>, _>(|cell| full && proved(cell));
    let factors = if full { ExactnessCell::factors_of_method } else { ExactnessCell::factors };
    let paired = [
        pairwise(&rest, ExactnessCell::cost, ExactnessCell::factors_of_method),
        pairwise(&others, ExactnessCell::cost, factors),
        pairwise(&varied, ExactnessCell::cost, ExactnessCell::factors),
    ];
    [walked, paired.concat()].concat()
}

/// Whether a method claims something that a walk can show.
fn is_walked(method: &Combination) -> bool {
    method.verifier.entry.build.class != Class::X && !method.is_coupled()
}

/// Every cell of the given methods on the given toys.
fn complete(methods: &[Combination], toys: &'static [ToyEntry], full: bool) -> Vec<ExactnessCell> {
    // What a cell knows of its toy is the same for all methods.
    let on_toy = |&method| {
        let on = |toy| ExactnessCell::new(method, &SETTINGS[0], Place::Named(toy), 1);
        toys.iter().map(on).collect::<Vec<_>>()
    };
    let on_toys = methods.first().map_or_else(Vec::new, on_toy);
    let mut cells = Vec::new();
    for &method in methods {
        let most = match () {
            () if !method.proposer.proposes() => 1,
            () if full && !method.adapts() => MOST_TOKENS,
            () => TOKENS,
        };
        let lengths = 1..=method.proposer.tree().map_or(most, |tree| tree.len());
        for on_toy in &on_toys {
            // The rest would be the same cells twice.
            for setting in SETTINGS.iter().filter(|s| method.proposer.reads(s.draft)) {
                let cell = |k| ExactnessCell { method, setting, k, ..*on_toy };
                cells.extend(lengths.clone().map(cell));
            }
        }
    }
    cells.retain(|cell| cell.cost() <= MOST_DRAFTS);
    cells
}

/// Every drafter on every random toy, in the quick form each toy with one drafter:
/// verifiers and length policies take turns, K and the sampling are drawn.
fn on_random_toys(methods: &[Combination], full: bool) -> Vec<ExactnessCell> {
    let mut by_drafter = BTreeMap::<String, Vec<Combination>>::new();
    for method in methods.iter().filter(|m| m.proposer.proposes() && is_walked(m)) {
        by_drafter.entry(method.proposer.name()).or_default().push(*method);
    }
    let drafters = by_drafter.into_values().collect::<Vec<_>>();
    let mut cells = Vec::new();
    for toy in 0..RANDOM_TOYS[usize::from(!full)] {
        for (drafter, own) in drafters.iter().enumerate() {
            if full || toy as usize % drafters.len() == drafter {
                let turn = if full { toy as usize } else { toy as usize / drafters.len() };
                cells.push(drawn(own[turn % own.len()], toy, drafter));
            }
        }
    }
    cells
}

/// A method on a random toy with a random K, as long as it can be walked, and a
/// random sampling.
fn drawn(method: Combination, toy: u32, drafter: usize) -> ExactnessCell {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    rng.set_stream(u64::from(toy) << 16 | drafter as u64);
    let mut below = |n: usize| rng.next_u32() as usize % n;
    let settings = SETTINGS.iter().filter(|s| method.proposer.reads(s.draft)).collect::<Vec<_>>();
    let setting = settings[below(settings.len())];
    let most = method.proposer.tree().map_or(MOST_TOKENS, |tree| tree.len());
    let mut cell = ExactnessCell::new(method, setting, Place::Random(toy), 1 + below(most));
    while cell.cost() > MOST_RANDOM_DRAFTS {
        cell.k -= 1;
    }
    cell
}

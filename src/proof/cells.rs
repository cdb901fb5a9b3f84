//! The cells of a certificate: every method on every toy pair with every sampling setting.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::methods::{Combination, set};
use super::pairwise::pairwise;
use super::place::{Place, choices};
use super::settings::{SETTINGS, SamplingSetting};
use crate::core::registry::Class;
use crate::method::decode::MethodSpec;
use crate::model::zoo::{HEADS, OTHER_VOCABULARIES, TOYS, ToyEntry};
use crate::model::{ToyDrafts, Vocabulary};

/// The largest K of chains, and the largest K in the complete product.
const MOST_TOKENS: usize = 5;
const TOKENS: usize = 3;
/// The most drafts per round, as counted by [`ExactnessCell::cost`], for a cell to be enumerated;
/// and the same on random toys.
const MOST_DRAFTS: usize = 729;
const MOST_RANDOM_DRAFTS: usize = 300;
/// Number of random toys in the full form and in the quick form.
const RANDOM_TOYS: [u32; 2] = [240, 40];
/// The seed that draws K and the sampling setting on random toys.
const SEED: u64 = 2026;

/// One enumeration to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactnessCell {
    pub(super) method: Combination,
    pub(super) setting: &'static SamplingSetting,
    pub(super) place: Place,
    pub(super) k: usize,
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    /// Whether a completion can end before `max_tokens`.
    pub(super) ends: bool,
    /// Whether the draft model shares the target's vocabulary.
    pub(super) vocabulary: Vocabulary,
    vocab: usize,
    /// The mean number of possible next tokens.
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

    /// Tokens of the joint distribution: a full first round, its bonus token and at least one token
    /// of the next round. If the number of outcomes allows it, one more, so that a full second
    /// round follows an early rejection. Cells that judge a length policy have further tokens for
    /// it to learn from.
    pub(super) fn tokens(&self) -> usize {
        let further = match self.vocab.pow(self.nodes() as u32) {
            ..=8 if self.may_stop() => 6,
            ..=64 => 3,
            _ => 2,
        };
        self.k + further
    }

    /// Tokens of the joint distribution of a sampled cell. They include one token of the next round
    /// if there are few enough sequences to count.
    pub(super) fn sampled_tokens(&self) -> usize {
        let next = self.vocab.pow(self.k as u32 + 2) <= 256;
        self.k + if next { 2 } else { 1 }
    }

    /// Whether a length policy other than `fixed` should end some drafts before K: K is at least 2,
    /// the draft's distributions are not one-hot, and the enumeration is long enough to learn from.
    pub(super) fn may_stop(&self) -> bool {
        let walked = self.claims() && !self.method.is_coupled();
        walked && self.method.adapts() && self.k >= 2 && self.method.proposer.draws_chains()
    }

    /// Whether the method claims the target's distribution with this sampling setting. A verifier
    /// of class X claims nothing.
    pub(super) fn claims(&self) -> bool {
        match self.method.verifier.entry.build.class {
            Class::D | Class::P => true,
            Class::G => self.setting.target.is_greedy(),
            Class::X => false,
        }
    }

    /// Its method as in a configuration.
    pub(super) fn spec(&self) -> MethodSpec {
        let sampling = self.setting.sampling(&self.place.pair());
        let spec = self.method.spec(self.k, sampling);
        MethodSpec { params: set(spec.params, self.setting.draft), ..spec }
    }

    /// The factors whose pairs the quick form covers.
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

    /// The same with the method as one factor.
    pub(super) fn factors_of_method(&self) -> Vec<String> {
        let [verifier, drafter, length, rest @ ..] = &self.factors()[..] else { return Vec::new() };
        [&[format!("{verifier}+{drafter}+{length}")], rest].concat()
    }

    /// The number of nodes of the largest draft. Exact for chains and for trees of a fixed shape,
    /// and a lower bound for other drafters.
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

    /// The approximate number of drafts in the largest round.
    pub(super) fn cost(&self) -> usize {
        let own_trees = self.method.proposer.draws_trees() && self.method.proposer.tree().is_none();
        self.choices.pow(self.nodes() as u32 * if own_trees { 2 } else { 1 })
    }
}

/// The cells of the given methods, in this order:
///
/// - Named toys with the first length policy. The full form has every enumerated cell with up to
///   three tokens or levels that claims exactness. Longer chains, sampled cells, cells without a
///   claim and the quick form are reduced to pairs of factors, with the method as one factor.
/// - Named toys with the other length policies, which only stop drafting earlier: pairs of factors.
///   In the full form the method is one factor.
/// - Named toys with further settings of verifiers and policies: pairs of factors.
/// - The same on toys whose draft model has its own vocabulary, and on toys whose draft is a head, a
///   block or the target's first layers, for methods that use a draft model.
/// - Random toys.
///
/// Methods that need estimates of acceptance run on the toys whose draft has them.
pub(super) fn cells(methods: &[Combination], full: bool) -> Vec<ExactnessCell> {
    let reads = |method: &&Combination| method.proposer.entry.build.needs_model;
    let readers = methods.iter().filter(reads).copied().collect::<Vec<_>>();
    let methods = methods.iter().filter(|method| !method.needs_estimates());
    let methods = methods.copied().collect::<Vec<_>>();
    let others = methods.iter().filter(reads).copied().collect::<Vec<_>>();
    let estimates = |toy: &&ToyEntry| (toy.build)().drafts == ToyDrafts::Block;
    let (with, without): (Vec<_>, Vec<_>) = HEADS.iter().partition(estimates);
    let [toys, other_vocabularies] = [TOYS, OTHER_VOCABULARIES].map(Vec::from_iter);
    [
        on_toys(&methods, &toys, full),
        on_toys(&others, &other_vocabularies, full),
        on_toys(&others, &without, full),
        on_toys(&readers, &with, full),
        on_random_toys(&methods, full),
    ]
    .concat()
}

/// The cells on the given named toys.
fn on_toys(methods: &[Combination], toys: &[&'static ToyEntry], full: bool) -> Vec<ExactnessCell> {
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

/// Whether a method makes a claim that enumeration can prove.
fn is_walked(method: &Combination) -> bool {
    method.verifier.entry.build.class != Class::X && !method.is_coupled()
}

/// Every cell of the given methods on the given toys.
fn complete(methods: &[Combination], toys: &[&'static ToyEntry], full: bool) -> Vec<ExactnessCell> {
    // The fields that depend on the toy are the same for all methods.
    let on_toy = |&method| {
        let on = |&toy| ExactnessCell::new(method, &SETTINGS[0], Place::Named(toy), 1);
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
            // Settings that the drafter does not read would repeat cells.
            let pair = on_toy.place.pair();
            let suits = |s: &&SamplingSetting| method.proposer.reads(s.draft) && s.suits(&pair);
            for setting in SETTINGS.iter().filter(suits) {
                let cell = |k| ExactnessCell { method, setting, k, ..*on_toy };
                cells.extend(lengths.clone().map(cell));
            }
        }
    }
    cells.retain(|cell| cell.cost() <= MOST_DRAFTS);
    cells
}

/// Every drafter on every random toy; in the quick form, one drafter per toy. Verifiers and length
/// policies take turns. K and the sampling setting are random.
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

/// A method on a random toy with a random sampling setting and a random K, reduced until the cell
/// can be enumerated.
fn drawn(method: Combination, toy: u32, drafter: usize) -> ExactnessCell {
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    rng.set_stream(u64::from(toy) << 16 | drafter as u64);
    let mut below = |n: usize| rng.next_u32() as usize % n;
    let pair = Place::Random(toy).pair();
    let suits = |s: &&SamplingSetting| method.proposer.reads(s.draft) && s.suits(&pair);
    let settings = SETTINGS.iter().filter(suits).collect::<Vec<_>>();
    let setting = settings[below(settings.len())];
    let most = method.proposer.tree().map_or(MOST_TOKENS, |tree| tree.len());
    let mut cell = ExactnessCell::new(method, setting, Place::Random(toy), 1 + below(most));
    while cell.cost() > MOST_RANDOM_DRAFTS {
        cell.k -= 1;
    }
    cell
}

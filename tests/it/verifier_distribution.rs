//! One round of every verifier on small random distributions, by enumeration: its distribution, its
//! acceptance, and the sites of its draws. Without a model and a decoding loop, a mistake is found
//! in milliseconds and is easy to locate.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use specdec::core::chance::{Chance, Exhaustive, Purpose, Request, Seeded, Site};
use specdec::core::distribution::{Dist, Token};
use specdec::core::params::Params;
use specdec::core::registry::Class;
use specdec::core::round::Verdict;
use specdec::core::tree::{Draft, NodeId, Siblings};
use specdec::method::verify::{Gumbel, VERIFIERS, Verifier, ceiling};

const VOCAB: usize = 3;
/// Levels of the deepest draft.
const DEPTH: usize = 2;
/// Sums of a few hundred products of doubles: rounding stays below 1e-14.
const TOLERANCE: f64 = 1e-12;

/// A distribution after every prefix of up to [`DEPTH`] tokens.
struct Table(BTreeMap<Vec<Token>, Rc<Dist>>);

impl Table {
    /// Small integer weights, a third of them zero.
    fn random(rng: &mut ChaCha8Rng) -> Self {
        let mut dists = BTreeMap::new();
        let mut prefixes = vec![vec![]];
        while let Some(prefix) = prefixes.pop() {
            dists.insert(prefix.clone(), random_distribution(VOCAB, rng));
            if prefix.len() < DEPTH {
                prefixes.extend((0..VOCAB as Token).map(|t| [&prefix[..], &[t]].concat()));
            }
        }
        Self(dists)
    }

    fn after(&self, prefix: &[Token]) -> &Rc<Dist> {
        &self.0[prefix]
    }

    /// Adds the distributions of all continuations of `prefix` to [`DEPTH`] + 1 tokens.
    fn complete(&self, prefix: &[Token], weight: f64, joint: &mut BTreeMap<Vec<Token>, f64>) {
        if prefix.len() > DEPTH {
            *joint.entry(prefix.to_vec()).or_insert(0.0) += weight;
            return;
        }
        for (token, p) in self.after(prefix).support() {
            self.complete(&[prefix, &[token]].concat(), weight * p, joint);
        }
    }
}

pub(crate) fn random_distribution(vocab: usize, rng: &mut ChaCha8Rng) -> Rc<Dist> {
    loop {
        let weight = |_| f64::from((rng.next_u32() % 9).saturating_sub(2));
        if let Ok(dist) = Dist::from_weights((0..vocab).map(weight).collect()) {
            return Rc::new(dist);
        }
    }
}

/// Adds children of one kind.
pub(crate) fn grow(
    draft: &mut Draft,
    at: Option<NodeId>,
    dist: &Rc<Dist>,
    (kind, count): (Siblings, usize),
    chance: &mut dyn Chance,
) {
    match kind {
        Siblings::Independent => (0..count).for_each(|_| _ = draft.sample(at, dist, chance)),
        Siblings::Distinct => draft.sample_distinct(at, dist, count, chance),
        Siblings::LastSampled => draft.sample_last(at, dist, count, chance),
        Siblings::Hub => draft.sample_hub(at, dist, chance),
        Siblings::TopK | Siblings::Mixed => {
            dist.most_probable(count).into_iter().for_each(|t| _ = draft.certain(at, t));
        }
    }
}

/// A draft with `counts` children per node, by depth.
fn tree(q: &Table, kind: Siblings, counts: &[usize], chance: &mut dyn Chance) -> Draft {
    let mut draft = Draft::empty(VOCAB);
    let mut level = vec![None];
    for &count in counts {
        let known = draft.len();
        for at in level {
            let prefix = at.map_or_else(Vec::new, |id| draft.tokens_to(id));
            grow(&mut draft, at, q.after(&prefix), (kind, count), chance);
        }
        level = (known..draft.len()).map(Some).collect();
    }
    draft
}

fn rows(p: &Table, draft: &Draft) -> Vec<Dist> {
    let prefixes = (0..draft.len()).map(|id| draft.tokens_to(id));
    let after = |prefix: Vec<Token>| Dist::clone(p.after(&prefix));
    [vec![]].into_iter().chain(prefixes).map(after).collect()
}

/// Enumerates every outcome and records the sites of its draws.
#[derive(Debug, Default)]
struct Addressed {
    walk: Exhaustive,
    sites: RefCell<BTreeSet<Site>>,
}

impl Addressed {
    fn note(&self, site: Site) {
        assert!(self.sites.borrow_mut().insert(site), "drawn twice: {site:?}");
    }
}

impl Chance for Addressed {
    fn begin_round(&mut self, round: u64) {
        self.sites.borrow_mut().clear();
        self.walk.begin_round(round);
    }

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.note(site);
        self.walk.bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        self.note(site);
        self.walk.categorical(site, dist)
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.walk.race(position, lists, dist)
    }
}

const SHAPES: &[(Siblings, &[usize])] = &[
    (Siblings::Independent, &[1]),
    (Siblings::Independent, &[1, 1]),
    (Siblings::Independent, &[2]),
    (Siblings::Independent, &[3]),
    (Siblings::Independent, &[2, 1]),
    (Siblings::Distinct, &[2]),
    (Siblings::Distinct, &[3]),
    (Siblings::Distinct, &[2, 1]),
    (Siblings::Distinct, &[1, 2]),
    (Siblings::TopK, &[1, 1]),
    (Siblings::TopK, &[2, 2]),
    (Siblings::LastSampled, &[1, 1]),
    (Siblings::LastSampled, &[2, 1]),
    (Siblings::LastSampled, &[3]),
    (Siblings::Hub, &[2, 2]),
];

/// Calls `each` with every outcome of drafting and verifying.
fn rounds(
    verifier: &dyn Verifier,
    (p, q): (&Table, &Table),
    (kind, counts): (Siblings, &[usize]),
    mut each: impl FnMut(&Draft, &Verdict, f64),
) {
    let mut chance = Addressed::default();
    loop {
        chance.begin_round(0);
        let draft = tree(q, kind, counts, &mut chance);
        assert!(verifier.supports(&draft.shape()), "{verifier:?}: {kind:?}");
        let targets = rows(p, &draft);
        let verdict = verifier.verify(&draft, &targets, &mut chance);
        let parents = [None].into_iter().chain(verdict.path.iter().copied().map(Some));
        for (&id, parent) in verdict.path.iter().zip(parents) {
            assert_eq!(draft.node(id).parent, parent, "the kept nodes are a path");
        }
        for site in chance.sites.borrow().iter() {
            let last = matches!(site.purpose, Purpose::Residual | Purpose::Bonus);
            // A correction that is a listed child descends to it.
            if last && verifier.siblings() != Siblings::LastSampled {
                assert_eq!(site.node, verdict.last_row().number(), "{verifier:?}: {site:?}");
            }
        }
        each(&draft, &verdict, chance.walk.weight());
        if !chance.walk.advance() {
            return;
        }
    }
}

/// Pairs of target and draft tables: unrelated ones, one with p = q, and one in
/// which they differ at the root alone, so that paths of weight below one meet
/// equal distributions.
fn tables(seed: u64) -> Vec<[Table; 2]> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut random = || Table::random(&mut rng);
    let mut pairs = (0..6).map(|_| [random(), random()]).collect::<Vec<_>>();
    let (equal, other) = (random(), random());
    let mut below = Table(equal.0.clone());
    below.0.insert(vec![], Rc::clone(other.after(&[])));
    pairs.push([Table(equal.0.clone()), below]);
    pairs.push([Table(equal.0.clone()), equal]);
    pairs
}

/// Verifiers of a class with the shapes that they support.
fn supported(class: Class) -> Vec<(Box<dyn Verifier>, Siblings, &'static [usize])> {
    let mut found = Vec::new();
    let sample = &tables(1)[0][1];
    for entry in VERIFIERS.iter().filter(|entry| entry.build.class == class) {
        for &(kind, counts) in SHAPES {
            let verifier = (entry.build.make)(&Params::default());
            let shape = tree(sample, kind, counts, &mut Exhaustive::default()).shape();
            if verifier.supports(&shape) {
                found.push((verifier, kind, counts));
            }
        }
    }
    found
}

/// Guarantee D: a round, continued by the target, has the target's joint distribution.
#[test]
fn class_d_verifiers_keep_the_distribution_on_random_tables() {
    let methods = supported(Class::D);
    assert!(methods.len() > 40, "{}", methods.len());
    for [p, q] in &tables(2026) {
        let mut expected = BTreeMap::new();
        p.complete(&[], 1.0, &mut expected);
        for (verifier, kind, counts) in &methods {
            let mut joint = BTreeMap::new();
            rounds(&**verifier, (p, q), (*kind, counts), |draft, verdict, weight| {
                let kept = verdict.path.iter().map(|&id| draft.node(id).token);
                p.complete(&kept.chain([verdict.next]).collect::<Vec<_>>(), weight, &mut joint);
            });
            for prefix in joint.keys().chain(expected.keys()) {
                let of = |dist: &BTreeMap<_, f64>| dist.get(prefix).copied().unwrap_or(0.0);
                let error = (of(&joint) - of(&expected)).abs();
                assert!(error < TOLERANCE, "{verifier:?} {kind:?} {counts:?} {prefix:?}: {error}");
            }
        }
    }
}

/// The probability that a child of the context is kept, and of fallbacks.
fn kept(
    verifier: &dyn Verifier,
    tables: (&Table, &Table),
    shape: (Siblings, &[usize]),
) -> (f64, f64) {
    let (mut kept, mut fallbacks) = (0.0, 0.0);
    rounds(verifier, tables, shape, |_, verdict, weight| {
        kept += if verdict.path.is_empty() { 0.0 } else { weight };
        fallbacks += weight * verdict.residual_fallbacks as f64;
    });
    (kept, fallbacks)
}

/// The closed form of the probability that one of a node's children is accepted.
fn closed(name: &str, p: &Dist, q: &Dist, k: usize) -> Option<f64> {
    match (name, k) {
        ("token_match", 1) => Some(q.support().map(|(t, q)| p.p(t) * q).sum()),
        ("token_match", _) => None,
        (_, 1) => Some(p.overlap(q)),
        ("rejection", _) => Some(recursive(p, q, k)),
        ("k_seq", _) => Some(k_seq(p, q, k)),
        ("spechub", 2) => Some(spechub(p, q)),
        _ => None,
    }
}

/// Recursive rejection of independent siblings: one overlap after another.
fn recursive(p: &Dist, q: &Dist, k: usize) -> f64 {
    let overlap = p.overlap(q);
    match p.residual(q) {
        Some(rest) if k > 1 => overlap + (1.0 - overlap) * recursive(&rest, q, k - 1),
        _ => overlap,
    }
}

/// `1 − (1 − b)^k` at the least ρ that leaves a measure, by bisection.
fn k_seq(p: &Dist, q: &Dist, k: usize) -> f64 {
    let b = |rho: f64| q.support().map(|(t, q)| q.min(p.p(t) / rho)).sum::<f64>();
    let any = |rho: f64| 1.0 - (1.0 - b(rho)).powi(k as i32);
    let (mut low, mut high) = (1.0, k as f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if any(middle) <= middle * b(middle) { high = middle } else { low = middle }
    }
    any(high)
}

/// The mass that pairs transport to all tokens but the hub, and the hub's share of the rest.
fn spechub(p: &Dist, q: &Dist) -> f64 {
    let hub = q.argmax();
    let odds = q.p(hub) / (1.0 - q.p(hub));
    let others = || q.support().filter(|&(t, _)| t != hub);
    let moved = others().map(|(t, q)| p.p(t).min(q + odds * q)).sum::<f64>();
    let pairs = others().map(|(_, q)| q + odds * q).sum::<f64>();
    moved + p.p(hub).min(pairs - moved)
}

/// The acceptance of exact verifiers: never above the best coupling, and as in their papers.
#[test]
fn acceptance_matches_closed_forms_below_the_ceiling() {
    let mut compared = BTreeMap::<&str, usize>::new();
    for (i, [p, q]) in tables(7).iter().enumerate() {
        for entry in VERIFIERS.iter().filter(|entry| entry.build.class == Class::D) {
            let verifier = (entry.build.make)(&Params::default());
            for &(kind, counts) in SHAPES.iter().filter(|(_, counts)| counts.len() == 1) {
                let mut chance = Exhaustive::default();
                let draft = tree(q, kind, counts, &mut chance);
                if !verifier.supports(&draft.shape()) {
                    continue;
                }
                let (found, fallbacks) = kept(&*verifier, (p, q), (kind, counts));
                let dists = (&**p.after(&[]), &**q.after(&[]));
                let what = format!("{} {kind:?} {counts:?}, pair {i}: {found}", entry.name);
                // Only p = q may leave a residual without mass.
                assert!(fallbacks < TOLERANCE, "{what}: {fallbacks}");
                if let Some(most) = ceiling(&draft, None, dists.0) {
                    assert!(found < most + TOLERANCE, "{what} is above {most}");
                }
                let independent = kind == Siblings::Independent || counts == [1];
                let expected = closed(entry.name, dists.0, dists.1, counts[0]);
                if let Some(expected) = expected.filter(|_| independent) {
                    assert!((found - expected).abs() < TOLERANCE, "{what}, not {expected}");
                    *compared.entry(entry.name).or_default() += 1;
                }
            }
        }
    }
    assert!(compared.values().all(|&n| n >= 7), "{compared:?}");
    assert_eq!(compared.len(), 6, "{compared:?}");
}

/// Hu et al. 2025: greedy multi-draft reaches the ceiling of its own drafts.
/// Sun et al. 2024: SpecHub accepts what its transport plan carries.
#[test]
fn greedy_multi_and_spechub_accept_as_much_as_their_papers_say() {
    for [p, q] in &tables(11) {
        let kept = |name, shape| {
            let entry = VERIFIERS.iter().find(|entry| entry.name == name).unwrap();
            kept(&*(entry.build.make)(&Params::default()), (p, q), shape).0
        };
        let (p_dist, q_dist) = (p.after(&[]), q.after(&[]));
        let found = kept("greedy_multi", (Siblings::LastSampled, &[2]));
        let hub = q_dist.argmax();
        let drawn = q_dist.residual(&Dist::one_hot(VOCAB, hub));
        let expected = p_dist.p(hub) + drawn.map_or(0.0, |rest| p_dist.overlap(&rest));
        assert!((found - expected).abs() < TOLERANCE, "{found} is not {expected}");
        if q_dist.support().count() > 1 {
            let found = kept("spechub", (Siblings::Hub, &[2]));
            let expected = spechub(p_dist, q_dist);
            assert!((found - expected).abs() < TOLERANCE, "{found} is not {expected}");
        }
    }
}

/// Guarantee P: for any draft, the tokens are the winners of the races at their positions, and a
/// draft raced on one of the same lists is often kept.
#[test]
fn gumbel_emits_the_race_winner_at_every_position() {
    const START: usize = 5;
    for lists in [1, 2] {
        let mut nodes = 0;
        for (seed, [p, q]) in tables(3).iter().enumerate() {
            for repeat in 0..40 {
                let request = Request { seed: seed as u64, prompt: "p", repeat };
                let mut chance = Seeded::new(request);
                let mut draft = Draft::empty(VOCAB).at(START);
                let mut level = vec![None];
                for depth in 0..DEPTH {
                    let known = draft.len();
                    for at in level {
                        let prefix = at.map_or_else(Vec::new, |id| draft.tokens_to(id));
                        for list in 0..lists {
                            draft.race(at, q.after(&prefix), (START + depth, list), &mut chance);
                        }
                    }
                    level = (known..draft.len()).map(Some).collect();
                }
                let verdict = Gumbel { lists }.verify(&draft, &rows(p, &draft), &mut chance);
                nodes += verdict.path.len();
                let kept = verdict.path.iter().map(|&id| draft.node(id).token);
                let said = kept.chain([verdict.next]).collect::<Vec<_>>();
                for (i, &token) in said.iter().enumerate() {
                    let dist = p.after(&said[..i]);
                    assert_eq!(token, chance.race(START + i, 0..lists, dist));
                }
                // It stops only where no child has the same token.
                let mut children = draft.children(verdict.path.last().copied());
                assert!(children.all(|id| draft.node(id).token != verdict.next));
            }
        }
        assert!(nodes > 100, "{nodes}");
    }
}

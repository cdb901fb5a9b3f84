//! The exact joint distribution of the texts of requests that share rounds, by walking the
//! production rounds through every outcome of every draw.
//!
//! That each text alone has the target's distribution is not enough: what one request draws must
//! tell nothing about another's text. So the joint distribution must be the product.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::joint::JointDistribution;
use crate::chance::{Chance, Exhaustive, Site};
use crate::clock::{VirtualClock, VirtualCosts};
use crate::decode::{Generation, Lane, Observer, Totals, one_round_together, prefill};
use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::model::LanguageModel;
use crate::round::RoundEvent;

/// The source of randomness of one request, by its place in the batch: all walk the same paths.
pub type LaneChance<'c> = &'c dyn for<'w> Fn(usize, &'w WalkedChance) -> Box<dyn Chance + 'w>;

/// A walk over all outcomes that several requests draw from.
#[derive(Debug, Default)]
pub struct WalkedChance(RefCell<Exhaustive>);

/// What an enumeration of requests that share rounds found.
#[derive(Debug, Clone, Default)]
pub struct SharedEnumeration {
    /// Probability of every combination of texts, in the order of the requests.
    pub dist: BTreeMap<Vec<Vec<Token>>, f64>,
    /// Number of paths walked, one shared round each.
    pub paths: usize,
    /// The depths of drafts that met in one round.
    pub depths: BTreeSet<Vec<usize>>,
}

/// The new tokens and the state of each request, with the number of all new tokens first.
type SharedState = (usize, Vec<(Vec<Token>, Vec<u8>)>);

/// Walks fresh generations of one target to their ends. Each request draws by `chance`, which is
/// [`drawn_apart`] unless the draws themselves are tested.
///
/// # Errors
/// If a model fails or logits are no distribution.
pub fn enumerate_together<'a>(
    target: &dyn LanguageModel,
    mut generations: Vec<Generation<'a>>,
    chance: LaneChance<'_>,
) -> Result<SharedEnumeration, Error> {
    let clock = VirtualClock::new(VirtualCosts::default());
    for generation in &mut generations {
        prefill(generation, target, &clock)?;
    }
    let mut found = SharedEnumeration::default();
    let mut frontier = BTreeMap::from([(state(&mut generations)?, (1.0, generations))]);
    while let Some((_, (mass, mut begun))) = frontier.pop_first() {
        if begun.iter_mut().all(|generation| generation.begin(Duration::ZERO).is_some()) {
            *found.dist.entry(texts(&begun)).or_insert(0.0) += mass;
            continue;
        }
        let walk = WalkedChance::default();
        loop {
            let mut next = begun.iter().map(Generation::fork).collect::<Result<Vec<_>, _>>()?;
            found.depths.insert(round(target, &mut next, (&walk, chance), &clock)?);
            found.paths += 1;
            let weight = mass * walk.0.borrow().weight();
            let slot = frontier.entry(state(&mut next)?).or_insert((0.0, next));
            slot.0 += weight;
            if !walk.0.borrow_mut().advance() {
                break;
            }
        }
    }
    Ok(found)
}

/// Every request draws what no other has drawn.
pub fn drawn_apart<'w>(_: usize, walk: &'w WalkedChance) -> Box<dyn Chance + 'w> {
    Box::new(walk)
}

/// The joint distribution of texts that are independent of each other.
pub fn product(texts: &[JointDistribution]) -> BTreeMap<Vec<Vec<Token>>, f64> {
    let mut all = BTreeMap::from([(Vec::new(), 1.0)]);
    for dist in texts {
        let longer = all.iter().flat_map(|(before, mass)| {
            dist.iter().map(move |(text, p)| {
                ([&before[..], std::slice::from_ref(text)].concat(), mass * p)
            })
        });
        all = longer.collect();
    }
    all
}

/// A round of all that go on; the depths of their drafts.
fn round(
    target: &dyn LanguageModel,
    generations: &mut [Generation<'_>],
    (walk, chance): (&WalkedChance, LaneChance<'_>),
    clock: &VirtualClock,
) -> Result<Vec<usize>, Error> {
    let open = generations.iter_mut().enumerate().filter_map(|(number, generation)| {
        let open = generation.begin(Duration::ZERO).is_none();
        open.then(|| (generation, chance(number, walk), Depth(0), Totals::default()))
    });
    let mut open = open.collect::<Vec<_>>();
    let lanes = open.iter_mut().map(|(generation, chance, depth, totals)| Lane {
        generation,
        chance: &mut **chance,
        observer: depth,
        totals,
    });
    let rounds = one_round_together(&mut lanes.collect::<Vec<_>>(), target, clock)?;
    rounds.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(open.iter().map(|(_, _, depth, _)| depth.0).collect())
}

/// The depth of a draft.
struct Depth(usize);

impl Observer for Depth {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0 = event.draft.depth();
        Ok(())
    }
}

fn texts(generations: &[Generation<'_>]) -> Vec<Vec<Token>> {
    generations.iter().map(|generation| generation.new_tokens().to_vec()).collect()
}

fn state(generations: &mut [Generation<'_>]) -> Result<SharedState, Error> {
    let keys = generations.iter_mut().map(|generation| {
        let key = generation.state_key()?;
        Ok((generation.new_tokens().to_vec(), key))
    });
    let keys = keys.collect::<Result<Vec<_>, Error>>()?;
    Ok((keys.iter().map(|(text, _)| text.len()).sum(), keys))
}

impl Chance for &WalkedChance {
    fn begin_round(&mut self, _: u64) {}

    fn bernoulli(&mut self, site: Site, p: f64) -> bool {
        self.0.borrow_mut().bernoulli(site, p)
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        self.0.borrow_mut().categorical(site, dist)
    }

    fn race(&mut self, position: usize, lists: Range<usize>, dist: &Dist) -> Token {
        self.0.borrow_mut().race(position, lists, dist)
    }
}

//! Computes the exact joint distribution of the completions of requests that share rounds, by
//! running the production rounds with every outcome of every draw.
//!
//! Each completion must have the target's distribution, and the requests must be independent. So
//! the joint distribution must be the product of the requests' distributions.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::joint::JointDistribution;
use crate::core::chance::{Chance, Exhaustive, Site};
use crate::core::clock::{VirtualClock, VirtualCosts};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::method::decode::{Generation, Observer, Sequence, Totals, one_round_together, prefill};
use crate::model::LanguageModel;

/// The source of randomness of a request, by its place in the batch. All requests share one walk.
pub type RequestChance<'c> = &'c dyn for<'w> Fn(usize, &'w WalkedChance) -> Box<dyn Chance + 'w>;

/// An enumeration of all outcomes from which several requests draw.
#[derive(Debug, Default)]
pub struct WalkedChance(RefCell<Exhaustive>);

/// The result of enumerating requests that share rounds.
#[derive(Debug, Clone, Default)]
pub struct SharedEnumeration {
    /// Probability of every combination of completions, in the order of the requests.
    pub dist: BTreeMap<Vec<Vec<Token>>, f64>,
    /// Number of enumerated paths, one shared round each.
    pub paths: usize,
    /// The combinations of draft depths that occurred in a round.
    pub depths: BTreeSet<Vec<usize>>,
}

/// The total number of new tokens, then the new tokens and the state key of each request.
type SharedState = (usize, Vec<(Vec<Token>, Vec<u8>)>);

/// Enumerates fresh generations of one target to their ends. Each request draws from `chance`,
/// which is [`drawn_apart`] unless a test replaces the draws.
///
/// # Errors
/// If a model fails or logits are no distribution.
pub fn enumerate_together<'a>(
    target: &dyn LanguageModel,
    mut generations: Vec<Generation<'a>>,
    chance: RequestChance<'_>,
) -> Result<SharedEnumeration, Error> {
    let clock = VirtualClock::new(VirtualCosts::default());
    for generation in &mut generations {
        prefill(generation, target, &clock)?;
    }
    let mut found = SharedEnumeration::default();
    let mut frontier = BTreeMap::from([(state(&mut generations)?, (1.0, generations))]);
    while let Some((_, (mass, mut begun))) = frontier.pop_first() {
        if begun.iter_mut().all(|generation| generation.begin(Duration::ZERO).is_some()) {
            let completions = begun.iter().map(|generation| generation.new_tokens().to_vec());
            *found.dist.entry(completions.collect()).or_insert(0.0) += mass;
            continue;
        }
        let walk = WalkedChance::default();
        loop {
            let mut next =
                begun.iter().map(Generation::try_clone).collect::<Result<Vec<_>, _>>()?;
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

/// Every request draws independently of the others.
pub fn drawn_apart<'w>(_: usize, walk: &'w WalkedChance) -> Box<dyn Chance + 'w> {
    Box::new(walk)
}

/// The joint distribution of independent completions.
pub fn product(requests: &[JointDistribution]) -> BTreeMap<Vec<Vec<Token>>, f64> {
    let mut all = BTreeMap::from([(Vec::new(), 1.0)]);
    for dist in requests {
        let longer = all.iter().flat_map(|(before, mass)| {
            dist.iter().map(move |(completion, p)| {
                ([&before[..], std::slice::from_ref(completion)].concat(), mass * p)
            })
        });
        all = longer.collect();
    }
    all
}

/// Runs a round of all unfinished requests; returns the depths of their drafts.
fn round(
    target: &dyn LanguageModel,
    generations: &mut [Generation<'_>],
    (walk, chance): (&WalkedChance, RequestChance<'_>),
    clock: &VirtualClock,
) -> Result<Vec<usize>, Error> {
    let mut open = Vec::new();
    for (number, generation) in generations.iter_mut().enumerate() {
        if generation.begin(Duration::ZERO).is_none() {
            open.push((generation, chance(number, walk)));
        }
    }
    let mut depths = open.iter().map(|_| Depth(0)).collect::<Vec<_>>();
    let mut totals = vec![Totals::default(); open.len()];
    let mut sequences = Vec::with_capacity(open.len());
    for ((generation, chance), (depth, totals)) in
        open.iter_mut().zip(depths.iter_mut().zip(&mut totals))
    {
        sequences.push(Sequence::new(generation, &mut **chance, depth, totals));
    }
    one_round_together(&mut sequences, target, clock);
    for sequence in sequences {
        sequence.end.transpose()?;
    }
    Ok(depths.into_iter().map(|depth| depth.0).collect())
}

/// Records the depth of a draft.
struct Depth(usize);

impl Observer for Depth {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        self.0 = event.draft.depth();
        Ok(())
    }
}

fn state(generations: &mut [Generation<'_>]) -> Result<SharedState, Error> {
    let keys = generations.iter_mut().map(|generation| {
        let key = generation.state_key()?;
        Ok((generation.new_tokens().to_vec(), key))
    });
    let keys = keys.collect::<Result<Vec<_>, Error>>()?;
    Ok((keys.iter().map(|(completion, _)| completion.len()).sum(), keys))
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

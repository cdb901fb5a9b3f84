//! Computes the exact joint distribution of a method by running the production round with every
//! outcome of every draw.
//!
//! Whole generations have too many outcomes (3 tokens, K = 3: 2·10⁹ paths). So the walk proceeds
//! round by round from a frontier of states, in which equal states are merged. All decisions of the
//! verifier about a draft share one target pass. States are equal if their committed tokens and
//! their [`Generation::state_key`] are equal. The key includes the caches, so a stale cache row
//! makes two states differ. A virtual clock times the passes of a round, as in whole generations,
//! so policies that learn from times do learn, and equal rounds take equal times. [`super::replay`]
//! enumerates small generations without merging and must agree.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use super::joint::JointDistribution;
use super::probe::{Probe, Tally, TargetPass};
use crate::bugs::{WrapChance, straight};
use crate::core::chance::Exhaustive;
use crate::core::clock::{Clock, VirtualClock, VirtualCosts, Who};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::{RoundTimes, Verdict};
use crate::method::decode::{Evaluated, Generation, Outcome, Proposal, prefill};
use crate::model::{LanguageModel, evaluate_one};

/// The result of an enumeration.
#[derive(Debug, Clone, Default)]
pub struct Enumeration {
    /// The joint distribution of all tokens up to `max_tokens`.
    pub dist: JointDistribution,
    /// Expected counts over the rounds.
    pub tally: Tally,
    /// Number of enumerated paths, one round each.
    pub paths: usize,
    /// Number of states from which rounds were enumerated. A state counts each time.
    pub states: usize,
    /// Whether some path raced twice at one position, which makes the distribution invalid.
    pub coupled: bool,
    /// Whether a draft had a shape that the verifier does not support.
    pub unsupported: bool,
}

/// The number of new tokens, all tokens, and the state key.
type GenerationState = (usize, Vec<Token>, Vec<u8>);

/// The largest number of states kept at once, of some kilobytes each. If a policy learns from every
/// round, few states are equal, and without a limit they would fill the memory.
const MOST_STATES: usize = 20_000;

/// Enumerates `generation`, which must be fresh, up to `max_tokens`. `probes` see every enumerated
/// round.
///
/// # Errors
/// If a model fails or logits yield no distribution.
pub fn enumerate<'a>(
    target: &'a dyn LanguageModel,
    generation: Generation<'a>,
    probes: &mut [&mut dyn Probe],
) -> Result<Enumeration, Error> {
    walk(target, generation, probes, None)
}

/// As [`enumerate`], with an adapter around the source of randomness of every round.
pub(super) fn walk<'a>(
    target: &'a dyn LanguageModel,
    generation: Generation<'a>,
    probes: &mut [&mut dyn Probe],
    wrap: Option<WrapChance>,
) -> Result<Enumeration, Error> {
    walk_within(target, generation, probes, wrap, MOST_STATES)
}

/// As [`walk`], keeping about `most` states at once.
fn walk_within<'a>(
    target: &'a dyn LanguageModel,
    mut generation: Generation<'a>,
    probes: &mut [&mut dyn Probe],
    wrap: Option<WrapChance>,
    most: usize,
) -> Result<Enumeration, Error> {
    let clock = VirtualClock::new(VirtualCosts::default());
    let mut found = Enumeration::default();
    prefill(&mut generation, target, &clock)?;
    let mut frontier = BTreeMap::new();
    frontier.insert(state(&mut generation)?, (1.0, 0, generation));
    while let Some((_, (mass, round, mut begun))) = next_state(&mut frontier, most) {
        found.states += 1;
        if begun.begin(Duration::ZERO).is_some() {
            *found.dist.entry(begun.new_tokens().to_vec()).or_insert(0.0) += mass;
            continue;
        }
        let chance = Exhaustive::default();
        let mut walk = Walk { target, clock: &clock, begun, chance, wrap, round };
        loop {
            let drafted = walk.draft()?;
            let Drafted { generation, proposal, evaluated, .. } = &drafted;
            found.unsupported |= !generation.verifier().supports(&proposal.draft.shape());
            let pass = TargetPass {
                context: generation.tokens(),
                draft: &proposal.draft,
                logits: &evaluated.logits,
            };
            for probe in probes.iter_mut() {
                probe.evaluated(&pass, mass * walk.chance.weight());
            }
            let point = walk.chance.point();
            loop {
                let verdict = walk.verdict(&drafted)?;
                let weight = mass * walk.chance.weight();
                found.paths += 1;
                let (mut next, outcome) = drafted.commit(verdict, round)?;
                let event = outcome.event(round, next.tokens(), proposal, evaluated);
                found.tally.round(&event, weight);
                for probe in probes.iter_mut() {
                    probe.round(&event, weight);
                }
                if next.stopped().is_some() {
                    *found.dist.entry(next.new_tokens().to_vec()).or_insert(0.0) += weight;
                } else {
                    match frontier.entry(state(&mut next)?) {
                        Entry::Vacant(slot) => _ = slot.insert((weight, round + 1, next)),
                        Entry::Occupied(mut twin) => twin.get_mut().0 += weight,
                    }
                }
                if !walk.chance.resume(point) {
                    break;
                }
            }
            if !walk.chance.advance() {
                break;
            }
        }
        found.coupled |= walk.chance.coupled();
        for probe in probes.iter_mut() {
            probe.state_walked();
        }
    }
    Ok(found)
}

/// The shortest state: rounds only add tokens, so its mass is complete. If there are too many
/// states, the longest one, which ends soon. If later paths reach that state again, it is
/// enumerated again with their mass.
fn next_state<S>(
    frontier: &mut BTreeMap<GenerationState, S>,
    most: usize,
) -> Option<(GenerationState, S)> {
    if frontier.len() > most { frontier.pop_last() } else { frontier.pop_first() }
}

fn state(generation: &mut Generation<'_>) -> Result<GenerationState, Error> {
    let key = generation.state_key()?;
    Ok((generation.new_tokens().len(), generation.tokens().to_vec(), key))
}

/// Runs the production rounds from one state with every outcome of every draw.
struct Walk<'w, 'a> {
    target: &'w dyn LanguageModel,
    clock: &'w dyn Clock,
    begun: Generation<'a>,
    chance: Exhaustive,
    wrap: Option<WrapChance>,
    round: u64,
}

/// A round before the verifier's decision.
struct Drafted<'a> {
    generation: Generation<'a>,
    proposal: Proposal,
    evaluated: Evaluated,
    times: RoundTimes,
}

impl<'a> Walk<'_, 'a> {
    /// Proposes a draft and evaluates it with the target.
    fn draft(&mut self) -> Result<Drafted<'a>, Error> {
        let mut generation = self.begun.try_clone()?;
        let mut chance = self.wrap.unwrap_or(straight)(&mut self.chance);
        chance.begin_round(self.round);
        let begun = self.clock.now();
        let proposal = generation.propose(&mut *chance, self.clock)?;
        let drafted = self.clock.now();
        let evaluation =
            evaluate_one(self.target, generation.work(&mut generation.session(), &proposal))?;
        self.clock.forward(Who::Target, evaluation.computed);
        // A virtual clock advances in passes only: everything else takes no time.
        let target = self.clock.now() - drafted;
        let times = RoundTimes { draft: drafted - begun, target, ..RoundTimes::default() };
        let evaluated = generation.evaluated(&proposal, evaluation)?;
        Ok(Drafted { generation, proposal, evaluated, times })
    }

    /// The verifier's decision on this path.
    fn verdict(&mut self, drafted: &Drafted<'_>) -> Result<Verdict, Error> {
        let Drafted { generation, proposal, evaluated, .. } = drafted;
        let Some(wrap) = self.wrap else {
            return Ok(generation.verify(proposal, evaluated, &mut self.chance));
        };
        // An adapter may depend on its draws for the draft, so it repeats them.
        self.chance.restart();
        let mut chance = wrap(&mut self.chance);
        chance.begin_round(self.round);
        self.begun.try_clone()?.propose(&mut *chance, self.clock)?;
        Ok(generation.verify(proposal, evaluated, &mut *chance))
    }
}

impl<'a> Drafted<'a> {
    /// The generation after the round.
    fn commit(&self, verdict: Verdict, round: u64) -> Result<(Generation<'a>, Outcome), Error> {
        let mut next = self.generation.try_clone()?;
        let mut outcome = next.commit(&self.proposal, verdict)?;
        outcome.times = self.times;
        next.observe(round, &self.proposal, &self.evaluated, &outcome);
        Ok((next, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::decode::{MethodSpec, StopRules};
    use crate::model::zoo;
    use crate::proof::Gap;

    #[test]
    fn keeping_few_states_yields_the_same_distribution() {
        let pair = zoo::toy("mixed").unwrap();
        let (target, draft) = (pair.target("t").unwrap(), pair.draft("d").unwrap());
        let spec = MethodSpec { num_speculative_tokens: 2, ..MethodSpec::default() };
        let walked = |most| {
            let (method, stop) = (spec.build(Some(&draft)).unwrap(), StopRules::max_tokens(5));
            let generation = Generation::new(&target, method, &[0, 1], stop, None).unwrap();
            walk_within(&target, generation, &mut [], None, most).unwrap()
        };
        let (roomy, cramped) = (walked(MOST_STATES), walked(3));
        assert!(cramped.states > roomy.states, "some states are enumerated again");
        assert!(Gap::between(&cramped.dist, &roomy.dist).is_zero());
        assert!((cramped.tally.accepted - roomy.tally.accepted).abs() < 1e-12);
    }
}

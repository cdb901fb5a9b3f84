//! Deals the blocks of a plan to shards.

use sha2::{Digest, Sha256};

use super::blocks::places;
use super::cell::Plan;

/// The shard of every block of the plan, from 1 to `shards`, by the number of the block.
///
/// The blocks of a goal are put in the order of a hash of what they are (goal, prompts,
/// repeat), goal after goal, and dealt out one by one. Every shard gets as many blocks as
/// any other, or one less, and the same holds for the blocks of each goal; which prompts it
/// gets does not depend on their order.
pub(crate) fn deal(plan: &Plan, shards: usize) -> Vec<usize> {
    let goals = plan.goals();
    let mut order = Vec::new();
    for (number, place) in places(plan).into_iter().enumerate() {
        let cell = goals[place.goal][0];
        let prompts = plan.prompts.iter().skip(place.first).take(cell.batch);
        let words = [cell.strategy().to_owned(), cell.goal_in_words(), place.repeat.to_string()];
        let mut hash = Sha256::new();
        for word in words.iter().chain(prompts) {
            // With its length, so that no two lists of words have the same bytes.
            hash.update(word.len().to_le_bytes());
            hash.update(word);
        }
        order.push((place.goal, <[u8; 32]>::from(hash.finalize()), number));
    }
    order.sort_unstable();
    let mut dealt = vec![0; order.len()];
    for (turn, (_, _, number)) in order.into_iter().enumerate() {
        dealt[number] = turn % shards + 1;
    }
    dealt
}

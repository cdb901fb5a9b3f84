//! Names the shards of which blocks are missing.

use std::collections::BTreeMap;

use super::super::cell::Plan;
use super::super::deal::deal;
use super::super::share::{Shard, Share};
use super::agree::TakenBlock;
use super::part::RunPart;

/// One sentence per shard with missing blocks, or one for all of them if no part is a shard.
pub(super) fn absent(
    plan: &Plan,
    parts: &[RunPart],
    taken: &BTreeMap<usize, TakenBlock<'_>>,
    planned: usize,
) -> Vec<String> {
    let missing = (0..planned).filter(|block| !taken.contains_key(block)).collect::<Vec<_>>();
    let Some(of) = shards(parts) else {
        let ended = unfinished(parts.iter());
        let number = missing.len();
        let all = (number > 0).then(|| format!("{number} of {planned} blocks are missing{ended}"));
        return Vec::from_iter(all);
    };
    let dealt = deal(plan, of);
    let mut by_shard = BTreeMap::<usize, usize>::new();
    for &block in &missing {
        *by_shard.entry(dealt[block]).or_default() += 1;
    }
    let sentence = |(index, number): (usize, usize)| {
        let shard = Shard { index, of };
        let own = parts.iter().filter(|part| part.manifest.share == Some(Share::Shard(shard)));
        let of_it = dealt.iter().filter(|&&shard| shard == index).count();
        match own.clone().count() {
            0 => format!(
                "shard {shard} is missing: no sound folder has {number} of its {of_it} blocks"
            ),
            _ => format!(
                "shard {shard} is incomplete: {number} of its {of_it} blocks are missing{}",
                unfinished(own)
            ),
        }
    };
    by_shard.into_iter().map(sentence).collect()
}

/// Which of some parts have not ended, in words.
fn unfinished<'a>(parts: impl Iterator<Item = &'a RunPart>) -> String {
    let open = parts.filter(|part| !part.has_ended()).map(RunPart::name).collect::<Vec<_>>();
    if open.is_empty() { String::new() } else { format!(", unfinished in {}", open.join(", ")) }
}

/// The number of shards of most parts, the larger one of two; `None` if no part is a shard.
fn shards(parts: &[RunPart]) -> Option<usize> {
    let mut counts = BTreeMap::<usize, usize>::new();
    for part in parts {
        if let Some(Share::Shard(Shard { of, .. })) = part.manifest.share {
            *counts.entry(of).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|&(of, count)| (count, of)).map(|(of, _)| of)
}

//! Completions with the seed of a completion without speculation: a decoder of class P (seed-exact)
//! gives the same tokens.

use std::collections::HashMap;

use serde::Serialize;

use crate::core::distribution::Token;
use crate::core::sampling::SamplingParams;
use crate::io::shown::count;
use crate::tapes::recording::ExternalSequences;
use crate::tapes::tape::{TapeEnd, TapeSequence};

/// How many of them are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct SeedPairs {
    /// Completions with the prompt, sampling setting and seed of one without speculation.
    pairs: usize,
    /// Those with the same tokens.
    equal: usize,
    /// The first position at which a completion differs, over all completions.
    first_difference: Option<usize>,
}

/// What determines a completion if only the seed is random.
type SeedKey<'t> = (&'t [Token], String, u64);

impl SeedPairs {
    /// Compares completions with those of the same prompt, sampling setting and seed; `None` if
    /// there are none.
    pub(super) fn of(own: &ExternalSequences, plain: &ExternalSequences) -> Option<Self> {
        let plain = seeded(plain).collect::<HashMap<_, _>>();
        let mut pairs = Self::default();
        for (key, sequence) in seeded(own) {
            let Some(plain) = plain.get(&key) else { continue };
            pairs.pairs += 1;
            let differs = first_difference(sequence, plain);
            pairs.equal += usize::from(differs.is_none());
            let first = pairs.first_difference.into_iter().chain(differs).min();
            pairs.first_difference = first;
        }
        (pairs.pairs > 0).then_some(pairs)
    }

    pub(super) fn sentence(&self) -> String {
        let first = self.first_difference;
        let first = first.map(|at| format!("; the first difference is at position {at}"));
        format!(
            "{} of {} with the seed of a plain completion have its tokens{}",
            self.equal,
            count(self.pairs, "completion"),
            first.unwrap_or_default()
        )
    }
}

fn seeded(sequences: &ExternalSequences) -> impl Iterator<Item = (SeedKey<'_>, &TapeSequence)> {
    sequences.tape.sequences.iter().zip(&sequences.reports).filter_map(|(sequence, report)| {
        let sampling: &SamplingParams = &sequences.tape.header.samplings[sequence.sampling];
        Some(((&*sequence.prompt_tokens, sampling.words(), report.seed?), sequence))
    })
}

/// The position at which two completions differ. A completion that was cut is compared as far as it
/// goes.
fn first_difference(own: &TapeSequence, plain: &TapeSequence) -> Option<usize> {
    let differs = own.tokens.iter().zip(&plain.tokens).position(|(own, plain)| own != plain);
    let shared = own.tokens.len().min(plain.tokens.len());
    let ended =
        |sequence: &TapeSequence| sequence.end == TapeEnd::Token && sequence.tokens.len() == shared;
    let longer = own.tokens.len() != plain.tokens.len() && (ended(own) || ended(plain));
    differs.or(longer.then_some(shared))
}

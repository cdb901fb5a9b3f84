//! Toys and sequences for tests of tapes.

use specdec::core::sampling::Sampler;
use specdec::model::{ToyPair, zoo};
use specdec::tapes::tape::{TapeEnd, TapeSequence, TargetReader, Teacher};

/// A toy whose completions may end.
pub(crate) fn ending(name: &str) -> ToyPair {
    let mut pair = zoo::toy(name).unwrap();
    pair.eos = vec![pair.vocab as u32 - 1];
    pair.prompt = vec![0, 1, 0];
    pair
}

/// A sequence whose completion has at most `max_tokens` tokens; it was cut if it has as many.
pub(crate) fn sequence_of(prompt: &[u32], tokens: Vec<u32>, max_tokens: usize) -> TapeSequence {
    TapeSequence {
        prompt: "toy".to_owned(),
        category: String::new(),
        repeat: 0,
        sampling: 0,
        prompt_tokens: prompt.to_vec(),
        end: if tokens.len() == max_tokens { TapeEnd::Cut } else { TapeEnd::Token },
        tokens,
        max_tokens,
        log_p: None,
    }
}

/// A target that reads in addition to a draft model.
pub(crate) fn reader<'a, 'm>(
    teacher: &'a mut Teacher<'m>,
    sampler: &'a Sampler,
) -> TargetReader<'a, 'm> {
    TargetReader { teacher, sampler, beliefs: None, ends: &[] }
}

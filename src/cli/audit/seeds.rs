//! Texts that have the seed of a text without speculation: a decoder of class P (seed-exact)
//! gives the same tokens.

use std::collections::HashMap;

use serde::Serialize;

use crate::distribution::Token;
use crate::recording::OutsideTexts;
use crate::sampling::SamplingParams;
use crate::shown::count;
use crate::tape::{TapeEnd, TapeText};

/// How many of them are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct SeedPairs {
    /// Texts with the prompt, sampling setting and seed of one without speculation.
    pairs: usize,
    /// Those with the same tokens.
    equal: usize,
    /// The first place at which a text differs, over all texts.
    first_difference: Option<usize>,
}

/// What the tokens of a text follow from if nothing but the seed is drawn.
type SeededText<'t> = (&'t [Token], String, u64);

impl SeedPairs {
    /// Compares texts with those of the same prompt, sampling setting and seed.
    pub(super) fn of(own: &OutsideTexts, plain: &OutsideTexts) -> Self {
        let plain = seeded(plain).collect::<HashMap<_, _>>();
        let mut pairs = Self::default();
        for (key, text) in seeded(own) {
            let Some(plain) = plain.get(&key) else { continue };
            pairs.pairs += 1;
            let differs = first_difference(text, plain);
            pairs.equal += usize::from(differs.is_none());
            let first = pairs.first_difference.into_iter().chain(differs).min();
            pairs.first_difference = first;
        }
        pairs
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        self.pairs > 0
    }

    /// It in words.
    pub(super) fn sentence(&self) -> String {
        let first = self.first_difference.map(|at| format!("; the first differs at place {at}"));
        format!(
            "{} of {} with the seed of a plain text have its tokens{}",
            self.equal,
            count(self.pairs, "text"),
            first.unwrap_or_default()
        )
    }
}

fn seeded(texts: &OutsideTexts) -> impl Iterator<Item = (SeededText<'_>, &TapeText)> {
    texts.tape.texts.iter().zip(&texts.told).filter_map(|(text, told)| {
        let sampling: &SamplingParams = &texts.tape.header.samplings[text.sampling];
        Some(((&*text.prompt_tokens, sampling.words(), told.seed?), text))
    })
}

/// Where two texts differ: a text that was cut is compared as far as it goes.
fn first_difference(own: &TapeText, plain: &TapeText) -> Option<usize> {
    let differs = own.tokens.iter().zip(&plain.tokens).position(|(own, plain)| own != plain);
    let shared = own.tokens.len().min(plain.tokens.len());
    let ended = |text: &TapeText| text.end == TapeEnd::Token && text.tokens.len() == shared;
    let longer = own.tokens.len() != plain.tokens.len() && (ended(own) || ended(plain));
    differs.or(longer.then_some(shared))
}

//! A planted bug: texts of the same prompts that this program makes with a known-wrong method, as
//! a proof that the audit could have failed.

use anyhow::Result;

use crate::chance::{Request, Seeded};
use crate::clock::RealClock;
use crate::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use crate::draft::Tools;
use crate::exactness::mutants::Mutant;
use crate::pair::Pair;
use crate::recording::{OutsideTexts, ToldOfText};
use crate::tape::TapeText;
use crate::terminal::Progress;

/// The texts again, with the mistake, and with K drafted tokens per round.
///
/// # Errors
/// If a model fails, or there is no draft model.
pub(super) fn planted(
    mutant: &Mutant,
    pair: &Pair,
    texts: &OutsideTexts,
    k: usize,
) -> Result<OutsideTexts> {
    let mut progress = Progress::new("texts with a planted bug", texts.tape.texts.len(), 0);
    let mut tape = texts.tape.clone();
    for text in &mut tape.texts {
        let sampling = texts.tape.header.samplings[text.sampling];
        let spec = MethodSpec { sampling, num_speculative_tokens: k, ..MethodSpec::default() };
        text.tokens = continued(mutant, pair, &spec, text)?;
        progress.advance(&crate::shown::line(&text.prompt));
    }
    let told = tape.texts.iter().map(|_| ToldOfText::default()).collect();
    Ok(OutsideTexts { tape, told })
}

/// As many tokens as the text has.
fn continued(mutant: &Mutant, pair: &Pair, spec: &MethodSpec, text: &TapeText) -> Result<Vec<u32>> {
    let target = &*pair.target.model;
    let tools = Tools { draft: pair.draft_model(), target: Some(target), texts: None };
    let (method, stop) = (mutant.method(spec, tools)?, StopRules::max_tokens(text.tokens.len()));
    let mut generation = Generation::new(target, method, &text.prompt_tokens, stop, None)?;
    let (seed, prompt, repeat) = (PLANTED, &*text.prompt, text.repeat);
    let mut chance = Seeded::new(Request { seed, prompt, repeat });
    let (chance, clock) = (&mut *mutant.wrap(&mut chance), RealClock::default());
    generate(&mut generation, target, chance, &clock, &mut NoObserver)?;
    Ok(generation.new_tokens().to_vec())
}

/// The seed of all of them, of which no other text here has one.
const PLANTED: u64 = 0x0070_6c61_6e74_6564;

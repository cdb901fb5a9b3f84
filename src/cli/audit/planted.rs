//! A planted bug: completions of the same prompts that this program generates with a known-wrong
//! method, as a proof that the audit could have failed.

use anyhow::Result;

use crate::bugs::Mutant;
use crate::checkpoint::pair::Pair;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::RealClock;
use crate::io::terminal::Progress;
use crate::method::decode::{Generation, MethodSpec, NoObserver, StopRules, generate};
use crate::method::draft::Tools;
use crate::tapes::recording::{ExternalSequences, SequenceReport};
use crate::tapes::tape::TapeSequence;

/// The same sequences with completions of the known-wrong method, with K drafted tokens per round.
pub(super) fn planted(
    mutant: &Mutant,
    pair: &Pair,
    sequences: &ExternalSequences,
    k: usize,
) -> Result<ExternalSequences> {
    let total = sequences.tape.sequences.len();
    let mut progress = Progress::new("completions with a planted bug", total, 0);
    let mut tape = sequences.tape.clone();
    for sequence in &mut tape.sequences {
        let sampling = sequences.tape.header.samplings[sequence.sampling].clone();
        let spec = MethodSpec { sampling, num_speculative_tokens: k, ..MethodSpec::default() };
        sequence.tokens = continued(mutant, pair, &spec, sequence)?;
        progress.advance(&crate::io::shown::line(&sequence.prompt));
    }
    let reports = tape.sequences.iter().map(|_| SequenceReport::default()).collect();
    Ok(ExternalSequences { tape, reports })
}

/// A completion of the known-wrong method, with as many tokens as that of the sequence.
fn continued(
    mutant: &Mutant,
    pair: &Pair,
    spec: &MethodSpec,
    sequence: &TapeSequence,
) -> Result<Vec<u32>> {
    let target = &*pair.target.model;
    let tools = Tools { draft: pair.draft_model(), target: Some(target), texts: None };
    let (method, stop) =
        (mutant.method(spec, tools)?, StopRules::max_tokens(sequence.tokens.len()));
    let mut generation = Generation::new(target, method, &sequence.prompt_tokens, stop, None)?;
    let (seed, prompt, repeat) = (PLANTED, &*sequence.prompt, sequence.repeat);
    let mut chance = Seeded::new(Request { seed, prompt, repeat });
    let (chance, clock) = (&mut *mutant.wrap(&mut chance), RealClock::default());
    generate(&mut generation, target, chance, &clock, &mut NoObserver)?;
    Ok(generation.new_tokens().to_vec())
}

/// The seed of all of them, which no other completion has.
const PLANTED: u64 = 0x0070_6c61_6e74_6564;

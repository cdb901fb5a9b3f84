//! Which drafter serves the sequences of a tape.

use std::collections::BTreeSet;

use super::outlook::Outlook;
use super::rows::SimulationConfig;
use super::sequence::SimulatedSequence;
use crate::tapes::forecasting::{CostTable, MAX_K};
use crate::tapes::tape::{AcceptanceRule, DraftPasses, Tape, TapeLog};

/// The sequences of a sampling setting with a drafter.
#[derive(Debug, Clone)]
pub struct ServedConfig<'t> {
    /// Its settings, without a policy.
    pub name: SimulationConfig,
    /// The sequences.
    pub sequences: Vec<SimulatedSequence<'t>>,
    /// Their expected rounds.
    pub outlook: Outlook,
    /// Whether a model drafts.
    pub passes: DraftPasses,
}

/// For every sampling setting, the drafter with this name that is fastest for a request alone;
/// without a name, the fastest of all drafters.
///
/// # Errors
/// If the tape has no such drafter, or lacks what the rule depends on.
pub fn configs<'t>(
    tape: &'t Tape,
    table: &CostTable,
    rule: AcceptanceRule,
    name: Option<&str>,
) -> Result<Vec<ServedConfig<'t>>, String> {
    let named = |number: &usize| name.is_none_or(|name| tape.drafters[*number].drafter == name);
    let drafters = (0..tape.drafters.len()).filter(named).collect::<Vec<_>>();
    if drafters.is_empty() {
        let names = tape.drafters.iter().map(|drafter| &*drafter.drafter);
        let names = names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
        return Err(match name {
            Some(name) => format!("it has no drafter \"{name}\": allowed are {names}"),
            None => "no drafter has scored its sequences: run `specdec tape score`".into(),
        });
    }
    let of = |sampling| {
        let served = drafters.iter().filter_map(|&drafter| config(tape, (sampling, drafter), rule));
        let timed = served.map(|config| (config.outlook.best(table, MAX_K, 1).1, config));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, config)| config)
    };
    let found = (0..tape.header.samplings.len()).filter_map(of).collect::<Vec<_>>();
    if found.is_empty() {
        return Err(format!(
            "it lacks what the rule \"{}\" depends on: for gumbel, score with --overlap",
            rule.verifier()
        ));
    }
    Ok(found)
}

/// The sequences that a drafter has scored.
fn config(
    tape: &Tape,
    (sampling, drafter): (usize, usize),
    rule: AcceptanceRule,
) -> Option<ServedConfig<'_>> {
    let mut sequences = Vec::new();
    for (number, sequence) in tape.sequences.iter().enumerate() {
        if sequence.sampling == sampling && !sequence.tokens.is_empty() {
            let odds = tape.odds(drafter, number).filter(|odds| odds.knows(rule));
            let simulated = |odds| SimulatedSequence::recorded(sequence, odds, rule);
            sequences.extend(odds.map(simulated));
        }
    }
    let own = |log: &&TapeLog| {
        let rule = log.verifier.as_deref().is_none_or(|name| name == rule.verifier());
        rule && (log.sampling, log.drafter) == (sampling, drafter)
    };
    sequences.extend(tape.logs.iter().filter(own).map(SimulatedSequence::logged));
    let described = &tape.drafters[drafter];
    let name = SimulationConfig {
        sampling: tape.header.samplings[sampling].columns(),
        drafter: described.drafter.clone(),
        draft: described.model_name().to_owned(),
        params: described.params.words(),
        verifier: rule.verifier().to_owned(),
        ..SimulationConfig::default()
    };
    let passes = described.passes();
    if sequences.is_empty() {
        return None;
    }
    let outlook = Outlook::of(&sequences, passes);
    Some(ServedConfig { name, sequences, outlook, passes })
}

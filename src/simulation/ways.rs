//! Which drafter serves the texts of a tape.

use std::collections::BTreeSet;

use super::outlook::Outlook;
use super::rows::SimulationWay;
use super::text::SimulatedText;
use crate::forecasting::{CostTable, MOST_K};
use crate::tape::{ChainLaw, Tape, TapeLog};

/// The texts of a sampling setting with a drafter.
#[derive(Debug, Clone)]
pub struct ServedWay<'t> {
    /// Its settings, without a policy.
    pub name: SimulationWay,
    /// The texts.
    pub texts: Vec<SimulatedText<'t>>,
    /// What they are expected to take.
    pub outlook: Outlook,
    /// Whether a model drafts.
    pub with_model: bool,
}

/// For every sampling setting, the drafter of this name that is fastest for a request alone;
/// without a name, that of all.
///
/// # Errors
/// If the tape has no such drafter, or does not tell what the rule accepts.
pub fn ways<'t>(
    tape: &'t Tape,
    table: &CostTable,
    law: ChainLaw,
    name: Option<&str>,
) -> Result<Vec<ServedWay<'t>>, String> {
    let named = |number: &usize| name.is_none_or(|name| tape.drafters[*number].drafter == name);
    let drafters = (0..tape.drafters.len()).filter(named).collect::<Vec<_>>();
    if drafters.is_empty() {
        let names = tape.drafters.iter().map(|drafter| &*drafter.drafter);
        let names = names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
        return Err(match name {
            Some(name) => format!("it has no drafter \"{name}\": allowed are {names}"),
            None => "nothing has read its texts: `specdec tape score` lets a drafter do so".into(),
        });
    }
    let of = |sampling| {
        let served = drafters.iter().filter_map(|&drafter| way(tape, (sampling, drafter), law));
        let timed = served.map(|way| (way.outlook.best(table, MOST_K, 1).1, way));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, way)| way)
    };
    let found = (0..tape.header.samplings.len()).filter_map(of).collect::<Vec<_>>();
    if found.is_empty() {
        return Err(format!(
            "it does not tell what the rule \"{}\" accepts: for gumbel, score with --overlap",
            law.verifier()
        ));
    }
    Ok(found)
}

/// The texts that a drafter has read.
fn way(tape: &Tape, (sampling, drafter): (usize, usize), law: ChainLaw) -> Option<ServedWay<'_>> {
    let mut texts = Vec::new();
    for (number, text) in tape.texts.iter().enumerate() {
        if text.sampling == sampling && !text.tokens.is_empty() {
            let odds = tape.odds(drafter, number).filter(|odds| odds.knows(law));
            let simulated = |odds| SimulatedText::any(text, odds, law);
            texts.extend(odds.map(simulated));
        }
    }
    let own = |log: &&TapeLog| {
        let rule = log.verifier.as_deref().is_none_or(|name| name == law.verifier());
        rule && (log.sampling, log.drafter) == (sampling, drafter)
    };
    texts.extend(tape.logs.iter().filter(own).map(SimulatedText::logged));
    let described = &tape.drafters[drafter];
    let name = SimulationWay {
        sampling: tape.header.samplings[sampling],
        drafter: described.drafter.clone(),
        draft: described.model_name().to_owned(),
        params: described.params.words(),
        verifier: law.verifier().to_owned(),
        ..SimulationWay::default()
    };
    let with_model = described.model.is_some();
    if texts.is_empty() {
        return None;
    }
    let outlook = Outlook::of(&texts, with_model);
    Some(ServedWay { name, texts, outlook, with_model })
}

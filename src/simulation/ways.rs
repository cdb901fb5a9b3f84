//! Which drafter serves the texts of a tape.

use std::collections::BTreeSet;

use super::policy::PolicyParams;
use super::rows::SimulationWay;
use super::step::StepCosts;
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
        let timed = served.map(|way| (alone_ms(&way, table), way));
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
            let simulated = |odds| SimulatedText::any(text.prompt_tokens.len(), odds, law);
            texts.extend(odds.map(simulated));
        }
    }
    let own = |log: &&TapeLog| {
        let rule = log.verifier.as_deref().is_none_or(|name| name == law.verifier());
        rule && (log.sampling, log.drafter) == (sampling, drafter)
    };
    texts.extend(tape.logs.iter().filter(own).map(SimulatedText::logged));
    let described = &tape.drafters[drafter];
    let params = described.params.iter().map(|(key, value)| format!("{key}={value}"));
    let name = SimulationWay {
        sampling: tape.header.samplings[sampling],
        drafter: described.drafter.clone(),
        draft: described.model.as_ref().map(|model| model.name.clone()).unwrap_or_default(),
        params: params.collect::<Vec<_>>().join(" "),
        verifier: law.verifier().to_owned(),
        ..SimulationWay::default()
    };
    let with_model = described.model.is_some();
    (!texts.is_empty()).then_some(ServedWay { name, texts, with_model })
}

/// The expected time per token of a request alone, in ms, with the K that is fastest.
fn alone_ms(way: &ServedWay<'_>, table: &CostTable) -> f64 {
    let costs = StepCosts { table, with_model: way.with_model };
    PolicyParams { texts: &way.texts, costs, k: MOST_K, max_batch: 1 }.alone_ms()
}

//! The sampling settings of a certificate.

use std::collections::BTreeMap;

use super::methods::KeyValues;
use crate::core::distribution::Token;
use crate::core::sampling::{ControlSet, SamplingParams};
use crate::model::{ToyPair, brackets, without_repeats};

#[derive(Debug)]
pub(super) struct SamplingSetting {
    /// Its name in the certificate.
    pub(super) name: &'static str,
    /// The target's settings.
    pub(super) target: SamplingParams,
    /// The settings in which the draft model differs.
    pub(super) draft: KeyValues,
    /// What a request on a toy pair forbids, allows or prefers.
    pub(super) controls: Option<fn(&ToyPair) -> ControlSet>,
}

const fn setting(name: &'static str, target: SamplingParams, draft: KeyValues) -> SamplingSetting {
    SamplingSetting { name, target, draft, controls: None }
}

const fn controlled(
    name: &'static str,
    draft: KeyValues,
    controls: fn(&ToyPair) -> ControlSet,
) -> SamplingSetting {
    SamplingSetting { name, target: SamplingParams::NEUTRAL, draft, controls: Some(controls) }
}

impl SamplingSetting {
    /// The target's settings on a toy pair.
    pub(super) fn sampling(&self, pair: &ToyPair) -> SamplingParams {
        let controls = self.controls.map(|controls| controls(pair)).unwrap_or_default();
        SamplingParams { controls: controls.into(), ..self.target.clone() }
    }

    /// Whether it leaves a token at every position. Controls may leave none where a table lacks
    /// tokens, or where there are fewer than two besides those that end a text.
    pub(super) fn suits(&self, pair: &ToyPair) -> bool {
        let full = |table: &BTreeMap<String, Vec<f64>>| table.values().flatten().all(|p| *p > 0.0);
        let enough = pair.vocab >= pair.eos.len() + 2;
        self.controls.is_none() || enough && full(&pair.target) && full(&pair.draft)
    }
}

/// What ends a text, and a token besides where nothing does.
fn ends(pair: &ToyPair) -> Vec<Token> {
    if pair.eos.is_empty() { vec![1] } else { pair.eos.clone() }
}

fn bracketed(pair: &ToyPair) -> ControlSet {
    ControlSet { grammar: Some(brackets(pair.vocab, &pair.eos)), ..ControlSet::default() }
}

fn unrepeated(pair: &ToyPair) -> ControlSet {
    ControlSet { grammar: Some(without_repeats(pair.vocab, &pair.eos)), ..ControlSet::default() }
}

const PENALISED: SamplingParams = SamplingParams {
    repetition_penalty: 1.3,
    presence_penalty: 0.4,
    frequency_penalty: 0.3,
    ..SamplingParams::NEUTRAL
};

pub(super) const SETTINGS: &[SamplingSetting] = &[
    setting("T=1", SamplingParams::NEUTRAL, &[]),
    setting("T=0.7", SamplingParams { temperature: 0.7, ..SamplingParams::NEUTRAL }, &[]),
    setting("T=0", SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL }, &[]),
    setting("top_k=2", SamplingParams { top_k: 2, ..SamplingParams::NEUTRAL }, &[]),
    setting("top_p=0.7", SamplingParams { top_p: 0.7, ..SamplingParams::NEUTRAL }, &[]),
    setting("min_p=0.4", SamplingParams { min_p: 0.4, ..SamplingParams::NEUTRAL }, &[]),
    setting("penalties", PENALISED, &[]),
    setting(
        "T=1.3+top_k=3+top_p=0.9+min_p=0.2+penalties",
        SamplingParams { temperature: 1.3, top_k: 3, top_p: 0.9, min_p: 0.2, ..PENALISED },
        &[],
    ),
    setting("T=1,draft_T=0.5", SamplingParams::NEUTRAL, &[("draft_temperature", "0.5")]),
    setting("T=1,draft_T=0", SamplingParams::NEUTRAL, &[("draft_temperature", "0")]),
    setting("T=1,draft_top_k=2", SamplingParams::NEUTRAL, &[("draft_top_k", "2")]),
    setting("T=1,draft_top_p=0.7", SamplingParams::NEUTRAL, &[("draft_top_p", "0.7")]),
    setting(
        "T=0,draft_T=1",
        SamplingParams { temperature: 0.0, ..SamplingParams::NEUTRAL },
        &[("draft_temperature", "1")],
    ),
    controlled("min_tokens=2", &[], |pair| ControlSet {
        min_tokens: 2,
        ends: ends(pair),
        ..ControlSet::default()
    }),
    controlled("bad_words+logit_bias+allowed_token_ids", &[], |pair| ControlSet {
        allowed_token_ids: (0..3).chain(pair.eos.iter().copied()).collect(),
        bad_words: vec![vec![0, 1], vec![2, 0, 0]],
        logit_bias: vec![(0, 1.5), (1, -0.5)],
        ..ControlSet::default()
    }),
    controlled("grammar=regular", &[], unrepeated),
    controlled("grammar=brackets", &[], bracketed),
    controlled("grammar=regular,draft_controls=0", &[("draft_controls", "0")], unrepeated),
    SamplingSetting {
        name: "T=0.7+penalties+grammar=brackets+logit_bias,draft_T=1",
        target: SamplingParams { temperature: 0.7, ..PENALISED },
        draft: &[("draft_temperature", "1")],
        controls: Some(|pair| ControlSet {
            logit_bias: vec![(0, -1.0), (1, 0.5)],
            ..bracketed(pair)
        }),
    },
];

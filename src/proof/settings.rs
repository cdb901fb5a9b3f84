//! The sampling settings of a certificate.

use super::methods::KeyValues;
use crate::core::sampling::SamplingParams;

#[derive(Debug)]
pub(super) struct SamplingSetting {
    /// Its name in the certificate.
    pub(super) name: &'static str,
    /// The target's settings.
    pub(super) target: SamplingParams,
    /// The settings in which the draft model differs.
    pub(super) draft: KeyValues,
}

const fn setting(name: &'static str, target: SamplingParams, draft: KeyValues) -> SamplingSetting {
    SamplingSetting { name, target, draft }
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
];

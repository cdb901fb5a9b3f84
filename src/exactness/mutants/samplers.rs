//! Samplers that ignore a requested setting.

use super::{CASE, Case, Mutant, RIGHT};
use crate::sampling::SamplingParams;

const COOL: SamplingParams = SamplingParams { temperature: 0.7, ..SamplingParams::NEUTRAL };
const TOP_2: SamplingParams = SamplingParams { top_k: 2, ..SamplingParams::NEUTRAL };

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "target_temperature_ignored",
        imitates: "temperature 0.7 is asked for and the target is sampled at 1",
        case: Case { target: COOL, draft: COOL, ..CASE },
        sampler: |params| SamplingParams { temperature: 1.0, ..params },
        ..RIGHT
    },
    Mutant {
        name: "target_top_k_ignored",
        imitates: "top-k 2 is asked for and applied to the draft alone",
        case: Case { target: TOP_2, draft: TOP_2, ..CASE },
        sampler: |params| SamplingParams { top_k: 0, ..params },
        ..RIGHT
    },
];

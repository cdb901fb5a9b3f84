//! How a draft model samples: as the target does, except for settings of its own.

use crate::core::params::{Param, Params, Value};
use crate::core::sampling::{Controls, MOST_TOP_K, SamplingParams};

/// The sampling settings of a draft model that may differ from the target's: each has
/// the key of the target's setting after [`DRAFT`].
pub(crate) const DRAFT_SAMPLING: [Param; 4] = [
    Param::number(
        "draft_temperature",
        1.0,
        0.0..=f64::MAX,
        "temperature of the draft model; the target's if not given",
    )
    .optional(),
    Param::count(
        "draft_top_k",
        0,
        0..=MOST_TOP_K,
        "top_k of the draft model; the target's if not given",
    )
    .optional(),
    Param::number(
        "draft_top_p",
        1.0,
        f64::MIN_POSITIVE..=1.0,
        "top_p of the draft model; the target's if not given",
    )
    .optional(),
    Param::count(
        "draft_controls",
        1,
        0..=1,
        "0 if the draft model drafts without the target's controls; 1 if not given",
    )
    .optional(),
];
const DRAFT: &str = "draft_";

/// The settings of a drafter that samples from a model: its own, and those of the draft model.
macro_rules! with_draft_sampling {
    ($($own:expr),*) => {
        &[
            $($own,)*
            $crate::method::draft::DRAFT_SAMPLING[0],
            $crate::method::draft::DRAFT_SAMPLING[1],
            $crate::method::draft::DRAFT_SAMPLING[2],
            $crate::method::draft::DRAFT_SAMPLING[3],
        ]
    };
}
pub(super) use with_draft_sampling;

/// The draft sampling settings in `params`, with the keys of the target's.
fn overrides(params: &Params) -> impl Iterator<Item = (&'static Param, &'static str, Value)> {
    DRAFT_SAMPLING.iter().filter_map(|param| {
        Some((param, param.key.strip_prefix(DRAFT)?, params.set(param.key)?.clone()))
    })
}

/// The sampling settings of the draft model: the target's, except where `params`
/// overrides them.
pub fn draft_sampling(target: SamplingParams, params: &Params) -> SamplingParams {
    let own = overrides(params).fold(target, |own, (_, key, value)| own.with(key, &value));
    match params.set(DRAFT_SAMPLING[3].key) {
        Some(Value::Count(0)) => SamplingParams { controls: Controls::NONE, ..own },
        _ => own,
    }
}

/// `params` without the draft sampling settings that equal the target's.
pub fn without_repeats(target: &SamplingParams, params: Params) -> Params {
    let is_target_of = |key: &str, value: &Value| match key {
        "controls" => target.controls.is_none() || *value == Value::Count(1),
        key => target.get(key).as_ref() == Some(value),
    };
    let repeated = overrides(&params).filter(|(_, key, value)| is_target_of(key, value));
    let repeated = repeated.map(|(param, ..)| param).collect::<Vec<_>>();
    repeated.into_iter().fold(params, Params::without)
}

//! The rotary embedding of a configuration, in the newer spelling (`rope_parameters`) and
//! the older one (`rope_theta` and `rope_scaling`).

use std::f64::consts::TAU;

use super::keys::ConfigKeys;
use crate::core::error::Error;
use crate::engine::decoder::{Rope, Scaling};

/// The supported values of `rope_type`.
const ROPE_TYPES: &str = "default, linear, llama3, yarn, longrope, proportional";

/// What the rest of a configuration says about a rotary embedding; its own table takes
/// precedence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basis {
    /// Base of the frequencies.
    pub theta: f64,
    /// The share of a head's entries that are rotated.
    pub part: f64,
    /// Whether the family rotates a part of them at all.
    pub partial: bool,
    /// Width of a head.
    pub head_dim: usize,
    /// `max_position_embeddings`.
    pub positions: usize,
    /// `original_max_position_embeddings`, which takes precedence over a table's.
    pub original: Option<f64>,
}

/// The rotary embedding that all layers share.
pub(super) fn shared(keys: &ConfigKeys<'_>, basis: Basis) -> Result<Rope, Error> {
    let older = keys.table("rope_scaling")?;
    let given = if older.is_some() { older } else { keys.table("rope_parameters")? };
    given.map_or_else(|| plain(keys, basis), |given| rope(&given, basis))
}

/// The rotary embedding that a table describes.
pub(super) fn rope(given: &ConfigKeys<'_>, basis: Basis) -> Result<Rope, Error> {
    let theta = given.positive("rope_theta")?.unwrap_or(basis.theta);
    let part = given.positive("partial_rotary_factor")?.unwrap_or(basis.part);
    let original = given.positive("original_max_position_embeddings")?;
    let original = basis.original.or(original);
    let basis = Basis { theta, part, original, ..basis };
    if kind(given)? == Some("proportional") {
        return proportional(given, basis);
    }
    let plain = plain(given, basis)?;
    let with = |scaling| Rope { scaling, ..plain.clone() };
    match kind(given)? {
        None | Some("default") => Ok(plain),
        Some("linear") => Ok(with(Scaling::Linear { factor: positive(given, "factor")? })),
        Some("llama3") => Ok(with(llama3(given, basis)?)),
        Some("factors") => Ok(with(each(given, "factors", plain.dims)?)),
        Some("yarn") => yarn(given, basis, plain),
        Some("longrope" | "su") => longrope(given, basis, plain),
        Some(other) => {
            let what = format!("rope_type is \"{other}\"; supported are: {ROPE_TYPES}");
            Err(given.fault(what))
        }
    }
}

/// A rotary embedding without scaling.
///
/// # Errors
/// If it rotates a number of entries that cannot be.
pub(super) fn plain(keys: &ConfigKeys<'_>, basis: Basis) -> Result<Rope, Error> {
    let Basis { theta, part, partial, head_dim, .. } = basis;
    if part != 1.0 && !partial {
        return Err(keys.fault(format!("partial_rotary_factor {part} is not supported here")));
    }
    let dims = (head_dim as f64 * part) as usize;
    if dims < 2 || dims > head_dim || !dims.is_multiple_of(2) {
        return Err(keys.fault(format!(
            "partial_rotary_factor {part} rotates {dims} of a head's {head_dim} entries, which is \
             not an even number of them"
        )));
    }
    Ok(Rope { dims, ..Rope::plain(theta, head_dim) })
}

/// A rotary embedding of whole heads, of whose frequencies a part is not 0.
fn proportional(given: &ConfigKeys<'_>, basis: Basis) -> Result<Rope, Error> {
    let Basis { theta, part, head_dim, .. } = basis;
    if part > 1.0 {
        return Err(given.fault(format!("partial_rotary_factor {part} is more than 1")));
    }
    let kept = (part * head_dim as f64 / 2.0) as usize;
    let factor = given.positive("factor")?.unwrap_or(1.0);
    let scaling = Scaling::Proportional { kept, factor };
    Ok(Rope { scaling, ..Rope::plain(theta, head_dim) })
}

impl Basis {
    /// The context length before it was extended.
    fn original(self) -> f64 {
        self.original.unwrap_or(self.positions as f64)
    }
}

/// The kind of a rotary embedding, under either key. If a file has both, the newer one
/// counts.
fn kind<'a>(given: &ConfigKeys<'a>) -> Result<Option<&'a str>, Error> {
    let kind = given.text("rope_type")?;
    let kind = if kind.is_some() { kind } else { given.text("type")? };
    if kind.is_none() && given.positive("factor")?.is_some() {
        return Err(given.fault(format!("rope_type is missing; supported are: {ROPE_TYPES}")));
    }
    Ok(kind)
}

fn positive(given: &ConfigKeys<'_>, key: &str) -> Result<f64, Error> {
    let value = given.positive(key)?;
    value.ok_or_else(|| given.fault(format!("the rotary embedding lacks {key}")))
}

fn llama3(given: &ConfigKeys<'_>, basis: Basis) -> Result<Scaling, Error> {
    let low = positive(given, "low_freq_factor")?;
    let high = positive(given, "high_freq_factor")?;
    if low >= high {
        return Err(given.fault("low_freq_factor must be less than high_freq_factor"));
    }
    let factor = positive(given, "factor")?;
    Ok(Scaling::Llama3 { factor, low, high, original: basis.original() })
}

/// YaRN, with the amplitude by which attention becomes sharper in longer contexts.
fn yarn(given: &ConfigKeys<'_>, basis: Basis, plain: Rope) -> Result<Rope, Error> {
    let original = basis.original();
    let factor = given.positive("factor")?.unwrap_or(basis.positions as f64 / original);
    let dims = plain.dims as f64;
    // The number of the frequency that turns this often within the original context.
    let number =
        |turns: f64| dims * libm::log(original / (turns * TAU)) / (2.0 * libm::log(basis.theta));
    let mut first = number(given.positive("beta_fast")?.unwrap_or(32.0));
    let mut last = number(given.positive("beta_slow")?.unwrap_or(1.0));
    if given.flag("truncate")?.unwrap_or(true) {
        (first, last) = (first.floor(), last.ceil());
    }
    (first, last) = (first.max(0.0), last.min(dims - 1.0));
    if first == last {
        // As in the code that checkpoints are trained with: a step, not a division by 0.
        last += 0.001;
    }
    let growth =
        |weight: f64| if factor > 1.0 { 0.1 * weight * libm::log(factor) + 1.0 } else { 1.0 };
    let weights = (given.not_negative("mscale")?, given.not_negative("mscale_all_dim")?);
    let amplitude = match (given.positive("attention_factor")?, weights) {
        (Some(amplitude), _) => amplitude,
        (None, (Some(one), Some(all))) if one > 0.0 && all > 0.0 => growth(one) / growth(all),
        _ => growth(1.0),
    };
    Ok(Rope { scaling: Scaling::Yarn { factor, transition: [first, last] }, amplitude, ..plain })
}

/// LongRoPE, for texts no longer than the original context. Longer texts have other
/// factors, also for the tokens that came before, so one cache cannot serve both.
fn longrope(given: &ConfigKeys<'_>, basis: Basis, plain: Rope) -> Result<Rope, Error> {
    each(given, "long_factor", plain.dims)?;
    let scaling = each(given, "short_factor", plain.dims)?;
    let original = basis.original();
    let factor = given.positive("factor")?.unwrap_or(basis.positions as f64 / original);
    let amplitude = match given.positive("attention_factor")? {
        Some(amplitude) => amplitude,
        None if factor <= 1.0 => 1.0,
        None => (1.0 + libm::log(factor) / libm::log(original)).sqrt(),
    };
    Ok(Rope { scaling, amplitude, positions: Some(original as usize), ..plain })
}

/// A factor for each frequency.
fn each(given: &ConfigKeys<'_>, key: &str, dims: usize) -> Result<Scaling, Error> {
    let factors = given.required(key, given.positives(key)?)?;
    if factors.len() != dims / 2 {
        let found = factors.len();
        let what = format!("{key} has {found} numbers, but {dims} rotated entries need");
        return Err(given.fault(format!("{what} {}", dims / 2)));
    }
    Ok(Scaling::Each { factors })
}

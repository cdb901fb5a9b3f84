//! The rotary embedding of a model as transformers writes it: `rope_parameters`.

use serde_json::{Map, Value, json};

use super::keys::Keys;
use super::sizes::Sizes;
use crate::core::error::Error;

/// The base of the frequencies where a file has none.
const THETA: f64 = 10_000.0;
/// Divisors of the frequencies: for all contexts, for long and for short ones.
const FACTORS: &str = "rope_freqs.weight";
const LONG: &str = "rope_factors_long.weight";
const SHORT: &str = "rope_factors_short.weight";
/// The values of the key of the type.
const TYPES: &str = "none, linear, yarn, longrope";

/// `rope_parameters`.
///
/// Besides the types of transformers there is `factors`: each frequency is divided by its
/// entry of the list `factors`. This is how files hold what is `llama3` in transformers.
pub(super) fn rope_parameters(keys: Keys<'_>, sizes: &Sizes) -> Result<Value, Error> {
    let own = global(keys, sizes)?;
    let Some(theta) = keys.architecture.extras.window_theta else { return Ok(own.into()) };
    let theta = keys.positive("rope.freq_base_swa")?.unwrap_or(theta);
    Ok(json!({
        "full_attention": own,
        "sliding_attention": {"rope_type": "default", "rope_theta": theta},
    }))
}

/// The embedding of all layers, or of those without a window.
fn global(keys: Keys<'_>, sizes: &Sizes) -> Result<Map<String, Value>, Error> {
    let theta = keys.positive("rope.freq_base")?.unwrap_or(THETA);
    let rotated = rotated(keys, sizes)?;
    let mut rope = Map::new();
    rope.insert("rope_type".to_owned(), json!("default"));
    rope.insert("rope_theta".to_owned(), json!(theta));
    rope.extend(scaling(keys, sizes, rotated / 2)?);
    let width = sizes.heads.width;
    if rotated < width {
        rope.insert("partial_rotary_factor".to_owned(), json!(share(rotated, width)));
    }
    Ok(rope)
}

/// The share of a head that is rotated; `width` times it, rounded down, is `rotated`.
fn share(rotated: usize, width: usize) -> f64 {
    let share = rotated as f64 / width as f64;
    if ((width as f64 * share) as usize) < rotated { share.next_up() } else { share }
}

/// The number of entries of a head that are rotated.
fn rotated(keys: Keys<'_>, sizes: &Sizes) -> Result<usize, Error> {
    let (key, width) = ("rope.dimension_count", sizes.heads.width);
    let rotated = keys.optional_size(key)?.unwrap_or(width);
    let whole = keys.architecture.neighbours;
    if rotated > width || !rotated.is_multiple_of(2) || (whole && rotated < width) {
        let what = if whole { "must be this width" } else { "must be even and not above it" };
        let what = format!("is {rotated}, but heads have width {width}: it {what}");
        return Err(keys.fault(key, &what));
    }
    Ok(rotated)
}

/// The entries that say how frequencies are changed; none if they are not.
fn scaling(keys: Keys<'_>, sizes: &Sizes, pairs: usize) -> Result<Map<String, Value>, Error> {
    let key = "rope.scaling.type";
    let kind = keys.text(key)?;
    let has = |tensor| keys.file.tensor(tensor).is_some();
    if has(LONG) || has(SHORT) || kind == Some("longrope") {
        return long(keys, sizes, pairs);
    }
    // Files have had two keys for it; without a type the scaling is linear.
    let factor = keys.number("rope.scaling.factor")?.or(keys.number("rope.scale_linear")?);
    let factor = factor.filter(|&factor| factor != 0.0 && factor != 1.0);
    match (kind.unwrap_or("linear"), factor) {
        ("linear" | "yarn", Some(_)) if has(FACTORS) => {
            let what = format!("does not go together with tensor {FACTORS}");
            Err(keys.fault("rope.scaling.factor", &what))
        }
        ("none", _) | ("linear" | "yarn", None) if has(FACTORS) => {
            Ok(object(json!({"rope_type": "factors", "factors": factors(keys, FACTORS, pairs)?})))
        }
        ("none", _) | ("linear" | "yarn", None) => Ok(Map::new()),
        ("linear", Some(factor)) => {
            Ok(object(json!({"rope_type": "linear", "factor": positive(keys, factor)?})))
        }
        ("yarn", Some(factor)) => yarn(keys, sizes, positive(keys, factor)?),
        (other, _) => Err(keys.fault(key, &format!("is {other:?}; supported are: {TYPES}"))),
    }
}

fn positive(keys: Keys<'_>, factor: f64) -> Result<f64, Error> {
    let what = || format!("is {factor}, but must be > 0");
    if factor > 0.0 { Ok(factor) } else { Err(keys.fault("rope.scaling.factor", &what())) }
}

fn yarn(keys: Keys<'_>, sizes: &Sizes, factor: f64) -> Result<Map<String, Value>, Error> {
    let mut rope = object(json!({
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original(keys, sizes)?,
    }));
    if keys.architecture.extras.exact_ramp {
        rope.insert("truncate".to_owned(), json!(false));
    }
    for (key, name) in [
        ("rope.scaling.yarn_attn_factor", "attention_factor"),
        ("rope.scaling.yarn_beta_fast", "beta_fast"),
        ("rope.scaling.yarn_beta_slow", "beta_slow"),
    ] {
        let number = keys.positive(key)?;
        rope.extend(number.map(|number| (name.to_owned(), json!(number))));
    }
    Ok(rope)
}

fn long(keys: Keys<'_>, sizes: &Sizes, pairs: usize) -> Result<Map<String, Value>, Error> {
    let mut rope = object(json!({
        "rope_type": "longrope",
        "long_factor": factors(keys, LONG, pairs)?,
        "short_factor": factors(keys, SHORT, pairs)?,
        "original_max_position_embeddings": original(keys, sizes)?,
    }));
    let attention = keys.positive("rope.scaling.attn_factor")?;
    rope.extend(attention.map(|number| ("attention_factor".to_owned(), json!(number))));
    Ok(rope)
}

/// The number of positions before scaling.
fn original(keys: Keys<'_>, sizes: &Sizes) -> Result<usize, Error> {
    let positions = keys.optional_size("rope.scaling.original_context_length")?;
    Ok(positions.unwrap_or(sizes.positions))
}

/// One divisor per frequency.
fn factors(keys: Keys<'_>, tensor: &str, pairs: usize) -> Result<Vec<f32>, Error> {
    let found = keys.file.tensor(tensor).ok_or_else(|| keys.file.missing(tensor))?;
    if found.shape() != [pairs] {
        let shape = found.shape();
        let what =
            format!("tensor {tensor} has shape {shape:?}, but there are {pairs} frequencies");
        return Err(keys.file.fault(tensor, what));
    }
    let factors = keys.file.weights(tensor)?;
    match factors.iter().find(|&&factor| factor <= 0.0) {
        Some(factor) => {
            let what = format!("tensor {tensor} holds the factor {factor}, but all must be > 0");
            Err(keys.file.fault(tensor, what))
        }
        None => Ok(factors),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

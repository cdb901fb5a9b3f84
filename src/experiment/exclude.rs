//! `[[exclude]]`: conditions, checked and spelt as cells are.

use anyhow::{Context, Result};

use super::cell::Cell;
use super::spec::{Exclude, OneOrMany};
use crate::decode::find_param;
use crate::draft::DRAFTERS;
use crate::length::LENGTHS;
use crate::params::Value;
use crate::registry::{Entry, find};
use crate::verify::VERIFIERS;

/// The condition with names instead of aliases and settings as methods hold
/// them, since that is what cells have.
///
/// # Errors
/// If a name is unknown or a setting out of range: such a condition would match
/// nothing.
pub(super) fn canonical(condition: &Exclude) -> Result<Exclude> {
    let params = condition.params.iter().map(|(key, values)| {
        let param = find_param(key)?;
        let check = |value: &Value| Ok(param.check(value)?);
        Ok((key.clone(), each(values, check).context("[[exclude]]")?))
    });
    Ok(Exclude {
        drafter: names("drafter", DRAFTERS, &condition.drafter)?,
        verifier: names("verifier", VERIFIERS, &condition.verifier)?,
        length: names("length", LENGTHS, &condition.length)?,
        params: params.collect::<Result<_>>()?,
        ..condition.clone()
    })
}

fn names<B>(
    key: &'static str,
    registry: &'static [Entry<B>],
    values: &Option<OneOrMany<String>>,
) -> Result<Option<OneOrMany<String>>> {
    let name = |name: &String| Ok(find(key, registry, name)?.name.to_owned());
    let names = values.as_ref().map(|values| each(values, name));
    names.transpose().with_context(|| format!("\"exclude.{key}\""))
}

fn each<T: Clone>(values: &OneOrMany<T>, change: impl Fn(&T) -> Result<T>) -> Result<OneOrMany<T>> {
    Ok(OneOrMany::Many(values.values().iter().map(change).collect::<Result<_>>()?))
}

/// Whether a cell has one of the listed values on every named axis.
pub(super) fn matches(condition: &Exclude, cell: &Cell) -> bool {
    fn has<T: Clone + PartialEq>(values: &Option<OneOrMany<T>>, value: &T) -> bool {
        values.as_ref().is_none_or(|values| values.values().contains(value))
    }
    let sampling = &cell.sampling;
    has(&condition.drafter, &cell.drafter)
        && has(&condition.verifier, &cell.verifier)
        && has(&condition.length, &cell.length)
        && has(&condition.num_speculative_tokens, &cell.num_speculative_tokens)
        && has(&condition.temperature, &sampling.temperature)
        && has(&condition.top_k, &sampling.top_k)
        && has(&condition.top_p, &sampling.top_p)
        && has(&condition.min_p, &sampling.min_p)
        && condition.params.iter().all(|(key, values)| {
            cell.params.iter().any(|(name, value)| name == key && values.values().contains(value))
        })
}

//! The axes of a sweep: their names, their allowed values, and the part of a method that
//! each sets.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, anyhow, bail};

use super::values::setting as value_of_toml;
use crate::core::params::{Param, Value};
use crate::core::registry::{Entry, find};
use crate::core::sampling::PROCESSORS;
use crate::method::beam::BEAM_PARAMS;
use crate::method::decode::{MethodSpec, NUM_SPECULATIVE_TOKENS, all_params};
use crate::method::draft::DRAFTERS;
use crate::method::length::LENGTHS;
use crate::method::verify::VERIFIERS;

/// Texts are drawn token by token.
pub(super) const SAMPLING: &str = "sampling";

/// Texts are found by beam search.
pub(super) const BEAM: &str = "beam";

pub(super) const STRATEGY: Param = Param::choice(
    "strategy",
    SAMPLING,
    &[SAMPLING, BEAM],
    "how texts are made ([strategies.md](strategies.md)); beam search reads no settings of sampling",
);

pub(super) const BATCH: Param = Param::count(
    "batch",
    1,
    1..=256,
    "texts that are decoded together and share passes ([batches.md](batches.md)); a beam search takes one",
);

/// The values of some axes, by canonical key: a sweep over their product, or the
/// condition of an `[[exclude]]`. No value is listed twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axes(pub(super) BTreeMap<&'static str, Vec<Value>>);

impl Axes {
    /// The values of an axis; `None` if it is not given.
    pub fn get(&self, key: &str) -> Option<&[Value]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// The number of points of the product.
    pub(super) fn points(&self) -> usize {
        self.0.values().map(Vec::len).fold(1, usize::saturating_mul)
    }

    /// The settings of methods among the axes.
    pub(super) fn settings(&self) -> impl Iterator<Item = &'static str> {
        let axes = self.0.keys().filter_map(|key| axis(key));
        axes.filter(|axis| axis.sets == Sets::Method).map(|axis| axis.name)
    }

    /// The drafters, verifiers and length policies that the axes name, or the defaults
    /// where they name none.
    pub(super) fn methods(&self) -> impl Iterator<Item = String> {
        let default = MethodSpec::default();
        let names = [
            ("drafter", default.drafter),
            ("verifier", default.verifier),
            ("length", default.length),
        ];
        names.into_iter().flat_map(|(key, default)| {
            let named = |values: &[Value]| values.iter().map(Value::to_string).collect();
            self.get(key).map_or_else(|| vec![default], named)
        })
    }
}

impl fmt::Display for Axes {
    /// `axis = value or value, axis = value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.0.iter().map(|(key, values)| {
            let values = values.iter().map(Value::to_string).collect::<Vec<_>>();
            format!("{key} = {}", values.join(" or "))
        });
        f.write_str(&axes.collect::<Vec<_>>().join(", "))
    }
}

/// What an axis sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sets {
    /// A part of the method itself: drafter, verifier, length policy or K.
    Part,
    /// What the texts are to be: the strategy and its settings.
    Goal,
    /// A setting of methods.
    Method,
}

/// An axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweepAxis {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) sets: Sets,
    kind: AxisKind,
}

/// The kind of values on an axis.
#[derive(Debug, Clone, Copy)]
enum AxisKind {
    Drafter,
    Verifier,
    Length,
    Setting(&'static Param),
}

impl SweepAxis {
    /// Whether the axis is also allowed at the top level, for all sweeps.
    pub(super) fn is_setting(&self) -> bool {
        self.sets == Sets::Method || matches!(self.kind, AxisKind::Length)
    }

    /// One line for people.
    pub(super) fn summary(&self) -> &'static str {
        match self.kind {
            AxisKind::Drafter => "which drafter proposes tokens",
            AxisKind::Verifier => "which verifier decides what is kept",
            AxisKind::Length => "which draft length policy decides how far to draft",
            AxisKind::Setting(param) => param.summary,
        }
    }

    /// The setting whose values are on the axis; `None` if its values are names of
    /// methods.
    pub(super) fn param(&self) -> Option<&'static Param> {
        match self.kind {
            AxisKind::Setting(param) => Some(param),
            AxisKind::Drafter | AxisKind::Verifier | AxisKind::Length => None,
        }
    }

    /// The names of methods that are allowed on the axis, including aliases.
    pub(super) fn names(&self) -> Vec<&'static str> {
        fn names<B>(registry: &'static [Entry<B>]) -> Vec<&'static str> {
            registry
                .iter()
                .flat_map(|e| [e.name].into_iter().chain(e.aliases.iter().copied()))
                .collect()
        }
        match self.kind {
            AxisKind::Drafter => names(DRAFTERS),
            AxisKind::Verifier => names(VERIFIERS),
            AxisKind::Length => names(LENGTHS),
            AxisKind::Setting(_) => Vec::new(),
        }
    }

    /// The allowed values, in words.
    pub(super) fn allowed(&self) -> String {
        self.param().map_or_else(|| "a name in [methods.md](methods.md)".to_owned(), Param::allowed)
    }

    pub(super) fn default(&self) -> String {
        let spec = MethodSpec::default();
        match self.kind {
            AxisKind::Drafter => "required".to_owned(),
            AxisKind::Verifier => spec.verifier,
            AxisKind::Length => spec.length,
            AxisKind::Setting(param) => param
                .default()
                .map(|value| value.to_string())
                .filter(|text| !text.is_empty())
                .unwrap_or("none".to_owned()),
        }
    }

    /// Reads the axis's values from a list or a single value; `place` comes before the
    /// key in messages.
    ///
    /// # Errors
    /// Names the axis, the value and the allowed values.
    pub(super) fn values(&self, place: &str, given: &toml::Value) -> Result<Vec<Value>> {
        let key = format!("\"{place}{}\"", self.name);
        let given = given.as_array().map_or(std::slice::from_ref(given), Vec::as_slice);
        if given.is_empty() {
            bail!("{key} is empty: give at least one value");
        }
        let mut values = Vec::new();
        for given in given {
            let value = self.value(given).map_err(|why| anyhow!("{key} = {given}: {why}"))?;
            if values.contains(&value) {
                bail!("{key} = {given} is listed twice: every value is run once");
            }
            values.push(value);
        }
        Ok(values)
    }

    fn value(&self, given: &toml::Value) -> Result<Value> {
        fn name<B>(
            kind: &'static str,
            registry: &'static [Entry<B>],
            given: &toml::Value,
        ) -> Result<Value> {
            let Some(name) = given.as_str() else {
                bail!("allowed is a name, or a list of names, from `specdec list`");
            };
            Ok(Value::Text(find(kind, registry, name)?.name.to_owned()))
        }
        match self.kind {
            AxisKind::Drafter => name("drafter", DRAFTERS, given),
            AxisKind::Verifier => name("verifier", VERIFIERS, given),
            AxisKind::Length => name("draft length policy", LENGTHS, given),
            AxisKind::Setting(param) => {
                let value = value_of_toml(given).and_then(|value| param.check(&value).ok());
                value.ok_or_else(|| {
                    let is_k = param.key == NUM_SPECULATIVE_TOKENS.key;
                    let plain = match given.as_integer() {
                        Some(0) if is_k => "; plain decoding is in every run, as the baseline",
                        _ => "",
                    };
                    anyhow!("allowed is {}, or a list of these{plain}", param.allowed())
                })
            }
        }
    }
}

/// All axes in the order in which their product is taken, outermost first: the strategy and its
/// settings, the parts of the method, their settings.
pub(super) fn axes() -> Vec<SweepAxis> {
    let setting = |param: &'static Param, sets| SweepAxis {
        name: param.key,
        aliases: param.aliases,
        sets,
        kind: AxisKind::Setting(param),
    };
    let part = |name, aliases, kind| SweepAxis { name, aliases, sets: Sets::Part, kind };
    let processors = PROCESSORS.iter().map(|p| &p.setting);
    let goals = [&STRATEGY, &BATCH].into_iter().chain(BEAM_PARAMS).chain(processors);
    let mut axes = goals.map(|param| setting(param, Sets::Goal)).collect::<Vec<_>>();
    axes.extend([
        part("drafter", &["method", "spec_type"], AxisKind::Drafter),
        part("verifier", &["rejection_sample_method"], AxisKind::Verifier),
        part("length", &["num_assistant_tokens_schedule"], AxisKind::Length),
        setting(&NUM_SPECULATIVE_TOKENS, Sets::Part),
    ]);
    let mut params = all_params();
    params.sort_by_key(|param| param.key);
    axes.extend(params.into_iter().map(|param| setting(param, Sets::Method)));
    axes
}

pub(super) fn axis(name: &str) -> Option<SweepAxis> {
    axes().into_iter().find(|axis| axis.name == name || axis.aliases.contains(&name))
}

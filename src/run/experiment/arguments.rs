//! Arguments of the chat template, such as `enable_thinking`: axes of the sweep whose names and
//! values only the template knows.

use std::fmt;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a template gets in any case.
const TAKEN: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// The arguments of the chat template in a cell, by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChatArguments(pub Map<String, Value>);

impl ChatArguments {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each argument by its name, as text.
    pub fn words(&self) -> impl Iterator<Item = (&str, String)> {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.0.iter().map(move |(name, value)| (name.as_str(), word(value)))
    }

    /// All combinations of the values of a table, of which each may be a list.
    ///
    /// # Errors
    /// Names the argument and the allowed values.
    pub(super) fn combinations(table: &toml::Table) -> Result<Vec<Self>> {
        let mut all = vec![Self::default()];
        for (name, values) in table {
            if TAKEN.contains(&name.as_str()) {
                bail!("\"chat_arguments\": the template has \"{name}\" from the conversation");
            }
            let listed = values.as_array().map_or(std::slice::from_ref(values), Vec::as_slice);
            let mut known = Vec::new();
            for value in listed {
                match json(value) {
                    Some(value) if !known.contains(&value) => known.push(value),
                    Some(_) => bail!("\"chat_arguments\": {name} = {value} is listed twice"),
                    None => bail!("\"chat_arguments\": {name} = {value}: allowed is {ALLOWED}"),
                }
            }
            if known.is_empty() {
                bail!("\"chat_arguments\": {name} is empty: give at least one value");
            }
            all = all
                .iter()
                .flat_map(|own| known.iter().map(|value| own.with(name, value)))
                .collect();
        }
        Ok(all)
    }

    fn with(&self, name: &str, value: &Value) -> Self {
        let mut with = self.clone();
        with.0.insert(name.to_owned(), value.clone());
        with
    }
}

/// The allowed values of an argument.
const ALLOWED: &str = "a text, a number, true or false, or a list of these";

fn json(value: &toml::Value) -> Option<Value> {
    match value {
        toml::Value::String(text) => Some(text.as_str().into()),
        toml::Value::Integer(n) => Some((*n).into()),
        toml::Value::Float(x) => Some((*x).into()),
        toml::Value::Boolean(flag) => Some((*flag).into()),
        _ => None,
    }
}

impl fmt::Display for ChatArguments {
    /// `name = value, name = value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.words().map(|(name, value)| format!("{name} = {value}"));
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

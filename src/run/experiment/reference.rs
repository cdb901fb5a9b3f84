//! The reference of `experiment.toml`, generated from the declarations of its keys and
//! axes: a page for people and a JSON Schema for editors.

use serde_json::{Map, Value, json};

use super::axes::{SweepAxis, axes};
use super::keys::{KEYS, Key, KeyKind};
use crate::core::params::{self, Param};

/// The reference page, in Markdown.
pub fn page() -> String {
    let mut page = "\
# experiment.toml

Made by `specdec schema --markdown` from the declarations; a test compares them.
Start with [your-experiment.md](your-experiment.md); [methods.md](methods.md) explains the methods.

## Keys

| key | what | allowed | default |
| --- | --- | --- | --- |
"
    .to_owned();
    for key in KEYS {
        let (summary, default) = (key.summary, key.default.unwrap_or("required"));
        page += &line(key.name, &with_aliases(summary, key.aliases), &key.allowed(), default);
    }
    page += "
Settings of methods are also allowed here; they then apply to every sweep that reads them.

## Axes

`[sweep]` holds the axes; each takes a value or a list, and every combination is a cell.
`[[exclude]]` leaves out the cells that have one of the listed values on every axis that it names.

| axis | what | allowed | default |
| --- | --- | --- | --- |
";
    for axis in axes() {
        let summary = with_aliases(axis.summary(), axis.aliases);
        page += &line(axis.name, &summary, &axis.allowed(), &axis.default());
    }
    page
}

fn line(name: &str, summary: &str, allowed: &str, default: &str) -> String {
    format!("| `{name}` | {summary} | {allowed} | {default} |\n")
}

fn with_aliases(summary: &str, aliases: &[&str]) -> String {
    let aliases = aliases.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if aliases.is_empty() { summary.to_owned() } else { format!("{summary}; also {aliases}") }
}

/// The JSON Schema (draft 2020-12).
pub fn schema() -> Value {
    let mut top = Map::new();
    for key in KEYS.iter().filter(|key| !matches!(key.kind, KeyKind::Tables)) {
        insert(&mut top, (key.name, key.aliases), &of_key(key));
    }
    let mut table = Map::new();
    let mut definitions = Map::new();
    for axis in axes() {
        definitions.insert(axis.name.to_owned(), of_axis(&axis));
        let reference = json!({"$ref": format!("#/$defs/{}", axis.name)});
        insert(&mut table, (axis.name, axis.aliases), &reference);
        if axis.is_setting() {
            insert(&mut top, (axis.name, axis.aliases), &reference);
        }
    }
    let table = json!({"type": "object", "properties": table, "additionalProperties": false});
    definitions.insert("axes".to_owned(), table);
    let reference = json!({"$ref": "#/$defs/axes"});
    let list = json!({"type": "array", "items": reference.clone()});
    top.insert("sweep".to_owned(), json!({"anyOf": [reference, list.clone()]}));
    top.insert("exclude".to_owned(), list);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "experiment.toml of specdec",
        "type": "object",
        "properties": top,
        "required": ["target", "prompts", "sweep"],
        "additionalProperties": false,
        "$defs": definitions,
    })
}

fn insert(to: &mut Map<String, Value>, (name, aliases): (&str, &[&str]), schema: &Value) {
    for spelling in [name].iter().chain(aliases) {
        to.insert((*spelling).to_owned(), schema.clone());
    }
}

fn of_key(key: &Key) -> Value {
    let schema = match key.kind {
        KeyKind::Text => json!({"type": "string"}),
        KeyKind::Date => json!({"type": "string", "format": "date"}),
        KeyKind::Texts => one_or_many(&json!({"type": "string"})),
        KeyKind::Flag => json!({"type": "boolean"}),
        KeyKind::Name(names) => json!({"enum": names()}),
        KeyKind::Count(param) => of_param(&param),
        KeyKind::Arguments | KeyKind::Controls => json!({"type": "object"}),
        KeyKind::Tables => json!({}),
    };
    described(schema, key.summary)
}

fn of_axis(axis: &SweepAxis) -> Value {
    let value = match axis.param() {
        Some(param) => of_param(param),
        None => json!({"enum": axis.names()}),
    };
    described(one_or_many(&value), axis.summary())
}

fn one_or_many(value: &Value) -> Value {
    let list = json!({"type": "array", "items": value, "minItems": 1, "uniqueItems": true});
    json!({"anyOf": [value, list]})
}

fn described(mut schema: Value, summary: &str) -> Value {
    schema["description"] = json!(summary);
    schema
}

fn of_param(param: &Param) -> Value {
    match param.kind {
        params::ParamKind::Count { least, most: usize::MAX, .. } => {
            json!({"type": "integer", "minimum": least})
        }
        params::ParamKind::Count { least, most, .. } => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        params::ParamKind::Number { least, most, .. } => {
            let mut schema = json!({"type": "number"});
            if least == f64::MIN_POSITIVE {
                schema["exclusiveMinimum"] = json!(0);
            } else if least > f64::MIN {
                schema["minimum"] = json!(least);
            }
            if most < f64::MAX {
                schema["maximum"] = json!(most);
            }
            schema
        }
        params::ParamKind::Choice { names, .. } => {
            let spellings = names.iter().flat_map(|name| {
                let flag = name.parse::<bool>().ok().map(Value::Bool);
                [json!(name)].into_iter().chain(flag)
            });
            json!({"enum": spellings.collect::<Vec<_>>()})
        }
        // A tree of one level is written as a number.
        params::ParamKind::Text { .. } => json!({"type": ["string", "number"]}),
        params::ParamKind::File => json!({"type": "string"}),
    }
}

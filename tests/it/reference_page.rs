//! The reference page and the schema of `experiment.toml` match the declarations.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use specdec::core::sampling::PROCESSORS;
use specdec::run::experiment::reference::{page, schema};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_page_and_the_schema_are_up_to_date() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    assert_eq!(
        read("docs/experiment-keys.md"),
        page(),
        "run: cargo run --release -- schema --markdown > docs/experiment-keys.md"
    );
    assert_eq!(
        serde_json::from_str::<Value>(&read("experiments/experiment.schema.json")).unwrap(),
        schema(),
        "run: cargo run --release -- schema > experiments/experiment.schema.json"
    );
}

#[test]
fn every_sampling_setting_is_in_the_page_and_the_schema() {
    let (page, schema) = (page(), schema());
    let axes = &schema["$defs"]["axes"]["properties"];
    for processor in PROCESSORS {
        let setting = &processor.setting;
        assert!(page.contains(&format!("| `{}` | {}", setting.key, setting.summary)));
        for name in [setting.key].iter().chain(setting.aliases) {
            assert!(axes[*name].is_object(), "{name}");
        }
    }
}

/// Whether a value validates against a schema, for the keywords that ours uses.
fn fits(value: &Value, schema: &Value, whole: &Value) -> bool {
    let reference = |path: &Value| whole.pointer(&path.as_str().unwrap()[1..]).unwrap();
    let number = |key: &str| schema[key].as_f64();
    let kind = |name: &str| match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    let kinds = match &schema["type"] {
        Value::Array(names) => names.iter().any(|name| kind(name.as_str().unwrap())),
        name => name.as_str().is_none_or(kind),
    };
    let x = value.as_f64();
    let above = number("minimum").is_none_or(|least| x.is_none_or(|x| x >= least))
        && number("exclusiveMinimum").is_none_or(|least| x.is_none_or(|x| x > least));
    let below = number("maximum").is_none_or(|most| x.is_none_or(|x| x <= most));
    let any = schema["anyOf"].as_array();
    let items = &schema["items"];
    let properties = schema["properties"].as_object();
    kinds
        && above
        && below
        && (schema["$ref"].is_null() || fits(value, reference(&schema["$ref"]), whole))
        && any.is_none_or(|any| any.iter().any(|one| fits(value, one, whole)))
        && schema["enum"].as_array().is_none_or(|allowed| allowed.contains(value))
        && (items.is_null()
            || value.as_array().is_none_or(|all| all.iter().all(|v| fits(v, items, whole))))
        && properties.is_none_or(|known| {
            let all = value.as_object().unwrap();
            all.iter().all(|(key, v)| known.get(key).is_some_and(|s| fits(v, s, whole)))
        })
}

fn experiments() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("experiments")).unwrap().flatten();
    let files = folders.map(|folder| folder.path().join("experiment.toml"));
    let files = files.filter(|file| file.exists()).collect::<Vec<_>>();
    assert!(files.len() >= 9, "{files:?}");
    files
}

fn value_of(file: &Path) -> Value {
    let table = fs::read_to_string(file).unwrap().parse::<toml::Table>().unwrap();
    serde_json::to_value(table).unwrap()
}

#[test]
fn shipped_experiments_name_the_schema_and_validate_against_it() {
    let schema = schema();
    for file in experiments() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("#:schema ../experiment.schema.json\n"), "{}", file.display());
        assert!(fits(&value_of(&file), &schema, &schema), "{}", file.display());
    }
}

#[test]
fn the_schema_rejects_invalid_experiments() {
    let schema = schema();
    let smoke = value_of(&root().join("experiments/00-smoke/experiment.toml"));
    let wrong: [(&str, &str, Value); 6] = [
        ("/max_tokens", "max_tokens", 0.into()),
        ("/repeets", "repeets", 1.into()),
        ("/clock", "clock", "wall".into()),
        ("/sweep/top_p", "top_p", 1.5.into()),
        ("/sweep/temperature", "temperature", (-1).into()),
        ("/sweep/drafter", "drafter", "modell".into()),
    ];
    for (path, key, value) in wrong {
        let mut changed = smoke.clone();
        let table = if path.starts_with("/sweep") { &mut changed["sweep"] } else { &mut changed };
        table[key] = value;
        assert!(!fits(&changed, &schema, &schema), "{path}");
    }
}

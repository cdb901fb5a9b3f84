//! The fields of a request that forbid, allow or prefer tokens: OpenAI's names, and vLLM's.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::api_error::ApiError;
use super::fields::{Fields, refused};
use crate::method::controls::ControlRequest;

/// The most token ids of a list, and the most choices.
const MOST_IDS: usize = 1 << 20;
const MOST_CHOICES: usize = 1024;

/// A grammar as vLLM names it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StructuredOutputs {
    json: Option<Value>,
    regex: Option<String>,
    choice: Option<Vec<String>>,
    grammar: Option<String>,
    json_object: Option<bool>,
}

impl Fields {
    /// What the completion may be.
    pub(super) fn controls(&mut self) -> Result<ControlRequest, ApiError> {
        let ids = "a list of token ids";
        let bias = self.take::<Map<String, Value>>("logit_bias", "an object: token id to bias")?;
        let mut request = ControlRequest {
            allowed_token_ids: self.take("allowed_token_ids", ids)?.unwrap_or_default(),
            bad_words: self.take("bad_words", "a list of strings")?.unwrap_or_default(),
            min_tokens: self.count("min_tokens", MOST_IDS)?.unwrap_or_default(),
            stop_token_ids: self.take("stop_token_ids", ids)?.unwrap_or_default(),
            ..ControlRequest::default()
        };
        for (token, bias) in bias.into_iter().flatten() {
            let allowed = "a number from -100 to 100 for every token";
            let number = bias.as_f64().ok_or_else(|| refused("logit_bias", &bias, allowed))?;
            request.logit_bias.insert(token, number);
        }
        let outputs = self.structured_outputs()?;
        request.json_schema = match (outputs.json, outputs.json_object) {
            (Some(Value::String(schema)), _) => Some(schema),
            (Some(schema), _) => Some(schema.to_string()),
            (None, Some(true)) => Some(json!({"type": "object"}).to_string()),
            (None, _) => None,
        };
        request.regex = outputs.regex.or_else(|| outputs.choice.map(|all| one_of(&all)));
        request.lark = outputs.grammar;
        Ok(request)
    }

    /// The grammar, by the one name that a request gives it.
    fn structured_outputs(&mut self) -> Result<StructuredOutputs, ApiError> {
        let allowed = "an object with one of json, regex, choice, grammar and json_object";
        let mut outputs = self.take::<StructuredOutputs>("structured_outputs", allowed)?;
        for (field, key) in [
            ("guided_json", "json"),
            ("guided_regex", "regex"),
            ("guided_choice", "choice"),
            ("guided_grammar", "grammar"),
        ] {
            if let Some(value) = self.take::<Value>(field, "")? {
                let own = json!({ key: value });
                let own =
                    serde_json::from_value(own).map_err(|_| refused(field, &value, allowed))?;
                outputs = Some(outputs.map_or(Ok(own), |_| Err(two(field)))?);
            }
        }
        if let Some(format) = self.take::<Value>("response_format", "")?
            && let Some(own) = of_format(&format)?
        {
            outputs = Some(outputs.map_or(Ok(own), |_| Err(two("response_format")))?);
        }
        let outputs = outputs.unwrap_or_default();
        match &outputs.choice {
            Some(all) if all.is_empty() || all.len() > MOST_CHOICES => {
                Err(refused("choice", &json!(all), "a list of 1 to 1024 strings"))
            }
            _ => Ok(outputs),
        }
    }
}

fn two(field: &str) -> ApiError {
    ApiError::bad(format!("\"{field}\" and another field both state a grammar: leave one out"))
}

/// OpenAI's `response_format`; none for text.
fn of_format(format: &Value) -> Result<Option<StructuredOutputs>, ApiError> {
    let allowed = "{\"type\": \"text\"}, {\"type\": \"json_object\"}, or {\"type\": \"json_schema\", \
                   \"json_schema\": {\"schema\": …}}";
    let schema = &format["json_schema"]["schema"];
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_object") => {
            Ok(Some(StructuredOutputs { json_object: Some(true), ..StructuredOutputs::default() }))
        }
        Some("json_schema") if schema.is_object() => {
            let json = Some(schema.clone());
            Ok(Some(StructuredOutputs { json, ..StructuredOutputs::default() }))
        }
        _ => Err(refused("response_format", format, allowed)),
    }
}

/// A regular expression for one of several texts.
fn one_of(texts: &[String]) -> String {
    let escaped = texts.iter().map(|text| regex::escape(text)).collect::<Vec<_>>();
    escaped.join("|")
}

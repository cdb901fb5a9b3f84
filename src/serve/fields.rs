//! The fields of a request: each is taken once, and what is left is unknown.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::ServeLimits;
use super::api_error::ApiError;
use super::job::CompletionOptions;
use crate::core::params::Value as Setting;
use crate::core::sampling::{PROCESSORS, SamplingParams};

/// The fields that have not been taken yet.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

/// Fields that change nothing here, with any value.
const IGNORED: [&str; 8] = [
    "cache_prompt",
    "cache_salt",
    "metadata",
    "request_id",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
];

/// Fields that are allowed with the one value that changes nothing.
const NEUTRAL: [(&str, &str); 15] = [
    ("add_generation_prompt", "true"),
    ("add_special_tokens", "true"),
    ("best_of", "1"),
    ("chat_template_kwargs", "{}"),
    ("continue_final_message", "false"),
    ("detokenize", "true"),
    ("length_penalty", "1.0"),
    ("parallel_tool_calls", "true"),
    ("priority", "0"),
    ("skip_special_tokens", "true"),
    ("spaces_between_special_tokens", "true"),
    ("suffix", "\"\""),
    ("tool_choice", "\"none\""),
    ("tools", "[]"),
    ("use_beam_search", "false"),
];

const MOST_COMPLETIONS: usize = 128;

/// The most stop strings, and the most bytes of one.
const MOST_STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;

impl Fields {
    /// Those of a body.
    pub(super) fn of(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(ApiError::bad("the body is no JSON object")),
            Err(error) => Err(ApiError::bad(format!("the body is not JSON: {error}"))),
        }
    }

    /// Takes a field; null is none.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        name: &str,
        allowed: &str,
    ) -> Result<Option<T>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let found = serde_json::from_value(value.clone());
                found.map(Some).map_err(|_| refused(name, &value, allowed))
            }
        }
    }

    /// Takes a count up to `most`.
    pub(super) fn count(&mut self, name: &str, most: usize) -> Result<Option<usize>, ApiError> {
        let allowed = format!("a whole number from 0 to {most}");
        let count = self.take::<usize>(name, &allowed)?;
        match count.filter(|&count| count > most) {
            Some(count) => Err(refused(name, &count.into(), &allowed)),
            None => Ok(count),
        }
    }

    /// Takes a number of log-probabilities; −1 stands for the whole vocabulary, as in vLLM.
    pub(super) fn logprobs(
        &mut self,
        name: &str,
        limits: &ServeLimits,
    ) -> Result<Option<usize>, ApiError> {
        let whole = limits.logprobs >= limits.vocab;
        match self.0.get(name).and_then(Value::as_i64) {
            Some(-1) if whole => {
                self.0.remove(name);
                Ok(Some(limits.vocab))
            }
            _ => self.count(name, limits.logprobs),
        }
    }

    /// Takes a yes or no; no if there is none.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        Ok(self.take(name, "true or false")?.unwrap_or_default())
    }

    fn sampling(&mut self) -> Result<SamplingParams, ApiError> {
        let mut sampling = SamplingParams::NEUTRAL;
        for setting in PROCESSORS.iter().map(|processor| &processor.setting) {
            let Some(number) = self.take::<serde_json::Number>(setting.key, "a number")? else {
                continue;
            };
            // Several clients write −1 for no limit.
            let unlimited = setting.key == "top_k" && number.as_f64() == Some(-1.0);
            let text = if unlimited { "0".to_owned() } else { number.to_string() };
            let Ok(value) = text.parse::<Setting>();
            let value = setting.check(&value).map_err(ApiError::bad)?;
            sampling = sampling.with(setting.key, &value);
        }
        sampling.validate().map_err(ApiError::bad)?;
        Ok(sampling)
    }

    fn stops(&mut self) -> Result<Vec<String>, ApiError> {
        let allowed = "a string, or a list of up to 16, of 1 to 1024 bytes each";
        let stops = match self.take::<Value>("stop", allowed)? {
            None => Vec::new(),
            Some(Value::String(stop)) => vec![stop],
            Some(list) => serde_json::from_value::<Vec<String>>(list.clone())
                .map_err(|_| refused("stop", &list, allowed))?,
        };
        let fits = |stop: &String| (1..=LONGEST_STOP).contains(&stop.len());
        if stops.len() > MOST_STOPS || !stops.iter().all(fits) {
            return Err(refused("stop", &stops.into(), allowed));
        }
        Ok(stops)
    }

    /// How completions are generated, as far as both kinds of requests have the same fields.
    pub(super) fn options(&mut self, limits: &ServeLimits) -> Result<CompletionOptions, ApiError> {
        let seed = self.take::<i64>("seed", "a whole number of 64 bits")?;
        Ok(CompletionOptions {
            sampling: self.sampling()?,
            max_tokens: None,
            default_tokens: limits.tokens.unwrap_or(usize::MAX),
            seed: seed.map_or_else(any_seed, i64::cast_unsigned),
            stop: self.stops()?,
            keeps_stop: self.flag("include_stop_str_in_output")?,
            controls: self.controls()?,
            ignore_eos: self.flag("ignore_eos")?,
            logprobs: None,
            prompt_logprobs: self.logprobs("prompt_logprobs", limits)?,
        })
    }

    /// The number of completions of each prompt.
    pub(super) fn n(&mut self) -> Result<usize, ApiError> {
        match self.count("n", MOST_COMPLETIONS)? {
            Some(0) => Err(refused("n", &0.into(), "a whole number from 1 to 128")),
            n => Ok(n.unwrap_or(1)),
        }
    }

    /// Checks that no field is left that would be ignored.
    pub(super) fn end(mut self) -> Result<(), ApiError> {
        self.0.retain(|name, value| !IGNORED.contains(&name.as_str()) && !value.is_null());
        for (name, neutral) in NEUTRAL {
            let same =
                |value: &Value| serde_json::from_str::<Value>(neutral).is_ok_and(|n| n == *value);
            if let Some(value) = self.0.remove(name).filter(|value| !same(value)) {
                return Err(refused(name, &value, neutral));
            }
        }
        match self.0.keys().next() {
            Some(name) => Err(ApiError::bad(format!("\"{name}\" is not known here"))),
            None => Ok(()),
        }
    }
}

/// A field has a value that it cannot have.
pub(super) fn refused(name: &str, value: &Value, allowed: &str) -> ApiError {
    let value = crate::io::shown::line(&value.to_string());
    let value = value.chars().take(80).collect::<String>();
    ApiError::bad(format!("\"{name}\" is {value}: allowed is {allowed}"))
}

/// A seed for a request that has none.
fn any_seed() -> u64 {
    use rand::TryRng;
    // Below 2^63, so that the seed in the response can be sent back.
    rand::rngs::SysRng.try_next_u64().unwrap_or_default() >> 1
}

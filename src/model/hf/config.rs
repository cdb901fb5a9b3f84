//! `config.json` and `generation_config.json` of a Hugging Face folder.

use serde::Deserialize;

use super::files::Text;
use crate::distribution::Token;
use crate::error::Error;
use crate::model::llama::{Config, Rope, Scaling};

/// The supported values of `model_type`.
const MODEL_TYPES: &[&str] = &["llama"];
/// The supported values of `rope_type`.
const ROPE_TYPES: &str = "default, linear, llama3";

/// The keys of `config.json` that affect the computation, with the defaults of Hugging
/// Face's Llama configuration. Other keys are ignored.
#[derive(Debug, Deserialize)]
struct RawConfig {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    #[serde(default = "default_positions")]
    max_position_embeddings: usize,
    #[serde(default = "default_eps")]
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    /// The older spelling …
    rope_scaling: Option<RawRope>,
    /// … and the newer one, which holds the base as well.
    rope_parameters: Option<RawRope>,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default = "default_act")]
    hidden_act: String,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    quantization_config: Option<serde::de::IgnoredAny>,
}

/// Tokens that begin and end texts, in either file.
#[derive(Debug, Default, Deserialize)]
struct RawMarks {
    bos_token_id: Option<Ids>,
    eos_token_id: Option<Ids>,
}

/// The tokens that begin and end texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// The token that an empty text starts with.
    pub(super) begin: Option<Token>,
    /// The tokens that end a text.
    pub(super) end: Vec<Token>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawRope {
    rope_type: Option<String>,
    /// The older key; files may have both.
    #[serde(rename = "type")]
    older_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// One token or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a token (a whole number >= 0) or a list of them")]
enum Ids {
    One(Token),
    Many(Vec<Token>),
}

fn default_positions() -> usize {
    2048
}

fn default_eps() -> f64 {
    1e-6
}

fn default_act() -> String {
    "silu".to_owned()
}

/// Reads `config.json`: the decoder's shape, and the tokens that begin and end a text,
/// unless `generation`, the content of `generation_config.json`, gives these.
///
/// # Errors
/// One sentence that names the file and the value at fault.
pub(super) fn read_config(
    text: &Text,
    generation: Option<&Text>,
) -> Result<(Config, Marks), Error> {
    #[derive(Deserialize)]
    struct ModelType {
        model_type: Option<String>,
    }
    let kind = text.json::<ModelType>()?.model_type;
    if !kind.as_deref().is_some_and(|k| MODEL_TYPES.contains(&k)) {
        let found = kind.map_or("none".to_owned(), |k| format!("\"{k}\""));
        let supported = MODEL_TYPES.join(", ");
        return Err(text.fault(format!("model_type is {found}; supported are: {supported}")));
    }
    let config = shape(text, &text.json()?)?;
    let said = generation.map(Text::json::<RawMarks>).transpose()?.unwrap_or_default();
    let other = text.json::<RawMarks>()?;
    let ids = |said: Option<Ids>, other| said.or(other).map_or_else(Vec::new, Ids::into_vec);
    let begin = ids(said.bos_token_id, other.bos_token_id).first().copied();
    Ok((config, Marks { begin, end: ids(said.eos_token_id, other.eos_token_id) }))
}

impl Marks {
    /// The marks that exist: some checkpoints name padding rows, which are never
    /// sampled.
    pub(super) fn below(mut self, vocab: usize) -> Self {
        self.end.retain(|&token| (token as usize) < vocab);
        let begin = self.begin.filter(|&token| (token as usize) < vocab);
        Self { begin, ..self }
    }
}

fn shape(text: &Text, raw: &RawConfig) -> Result<Config, Error> {
    let check = |ok: bool, what: String| if ok { Ok(()) } else { Err(text.fault(what)) };
    let act = &raw.hidden_act;
    check(act == "silu", format!("hidden_act \"{act}\" is not supported, only \"silu\""))?;
    check(!raw.attention_bias, "attention_bias = true is not supported".to_owned())?;
    check(!raw.mlp_bias, "mlp_bias = true is not supported".to_owned())?;
    check(
        raw.quantization_config.is_none(),
        "quantised checkpoints (quantization_config) are not supported".to_owned(),
    )?;
    for (key, value) in [
        ("hidden_size", raw.hidden_size),
        ("intermediate_size", raw.intermediate_size),
        ("num_hidden_layers", raw.num_hidden_layers),
        ("num_attention_heads", raw.num_attention_heads),
        ("max_position_embeddings", raw.max_position_embeddings),
        ("vocab_size", raw.vocab_size),
    ] {
        // The upper bound is far above any real model; it keeps products of two sizes
        // within a machine word.
        let most = 1 << 30;
        let what = format!("{key} is {value}, which is out of range: 1 to {most}");
        check((1..=most).contains(&value), what)?;
    }
    let heads = raw.num_attention_heads;
    let kv_heads = raw.num_key_value_heads.unwrap_or(heads);
    check(
        (1..=heads).contains(&kv_heads) && heads.is_multiple_of(kv_heads),
        format!("num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}"),
    )?;
    let hidden = raw.hidden_size;
    check(
        raw.head_dim.is_some() || hidden.is_multiple_of(heads),
        format!("hidden_size {hidden} is not a multiple of num_attention_heads {heads}"),
    )?;
    let head_dim = raw.head_dim.unwrap_or(hidden / heads);
    check(
        (2..=1 << 20).contains(&head_dim) && head_dim.is_multiple_of(2),
        format!("head_dim {head_dim} is not an even number from 2 to 1048576"),
    )?;
    check(
        raw.rms_norm_eps.is_finite() && raw.rms_norm_eps >= 0.0,
        format!("rms_norm_eps {} is not a number >= 0", raw.rms_norm_eps),
    )?;
    Ok(Config {
        hidden,
        intermediate: raw.intermediate_size,
        layers: raw.num_hidden_layers,
        heads,
        kv_heads,
        head_dim,
        norm_eps: raw.rms_norm_eps as f32,
        rope: rope(text, raw)?,
        positions: raw.max_position_embeddings,
        vocab_rows: raw.vocab_size,
        tied: raw.tie_word_embeddings,
    })
}

fn rope(text: &Text, raw: &RawConfig) -> Result<Rope, Error> {
    let given = raw.rope_parameters.as_ref().or(raw.rope_scaling.as_ref());
    let theta = given.and_then(|r| r.rope_theta).or(raw.rope_theta).unwrap_or(10_000.0);
    let positive = |key: &str, value: Option<f64>| match value {
        Some(v) if v.is_finite() && v > 0.0 => Ok(v),
        Some(v) => Err(text.fault(format!("{key} is {v}, but must be a number > 0"))),
        None => Err(text.fault(format!("the rotary embedding lacks {key}"))),
    };
    let theta = positive("rope_theta", Some(theta))?;
    let Some(given) = given else { return Ok(Rope { theta, scaling: Scaling::Default }) };
    if given.partial_rotary_factor.is_some_and(|f| f != 1.0) {
        return Err(text.fault("partial_rotary_factor is not supported"));
    }
    let scaling = match given.rope_type.as_deref().or(given.older_type.as_deref()) {
        None if given.factor.is_none() => Scaling::Default,
        Some("default") => Scaling::Default,
        Some("linear") => Scaling::Linear { factor: positive("factor", given.factor)? },
        Some("llama3") => Scaling::Llama3 {
            factor: positive("factor", given.factor)?,
            low: positive("low_freq_factor", given.low_freq_factor)?,
            high: positive("high_freq_factor", given.high_freq_factor)?,
            original: positive(
                "original_max_position_embeddings",
                given.original_max_position_embeddings,
            )?,
        },
        other => {
            let found = other.map_or("missing".to_owned(), |t| format!("\"{t}\""));
            return Err(text.fault(format!("rope_type is {found}; supported are: {ROPE_TYPES}")));
        }
    };
    if let Scaling::Llama3 { low, high, .. } = scaling
        && low >= high
    {
        return Err(text.fault("low_freq_factor must be less than high_freq_factor"));
    }
    Ok(Rope { theta, scaling })
}

impl Ids {
    fn into_vec(self) -> Vec<Token> {
        match self {
            Ids::One(id) => vec![id],
            Ids::Many(ids) => ids,
        }
    }
}

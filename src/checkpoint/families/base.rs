//! What most families have in common: the shape, and plain switches.

use super::keys::ConfigKeys;
use super::rope::{self, Basis};
use crate::core::error::Error;
use crate::engine::decoder::{Activation, Biases, Config, HeadSizes, LayerKind, TensorNames};

/// The most layers: the list of layers is made before the weights confirm their number.
pub(super) const MOST_LAYERS: usize = 1 << 12;

/// What a key that is absent means; families differ in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defaults {
    /// `max_position_embeddings`.
    pub positions: usize,
    /// `rms_norm_eps`.
    pub norm_eps: f64,
    /// `rope_theta`.
    pub theta: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
    /// `vocab_size`; must be there if absent.
    pub vocab: Option<usize>,
    /// `num_attention_heads`; must be there if absent.
    pub heads: Option<usize>,
    /// `num_key_value_heads`; as many as query heads if absent.
    pub kv_heads: Option<usize>,
    /// `head_dim`; `hidden_size / num_attention_heads` if absent.
    pub head_dim: Option<usize>,
    /// Whether `partial_rotary_factor` may be below 1.
    pub partial: bool,
    /// `original_max_position_embeddings`.
    pub original: Option<f64>,
    /// The key of the activation, and its value.
    pub activation: (&'static str, Activation),
}

/// The activations by their names in configurations.
pub(super) const ACTIVATIONS: &[(&str, Activation)] = &[
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
];

impl Defaults {
    /// Those of Llama.
    pub(super) const LLAMA: Self = Self {
        positions: 2048,
        norm_eps: 1e-6,
        theta: 10_000.0,
        tied: false,
        vocab: None,
        heads: None,
        kv_heads: None,
        head_dim: None,
        partial: false,
        original: None,
        activation: ("hidden_act", Activation::Silu),
    };
}

/// A decoder with norms before attention and feed-forward blocks, without biases and
/// windows, and with one rotary embedding for all layers.
pub(super) fn base(keys: &ConfigKeys<'_>, defaults: &Defaults) -> Result<Config, Error> {
    let size = |key| keys.required(key, keys.size(key)?);
    let queries = keys.size("num_attention_heads")?.or(defaults.heads);
    let queries = keys.required("num_attention_heads", queries)?;
    let kv_heads = keys.size("num_key_value_heads")?.or(defaults.kv_heads).unwrap_or(queries);
    let hidden = size("hidden_size")?;
    let head_dim = head_dim(keys, defaults, [hidden, queries])?;
    let heads = HeadSizes { queries, keys: kv_heads, width: head_dim };
    check_heads(keys, heads)?;
    let layers = keys.size_up_to(MOST_LAYERS, "num_hidden_layers")?;
    let layers = keys.required("num_hidden_layers", layers)?;
    let basis = basis(keys, defaults, head_dim)?;
    let rope = rope::shared(keys, basis)?;
    let (key, activation) = defaults.activation;
    Ok(Config {
        model_type: String::new(),
        hidden,
        intermediate: size("intermediate_size")?,
        experts: None,
        heads,
        layers: vec![LayerKind::PLAIN; layers],
        per_layer: None,
        layer_scalars: false,
        positions: basis.positions.min(rope.positions.unwrap_or(usize::MAX)),
        ropes: vec![rope],
        names: TensorNames::LLAMA,
        norm_eps: keys.not_negative("rms_norm_eps")?.unwrap_or(defaults.norm_eps) as f32,
        layer_norms: false,
        norm_offset: 0.0,
        head_norms: None,
        value_norms: false,
        biases: Biases::default(),
        activation: keys.choice(key, ACTIVATIONS)?.unwrap_or(activation),
        embedding_scale: 1.0,
        attention_scale: (1.0 / (head_dim as f64).sqrt()) as f32,
        value_scale: 1.0,
        attention_softcap: None,
        logit_scale: 1.0,
        final_softcap: None,
        vocab_rows: keys.size("vocab_size")?.or(defaults.vocab).unwrap_or(0),
        tied: keys.flag("tie_word_embeddings")?.unwrap_or(defaults.tied),
        learned_positions: false,
        gated: true,
    })
}

/// What a configuration says about rotary embeddings outside of their tables.
pub(super) fn basis(
    keys: &ConfigKeys<'_>,
    defaults: &Defaults,
    head_dim: usize,
) -> Result<Basis, Error> {
    Ok(Basis {
        theta: keys.positive("rope_theta")?.unwrap_or(defaults.theta),
        part: keys.positive("partial_rotary_factor")?.unwrap_or(1.0),
        partial: defaults.partial,
        head_dim,
        positions: keys.size("max_position_embeddings")?.unwrap_or(defaults.positions),
        original: keys.positive("original_max_position_embeddings")?.or(defaults.original),
    })
}

fn head_dim(
    keys: &ConfigKeys<'_>,
    defaults: &Defaults,
    [hidden, heads]: [usize; 2],
) -> Result<usize, Error> {
    let given = keys.size("head_dim")?.or(defaults.head_dim);
    if given.is_none() && !hidden.is_multiple_of(heads) {
        let what = format!("hidden_size {hidden} is not a multiple of num_attention_heads {heads}");
        return Err(keys.fault(what));
    }
    Ok(given.unwrap_or(hidden / heads))
}

/// Checks sizes of heads.
///
/// # Errors
/// If attention cannot have them.
pub(super) fn check_heads(keys: &ConfigKeys<'_>, heads: HeadSizes) -> Result<(), Error> {
    let HeadSizes { queries, keys: kv_heads, width } = heads;
    if kv_heads > queries || !queries.is_multiple_of(kv_heads) {
        let what = "does not divide num_attention_heads";
        return Err(keys.fault(format!("num_key_value_heads {kv_heads} {what} {queries}")));
    }
    if !(2..=1 << 20).contains(&width) || !width.is_multiple_of(2) {
        let what = format!("head_dim {width} is not an even number from 2 to 1048576");
        return Err(keys.fault(what));
    }
    Ok(())
}

/// Gives some layers a window: those that `layer_types` names, or else `otherwise`.
///
/// # Errors
/// If the list names another kind of layer, or layers with a window that has no size, or if
/// it has another length.
pub(super) fn set_windows(
    keys: &ConfigKeys<'_>,
    config: &mut Config,
    window: Option<usize>,
    otherwise: impl Fn(usize) -> bool,
) -> Result<(), Error> {
    let listed = windowed_layers(keys, config.layers.len())?;
    if window.is_none() && listed.as_ref().is_some_and(|listed| listed.contains(&true)) {
        return Err(
            keys.fault("layer_types names sliding_attention, but sliding_window is missing")
        );
    }
    for (number, layer) in config.layers.iter_mut().enumerate() {
        let windowed = listed.as_ref().map_or_else(|| otherwise(number), |listed| listed[number]);
        layer.window = window.filter(|_| windowed);
    }
    Ok(())
}

/// For each layer whether `layer_types` gives it a window.
pub(in crate::checkpoint) fn windowed_layers(
    keys: &ConfigKeys<'_>,
    layers: usize,
) -> Result<Option<Vec<bool>>, Error> {
    let key = "layer_types";
    let Some(types) = keys.texts(key)? else { return Ok(None) };
    if types.len() != layers {
        let what = format!("{key} has {} entries, but num_hidden_layers is {layers}", types.len());
        return Err(keys.fault(what));
    }
    let windowed = types.iter().map(|&kind| match kind {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        other => {
            let allowed = "full_attention, sliding_attention";
            Err(keys.fault(format!("{key} names \"{other}\"; supported are: {allowed}")))
        }
    });
    windowed.collect::<Result<_, _>>().map(Some)
}

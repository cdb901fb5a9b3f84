//! The switches of the decoder. A family of models is a setting of them.

use super::experts::Experts;
use super::layer::{HeadSizes, KeySource, LayerInput, LayerKind, PerLayerInputs};
use super::names::TensorNames;
use super::rope::{Rope, Rotation};
use crate::model::CacheDtype;

/// The shape of a decoder, and what it computes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// Its family, by the name in configurations.
    pub model_type: String,
    /// Width of the hidden states.
    pub hidden: usize,
    /// Width of the feed-forward blocks that are not sparse.
    pub intermediate: usize,
    /// What the sparse feed-forward blocks consist of.
    pub experts: Option<Experts>,
    /// The heads of layers that have none of their own.
    pub heads: HeadSizes,
    /// The layers.
    pub layers: Vec<LayerKind>,
    /// What layers read next to the hidden state.
    pub per_layer: Option<PerLayerInputs>,
    /// Whether every layer multiplies its output by a number.
    pub layer_scalars: bool,
    /// The rotary embeddings that layers choose from.
    pub ropes: Vec<Rope>,
    /// The names of the tensors, which also say where norms are.
    pub names: TensorNames,
    /// Whether norms subtract the mean and add a bias (LayerNorm, Ba et al. 2016,
    /// arXiv 1607.06450). If not, they divide by the root of the mean square alone.
    pub layer_norms: bool,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Added to the weights of norms.
    pub norm_offset: f32,
    /// The norms of queries and keys, before they are rotated.
    pub head_norms: Option<HeadNorms>,
    /// Whether the values of every head are divided by the root of their mean square.
    pub value_norms: bool,
    /// Which products add a bias.
    pub biases: Biases,
    /// The activation of the feed-forward blocks.
    pub activation: Activation,
    /// Multiplies the embedding of a token.
    pub embedding_scale: f32,
    /// Multiplies the products of queries and keys.
    pub attention_scale: f32,
    /// Multiplies values.
    pub value_scale: f32,
    /// Attention scores s become c · tanh(s / c).
    pub attention_softcap: Option<f32>,
    /// Multiplies logits.
    pub logit_scale: f32,
    /// Logits become c · tanh(logit / c).
    pub final_softcap: Option<f32>,
    /// The largest number of positions.
    pub positions: usize,
    /// Rows of embedding and head, padding included.
    pub vocab_rows: usize,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether each position has a row of a table that is added to the token's embedding.
    pub learned_positions: bool,
    /// Whether feed-forward blocks have a gate. If not, the activation is that of the product.
    pub gated: bool,
}

/// Norms of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadNorms {
    /// Of every head, with the same weights.
    Each,
    /// Of all query heads together, and of all key heads together.
    Together,
}

/// Which products add a bias.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// The output of attention.
    pub output: bool,
    /// The products of a feed-forward block that is not sparse.
    pub mlp: bool,
    /// The router, and the products of experts.
    pub experts: bool,
}

/// An activation of feed-forward blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// The approximation of GELU by tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415).
    GeluTanh,
    /// x · sigmoid(α x) of the gate up to a limit, times one more than the other product, which stays
    /// within the limit (OpenAI 2025, arXiv 2508.10925).
    Clamped { alpha: f32, limit: f32 },
}

/// The products of a layer with weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Queries, keys and values.
    Qkv,
    /// The output of attention.
    Output,
    /// From the hidden state to the logits of the experts.
    Router,
    /// Gate and up projection of a feed-forward block.
    GateUp(Mlp),
    /// The output of a feed-forward block.
    Down(Mlp),
    /// The gate of the layer's own input.
    InputGate,
    /// From that input to the hidden state.
    InputOutput,
}

/// A feed-forward block of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mlp {
    /// Its only one.
    Dense,
    /// An expert of a sparse one.
    Expert(usize),
}

impl Mlp {
    /// Its products.
    pub(super) fn products(self) -> [Product; 2] {
        [Product::GateUp(self), Product::Down(self)]
    }
}

/// The first position that a token attends to, if it and the tokens before it are `seen`
/// in all.
pub(crate) fn visible_from(window: Option<usize>, seen: usize) -> usize {
    window.map_or(0, |window| seen.saturating_sub(window))
}

impl Config {
    /// The heads of a layer.
    pub(crate) fn heads_of(&self, layer: usize) -> HeadSizes {
        self.layers[layer].own_heads.unwrap_or(self.heads)
    }

    /// The layer whose keys and values a layer attends to.
    pub(crate) fn cached(&self, layer: usize) -> usize {
        match self.layers[layer].keys {
            KeySource::Layer(below) => below,
            KeySource::Own | KeySource::Joint => layer,
        }
    }

    /// Whether a layer has keys and values of its own.
    pub(crate) fn stores_keys(&self, layer: usize) -> bool {
        self.cached(layer) == layer
    }

    /// The last of some layers that stores keys and values, or else the first of them.
    pub(crate) fn last_stored(&self, layers: std::ops::Range<usize>) -> usize {
        let first = layers.start;
        layers.rev().find(|&layer| self.stores_keys(layer)).unwrap_or(first)
    }

    /// Width of queries, keys and values side by side, as many of them as a layer has.
    pub(crate) fn qkv_width(&self, layer: usize) -> usize {
        let heads = self.heads_of(layer);
        heads.query_width() + if self.stores_keys(layer) { 2 * heads.key_width() } else { 0 }
    }

    /// The largest of the numbers that layers have.
    pub(crate) fn most(&self, of: impl Fn(usize) -> usize) -> usize {
        (0..self.layers.len()).map(of).max().unwrap_or(0)
    }

    /// The products of a layer with at most `experts` experts.
    pub(crate) fn products(
        &self,
        layer: usize,
        experts: usize,
    ) -> impl Iterator<Item = Product> + use<> {
        let sparse = self.layers[layer].sparse;
        let count = self.experts.map_or(0, |all| all.count.min(experts));
        let experts = (0..count).filter(move |_| sparse).map(Mlp::Expert);
        let blocks = (!sparse).then_some(Mlp::Dense).into_iter().chain(experts);
        let router = sparse.then_some(Product::Router);
        let first = [Product::Qkv, Product::Output].into_iter().chain(router);
        let input = self.per_layer.map(|_| [Product::InputGate, Product::InputOutput]);
        first.chain(blocks.flat_map(Mlp::products)).chain(input.into_iter().flatten())
    }

    /// Number of experts that a row uses.
    pub(crate) fn experts_per_row(&self) -> usize {
        self.experts.map_or(0, |experts| experts.used)
    }

    /// Width of a feed-forward block of a layer.
    pub(crate) fn inner(&self, layer: usize, block: Mlp) -> usize {
        match block {
            Mlp::Dense => self.intermediate * self.layers[layer].widening,
            Mlp::Expert(_) => self.experts.map_or(0, |experts| experts.intermediate),
        }
    }

    /// Width of what the products of a layer that are not sparse have between them.
    pub(crate) fn inner_width(&self, layer: usize) -> usize {
        let input = self.per_layer.map_or(0, |inputs| inputs.width);
        self.inner(layer, Mlp::Dense).max(input)
    }

    /// Outputs and inputs of a product of a layer.
    pub(crate) fn size(&self, layer: usize, product: Product) -> [usize; 2] {
        let LayerKind { input, keys, .. } = self.layers[layer];
        let states = if input == LayerInput::SideBySide { 2 } else { 1 };
        let heads = self.heads_of(layer);
        let per_layer = self.per_layer.map_or(0, |inputs| inputs.width);
        match product {
            Product::Qkv => {
                let outputs = heads.query_width() + keys.products() * heads.key_width();
                [outputs, states * self.hidden]
            }
            Product::Output => [self.hidden, heads.query_width()],
            Product::Router => [self.experts.map_or(0, |experts| experts.count), self.hidden],
            Product::GateUp(block) => {
                [self.inner(layer, block) * if self.gated { 2 } else { 1 }, self.hidden]
            }
            Product::Down(block) => [self.hidden, self.inner(layer, block)],
            Product::InputGate => [per_layer, self.hidden],
            Product::InputOutput => [self.hidden, per_layer],
        }
    }

    /// What the products of a layer's queries and keys are multiplied by.
    pub(crate) fn attention_scale(&self, layer: usize) -> f32 {
        self.attention_scale / self.layers[layer].divisor as f32
    }

    /// Whether a product adds a bias.
    pub(super) fn has_bias(&self, product: Product) -> bool {
        match product {
            Product::Qkv => self.biases.qkv,
            Product::Output => self.biases.output,
            Product::GateUp(Mlp::Dense) | Product::Down(Mlp::Dense) => self.biases.mlp,
            Product::Router | Product::GateUp(_) | Product::Down(_) => self.biases.experts,
            Product::InputGate | Product::InputOutput => false,
        }
    }

    /// Bytes of the keys and values of a token.
    pub(crate) fn cache_bytes(&self, dtype: CacheDtype) -> usize {
        let stored = (0..self.layers.len()).filter(|&layer| self.stores_keys(layer));
        let heads = stored.map(|layer| self.heads_of(layer));
        heads.map(|HeadSizes { keys, width, .. }| 2 * keys * dtype.row_bytes(width)).sum()
    }

    /// Whether norms come between attention or feed-forward blocks and what they add to.
    pub(crate) fn norms_branches(&self) -> bool {
        let [_, after_attention, _, after_mlp] = self.names.norms;
        after_attention.is_some() || after_mlp.is_some()
    }

    /// What the rotary embeddings rotate by.
    pub(crate) fn rotations(&self) -> Vec<Rotation> {
        self.ropes.iter().map(Rope::rotation).collect()
    }

    /// Number of weights that a row is multiplied by: in the projections of all layers and to their
    /// inputs, of experts as many as it uses, and in the head.
    pub(crate) fn matrix_weights(&self, vocab: usize) -> usize {
        let weights = |(layer, product)| self.size(layer, product).iter().product::<usize>();
        let products = self.all_products(self.experts_per_row());
        products.map(weights).sum::<usize>() + (vocab + self.per_layer_width()) * self.hidden
    }

    /// The products of all layers with at most `experts` experts each.
    pub(crate) fn all_products(&self, experts: usize) -> impl Iterator<Item = (usize, Product)> {
        let of = move |layer| self.products(layer, experts).map(move |product| (layer, product));
        (0..self.layers.len()).flat_map(of)
    }
}

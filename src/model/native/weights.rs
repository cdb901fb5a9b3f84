//! The weights of a model, packed.

use super::matrix::Matrix;
use super::memory::{Builder, Memory};
use crate::error::Error;
use crate::lanes::{IsaKind, LANES};
use crate::model::Dtype;
use crate::model::decoder::{Config, LayerTensors, NormPlace, Product, Rotation, Tensors};

/// All weights.
#[derive(Debug)]
pub(super) struct ModelWeights {
    pub memory: Memory,
    pub layers: Vec<LayerWeights>,
    pub norm: Vec<f32>,
    /// From a hidden state to the logits of the real vocabulary; in a tied model also
    /// the embedding.
    pub head: Linear,
    /// One output per token; absent in a tied model.
    embedding: Option<Matrix>,
    /// Multiplies an embedding.
    scale: f32,
    /// What the rotary embeddings rotate by.
    pub rotations: Vec<Rotation>,
}

/// Weights of a layer.
#[derive(Debug)]
pub(super) struct LayerWeights {
    pub norms: NormWeights,
    /// The norms of queries and of keys.
    pub head_norms: Option<[Vec<f32>; 2]>,
    /// Query, key and value heads.
    pub qkv: Linear,
    pub output: Linear,
    /// Alternating tiles of the gate and the up projection.
    pub gate_up: Linear,
    pub down: Linear,
}

/// The weights of the norms that a layer has.
#[derive(Debug)]
pub(super) struct NormWeights {
    pub before_attention: Option<Vec<f32>>,
    pub after_attention: Option<Vec<f32>>,
    pub before_mlp: Option<Vec<f32>>,
    pub after_mlp: Option<Vec<f32>>,
}

/// A product with weights, and what is added to it.
#[derive(Debug)]
pub(super) struct Linear {
    pub matrix: Matrix,
    /// Tile by tile, padded with zeros.
    pub bias: Option<Vec<[f32; LANES]>>,
}

/// How weights are packed.
type Packing = (IsaKind, Dtype);

impl ModelWeights {
    pub(super) fn load(
        config: &Config,
        vocab: usize,
        packing: Packing,
        tensors: &dyn Tensors,
    ) -> Result<Self, Error> {
        let tensors: &dyn Tensors = &Checked { tensors, dtype: packing.1 };
        let mut memory = Builder::new(bytes(config, vocab, packing.1))?;
        let norm = config.read_last_norm(tensors)?;
        // The tables are packed first, while the memory for the layers is still
        // untouched. The peak is then little more than the larger of two sizes: all
        // packed weights, or the packed tables plus one table in f32.
        let mut table = |(name, shape): (String, Vec<usize>)| {
            let rows = tensors.get(&name, &shape)?;
            let rows = &rows_of(&rows, config.hidden)[..vocab];
            Ok::<_, Error>(Matrix::pack(&mut memory, rows, config.hidden, packing))
        };
        let embedding = table(config.embedding())?;
        let (head, embedding) = match config.tied {
            true => (embedding, None),
            false => (table(config.head())?, Some(embedding)),
        };
        let head = Linear { matrix: head, bias: None };
        let layers = (0..config.layers.len()).map(|index| {
            LayerWeights::load(LayerTensors { config, index, tensors }, packing, &mut memory)
        });
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let (rotations, scale) = (config.rotations(), config.embedding_scale);
        Ok(Self { memory: memory.finish()?, layers, norm, head, embedding, scale, rotations })
    }

    /// Writes the embedding of a token to `row`.
    pub(super) fn embed(&self, token: usize, row: &mut [f32]) {
        self.embedding.as_ref().unwrap_or(&self.head.matrix).unpack(&self.memory, token, row);
        row.iter_mut().for_each(|x| *x *= self.scale);
    }
}

impl LayerWeights {
    fn load(
        tensors: LayerTensors<'_>,
        packing: Packing,
        memory: &mut Builder,
    ) -> Result<Self, Error> {
        let mut linear = |product| Linear::load(tensors, product, packing, memory);
        Ok(Self {
            qkv: linear(Product::Qkv)?,
            output: linear(Product::Output)?,
            gate_up: linear(Product::GateUp)?,
            down: linear(Product::Down)?,
            norms: NormWeights {
                before_attention: tensors.norm(NormPlace::BeforeAttention)?,
                after_attention: tensors.norm(NormPlace::AfterAttention)?,
                before_mlp: tensors.norm(NormPlace::BeforeMlp)?,
                after_mlp: tensors.norm(NormPlace::AfterMlp)?,
            },
            head_norms: tensors.head_norms()?,
        })
    }
}

impl Linear {
    /// Packs the weights of a product; they are freed before the next ones are read.
    fn load(
        tensors: LayerTensors<'_>,
        product: Product,
        packing: Packing,
        memory: &mut Builder,
    ) -> Result<Self, Error> {
        let [_, inputs] = tensors.config.size(product);
        let weights = tensors.weights(product)?;
        let bias = tensors.bias(product)?;
        let (mut rows, nothing) = (rows_of(&weights, inputs), vec![0.0; inputs]);
        let mut bias = bias.as_deref().map(|bias| rows_of(bias, 1));
        if product == Product::GateUp {
            rows = in_turns(&rows, &nothing);
            bias = bias.map(|bias| in_turns(&bias, &[0.0]));
        }
        let matrix = Matrix::pack(memory, &rows, inputs, packing);
        Ok(Self { matrix, bias: bias.map(|bias| in_tiles(&bias.concat())) })
    }
}

/// Tensors whose weights are finite as a type stores them.
struct Checked<'a> {
    tensors: &'a dyn Tensors,
    dtype: Dtype,
}

impl Tensors for Checked<'_> {
    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let weights = self.tensors.get(name, shape)?;
        // Only matrices are stored in another type.
        let &[_, inputs] = shape else { return Ok(weights) };
        // Magnitudes are ordered like their bits, and the comparison of these is
        // vectorised.
        let largest = weights.iter().fold(0, |most: u32, x| most.max(x.abs().to_bits()));
        let largest = f32::from_bits(largest);
        if self.dtype.stored(inputs).holds(largest) {
            return Ok(weights);
        }
        let dtype = self.dtype.name();
        Err(Error::setting(format!(
            "tensor {name} has a weight of magnitude {largest:e}, which {dtype} cannot hold: \
             choose another dtype"
        )))
    }

    fn sha256(&self) -> Result<String, Error> {
        self.tensors.sha256()
    }
}

/// The rows of a matrix.
fn rows_of(matrix: &[f32], inputs: usize) -> Vec<&[f32]> {
    matrix.chunks_exact(inputs).collect()
}

/// The two halves of some rows in alternating tiles; the last tiles are padded with
/// `nothing`.
fn in_turns<'a>(rows: &[&'a [f32]], nothing: &'a [f32]) -> Vec<&'a [f32]> {
    let (gate, up) = rows.split_at(rows.len() / 2);
    let mut rows = Vec::with_capacity(2 * gate.len().next_multiple_of(LANES));
    for parts in gate.chunks(LANES).zip(up.chunks(LANES)) {
        for part in [parts.0, parts.1] {
            rows.extend(part);
            rows.resize(rows.len().next_multiple_of(LANES), nothing);
        }
    }
    rows
}

/// Numbers in tiles, padded with zeros.
fn in_tiles(numbers: &[f32]) -> Vec<[f32; LANES]> {
    let tile = |part: &[f32]| std::array::from_fn(|i| part.get(i).copied().unwrap_or(0.0));
    numbers.chunks(LANES).map(tile).collect()
}

/// Bytes of all packed matrices.
fn bytes(config: &Config, vocab: usize, dtype: Dtype) -> usize {
    let of = |outputs, inputs| Matrix::bytes(outputs, inputs, dtype);
    let sizes = [Product::Qkv, Product::Output, Product::Down].map(|product| config.size(product));
    let gate_up = [2 * config.intermediate.next_multiple_of(LANES), config.hidden];
    let layer = sizes.iter().chain([&gate_up]).map(|&[outputs, inputs]| of(outputs, inputs));
    let tables = if config.tied { 1 } else { 2 };
    config.layers.len() * layer.sum::<usize>() + tables * of(vocab, config.hidden)
}

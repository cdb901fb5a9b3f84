//! Writes checkpoints with quantised matrices, and the same with the weights that these stand for.
//!
//! Each layout is written from a description of where the bits of a weight are, and the weights are
//! computed in f64.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::methods::Method;
use crate::checkpoint::{Checkpoint, VOCAB, tokenizer_json, write_json};
use crate::gguf_kernels::folders::e4m3;

/// A module that is not quantised.
pub(super) const PLAIN: &str = "model.layers.1.self_attn.q_proj";

/// A tensor of a file.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

/// A matrix that is quantised.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) module: &'a str,
    pub(super) weights: &'a [f32],
    pub(super) outputs: usize,
    pub(super) inputs: usize,
}

/// Tensors, and the weights that they stand for.
pub(super) type Quantised = (Vec<Stored>, Vec<f32>);

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Float {
    F32,
    F16,
    Bf16,
}

/// A checkpoint with a quantised layout, not yet written.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) config: Value,
    pub(super) tensors: Vec<Stored>,
}

impl Stored {
    pub(super) fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: &[usize],
        bytes: Vec<u8>,
    ) -> Self {
        Self { name: name.into(), dtype, shape: shape.to_vec(), bytes }
    }

    pub(super) fn words(name: String, shape: &[usize], words: &[u32]) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Self::new(name, Dtype::I32, shape, bytes)
    }

    pub(super) fn floats(name: String, shape: &[usize], float: Float, numbers: &[f32]) -> Self {
        let bytes = numbers.iter().flat_map(|&x| match float {
            Float::F32 => x.to_le_bytes().to_vec(),
            Float::F16 => half::f16::from_f32(x).to_le_bytes().to_vec(),
            Float::Bf16 => half::bf16::from_f32(x).to_le_bytes().to_vec(),
        });
        let dtype = match float {
            Float::F32 => Dtype::F32,
            Float::F16 => Dtype::F16,
            Float::Bf16 => Dtype::BF16,
        };
        Self::new(name, dtype, shape, bytes.collect())
    }
}

impl Float {
    /// The number as it is stored.
    pub(super) fn rounded(self, x: f64) -> f32 {
        match self {
            Self::F32 => x as f32,
            Self::F16 => half::f16::from_f64(x).to_f32(),
            Self::Bf16 => half::bf16::from_f64(x).to_f32(),
        }
    }
}

impl Matrix<'_> {
    pub(super) fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.module)
    }

    /// The byte of the number that is nearest to each weight, given their scales.
    pub(super) fn e4m3(&self, scale: impl Fn(usize, usize) -> f32) -> (Vec<u8>, Vec<f32>) {
        let numbers = (0..=255u8).filter(|byte| byte & 127 != 127);
        let numbers = numbers.map(|byte| (byte, e4m3(byte))).collect::<Vec<_>>();
        let nearest = |(i, weight): (usize, &f32)| {
            let scale = f64::from(scale(i / self.inputs, i % self.inputs));
            let gap = |number: f64| (number * scale - f64::from(*weight)).abs();
            let least = numbers.iter().min_by(|a, b| gap(a.1).total_cmp(&gap(b.1))).unwrap();
            (least.0, (least.1 * scale) as f32)
        };
        self.weights.iter().enumerate().map(nearest).unzip()
    }

    /// The largest magnitude in a part.
    pub(super) fn largest(&self, outputs: [usize; 2], inputs: [usize; 2]) -> f64 {
        let rows = outputs[0]..outputs[1].min(self.outputs);
        let all = rows.flat_map(|output| {
            let row = &self.weights[output * self.inputs..(output + 1) * self.inputs];
            &row[inputs[0]..inputs[1].min(self.inputs)]
        });
        all.fold(0.0, |most: f64, weight| most.max(f64::from(weight.abs())))
    }

    /// Scale and zero point of a group of inputs of an output.
    pub(super) fn range(
        &self,
        output: usize,
        inputs: [usize; 2],
        (symmetric, float): (bool, Float),
    ) -> (f32, u32) {
        let row = &self.weights[output * self.inputs..(output + 1) * self.inputs];
        let part = &row[inputs[0]..inputs[1].min(self.inputs)];
        let of = |pick: fn(f32, f32) -> f32| f64::from(part.iter().copied().fold(0.0, pick));
        let (low, high) = (of(f32::min), of(f32::max));
        if symmetric {
            return (float.rounded(high.max(-low) / 7.5), 8);
        }
        let scale = float.rounded((high - low) / 15.0);
        // Not 0, which files of the older layout of GPTQ cannot hold.
        (scale, (-low / f64::from(scale)).round().clamp(1.0, 15.0) as u32)
    }
}

/// The matrices with shapes that have whole and padded blocks, long and short groups.
pub(super) fn shape() -> Checkpoint {
    Checkpoint { hidden: 128, intermediate: 160, head_dim: 32, ..tiny() }
}

/// The smallest matrices that four bits can hold.
pub(super) fn tiny() -> Checkpoint {
    let vocab_rows = VOCAB.next_multiple_of(16);
    Checkpoint { hidden: 32, intermediate: 64, head_dim: 8, vocab_rows, ..Checkpoint::default() }
}

/// A checkpoint whose matrices are quantised, all but one, and the same with the weights that they
/// stand for.
pub(super) fn folders(checkpoint: &Checkpoint, method: &Method) -> [Folder; 2] {
    let mut tensors = checkpoint.tensors().into_iter().collect::<Vec<_>>();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let (mut quantised, mut plain) = (Vec::new(), Vec::new());
    for (name, tensor) in tensors {
        let shape = tensor.dims().to_vec();
        let weights = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let module = name.strip_suffix(".weight").unwrap();
        if !module.ends_with("_proj") || module == PLAIN {
            let tensor = Stored::floats(name, &shape, Float::F32, &weights);
            quantised.push(tensor.clone());
            plain.push(tensor);
            continue;
        }
        let (outputs, inputs) = (shape[0], shape[1]);
        let matrix = Matrix { module, weights: &weights, outputs, inputs };
        let (stored, weights) = (method.quantise)(&matrix);
        quantised.extend(stored);
        plain.push(Stored::floats(name, &shape, Float::F32, &weights));
    }
    let mut config = checkpoint.config_json();
    let without = config.clone();
    config["quantization_config"] = (method.config)();
    [Folder { config, tensors: quantised }, Folder { config: without, tensors: plain }]
}

impl Folder {
    pub(super) fn write(&self, folder: &Path) {
        write_json(&folder.join("config.json"), &self.config);
        write_json(&folder.join("tokenizer.json"), &tokenizer_json());
        let views = self.tensors.iter().map(|tensor| {
            let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes);
            (&tensor.name, view.unwrap())
        });
        let bytes = safetensors::serialize(views, None).unwrap();
        fs::write(folder.join("model.safetensors"), bytes).unwrap();
    }

    /// A tensor of the first module that is quantised.
    pub(super) fn tensor(&mut self, part: &str) -> &mut Stored {
        let name = format!("model.layers.0.mlp.down_proj.{part}");
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    /// The table of the quantisation.
    pub(super) fn keys(&mut self) -> &mut Value {
        &mut self.config["quantization_config"]
    }
}

/// The table that says so, with these keys.
pub(super) fn table(method: &str, keys: Value) -> Value {
    let mut table = json!({"quant_method": method});
    for (key, value) in keys.as_object().unwrap() {
        table[key] = value.clone();
    }
    table
}

//! The layouts of quantised matrices, as the programs that write them describe them.

use safetensors::Dtype;
use serde_json::{Value, json};

use super::folders::{Float, Matrix, PLAIN, Quantised, Stored, table};

/// A layout.
pub(super) struct Method {
    pub(super) name: &'static str,
    /// The table of the configuration.
    pub(super) config: fn() -> Value,
    pub(super) quantise: fn(&Matrix<'_>) -> Quantised,
}

/// The words of a layout: where the four bits of a weight, or of a zero point, are.
type Place = (usize, usize);

pub(super) const FP8: Method = Method {
    name: "fp8",
    config: || {
        table(
            "fp8",
            json!({"fmt": "e4m3", "weight_block_size": [128, 128],
            "activation_scheme": "dynamic", "modules_to_not_convert": [PLAIN]}),
        )
    },
    quantise: |matrix| fp8(matrix, "weight_scale_inv", [128, 128], Float::F32),
};

pub(super) const CHANNELS: Method = Method {
    name: "compressed-tensors, one scale per output",
    config: || {
        compressed(
            "float-quantized",
            json!({"num_bits": 8, "type": "float", "strategy": "channel"}),
        )
    },
    quantise: |matrix| fp8(matrix, "weight_scale", [1, usize::MAX], Float::Bf16),
};

pub(super) const PACKED: Method = Method {
    name: "compressed-tensors, four bits",
    config: || {
        compressed(
            "pack-quantized",
            json!({"num_bits": 4, "type": "int", "symmetric": false,
            "strategy": "group", "group_size": 32, "actorder": "weight"}),
        )
    },
    quantise: |matrix| {
        let mut quantised = packed(matrix, 32, (false, Float::F16));
        quantised.0.push(order(matrix, "weight_g_idx", 32));
        quantised
    },
};

pub(super) const AWQ: Method =
    Method { name: "awq", config: || awq_table(128), quantise: |matrix| awq(matrix, 128) };

pub(super) const GPTQ: Method = Method {
    name: "gptq",
    config: || {
        table(
            "gptq",
            json!({"bits": 4, "group_size": 128, "desc_act": true, "sym": true,
            "checkpoint_format": "gptq", "pack_dtype": "int32"}),
        )
    },
    quantise: |matrix| {
        let mut quantised = gptq(matrix, 128, (true, Float::F16), 1);
        quantised.0.push(order(matrix, "g_idx", 128));
        quantised
    },
};

/// All layouts.
pub(super) const METHODS: &[Method] = &[
    FP8,
    Method {
        name: "fp8, small blocks",
        config: || table("fp8", json!({"weight_block_size": [32, 128]})),
        quantise: |matrix| fp8(matrix, "weight_scale_inv", [32, 128], Float::Bf16),
    },
    Method {
        name: "fp8, one scale",
        config: || table("fp8", json!({"weight_block_size": null, "activation_scheme": "static"})),
        quantise: |matrix| {
            let (mut stored, weights) = single(matrix, "weight_scale_inv", &[], Float::F32);
            let name = matrix.name("activation_scale");
            stored.push(Stored::floats(name, &[], Float::F32, &[0.5]));
            (stored, weights)
        },
    },
    Method {
        name: "AutoFP8",
        config: || table("fp8", json!({"activation_scheme": "static", "ignored_layers": [PLAIN]})),
        quantise: |matrix| single(matrix, "weight_scale", &[1], Float::F32),
    },
    CHANNELS,
    Method {
        name: "compressed-tensors, blocks",
        config: || {
            compressed(
                "float-quantized",
                json!({"num_bits": 8, "type": "float",
                "strategy": "block", "block_structure": [128, 128]}),
            )
        },
        quantise: |matrix| fp8(matrix, "weight_scale", [128, 128], Float::Bf16),
    },
    Method {
        name: "compressed-tensors, groups",
        config: || {
            compressed(
                "float-quantized",
                json!({"num_bits": 8, "type": "float",
                "strategy": "group", "group_size": 128}),
            )
        },
        quantise: |matrix| fp8(matrix, "weight_scale", [1, 128], Float::F16),
    },
    Method {
        name: "compressed-tensors, one scale",
        config: || {
            compressed(
                "float-quantized",
                json!({"num_bits": 8, "type": "float", "strategy": "tensor"}),
            )
        },
        quantise: |matrix| single(matrix, "weight_scale", &[1], Float::Bf16),
    },
    PACKED,
    Method {
        name: "compressed-tensors, symmetric groups of 128",
        config: || {
            compressed(
                "pack-quantized",
                json!({"num_bits": 4, "type": "int", "symmetric": true,
                "strategy": "group", "group_size": 128}),
            )
        },
        quantise: |matrix| packed(matrix, 128, (true, Float::Bf16)),
    },
    Method {
        name: "compressed-tensors, rows of four bits",
        config: || {
            compressed(
                "pack-quantized",
                json!({"num_bits": 4, "type": "int", "symmetric": false,
                "strategy": "channel"}),
            )
        },
        quantise: |matrix| packed(matrix, usize::MAX, (false, Float::F32)),
    },
    AWQ,
    Method {
        name: "awq, groups of 32",
        config: || awq_table(32),
        quantise: |matrix| awq(matrix, 32),
    },
    GPTQ,
    Method {
        name: "gptq, from zero points up",
        config: || table("gptq", json!({"bits": 4, "group_size": 32, "sym": false})),
        quantise: |matrix| gptq(matrix, 32, (false, Float::F16), 1),
    },
    Method {
        name: "gptq_v2, rows",
        config: || {
            table(
                "gptq",
                json!({"bits": 4, "group_size": -1, "sym": false,
                "checkpoint_format": "gptq_v2"}),
            )
        },
        quantise: |matrix| gptq(matrix, usize::MAX, (false, Float::Bf16), 0),
    },
];

impl Method {
    /// Whether the values of rows stay f32.
    pub(super) fn is_fp8(&self) -> bool {
        let format = (self.config)()["format"].clone();
        (self.config)()["quant_method"] == "fp8" || format == "float-quantized"
    }
}

fn compressed(format: &str, weights: Value) -> Value {
    let group = json!({"targets": ["Linear"], "weights": weights, "output_activations": null});
    table(
        "compressed-tensors",
        json!({"format": format, "config_groups": {"group_0": group}, "ignore": [PLAIN],
            "kv_cache_scheme": null, "quantization_status": "compressed",
            "sparsity_config": {"format": "dense"}}),
    )
}

fn awq_table(group: usize) -> Value {
    table(
        "awq",
        json!({"bits": 4, "group_size": group, "zero_point": true, "version": "GEMM",
        "modules_to_not_convert": [PLAIN]}),
    )
}

/// A scale for each part of some outputs and inputs.
fn fp8(
    matrix: &Matrix<'_>,
    scales: &str,
    [outputs, inputs]: [usize; 2],
    float: Float,
) -> Quantised {
    let (rows, columns) = (matrix.outputs.div_ceil(outputs), matrix.inputs.div_ceil(inputs));
    let part = |number: usize, size: usize| {
        [number.saturating_mul(size), (number + 1).saturating_mul(size)]
    };
    let all = (0..rows * columns).map(|i| {
        let (row, column) = (part(i / columns, outputs), part(i % columns, inputs));
        float.rounded(matrix.largest(row, column) / 448.0)
    });
    let all = all.collect::<Vec<_>>();
    let scale = |output: usize, input: usize| all[output / outputs * columns + input / inputs];
    let (bytes, weights) = matrix.e4m3(scale);
    let shape = [matrix.outputs, matrix.inputs];
    let stored = vec![
        Stored::new(matrix.name("weight"), Dtype::F8_E4M3, &shape, bytes),
        Stored::floats(matrix.name(scales), &[rows, columns], float, &all),
    ];
    (stored, weights)
}

/// One scale, of this shape.
fn single(matrix: &Matrix<'_>, scales: &str, shape: &[usize], float: Float) -> Quantised {
    let (mut stored, weights) = fp8(matrix, scales, [usize::MAX; 2], float);
    stored[1].shape = shape.to_vec();
    (stored, weights)
}

/// Integers, scales and zero points of groups of inputs, and the weights.
struct Integers {
    /// Output by output.
    integers: Vec<u32>,
    /// Output by output.
    scales: Vec<f32>,
    zeros: Vec<u32>,
    groups: usize,
    weights: Vec<f32>,
}

fn integers(matrix: &Matrix<'_>, group: usize, how: (bool, Float)) -> Integers {
    let groups = matrix.inputs.div_ceil(group);
    let ranges = (0..matrix.outputs * groups).map(|i| {
        let first = (i % groups).saturating_mul(group);
        matrix.range(i / groups, [first, first.saturating_add(group)], how)
    });
    let (scales, zeros): (Vec<_>, Vec<_>) = ranges.unzip();
    let quantised = matrix.weights.iter().enumerate().map(|(i, &weight)| {
        let at = i / matrix.inputs * groups + i % matrix.inputs / group;
        let (scale, zero) = (f64::from(scales[at]), f64::from(zeros[at]));
        let q = (f64::from(weight) / scale + zero).round().clamp(0.0, 15.0);
        (q as u32, (scale * (q - zero)) as f32)
    });
    let (integers, weights) = quantised.unzip();
    Integers { integers, scales, zeros, groups, weights }
}

/// Words with four bits at the place of each number.
fn in_words(numbers: &[u32], count: usize, place: impl Fn(usize) -> Place) -> Vec<u32> {
    let mut words = vec![0; count];
    for (i, number) in numbers.iter().enumerate() {
        let (word, bits) = place(i);
        words[word] |= number << (4 * bits);
    }
    words
}

/// `[groups, outputs]` from `[outputs, groups]`.
fn turned<T: Copy>(numbers: &[T], groups: usize) -> Vec<T> {
    let outputs = numbers.len() / groups;
    (0..numbers.len()).map(|i| numbers[i % outputs * groups + i / outputs]).collect()
}

/// The groups of all inputs.
fn order(matrix: &Matrix<'_>, part: &str, group: usize) -> Stored {
    let groups = (0..matrix.inputs).map(|input| (input / group) as u32).collect::<Vec<_>>();
    Stored::words(matrix.name(part), &[matrix.inputs], &groups)
}

/// Words of eight inputs, and zero points in words of eight outputs.
fn packed(matrix: &Matrix<'_>, group: usize, how: (bool, Float)) -> Quantised {
    let Integers { integers, scales, zeros, groups, weights } = integers(matrix, group, how);
    let Matrix { outputs, inputs, .. } = *matrix;
    let words = in_words(&integers, outputs * inputs / 8, |i| (i / 8, i % 8));
    let shape = [outputs as i64, inputs as i64].into_iter().flat_map(i64::to_le_bytes).collect();
    let mut stored = vec![
        Stored::words(matrix.name("weight_packed"), &[outputs, inputs / 8], &words),
        Stored::floats(matrix.name("weight_scale"), &[outputs, groups], how.1, &scales),
        Stored::new(matrix.name("weight_shape"), Dtype::I64, &[2], shape),
    ];
    if !how.0 {
        let place = |i: usize| (i / groups / 8 * groups + i % groups, i / groups % 8);
        let words = in_words(&zeros, outputs / 8 * groups, place);
        let name = matrix.name("weight_zero_point");
        stored.push(Stored::words(name, &[outputs / 8, groups], &words));
    }
    (stored, weights)
}

/// Words of eight outputs, whose order unpacking reverses by `REVERSE`.
fn awq(matrix: &Matrix<'_>, group: usize) -> Quantised {
    const REVERSE: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
    let how = (false, Float::F16);
    let Integers { integers, scales, zeros, groups, weights } = integers(matrix, group, how);
    let Matrix { outputs, inputs, .. } = *matrix;
    let place = |i: usize, per_output: usize| {
        let (output, at) = (i / per_output, i % per_output);
        (at * (outputs / 8) + output / 8, REVERSE[output % 8])
    };
    let words = in_words(&integers, inputs * outputs / 8, |i| place(i, inputs));
    let zeros = in_words(&zeros, groups * outputs / 8, |i| place(i, groups));
    let scales = turned(&scales, groups);
    let stored = vec![
        Stored::words(matrix.name("qweight"), &[inputs, outputs / 8], &words),
        Stored::words(matrix.name("qzeros"), &[groups, outputs / 8], &zeros),
        Stored::floats(matrix.name("scales"), &[groups, outputs], how.1, &scales),
    ];
    (stored, weights)
}

/// Words of eight inputs, and zero points, less `less`, in words of eight outputs.
fn gptq(matrix: &Matrix<'_>, group: usize, how: (bool, Float), less: u32) -> Quantised {
    let Integers { integers, scales, zeros, groups, weights } = integers(matrix, group, how);
    let Matrix { outputs, inputs, .. } = *matrix;
    let place = |i: usize| (i % inputs / 8 * outputs + i / inputs, i % 8);
    let words = in_words(&integers, inputs / 8 * outputs, place);
    let zeros = turned(&zeros, groups).iter().map(|zero| zero - less).collect::<Vec<_>>();
    let zeros = in_words(&zeros, groups * outputs / 8, |i| (i / 8, i % 8));
    let scales = turned(&scales, groups);
    let stored = vec![
        Stored::words(matrix.name("qweight"), &[inputs / 8, outputs], &words),
        Stored::words(matrix.name("qzeros"), &[groups, outputs / 8], &zeros),
        Stored::floats(matrix.name("scales"), &[groups, outputs], how.1, &scales),
    ];
    (stored, weights)
}

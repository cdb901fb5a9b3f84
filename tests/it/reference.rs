//! A plain Llama in f64: the whole sequence at once, without a cache.

use std::collections::HashMap;

use candle_core::DType;

use crate::checkpoint::Checkpoint;

type Matrix = Vec<Vec<f64>>;

/// The logits after every token of `tokens`, padding rows included, with the
/// weights and the shape of `c`; `frequencies` are the rotary frequencies.
pub(crate) fn logits(c: &Checkpoint, frequencies: &[f64], tokens: &[u32]) -> Matrix {
    let weights = c.tensors().into_iter().map(|(name, tensor)| {
        let tensor = tensor.to_dtype(DType::F64).unwrap();
        let rows = if tensor.rank() == 1 { tensor.unsqueeze(0).unwrap() } else { tensor };
        (name, rows.to_vec2::<f64>().unwrap())
    });
    let weights = weights.collect::<HashMap<String, Matrix>>();
    let embedding = &weights["model.embed_tokens.weight"];
    let mut x = tokens.iter().map(|&t| embedding[t as usize].clone()).collect::<Matrix>();
    for layer in 0..c.layers {
        let w = |part: &str| &weights[&format!("model.layers.{layer}.{part}.weight")];
        let h = norm(&x, &w("input_layernorm")[0]);
        let rotated = |name: &str| rotate(&times(&h, w(name)), c.head_dim, frequencies);
        let (q, k) = (rotated("self_attn.q_proj"), rotated("self_attn.k_proj"));
        let v = times(&h, w("self_attn.v_proj"));
        let mixed = attend(c, &q, &k, &v);
        x = plus(&x, &times(&mixed, w("self_attn.o_proj")));
        let h = norm(&x, &w("post_attention_layernorm")[0]);
        let (gate, up) = (times(&h, w("mlp.gate_proj")), times(&h, w("mlp.up_proj")));
        let silu = |g: f64| g / (1.0 + (-g).exp());
        let inner = gate.iter().zip(&up);
        let inner = inner.map(|(g, u)| g.iter().zip(u).map(|(g, u)| silu(*g) * u).collect());
        x = plus(&x, &times(&inner.collect(), w("mlp.down_proj")));
    }
    let head = if c.tied { embedding } else { &weights["lm_head.weight"] };
    times(&norm(&x, &weights["model.norm.weight"][0]), head)
}

/// The rotary frequencies without any scaling.
pub(crate) fn frequencies(head_dim: usize, theta: f64) -> Vec<f64> {
    (0..head_dim / 2).map(|i| theta.powf(-2.0 * i as f64 / head_dim as f64)).collect()
}

fn attend(c: &Checkpoint, q: &Matrix, k: &Matrix, v: &Matrix) -> Matrix {
    let d = c.head_dim;
    let mut mixed = vec![vec![0.0; c.heads * d]; q.len()];
    for (row, out) in mixed.iter_mut().enumerate() {
        for head in 0..c.heads {
            let own = &q[row][head * d..][..d];
            let shared = head / (c.heads / c.kv_heads) * d;
            let score = |t: usize| dot(own, &k[t][shared..][..d]) / (d as f64).sqrt();
            let scores = (0..=row).map(score).collect::<Vec<_>>();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total = scores.iter().map(|s| (s - top).exp()).sum::<f64>();
            for (t, s) in scores.iter().enumerate() {
                let weight = (s - top).exp() / total;
                for i in 0..d {
                    out[head * d + i] += weight * v[t][shared + i];
                }
            }
        }
    }
    mixed
}

fn rotate(x: &Matrix, head_dim: usize, frequencies: &[f64]) -> Matrix {
    let mut rotated = x.clone();
    for (position, row) in rotated.iter_mut().enumerate() {
        for head in row.chunks_mut(head_dim) {
            for (i, f) in frequencies.iter().enumerate() {
                let (sin, cos) = (position as f64 * f).sin_cos();
                let (a, b) = (head[i], head[i + head_dim / 2]);
                head[i] = a * cos - b * sin;
                head[i + head_dim / 2] = a * sin + b * cos;
            }
        }
    }
    rotated
}

fn norm(x: &Matrix, weight: &[f64]) -> Matrix {
    let scaled = |row: &Vec<f64>| {
        let scale = (dot(row, row) / row.len() as f64 + 1e-5).sqrt().recip();
        row.iter().zip(weight).map(|(x, w)| x * scale * w).collect()
    };
    x.iter().map(scaled).collect()
}

fn times(x: &Matrix, weights: &Matrix) -> Matrix {
    x.iter().map(|row| weights.iter().map(|w| dot(row, w)).collect()).collect()
}

fn plus(a: &Matrix, b: &Matrix) -> Matrix {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

//! The tensors of a GGUF file are those of the Hugging Face checkpoint, under any
//! names and in any order of rows that an architecture has for them.

use specdec::checkpoint::gguf::TensorKind;

use crate::fixtures::seeded;
use crate::gguf_models::{ARCHITECTURES, HfTensors, TinyModel, random};
use crate::gguf_support::{Gguf, Tensor, checkpoint, plain, refused};

fn assert_has_all(file: &Gguf, tensors: &HfTensors) {
    let model = checkpoint(&file.bytes()).unwrap();
    for (name, (shape, weights)) in tensors {
        model.check(name, shape).unwrap();
        assert_eq!(model.get(name, shape).unwrap(), *weights, "{name}");
        assert_eq!(model.kind(name), Some(TensorKind::F32));
        let raw = model.raw(name, shape).unwrap();
        let bytes = weights.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!((raw.kind, raw.blocks), (TensorKind::F32, bytes), "{name}");
    }
}

#[test]
fn every_architecture_has_the_tensors_of_its_checkpoint() {
    for architecture in ARCHITECTURES {
        for tied in [true, false] {
            let model = TinyModel { tied, ..TinyModel::new(architecture) };
            let (file, tensors) = model.make();
            assert_has_all(&file, &tensors);
        }
    }
}

/// A llama file whose layers have biases everywhere.
fn with_biases() -> (Gguf, HfTensors) {
    let model = TinyModel::new("llama");
    let (mut file, mut tensors) = model.make();
    let mut rng = seeded(17);
    let half = model.width / 2;
    for (gguf, hf, rows) in [
        ("attn_q", "self_attn.q_proj", model.heads * model.width),
        ("attn_k", "self_attn.k_proj", model.kv_heads * model.width),
        ("attn_v", "self_attn.v_proj", model.kv_heads * model.width),
        ("attn_output", "self_attn.o_proj", model.hidden),
        ("ffn_gate", "mlp.gate_proj", model.inner),
        ("ffn_up", "mlp.up_proj", model.inner),
        ("ffn_down", "mlp.down_proj", model.hidden),
    ] {
        for layer in 0..model.layers {
            let bias = (0..rows).map(|_| random(&mut rng)).collect::<Vec<_>>();
            let mut stored = bias.clone();
            if ["attn_q", "attn_k"].contains(&gguf) {
                // Entry 2i + s of a stored head is entry s · half + i.
                for (row, entry) in stored.iter_mut().enumerate() {
                    let within = row % model.width;
                    *entry = bias[row - within + within % 2 * half + within / 2];
                }
            }
            file = file.with_tensor(plain(&format!("blk.{layer}.{gguf}.bias"), &[rows], &stored));
            tensors.insert(format!("model.layers.{layer}.{hf}.bias"), (vec![rows], bias));
        }
    }
    (file, tensors)
}

#[test]
fn biases_are_put_in_order_like_their_rows() {
    let (file, tensors) = with_biases();
    assert_has_all(&file, &tensors);
}

#[test]
fn queries_keys_and_values_in_one_tensor_are_told_apart() {
    for architecture in ["llama", "qwen2", "qwen3"] {
        let model = TinyModel::new(architecture);
        let (mut file, tensors) =
            if architecture == "llama" { with_biases() } else { model.make() };
        for layer in 0..model.layers {
            for end in ["weight", "bias"] {
                let part = |part: &str| format!("blk.{layer}.{part}.{end}");
                let parts = ["attn_q", "attn_k", "attn_v"].map(part);
                let is_part = |tensor: &&Tensor| parts.contains(&tensor.name);
                let bytes = parts.iter().filter_map(|name| {
                    let tensor = file.tensors.iter().find(|tensor| tensor.name == *name)?;
                    Some((tensor.bytes.clone(), tensor.shape.clone()))
                });
                let (bytes, shapes): (Vec<_>, Vec<_>) = bytes.unzip();
                let Some(first) = file.tensors.iter().find(is_part) else { continue };
                let mut shape = first.shape.clone();
                shape[0] = shapes.iter().map(|shape| shape[0]).sum();
                let fused = Tensor {
                    name: part("attn_qkv"),
                    shape,
                    bytes: bytes.concat(),
                    ..first.clone()
                };
                file = parts.iter().fold(file, |file, name| file.without_tensor(name));
                file = file.with_tensor(fused);
            }
        }
        assert!(file.tensors.iter().any(|tensor| tensor.name == "blk.1.attn_qkv.weight"));
        assert_has_all(&file, &tensors);
    }
}

#[test]
fn one_tensor_for_all_must_have_the_rows_of_all() {
    let model = TinyModel::new("qwen3");
    let parts = ["attn_q", "attn_k", "attn_v"].map(|part| format!("blk.1.{part}.weight"));
    let file = parts.iter().fold(model.gguf(), |file, part| file.without_tensor(part));
    let rows = (model.heads + 2 * model.kv_heads) * model.width;
    for (rows, refusal) in
        [(rows, None), (rows + 1, Some("[81, 20]")), (rows - 1, Some("[79, 20]"))]
    {
        let fused = plain("blk.1.attn_qkv.weight", &[rows, 20], &vec![0.5; rows * 20]);
        let found = checkpoint(&file.clone().with_tensor(fused).bytes()).unwrap();
        for (part, rows) in [("q", 48), ("k", 16), ("v", 16)] {
            let name = format!("model.layers.1.self_attn.{part}_proj.weight");
            match refusal {
                None => assert_eq!(found.get(&name, &[rows, 20]).unwrap().len(), rows * 20),
                Some(shape) => {
                    let what = format!("tensor blk.1.attn_qkv.weight has shape {shape}, but");
                    refused(found.get(&name, &[rows, 20]), &[&what]);
                }
            }
        }
    }
}

#[test]
fn raw_rows_are_permuted_as_whole_rows_of_blocks() {
    // Rows of two blocks of 32 weights.
    let model = TinyModel { hidden: 64, ..TinyModel::new("llama") };
    let (file, _) = model.make();
    let mut rng = seeded(18);
    let rows = model.heads * model.width;
    let scale = half::f16::from_f32(0.25).to_le_bytes();
    let block = |rng: &mut _| {
        let integers = (0..32).map(|_| (100.0 * random(rng)) as i8 as u8);
        scale.into_iter().chain(integers).collect::<Vec<_>>()
    };
    let bytes = (0..2 * rows).flat_map(|_| block(&mut rng)).collect::<Vec<u8>>();
    let name = "model.layers.1.self_attn.q_proj.weight";
    let shape = [rows, 64];
    let file = file.with_tensor(Tensor {
        name: "blk.1.attn_q.weight".to_owned(),
        shape: vec![rows as u64, 64],
        kind: TensorKind::Q8_0.id().unwrap(),
        bytes: bytes.clone(),
        offset: None,
    });
    let checkpoint = checkpoint(&file.bytes()).unwrap();
    let raw = checkpoint.raw(name, &shape).unwrap();
    assert_eq!((raw.kind, checkpoint.kind(name)), (TensorKind::Q8_0, Some(TensorKind::Q8_0)));
    for (row, found) in raw.blocks.chunks(68).enumerate() {
        let (within, half) = (row % model.width, model.width / 2);
        let stored = row - within + within % half * 2 + within / half;
        assert_eq!(found, &bytes[68 * stored..68 * (stored + 1)], "row {row}");
    }
    let mut weights = Vec::new();
    raw.kind.dequantise(&raw.blocks, &mut weights);
    assert_eq!(checkpoint.get(name, &shape).unwrap(), weights);
}

#[test]
fn only_the_norms_of_gemma_are_complete() {
    for architecture in ARCHITECTURES {
        let model = checkpoint(&TinyModel::new(architecture).gguf().bytes()).unwrap();
        assert_eq!(model.norms_are_complete(), architecture.starts_with("gemma"));
    }
}

#[test]
fn missing_and_misshapen_tensors_are_refused_by_name() {
    let model = TinyModel::new("llama");
    let file = model.gguf().without_tensor("blk.1.ffn_up.weight");
    let found = checkpoint(&file.bytes()).unwrap();
    let up = "model.layers.1.mlp.up_proj.weight";
    refused(found.check(up, &[28, 20]), &["model.gguf: tensor blk.1.ffn_up.weight is missing"]);
    assert_eq!(found.kind(up), None);
    let q = "model.layers.0.self_attn.q_proj.weight";
    let what = "tensor blk.0.attn_q.weight has shape [48, 20], but the metadata ask for [40, 20]";
    refused(found.get(q, &[40, 20]), &[what, q]);
    refused(found.raw(q, &[48, 21]), &["tensor blk.0.attn_q.weight has shape [48, 20]"]);
    refused(found.check(q, &[960]), &["ask for [960]"]);
    refused(found.check(q, &[]), &["ask for []"]);
    for name in ["model.layers.0.self_attn.q_norm.weight", "lm_head", "model.layers.x", ""] {
        refused(found.check(name, &[1]), &["llama files have no tensor for", name]);
    }
    refused(found.check("lm_head.weight", &[33, 20]), &["tensor output.weight is missing"]);
    refused(found.check("model.layers.2.mlp.up_proj.weight", &[28, 20]), &["blk.2.ffn_up.weight"]);
}

#[test]
fn rows_that_are_no_whole_heads_are_refused() {
    let file = TinyModel::new("llama").gguf();
    let odd = plain("blk.1.attn_q.weight", &[47, 20], &[0.5; 47 * 20]);
    let found = checkpoint(&file.with_tensor(odd).bytes()).unwrap();
    let q = "model.layers.1.self_attn.q_proj.weight";
    refused(found.get(q, &[47, 20]), &["tensor blk.1.attn_q.weight has shape [47, 20]"]);
    // A bias whose 32 entries are one block cannot be put in order as blocks.
    let model = TinyModel { heads: 4, kv_heads: 4, ..TinyModel::new("llama") };
    let bias = Tensor {
        name: "blk.0.attn_q.bias".to_owned(),
        shape: vec![32],
        kind: TensorKind::Q8_0.id().unwrap(),
        bytes: vec![1; 34],
        offset: None,
    };
    let found = checkpoint(&model.gguf().with_tensor(bias).bytes()).unwrap();
    let bias = "model.layers.0.self_attn.q_proj.bias";
    assert_eq!(found.get(bias, &[32]).unwrap().len(), 32);
    refused(found.raw(bias, &[32]), &["of type Q8_0 has several rows in a block"]);
}

#[test]
fn the_hash_covers_the_tensors_that_were_read() {
    let (file, tensors) = TinyModel::new("llama").make();
    let read = |name: &str, raw: bool| {
        let model = checkpoint(&file.bytes()).unwrap();
        let shape = &tensors[name].0;
        if raw {
            model.raw(name, shape).unwrap();
        } else {
            model.get(name, shape).unwrap();
        }
        model.sha256().unwrap()
    };
    let (up, down) = ("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight");
    assert_eq!(read(up, false), read(up, true));
    assert_ne!(read(up, false), read(down, false));
}

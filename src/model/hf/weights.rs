//! Tensors from `model.safetensors`, whole or in shards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::safetensors::MmapedSafetensors;
use safetensors::Dtype;
use serde::Deserialize;

use super::config::{fault, read_json};
use crate::model::ModelError;

/// The weights of a folder, mapped into memory and converted as asked for.
pub(super) struct Weights {
    files: Vec<(PathBuf, MmapedSafetensors)>,
    /// For sharded weights: which file holds a tensor.
    shard: Option<(PathBuf, BTreeMap<String, usize>)>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Maps the weights of `folder`: `model.safetensors`, or else what
    /// `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// If there are none, or a file is damaged.
    pub(super) fn open(folder: &Path) -> Result<Self, ModelError> {
        let whole = folder.join("model.safetensors");
        if whole.exists() {
            return Ok(Self { files: vec![(whole.clone(), map(&whole)?)], shard: None });
        }
        let index = folder.join("model.safetensors.index.json");
        if !index.exists() {
            return Err(ModelError::new(format!(
                "{} holds no weights: neither model.safetensors nor model.safetensors.index.json",
                folder.display()
            )));
        }
        let weight_map = read_json::<Index>(&index)?.weight_map;
        let mut names = weight_map.values().collect::<Vec<_>>();
        names.sort();
        names.dedup();
        // A shard lies beside its index: what leads elsewhere is no shard.
        if let Some(name) = names.iter().find(|n| Path::new(n).file_name() != Some(n.as_ref())) {
            return Err(fault(&index, format!("\"{name}\" is not the name of a file")));
        }
        let files = names
            .iter()
            .map(|name| Ok((folder.join(name), map(&folder.join(name))?)))
            .collect::<Result<Vec<_>, ModelError>>()?;
        let number = |file: &String| names.binary_search(&file).unwrap_or_default();
        let shard = weight_map.iter().map(|(tensor, file)| (tensor.clone(), number(file)));
        let shard = Some((index, shard.collect()));
        Ok(Self { files, shard })
    }

    /// The mapped files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let index = self.shard.iter().map(|(index, _)| index.as_path());
        index.chain(self.files.iter().map(|(file, _)| file.as_path()))
    }

    /// A tensor in f32, whatever it is stored in, row by row.
    ///
    /// # Errors
    /// If it is missing, has another shape or an unknown type, or holds NaN or
    /// infinity; the sentence names file and tensor.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let number = match &self.shard {
            None => 0,
            Some((index, shard)) => {
                *shard.get(name).ok_or_else(|| fault(index, format!("tensor {name} is missing")))?
            }
        };
        let (file, tensors) = &self.files[number];
        let view =
            tensors.get(name).map_err(|_| fault(file, format!("tensor {name} is missing")))?;
        if view.shape() != shape {
            return Err(fault(
                file,
                format!(
                    "tensor {name} has shape {:?}, but config.json asks for {shape:?}",
                    view.shape()
                ),
            ));
        }
        let bytes = view.data();
        let tensor: Vec<f32> = match view.dtype() {
            Dtype::F32 => chunks(bytes).map(f32::from_le_bytes).collect(),
            Dtype::F16 => chunks(bytes).map(|b| half::f16::from_le_bytes(b).to_f32()).collect(),
            Dtype::BF16 => chunks(bytes).map(|b| half::bf16::from_le_bytes(b).to_f32()).collect(),
            found => {
                return Err(fault(
                    file,
                    format!("tensor {name} is of type {found}; supported are: f32, f16, bf16"),
                ));
            }
        };
        if !tensor.iter().all(|weight| weight.is_finite()) {
            return Err(fault(file, format!("tensor {name} holds NaN or infinite weights")));
        }
        Ok(tensor)
    }
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks().0.iter().copied()
}

/// Maps a file; its header is read and checked against its length.
#[allow(unsafe_code)]
fn map(file: &Path) -> Result<MmapedSafetensors, ModelError> {
    // SAFETY: a mapped file must not be changed by others while it is mapped.
    // The tensors are copied out while loading, within seconds of this call,
    // and the map is dropped with them; a checkpoint is not written to after
    // its download, and every program that maps one relies on that.
    unsafe { MmapedSafetensors::new(file) }.map_err(|e| {
        let reason = ModelError::from(e);
        fault(file, format!("no complete safetensors file ({reason})"))
    })
}

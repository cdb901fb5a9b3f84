//! Tensors that hold all experts of a layer, as gpt-oss has them. A decoder asks for those of one
//! expert: `experts.3.up_proj.weight` stands for some columns of `experts.gate_up_proj`, or for
//! some rows of `experts.gate_up_proj_blocks`.

use std::sync::Arc;

use super::stored::{Place, Stored};
use super::weights::{Weights, check_rows};
use crate::checkpoint::files::not_finite;
use crate::core::error::Error;
use crate::engine::blocks::{RawRows, TensorKind};

/// The part of a tensor of all experts that is a tensor of one of them.
struct Fused {
    /// The name of the tensor, without what its kind adds.
    stem: String,
    expert: usize,
    /// Which outputs: the first of them, and the distance to the next. Those of gate and up
    /// projection take turns.
    first: usize,
    step: usize,
    bias: bool,
}

impl Fused {
    /// By the name that a decoder gives to a tensor of an expert.
    fn of(name: &str) -> Option<Self> {
        let (before, rest) = name.split_once(".experts.")?;
        let mut parts = rest.split('.');
        let (expert, part, end) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
        let (stored, first, step) = match part {
            "gate_proj" => ("gate_up_proj", 0, 2),
            "up_proj" => ("gate_up_proj", 1, 2),
            "down_proj" => ("down_proj", 0, 1),
            _ => return None,
        };
        let stem = format!("{before}.experts.{stored}");
        Some(Self { stem, expert, first, step, bias: end == "bias" })
    }

    fn blocks(&self) -> String {
        format!("{}_blocks", self.stem)
    }

    fn scales(&self) -> String {
        format!("{}_scales", self.stem)
    }

    /// The name of a tensor of numbers.
    fn numbers(&self) -> String {
        if self.bias { format!("{}_bias", self.stem) } else { self.stem.clone() }
    }

    /// The outputs of this part among all of them.
    fn outputs<'a, T>(&self, all: impl Iterator<Item = T> + 'a) -> impl Iterator<Item = T> + 'a {
        all.skip(self.first).step_by(self.step)
    }
}

impl Weights {
    /// The tensors of all experts that a tensor of one of them is a part of; none if it is stored on
    /// its own, or is missing.
    fn fused(&self, name: &str) -> Option<Fused> {
        let fused = Fused::of(name).filter(|_| !self.has(name))?;
        let packed = !fused.bias && self.has(&fused.blocks());
        (packed || self.has(&fused.numbers())).then_some(fused)
    }

    /// Checks a tensor of an expert against the tensors that hold all of them.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn check_fused(&self, name: &str, shape: &[usize]) -> Option<Result<(), Error>> {
        let fused = self.fused(name)?;
        Some(self.places(&fused, shape).and_then(|places| {
            places.iter().try_for_each(|(name, rest)| self.check_expert(name, fused.expert, rest))
        }))
    }

    /// The type of a tensor of an expert.
    pub(super) fn kind_of_fused(&self, name: &str) -> Option<TensorKind> {
        let fused = self.fused(name)?;
        if self.is_packed(&fused) {
            return Some(TensorKind::Mxfp4);
        }
        Some(self.kind(&fused.numbers()))
    }

    /// A tensor of an expert in f32, row by row.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn get_fused(&self, name: &str, shape: &[usize]) -> Option<Result<Vec<f32>, Error>> {
        let fused = self.fused(name)?;
        Some(if self.is_packed(&fused) {
            self.packed(&fused, shape).map(|RawRows { kind, blocks }| {
                let mut weights = Vec::new();
                kind.dequantise(&blocks, &mut weights);
                weights
            })
        } else {
            self.numbers(&fused, shape)
        })
    }

    /// A tensor of an expert as it is stored.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(super) fn raw_fused(&self, name: &str, shape: &[usize]) -> Option<Result<RawRows, Error>> {
        let fused = self.fused(name).filter(|fused| self.is_packed(fused))?;
        Some(self.packed(&fused, shape))
    }

    fn is_packed(&self, fused: &Fused) -> bool {
        !fused.bias && self.has(&fused.blocks())
    }

    /// The tensors of all experts, with the shapes of one expert's part in them.
    fn places(&self, fused: &Fused, shape: &[usize]) -> Result<Vec<(String, Vec<usize>)>, Error> {
        let outputs = shape[0] * fused.step;
        if !self.is_packed(fused) {
            // Numbers are stored with one row per input.
            let rest = shape.get(1).map_or(vec![outputs], |&inputs| vec![inputs, outputs]);
            return Ok(vec![(fused.numbers(), rest)]);
        }
        let (inputs, length) = (shape[1], TensorKind::Mxfp4.length());
        if !inputs.is_multiple_of(length) {
            let what = format!("{} has {inputs} inputs, not a multiple of {length}", fused.stem);
            return Err(self.fault(&fused.blocks(), format!("tensor {what}")));
        }
        let blocks = inputs / length;
        let scales = (fused.scales(), vec![outputs, blocks]);
        Ok(vec![(fused.blocks(), vec![outputs, blocks, length / 2]), scales])
    }

    fn numbers(&self, fused: &Fused, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (name, rest) = self.places(fused, shape)?.remove(0);
        let bytes = self.expert(&name, fused.expert, &rest)?;
        let mut all = Vec::with_capacity(rest.iter().product());
        self.kind(&name).dequantise(&bytes, &mut all);
        if !all.iter().all(|weight| weight.is_finite()) {
            return Err(not_finite(self.path(&name), &name));
        }
        let &[inputs, outputs] = &rest[..] else {
            return Ok(fused.outputs(all.into_iter()).collect());
        };
        let rows = fused.outputs(0..outputs).collect::<Vec<_>>();
        let row = |output| (0..inputs).map(move |input| input * outputs + output);
        Ok(rows.into_iter().flat_map(row).map(|at| all[at]).collect())
    }

    /// The blocks of MXFP4 of a weight, each with its scale.
    fn packed(&self, fused: &Fused, shape: &[usize]) -> Result<RawRows, Error> {
        let kind = TensorKind::Mxfp4;
        let places = self.places(fused, shape)?;
        let read = |(name, rest): &(String, Vec<usize>)| self.expert(name, fused.expert, rest);
        let (numbers, scales) = (read(&places[0])?, read(&places[1])?);
        let per_row = shape[1] / kind.length();
        let rows = numbers.chunks(per_row * kind.length() / 2).zip(scales.chunks(per_row));
        let mut blocks = Vec::with_capacity(shape[0] * per_row * kind.bytes());
        for (numbers, scales) in fused.outputs(rows) {
            for (pairs, scale) in numbers.as_chunks().0.iter().zip(scales) {
                blocks.push(*scale);
                blocks.extend(in_halves(pairs));
            }
        }
        if kind.is_finite(&blocks) {
            return Ok(RawRows { kind, blocks });
        }
        Err(not_finite(self.path(&places[1].0), &places[1].0))
    }

    /// Checks that a tensor holds parts of this shape for more than `expert` experts.
    fn check_expert(&self, name: &str, expert: usize, rest: &[usize]) -> Result<(), Error> {
        self.find_expert(name, expert, rest).map(drop)
    }

    fn find_expert(
        &self,
        name: &str,
        expert: usize,
        rest: &[usize],
    ) -> Result<(&Stored, &Place), Error> {
        let (stored, place) = self.locate(name)?;
        match &place.shape[..] {
            [experts, found @ ..] if *experts > expert && found == rest => {
                check_rows(name, stored, place)?;
                Ok((stored, place))
            }
            found => {
                let what = format!("tensor {name} has shape {found:?}, but config.json asks for");
                let what = format!("{what} more than {expert} experts of shape {rest:?}");
                Err(stored.file.fault(what))
            }
        }
    }

    /// The bytes of the part of an expert in a tensor of all experts.
    fn expert(&self, name: &str, expert: usize, rest: &[usize]) -> Result<Arc<Vec<u8>>, Error> {
        let key = format!("{name}[{expert}]");
        let last = self.expert.lock();
        if last.0 == key {
            return Ok(Arc::clone(&last.1));
        }
        drop(last);
        let (stored, place) = self.find_expert(name, expert, rest)?;
        let (start, length) = place.bytes;
        let length = length / place.shape[0] as u64;
        let part = (start + expert as u64 * length, length);
        let mut bytes = Vec::with_capacity(length as usize);
        let hash = stored.file.hashed(part, 1, |piece| bytes.extend(piece))?;
        self.read.lock().insert(key.clone(), hash);
        let bytes = Arc::new(bytes);
        *self.expert.lock() = (key, Arc::clone(&bytes));
        Ok(bytes)
    }
}

/// Bytes that hold neighbouring numbers become bytes that hold numbers of both halves of a block.
fn in_halves(pairs: &[u8; 16]) -> [u8; 16] {
    let number = |i: usize| pairs[i / 2] >> (4 * (i % 2)) & 15;
    std::array::from_fn(|i| number(i) | number(i + 16) << 4)
}

//! `quant_method` `gptq` (Frantar et al. 2023, arXiv 2210.17323), in the layouts `gptq` and
//! `gptq_v2`.
//!
//! The older layout stores zero points less one. Where that is −1, programs differ: some read 0,
//! others 16, and others carry a one into the next zero point.

use safetensors::Dtype;

use super::four_bits::{
    Group, PER_WORD, check_inputs, check_order, check_outputs, integers, words,
};
use super::{CONVERT, Matrix, Method, Scheme, Schemes, check_text, convertible, has, unsupported};
use crate::checkpoint::families::ConfigKeys;
use crate::checkpoint::hf::weights::Weights;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;

/// The registry entry.
pub(super) const METHOD: Method = Method { name: "gptq", read };

/// `[inputs / 8, outputs]`: words of eight inputs.
const INTEGERS: &str = "qweight";
/// `[groups, outputs / 8]`: words of eight outputs.
const ZEROS: &str = "qzeros";
/// `[groups, outputs]`.
const SCALES: &str = "scales";
/// `[inputs]`: their groups.
const ORDER: &str = "g_idx";
/// What a zero point of −1 is in four bits.
const BELOW_ZERO: u8 = 15;

/// Matrices in this layout.
#[derive(Debug)]
struct Gptq {
    group: Group,
    /// Whether zero points are stored less one.
    less_one: bool,
}

fn read(keys: &ConfigKeys<'_>) -> Result<Schemes, Error> {
    let bits = keys.required("bits", keys.size("bits")?)?;
    if bits != 4 {
        return Err(convertible(keys, "bits", bits, "4"));
    }
    let layouts = ["checkpoint_format", "format"];
    for key in layouts {
        check_text(keys, key, &["gptq", "gptq_v2"])?;
    }
    check_text(keys, "pack_dtype", &["int32"])?;
    if keys.flag("is_marlin_format")? == Some(true) {
        return Err(unsupported(keys, "is_marlin_format", true, "false"));
    }
    keys.refuse("rotation", "rotated weights")?;
    let size = keys.size_or_all("group_size")?.unwrap_or(128);
    let group =
        Group::new(size).ok_or_else(|| convertible(keys, "group_size", size, Group::SUPPORTED))?;
    let mut layouts = layouts.into_iter().map(|key| keys.text(key));
    let layout = layouts.find_map(Result::transpose).transpose()?;
    let less_one = layout.is_none_or(|layout| layout.eq_ignore_ascii_case("gptq"));
    Ok(vec![Box::new(Gptq { group, less_one })])
}

impl Scheme for Gptq {
    fn part(&self) -> &'static str {
        INTEGERS
    }

    fn kind(&self, files: &Weights, module: &str) -> TensorKind {
        let form = files.form(&format!("{module}.{INTEGERS}"));
        let words = form.and_then(|(_, shape)| shape.first().copied());
        self.group.kind(words.unwrap_or_default().saturating_mul(PER_WORD))
    }

    fn check(&self, matrix: Matrix<'_>) -> Result<(), Error> {
        let Matrix { files, module, outputs, inputs } = matrix;
        check_inputs(matrix, INTEGERS)?;
        check_outputs(matrix, ZEROS)?;
        let groups = self.group.count(inputs);
        files.check_type(&matrix.name(INTEGERS), Dtype::I32, &[inputs / PER_WORD, outputs])?;
        files.check_type(&matrix.name(ZEROS), Dtype::I32, &[groups, outputs / PER_WORD])?;
        if has(files, module, ORDER) {
            files.check(&matrix.name(ORDER), &[inputs])?;
        }
        files.check(&matrix.name(SCALES), &[groups, outputs])
    }

    fn blocks(&self, matrix: Matrix<'_>) -> Result<Vec<u8>, Error> {
        let Matrix { files, module, outputs, inputs } = matrix;
        if has(files, module, ORDER) {
            let order = files.integers(&matrix.name(ORDER), inputs)?;
            check_order(&order, self.group).map_err(|(input, group)| {
                let what = format!(
                    "has input {input} in group {group}: an order by activation \
                     (quantization_config.desc_act) is not supported; {CONVERT}"
                );
                matrix.fault(ORDER, what)
            })?;
        }
        let groups = self.group.count(inputs);
        let scales = files.get(&matrix.name(SCALES), &[groups, outputs])?;
        let zeros = self.zeros(matrix, groups)?;
        let shape = [inputs / PER_WORD, outputs];
        let bytes = files.bytes(&matrix.name(INTEGERS), Dtype::I32, &shape)?;
        Ok(self.group.blocks(&by_output(&bytes, outputs), inputs, |output, group| {
            (scales[group * outputs + output], zeros[group * outputs + output])
        }))
    }
}

impl Gptq {
    /// The zero points, group by group.
    fn zeros(&self, matrix: Matrix<'_>, groups: usize) -> Result<Vec<u8>, Error> {
        let shape = [groups, matrix.outputs / PER_WORD];
        let bytes = matrix.files.bytes(&matrix.name(ZEROS), Dtype::I32, &shape)?;
        let mut zeros = words(&bytes).flat_map(integers).collect::<Vec<_>>();
        if self.less_one && zeros.contains(&BELOW_ZERO) {
            let what = "has a zero point of -1 + 1, which programs read as 0, as 16 or with a \
                        carry: quantise it again in the format gptq_v2";
            return Err(matrix.fault(ZEROS, what));
        }
        zeros.iter_mut().for_each(|zero| *zero += u8::from(self.less_one));
        Ok(zeros)
    }
}

/// The integers of words of eight inputs, output by output.
fn by_output(bytes: &[u8], outputs: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(2 * bytes.len());
    for output in 0..outputs {
        let words = bytes.chunks_exact(4 * outputs).flat_map(|row| words(&row[4 * output..][..4]));
        all.extend(words.flat_map(integers));
    }
    all
}

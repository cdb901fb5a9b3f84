//! `quant_method` `awq` (Lin et al. 2024, arXiv 2306.00978), in the layout `gemm` of AutoAWQ.

use safetensors::Dtype;

use super::four_bits::{Group, PER_WORD, check_inputs, check_outputs, integers, words};
use super::{Matrix, Method, Scheme, Schemes, check_text, unsupported};
use crate::checkpoint::families::ConfigKeys;
use crate::checkpoint::hf::weights::Weights;
use crate::core::error::Error;
use crate::engine::blocks::TensorKind;

/// The registry entry.
pub(super) const METHOD: Method = Method { name: "awq", read };

/// `[inputs, outputs / 8]`: words of eight outputs.
const INTEGERS: &str = "qweight";
/// `[groups, outputs / 8]`, likewise.
const ZEROS: &str = "qzeros";
/// `[groups, outputs]`.
const SCALES: &str = "scales";
/// The output, of the eight of a word, that each four bits belong to, from the lowest up.
const ORDER: [usize; PER_WORD] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Matrices in this layout.
#[derive(Debug)]
struct Awq {
    group: Group,
}

fn read(keys: &ConfigKeys<'_>) -> Result<Schemes, Error> {
    let bits = keys.size("bits")?.unwrap_or(4);
    if bits != 4 {
        return Err(unsupported(keys, "bits", bits, "4"));
    }
    for key in ["version", "format", "checkpoint_format"] {
        check_text(keys, key, &["gemm"])?;
    }
    // Of llm-awq, which has another layout.
    check_text(keys, "backend", &["autoawq", "auto"])?;
    if keys.flag("zero_point")? == Some(false) {
        return Err(unsupported(keys, "zero_point", false, "true"));
    }
    let size = keys.size_or_all("group_size")?.unwrap_or(128);
    let group =
        Group::new(size).ok_or_else(|| unsupported(keys, "group_size", size, Group::SUPPORTED))?;
    Ok(vec![Box::new(Awq { group })])
}

impl Scheme for Awq {
    fn part(&self) -> &'static str {
        INTEGERS
    }

    fn kind(&self, files: &Weights, module: &str) -> TensorKind {
        let form = files.form(&format!("{module}.{INTEGERS}"));
        let inputs = form.and_then(|(_, shape)| shape.first().copied());
        self.group.kind(inputs.unwrap_or_default())
    }

    fn check(&self, matrix: Matrix<'_>) -> Result<(), Error> {
        let Matrix { files, outputs, inputs, .. } = matrix;
        check_inputs(matrix, INTEGERS)?;
        check_outputs(matrix, ZEROS)?;
        let (groups, words) = (self.group.count(inputs), outputs / PER_WORD);
        files.check_type(&matrix.name(INTEGERS), Dtype::I32, &[inputs, words])?;
        files.check_type(&matrix.name(ZEROS), Dtype::I32, &[groups, words])?;
        files.check(&matrix.name(SCALES), &[groups, outputs])
    }

    fn blocks(&self, matrix: Matrix<'_>) -> Result<Vec<u8>, Error> {
        let Matrix { files, outputs, inputs, .. } = matrix;
        let groups = self.group.count(inputs);
        let bytes =
            |part, rows| files.bytes(&matrix.name(part), Dtype::I32, &[rows, outputs / PER_WORD]);
        let scales = files.get(&matrix.name(SCALES), &[groups, outputs])?;
        let zeros = by_output(&bytes(ZEROS, groups)?, groups);
        let all = by_output(&bytes(INTEGERS, inputs)?, inputs);
        Ok(self.group.blocks(&all, inputs, |output, group| {
            (scales[group * outputs + output], zeros[output * groups + group])
        }))
    }
}

/// The integers of words, `rows` of them for each output.
fn by_output(bytes: &[u8], rows: usize) -> Vec<u8> {
    let mut all = vec![0; 2 * bytes.len()];
    let per_row = bytes.len() / 4 / rows;
    // Eight outputs at a time, whose integers share words.
    for (word, outputs) in all.chunks_exact_mut(PER_WORD * rows).enumerate() {
        for row in 0..rows {
            let at = 4 * (row * per_row + word);
            let words = words(&bytes[at..at + 4]).flat_map(integers);
            for (integer, output) in words.zip(ORDER) {
                outputs[output * rows + row] = integer;
            }
        }
    }
    all
}

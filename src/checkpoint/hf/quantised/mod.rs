//! Quantised matrices: several tensors that stand for the weights of one. `quantization_config`
//! says how; each of its methods is one file and one line of [`METHODS`].
//!
//! A matrix is quantised if its tensors are there. So the lists of modules that are not, such as
//! `modules_to_not_convert` and `ignore`, need not be read: these modules have a plain `weight`.

mod awq;
mod compressed;
mod e4m3;
mod four_bits;
mod fp8;
mod gptq;
mod mxfp4;
mod packed;

use std::fmt::Display;

use super::weights::Weights;
use crate::checkpoint::families::{ConfigKeys, TEXT_MODEL};
use crate::checkpoint::files::not_finite;
use crate::core::error::Error;
use crate::engine::blocks::{RawRows, TensorKind};

/// The table that says how matrices are quantised.
const TABLE: &str = "quantization_config";
/// The end of the name of a matrix, after its module.
const WEIGHT: &str = ".weight";
/// How to undo what is not supported, where GPTQModel can.
const CONVERT: &str = "`pip install gptqmodel` and `python -c \"from gptqmodel.utils.model_dequant \
                       import dequantize_model as d; d('IN', 'OUT')\"` make a folder OUT of bf16 \
                       weights";

/// A method of quantisation.
#[derive(Debug)]
struct Method {
    /// The value of `quant_method`.
    name: &'static str,
    /// From the other keys of the table to the ways in which matrices may be stored.
    read: fn(&ConfigKeys<'_>) -> Result<Schemes, Error>,
}

/// Ways to store matrices, in a folder.
type Schemes = Vec<Box<dyn Scheme>>;

/// All methods.
const METHODS: &[Method] =
    &[awq::METHOD, compressed::METHOD, fp8::METHOD, gptq::METHOD, mxfp4::METHOD];

/// Methods that are not supported, and that [`CONVERT`] undoes.
const CONVERTIBLE: &[&str] = &["bitsandbytes", "modelopt"];

/// How a matrix is stored in several tensors.
trait Scheme: Sync {
    /// The tensor of a module that holds the integers or numbers of a matrix.
    fn part(&self) -> &'static str;

    /// Whether the matrix of a module is stored like this.
    fn has(&self, files: &Weights, module: &str) -> bool {
        has(files, module, self.part())
    }

    /// The blocks that a matrix of [`Self::has`] becomes.
    fn kind(&self, files: &Weights, module: &str) -> TensorKind;

    /// Checks types and shapes of the tensors of a matrix.
    fn check(&self, matrix: Matrix<'_>) -> Result<(), Error>;

    /// The blocks of a matrix, row by row; none of its values is rounded.
    fn blocks(&self, matrix: Matrix<'_>) -> Result<Vec<u8>, Error>;

    /// What a user should know.
    fn note(&self) -> Option<&'static str> {
        None
    }
}

/// A quantised matrix in files.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    files: &'a Weights,
    module: &'a str,
    outputs: usize,
    inputs: usize,
}

/// How the matrices of a folder are quantised.
pub(in crate::checkpoint) struct Quantised {
    schemes: Schemes,
}

impl Quantised {
    /// Reads the table of a configuration, if there is one: of the whole model or its text model.
    pub(in crate::checkpoint) fn read(keys: &ConfigKeys<'_>) -> Result<Option<Self>, Error> {
        let of_text_model = keys.table(TEXT_MODEL)?;
        let tables = [Some(keys), of_text_model.as_ref()].into_iter().flatten();
        let tables = tables.map(|keys| keys.table(TABLE)).collect::<Result<Vec<_>, _>>()?;
        let Some(table) = tables.into_iter().flatten().next() else { return Ok(None) };
        let known = METHODS.iter().map(|method| method.name).collect::<Vec<_>>().join(", ");
        let found = table.text("quant_method")?;
        let method = METHODS.iter().find(|method| Some(method.name) == found).ok_or_else(|| {
            let path = table.path("quant_method");
            let Some(found) = found else {
                return table.fault(format!("{path} is missing; supported are: {known}"));
            };
            let mut what = format!("{path} is \"{found}\"; supported are: {known}");
            if CONVERTIBLE.contains(&found) {
                what = format!("{what}; {CONVERT}");
            }
            table.fault(what)
        })?;
        Ok(Some(Self { schemes: (method.read)(&table)? }))
    }

    /// Whether there is a quantised matrix of this name.
    pub(in crate::checkpoint) fn has(&self, files: &Weights, name: &str) -> bool {
        self.find(files, name).is_some()
    }

    /// The blocks that a matrix becomes; none if it is not quantised.
    pub(in crate::checkpoint) fn kind(&self, files: &Weights, name: &str) -> Option<TensorKind> {
        self.find(files, name).map(|(scheme, module)| scheme.kind(files, module))
    }

    /// Checks types and shapes of the tensors of a matrix. It is false if this is no quantised
    /// matrix.
    pub(in crate::checkpoint) fn check(
        &self,
        files: &Weights,
        name: &str,
        shape: &[usize],
    ) -> Result<bool, Error> {
        let Some((scheme, module)) = self.find(files, name) else { return Ok(false) };
        let &[outputs, inputs] = shape else { return Ok(false) };
        scheme.check(Matrix { files, module, outputs, inputs })?;
        Ok(true)
    }

    /// The blocks of a matrix of this shape; none if it is not quantised.
    pub(in crate::checkpoint) fn rows(
        &self,
        files: &Weights,
        name: &str,
        shape: &[usize],
    ) -> Result<Option<RawRows>, Error> {
        let Some((scheme, module)) = self.find(files, name) else { return Ok(None) };
        let &[outputs, inputs] = shape else { return Ok(None) };
        let matrix = Matrix { files, module, outputs, inputs };
        scheme.check(matrix)?;
        let kind = scheme.kind(files, module);
        let blocks = scheme.blocks(matrix)?;
        if !kind.is_finite(&blocks) {
            return Err(not_finite(files.path(&matrix.name(scheme.part())), name));
        }
        Ok(Some(RawRows { kind, blocks }))
    }

    /// What a user should know.
    pub(in crate::checkpoint) fn notes(&self) -> impl Iterator<Item = String> {
        self.schemes.iter().filter_map(|scheme| scheme.note()).map(str::to_owned)
    }

    /// The scheme of a matrix, and the name of its module.
    fn find<'n>(&self, files: &Weights, name: &'n str) -> Option<(&dyn Scheme, &'n str)> {
        let module = name.strip_suffix(WEIGHT)?;
        let scheme = self.schemes.iter().find(|scheme| scheme.has(files, module))?;
        Some((&**scheme, module))
    }
}

impl Matrix<'_> {
    /// The name of one of its tensors.
    fn name(self, part: &str) -> String {
        format!("{}.{part}", self.module)
    }

    /// The error for a fault of one of its tensors.
    fn fault(self, part: &str, what: impl Display) -> Error {
        let name = self.name(part);
        Error::file(self.files.path(&name), format_args!("tensor {name} {what}"))
    }
}

/// Whether a folder has a tensor of a module.
fn has(files: &Weights, module: &str, part: &str) -> bool {
    files.has(&format!("{module}.{part}"))
}

/// Checks that a string, if it is there, is one of those that are supported, in any case.
fn check_text(keys: &ConfigKeys<'_>, key: &str, supported: &[&str]) -> Result<(), Error> {
    match keys.text(key)? {
        Some(found) if !supported.iter().any(|known| known.eq_ignore_ascii_case(found)) => {
            Err(unsupported(keys, key, format_args!("\"{found}\""), &supported.join(", ")))
        }
        _ => Ok(()),
    }
}

/// The error for a value of the table.
fn unsupported(keys: &ConfigKeys<'_>, key: &str, found: impl Display, supported: &str) -> Error {
    keys.fault(format!("{} is {found}; supported are: {supported}", keys.path(key)))
}

/// The same for a value that [`CONVERT`] undoes.
fn convertible(keys: &ConfigKeys<'_>, key: &str, found: impl Display, supported: &str) -> Error {
    let path = keys.path(key);
    keys.fault(format!("{path} is {found}; supported are: {supported}; {CONVERT}"))
}

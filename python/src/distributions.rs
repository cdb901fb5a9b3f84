//! Arrays as distributions and tokens.

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use specdec::core::distribution::{Dist, DistError, Token};

/// The rows of an array, one distribution each.
///
/// Every row is divided by its sum, which may differ from 1 by as much as the numbers were
/// rounded before they became f64.
pub(crate) struct Rows<'py> {
    /// The name of the array in messages.
    pub(crate) name: &'static str,
    /// The rows, C-contiguous.
    pub(crate) rows: PyReadonlyArray2<'py, f64>,
    /// How far a sum may be from 1.
    pub(crate) tolerance: f64,
}

/// The rows of an array as Python passes them, and how far their sums may be from 1.
pub(crate) type Given<'py> = (PyReadonlyArray2<'py, f64>, f64);

impl<'py> Rows<'py> {
    pub(crate) fn new(name: &'static str, (rows, tolerance): Given<'py>) -> Self {
        Self { name, rows, tolerance }
    }

    /// The distributions; the array is copied, since Python may change it.
    pub(crate) fn dists(&self) -> PyResult<Vec<Dist>> {
        let rows = self.rows.as_array();
        let each = rows.outer_iter().enumerate();
        each.map(|(at, row)| {
            self.dist(row.to_vec())
                .map_err(|why| PyValueError::new_err(format!("{}[{at}]: {why}", self.name)))
        })
        .collect()
    }

    fn dist(&self, row: Vec<f64>) -> Result<Dist, DistError> {
        let mass = row.iter().sum::<f64>();
        match Dist::from_weights(row) {
            Err(DistError::NothingPossible) => Err(DistError::Mass { mass }),
            Ok(_) if (mass - 1.0).abs() > self.tolerance => Err(DistError::Mass { mass }),
            dist => dist,
        }
    }
}

/// Tokens of a vocabulary.
pub(crate) fn tokens(
    name: &str,
    tokens: &PyReadonlyArray1<'_, i64>,
    vocab: usize,
) -> PyResult<Vec<Token>> {
    let each = tokens.as_array().into_iter().enumerate().map(|(at, &token)| {
        let known = Token::try_from(token).ok().filter(|&token| (token as usize) < vocab);
        known.ok_or_else(|| {
            PyValueError::new_err(format!(
                "{name}[{at}] is {token}: allowed are the tokens 0 to {}",
                vocab.saturating_sub(1)
            ))
        })
    });
    each.collect()
}

/// An error of the library as Python's.
pub(crate) fn value_error(error: impl Into<specdec::Error>) -> PyErr {
    PyValueError::new_err(error.into().to_string())
}

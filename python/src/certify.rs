//! Certificates of verifiers in Python.

use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use specdec::Error;
use specdec::core::distribution::Token;
use specdec::proof::external::{
    ExternalChance, ExternalOptions, ExternalPrecision, ExternalRound, ExternalVerifier,
    certify_external,
};

use crate::distributions::value_error;
use crate::rng::{Rng, answering};

/// Certifies a function of p, q, draft and rng. `tokens` converts its result to a list of integers.
/// Returns the certificate as JSON, as a table, and as one sentence.
#[pyfunction]
#[pyo3(signature = (function, tokens, generator, *, vocab, k, single, detect, rounds, seed))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn certify(
    py: Python<'_>,
    function: Py<PyAny>,
    tokens: Py<PyAny>,
    generator: Py<PyAny>,
    vocab: usize,
    k: usize,
    single: bool,
    detect: f64,
    rounds: Option<u64>,
    seed: u64,
) -> PyResult<(String, String, String)> {
    let precision = if single { ExternalPrecision::F32 } else { ExternalPrecision::F64 };
    let options = ExternalOptions { vocab, k, precision, detect, rounds, seed };
    let rng = Py::new(py, Rng::new(generator))?;
    let mut verifier = Function { function, tokens, rng, single, raised: None };
    let found = py.detach(|| certify_external(&mut verifier, &options));
    if let Some(raised) = verifier.raised {
        return Err(raised);
    }
    let found = found.map_err(value_error)?;
    let json = serde_json::to_string(&found);
    let json = json.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((json, found.table(), found.sentence()))
}

/// A verifier in Python.
#[derive(Debug)]
struct Function {
    function: Py<PyAny>,
    tokens: Py<PyAny>,
    rng: Py<Rng>,
    single: bool,
    /// What it raised.
    raised: Option<PyErr>,
}

impl ExternalVerifier for Function {
    fn verify(
        &mut self,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> Result<Vec<Token>, Error> {
        Python::attach(|py| {
            self.call(py, round, chance).map_err(|raised| {
                let error = Error::input(raised.to_string());
                self.raised.get_or_insert(raised);
                error
            })
        })
    }
}

impl Function {
    fn call(
        &self,
        py: Python<'_>,
        round: &ExternalRound,
        chance: &mut dyn ExternalChance,
    ) -> PyResult<Vec<Token>> {
        let draft = round.draft.iter().map(|&token| i64::from(token)).collect();
        let given = (
            self.rows(py, &round.p)?,
            self.rows(py, &round.q)?,
            PyArray1::from_vec(py, draft),
            self.rng.clone_ref(py),
        );
        let found = answering(chance, || self.function.bind(py).call1(given))?;
        let tokens = match found.extract::<Vec<i64>>() {
            Ok(tokens) => tokens,
            Err(_) => self.tokens.bind(py).call1((found,))?.extract()?,
        };
        let padding = tokens.iter().rev().take_while(|&&token| token == -1).count();
        let known = &tokens[..tokens.len() - padding];
        let each = known.iter().map(|&token| {
            Token::try_from(token).map_err(|_| {
                PyValueError::new_err(format!(
                    "the verifier returned {tokens:?}: allowed are tokens, and -1 after them"
                ))
            })
        });
        each.collect()
    }

    /// Rows as an array of the type that the verifier computes with.
    fn rows<'py>(&self, py: Python<'py>, rows: &[Vec<f64>]) -> PyResult<Bound<'py, PyAny>> {
        if self.single {
            let single = rows.iter().map(|row| row.iter().map(|&x| x as f32).collect());
            return Ok(PyArray2::from_vec2(py, &single.collect::<Vec<Vec<f32>>>())?.into_any());
        }
        Ok(PyArray2::from_vec2(py, rows)?.into_any())
    }
}

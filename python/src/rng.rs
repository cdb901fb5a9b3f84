//! The random decisions of a verifier in Python.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use scoped_tls_hkt::{ReborrowMut, scoped_thread_local};
use specdec::Error;
use specdec::proof::external::ExternalChance;

use crate::distributions::value_error;

// Python may keep the object longer than the call that gets it, so it borrows nothing: the
// answering `ExternalChance` is available while the call runs.
scoped_thread_local!(static mut ANSWERING: for<'c> Answering<'c>);

/// What answers while a call runs.
struct Answering<'c>(&'c mut dyn ExternalChance);

impl<'c, 'd: 'c> ReborrowMut<'c> for Answering<'d> {
    type Result = Answering<'c>;

    fn reborrow_mut(&'c mut self) -> Answering<'c> {
        Answering(&mut *self.0)
    }
}

/// Runs a call of Python's that `chance` answers.
pub(crate) fn answering<T>(chance: &mut dyn ExternalChance, call: impl FnOnce() -> T) -> T {
    ANSWERING.set(Answering(chance), call)
}

/// The source of all random decisions of a verifier.
#[pyclass(frozen, module = "specdec_harness._core")]
#[derive(Debug)]
pub(crate) struct Rng {
    generator: Py<PyAny>,
}

impl Rng {
    pub(crate) fn new(generator: Py<PyAny>) -> Self {
        Self { generator }
    }
}

#[pymethods]
impl Rng {
    /// An index, drawn with probability proportional to its weight (weights of any sum, none
    /// negative). A verifier that uses nothing else is enumerated.
    fn choose(&self, weights: &Bound<'_, PyAny>) -> PyResult<usize> {
        let weights = numbers(weights)?;
        answer(|chance| chance.choose(&weights))
    }

    /// A uniform number in [0, 1). A verifier that uses one is sampled.
    fn uniform(&self) -> PyResult<f64> {
        answer(|chance| chance.uniform())
    }

    /// A `numpy.random.Generator`. A verifier that uses it is sampled.
    #[getter]
    fn generator(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        answer(|chance| chance.uniform())?;
        Ok(self.generator.clone_ref(py))
    }
}

fn answer<T>(ask: impl FnOnce(&mut dyn ExternalChance) -> Result<T, Error>) -> PyResult<T> {
    if !ANSWERING.is_set() {
        return Err(PyRuntimeError::new_err(
            "rng answers only while the call that it was passed to runs, on the thread of that \
             call",
        ));
    }
    ANSWERING.with(|answering| ask(answering.0)).map_err(value_error)
}

fn numbers(weights: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    if let Ok(array) = weights.extract::<PyReadonlyArray1<'_, f64>>() {
        return Ok(array.as_array().to_vec());
    }
    if let Ok(list) = weights.extract::<Vec<f64>>() {
        return Ok(list);
    }
    let numpy = weights.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (weights, "float64"))?;
    let array = array.call_method0("ravel")?;
    Ok(array.extract::<PyReadonlyArray1<'_, f64>>()?.as_array().to_vec())
}

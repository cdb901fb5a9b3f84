//! `specdec_harness._core`: the Rust part of the Python package. It takes arrays that
//! `specdec_harness/_arrays.py` has made uniform, and runs the production code on them.

mod audit;
mod certify;
mod distributions;
mod forecast;
mod rng;
mod tape;
mod verify;

use pyo3::prelude::*;

/// The functions that the package `specdec_harness` is built on; use those of the package.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::audit::Audit;
    #[pymodule_export]
    use crate::certify::certify;
    #[pymodule_export]
    use crate::forecast::{forecast_columns, forecast_tape};
    #[pymodule_export]
    use crate::rng::Rng;
    #[pymodule_export]
    use crate::tape::{TapeLines, tape_sequences};
    #[pymodule_export]
    use crate::verify::{verifiers, verify};
}

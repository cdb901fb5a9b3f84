//! `specdec._core`: the part of the Python package that is Rust. It takes arrays that
//! `specdec/_arrays.py` has made uniform, and runs the production code on them.

mod audit;
mod certify;
mod forecast;
mod laws;
mod rng;
mod verify;

use pyo3::prelude::*;

/// What the functions of `specdec` stand on; use those.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::audit::Audit;
    #[pymodule_export]
    use crate::certify::certify;
    #[pymodule_export]
    use crate::forecast::{forecast_columns, forecast_tape, tape_texts};
    #[pymodule_export]
    use crate::rng::Rng;
    #[pymodule_export]
    use crate::verify::{verifiers, verify};
}

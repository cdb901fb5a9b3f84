//! How many threads the engines use.

use super::ModelError;

/// Sets the number of worker threads for the whole process; call it before the
/// first pass.
///
/// # Errors
/// If the workers have been started with another number already.
pub fn set_threads(threads: usize) -> Result<(), ModelError> {
    let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    if built.is_err() && rayon::current_num_threads() != threads {
        return Err(ModelError::new(format!(
            "cannot use {threads} threads: {} are running already",
            rayon::current_num_threads()
        )));
    }
    Ok(())
}

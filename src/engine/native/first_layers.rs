//! The first layers of a target, with its last norm and its head, as a draft model (Elhoushi et al.
//! 2024, LayerSkip, arXiv 2404.16710).

use super::Native;
use super::head::TargetTables;
use crate::core::error::Error;
use crate::core::sampling::ForEachRow;
use crate::model::{Evaluation, LanguageModel, ModelInfo, ModelInputs, Session, Tap, Work};

/// The first layers of a target of this engine, whose weights and sequences they are.
#[derive(Debug)]
pub(crate) struct NativeFirstLayers {
    target: Native,
    layers: usize,
}

impl NativeFirstLayers {
    /// The first `layers` layers of a target.
    pub(crate) fn new(info: ModelInfo, layers: usize, tables: TargetTables) -> Self {
        let inputs = ModelInputs::FirstLayers(vec![Tap::After(layers)]);
        let info = ModelInfo { inputs, hidden: None, ..info };
        Self { target: Native::of_tables(info, tables), layers }
    }
}

impl LanguageModel for NativeFirstLayers {
    fn info(&self) -> &ModelInfo {
        self.target.info()
    }

    fn session(&self) -> Result<Session, Error> {
        Err(Error::engine("the first layers of a target use its sequence"))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_first(work, self.layers, &mut |sequences| Ok(self.target.run(sequences)))
    }

    fn threads(&self, rows: usize) -> usize {
        self.target.threads(rows)
    }

    fn for_each_row(&self) -> ForEachRow {
        self.target.for_each_row()
    }
}

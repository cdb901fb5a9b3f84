//! What a folder with a head is, and which targets it fits, without reading weights.

use std::path::Path;

use super::files::{HeadFolder, HeadTensors};
use super::{FORMATS, HeadShape, Shape, medusa, shape_of};
use crate::checkpoint::ModelSummary;
use crate::core::error::Error;
use crate::engine::{Feedback, HeadSettings};
use crate::model::HiddenStates;

/// Describes the head in a folder. Its vocabulary is that of its target.
///
/// # Errors
/// If its configuration or the headers of its weights are damaged.
pub(crate) fn summarise(folder: &Path) -> Result<ModelSummary, Error> {
    let (opened, settings) = (HeadFolder::open(folder)?, HeadSettings::default());
    let files = opened.files(0, HiddenStates { layers: 0, width: 0 }, &settings);
    let format = FORMATS.iter().find(|format| (format.fits)(&files)).map(|format| format.name);
    let format = format.unwrap_or(if medusa::fits(&files) { medusa::NAME } else { "unknown" });
    let mut summary = ModelSummary::of_tensors(opened.weights.tensors());
    summary.family = format!("{format} head");
    summary.bytes = opened.weights.bytes();
    Ok(summary)
}

/// Whether the head in a folder fits a target with `vocab` tokens, by its configuration and the
/// headers of its weights.
pub(crate) fn fits(folder: &Path, vocab: usize, hidden: HiddenStates) -> bool {
    // Whether a setting is needed says nothing about the target.
    let settings = HeadSettings { feedback: Some(Feedback::Plain), ..HeadSettings::default() };
    let check = || {
        let folder = HeadFolder::open(folder)?;
        let (names, tensors) = match shape_of(&folder.files(vocab, hidden, &settings))? {
            Shape::Medusa(config, names) => (names, config.tensors(vocab)),
            Shape::Layers(_, HeadShape { config, names }) => {
                let names = names.into_iter().map(|(own, other)| (own.to_owned(), other));
                (names.collect(), config.tensors(vocab))
            }
        };
        HeadTensors { folder: &folder, names }.check(&tensors)
    };
    check().is_ok()
}

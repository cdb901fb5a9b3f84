//! What a head is, and which targets it fits, without reading weights.

use super::files::{HeadFiles, HeadTensors, open};
use super::{FORMATS, Shape, medusa, shape_of};
use crate::checkpoint::ModelSummary;
use crate::core::error::Error;
use crate::engine::{Feedback, HeadSettings};
use crate::model::HiddenStates;

/// Describes the head at a path. Its vocabulary is that of its target.
///
/// # Errors
/// If its configuration or the headers of its weights are damaged.
pub(crate) fn summarise(path: &str) -> Result<ModelSummary, Error> {
    let (opened, settings) = (open(path)?, HeadSettings::default());
    let hidden = HiddenStates { layers: 0, width: 0 };
    let (keys, weights, settings) = (opened.keys(), &*opened, &settings);
    let files = HeadFiles { keys, weights, vocabularies: (0, 0), hidden, settings };
    let format = FORMATS.iter().find(|format| (format.fits)(&files)).map(|format| format.name);
    let format = format.unwrap_or(if medusa::fits(&files) { medusa::NAME } else { "unknown" });
    Ok(ModelSummary { family: format!("{format} head"), ..opened.summary() })
}

/// Whether the head at a path fits a target with `vocab` tokens, by its configuration and the
/// headers of its weights.
pub(crate) fn fits(path: &str, vocab: usize, hidden: HiddenStates) -> bool {
    // Whether a setting is needed says nothing about the target.
    let settings = HeadSettings {
        feedback: Some(Feedback::Plain),
        anchor_first: Some(false),
        ..HeadSettings::default()
    };
    let check = || {
        let opened = open(path)?;
        let (keys, weights, settings) = (opened.keys(), &*opened, &settings);
        let files = HeadFiles { keys, weights, vocabularies: (vocab, vocab), hidden, settings };
        match shape_of(&files)? {
            Shape::Medusa(config, names) => {
                HeadTensors { files: weights, names }.check(&config.tensors(vocab))
            }
            Shape::Layers(_, shapes) => shapes.into_iter().try_for_each(|shape| {
                let names = shape.names_in_files();
                HeadTensors { files: weights, names }.check(&shape.config.tensors())
            }),
        }
    };
    check().is_ok()
}

//! Completions of other programs as a tape that models have scored.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::header;
use super::score::{MODEL, Scoring, canonical};
use super::tape_file::TapeFile;
use crate::core::params::Params;
use crate::core::sampling::Sampler;
use crate::io::shown;
use crate::method::draft::Tools;
use crate::model::LanguageModel;
use crate::tapes::tape::{
    Tape, TapeDrafter, TapeLine, TapeModel, TapeSequence, Teacher, log_probs,
};

/// Writes completions on a new tape with log p of the target and, if there is a draft model, its log
/// q with these sampling settings.
///
/// # Errors
/// If the tape exists, a model fails, or the target cannot draw a token.
pub fn write_scored(
    to: &Path,
    completions: &Tape,
    target: &dyn LanguageModel,
    draft: Option<(&dyn LanguageModel, Params)>,
) -> Result<()> {
    let named = |model: &dyn LanguageModel| TapeModel::new(&model.info().name, model.info());
    let samplings = &completions.header.samplings;
    let mut teacher = Teacher::new(target)?;
    // All of them before the file is begun: a token that the target cannot draw leaves no file.
    let mut lines = Vec::new();
    for sequence in &completions.sequences {
        let place =
            || format!("prompt {}, repeat {}", shown::line(&sequence.prompt), sequence.repeat);
        let sampler = Sampler::new(samplings[sequence.sampling].clone())?;
        let sampler = sampler.on(teacher.model().for_each_row());
        let log_p = log_probs(&mut teacher, &sampler, sequence).with_context(place)?;
        if let Some(at) = log_p.iter().position(|log_p| *log_p == f64::NEG_INFINITY) {
            return Err(anyhow!("the target cannot draw token {at}")).with_context(place);
        }
        let scored = TapeSequence { log_p: Some(log_p), ..sequence.clone() };
        lines.push(TapeLine::Sequence(scored));
    }
    let mut file = TapeFile::begin(to, &header("completions", named(target), samplings.clone()))?;
    for line in lines {
        file.append(line)?;
    }
    let Some((draft, params)) = draft else { return Ok(()) };
    let drafter = TapeDrafter { drafter: MODEL.to_owned(), params, ..TapeDrafter::default() };
    let drafter = TapeDrafter { model: Some(named(draft)), ..canonical(drafter)? };
    let tools = Tools { draft: Some(draft), ..Tools::default() };
    Scoring { drafters: vec![drafter], tools, overlap: false, beliefs: None }.run(&mut file)
}

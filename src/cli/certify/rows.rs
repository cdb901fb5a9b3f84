//! `specdec certify --external --rows`: rows of models for a verifier's cases.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::cli::models::open_pair;
use crate::cli::options::ModelArgs;
use crate::io::shown;
use crate::io::terminal;
use crate::proof::external::RealRows;
use crate::tapes::recording::{check_tokens, compile_grammars, read_tape_file};
use crate::tapes::tape::Teacher;

/// The number of completions that are read, spread evenly over the tape.
const COMPLETIONS: usize = 64;

/// Where rows come from.
#[derive(Debug, Serialize)]
pub(super) struct RowsSource {
    tape: String,
    target: String,
    draft: String,
    positions: usize,
}

/// The rows of a pair of models at the completions of a tape.
pub(super) fn rows(tape: &Path, models: &ModelArgs) -> Result<(RealRows, RowsSource)> {
    let mut known = read_tape_file(tape)?;
    let (pair, (target_name, draft_name)) = open_pair(models, false, true)?;
    let (Some(draft), Some(draft_name)) = (pair.draft_model(), draft_name) else {
        bail!("--rows needs a draft model: name one with --draft");
    };
    if !draft.info().reads_text_alone() {
        bail!(
            "--draft {}: its q depends on where a draft begins: allowed is a draft model",
            shown::line(&draft_name)
        );
    }
    compile_grammars(&mut known, &pair.target)?;
    for model in [&*pair.target.model, draft] {
        check_tokens(&known, model.info())?;
    }
    let (mut target, mut draft) = (Teacher::new(&*pair.target.model)?, Teacher::new(draft)?);
    let mut found = RealRows::default();
    for sequence in known.sequences.iter().step_by(known.sequences.len().div_ceil(COMPLETIONS)) {
        if found.is_full() {
            break;
        }
        let sampling = &known.header.samplings[sequence.sampling];
        found.read((&mut target, &mut draft), sampling, sequence)?;
    }
    if found.is_empty() {
        bail!("{} has no completion with a token", shown::line(&tape.display().to_string()));
    }
    let tape = tape.display().to_string();
    let positions = found.len();
    terminal::say(format_args!(
        "rows: p of {} and q of {} at {}",
        shown::line(&target_name),
        shown::line(&draft_name),
        shown::count(positions, "position")
    ));
    Ok((found, RowsSource { tape, target: target_name, draft: draft_name, positions }))
}

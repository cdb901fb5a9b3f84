//! Recording tapes, and scoring them with drafters ([`crate::tapes::tape`]).

mod import;
mod parquet;
mod record;
mod score;
mod scored_tape;
mod sequences;
mod tape_file;

pub use import::{
    Import, Imported, RequestRounds, TAPE_FORMATS, TapeFormat, read_requests, request_rounds,
};
pub use parquet::write_parquet;
pub use record::{PLAIN_SOURCE, Recording, TapePrompt};
pub use score::{MODEL, Scoring, canonical, check_tokens, reads_at_once};
pub use scored_tape::write_scored;
pub use sequences::{ExternalSequences, SequenceLine, SequenceReport, read_external_sequences};
pub use tape_file::{TapeFile, read_tape_file};

use crate::core::error::Error;
use crate::core::sampling::SamplingParams;
use crate::method::controls::GrammarCompiler;
use crate::model::Loaded;
use crate::run::experiment::Build;
use crate::tapes::tape::{TAPE_FORMAT, Tape, TapeHeader, TapeModel};

/// The header of a tape that this build writes.
fn header(source: &str, target: TapeModel, samplings: Vec<SamplingParams>) -> TapeHeader {
    TapeHeader {
        format: TAPE_FORMAT,
        source: source.to_owned(),
        build: Build::this().describe(),
        target,
        seed: None,
        ignore_eos: false,
        samplings,
    }
}

/// Makes the rules of a tape's grammars, of which it has the texts, for the tokens of a model.
///
/// # Errors
/// If a grammar is invalid, or the tokenizer does not say what its tokens stand for.
pub fn compile_grammars(tape: &mut Tape, model: &Loaded) -> Result<(), Error> {
    let compiler = GrammarCompiler::default();
    for sampling in &mut tape.header.samplings {
        compiler.compile_in(sampling, &*model.codec, model.model.info())?;
    }
    Ok(())
}

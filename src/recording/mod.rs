//! Recording tapes, and letting drafters read them ([`crate::tape`]).

mod import;
mod parquet;
mod record;
mod score;
mod tape_file;
mod texts;

pub use import::{Import, Imported, TAPE_FORMATS, TapeFormat};
pub use parquet::write_parquet;
pub use record::{PLAIN_SOURCE, Recording, TapePrompt};
pub use score::{MODEL, Scoring, canonical, check_tokens, reads_at_once};
pub use tape_file::{TapeFile, read_tape_file};
pub use texts::{OutsideTexts, TextLine, ToldOfText, read_outside_texts};

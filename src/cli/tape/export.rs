//! `specdec tape export`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::cli::output;
use crate::tapes::recording::{TapeFile, read_tape_file, write_parquet};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec tape export 01.tape.jsonl --out 01.tape.parquet
  specdec tape export 01.tape.parquet --out 01.tape.jsonl

Every command that reads tapes reads both. Parquet is for programs that read columns, such as
pandas and polars; only JSON lines can be appended to.")]
pub(super) struct ExportArgs {
    /// The tape
    tape: PathBuf,
    /// The file to write: Parquet if its name ends in .parquet, else JSON lines
    #[arg(long, short = 'o', value_name = "FILE")]
    out: PathBuf,
}

/// Writes the tape.
pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let tape = read_tape_file(&args.tape)?;
    if args.out.exists() {
        bail!("{} exists already: name another file", args.out.display());
    }
    if args.out.extension().is_some_and(|end| end == "parquet") {
        write_parquet(&tape, &args.out)?;
    } else {
        let mut file = TapeFile::begin(&args.out, &tape.header)?;
        for line in tape.lines().skip(1) {
            file.append(line)?;
        }
    }
    output::line(args.out.display())
}

//! `specdec certify`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::output;
use crate::exactness::{CertifyOptions, certify};

/// Options of `specdec certify`.
///
/// Every method is enumerated on toy models through every outcome of every
/// draw: its joint law must equal the target's to 1e-12. The seeded generator
/// is sampled and audited, and known-wrong methods must be refuted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec certify
  specdec certify --method rejection+model
  specdec certify --full --json certificate.json

Every supported method is enumerated on small models: the joint law of several tokens must be the
target's to 1e-12. Known-wrong methods must be refuted in the same run, or the command fails.")]
pub(super) struct CertifyArgs {
    /// Only this method: a verifier, drafter or length, or parts joined by "+"
    /// as in "rejection+model"; may be repeated
    #[arg(long, value_name = "NAME")]
    method: Vec<String>,

    /// Every combination of method, sampling, toy and K, not only every pair
    #[arg(long)]
    full: bool,

    /// Also write the certificate as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command: prints the methods and the kill matrix.
///
/// # Errors
/// If a method is unknown, the file cannot be written, or anything fails to
/// hold.
pub(super) fn run(args: &CertifyArgs) -> anyhow::Result<()> {
    let options = CertifyOptions { methods: args.method.clone(), full: args.full };
    let bar = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("certify {wide_bar} {pos}/{len} {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let certificate = certify(&options, &mut |progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
    })?;
    bar.finish_and_clear();
    output::write(certificate.table().as_bytes())?;
    if let Some(path) = &args.json {
        let file = File::create(path)
            .with_context(|| format!("cannot write the certificate to {}", path.display()))?;
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, &certificate)?;
        file.write_all(b"\n")?;
        file.flush()?;
    }
    match certificate.failures().len() {
        0 => Ok(()),
        1 => bail!("1 check failed, see the line above that begins with FAILED"),
        n => bail!("{n} checks failed, see the lines above that begin with FAILED"),
    }
}

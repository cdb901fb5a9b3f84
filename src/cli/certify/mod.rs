//! `specdec certify`.

mod external;
mod process;
mod program;
mod rows;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;

use self::external::ExternalArgs;
use super::models::open_pair;
use super::options::{ModelArgs, count};
use super::output;
use super::some_prompts::SomePrompts;
use crate::bugs::mutants;
use crate::checkpoint::pair::Pair;
use crate::core::distribution::Token;
use crate::io::output::{make_folder, write_whole};
use crate::io::terminal::{self, Progress};
use crate::proof::{Certificate, CertifyOptions, PAIR_TOKENS, PairSample, certify};
use crate::run::experiment::Provenance;

/// Default number of tokens to sample from a pair.
const TOKENS: usize = 4000;

/// Options of `specdec certify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec certify
  specdec certify --method rejection+model
  specdec certify --full
  specdec certify --target models/big --draft models/small --prompts my-prompts.jsonl
  specdec certify --target big.gguf --draft small.gguf --method block+model --tokens 20000
  specdec certify --external \"python verifier.py\"
  specdec certify --external \"python verifier.py\" --rows 01.tape.jsonl
  specdec certify --scheduler \"python scheduler.py\"

Every supported method is enumerated on toy models with every outcome of every draw: the joint
distribution of several tokens must equal the target's to 1e-12. Seeded generations are sampled and
their draws audited. Known-wrong methods must be refuted in the same run, or the command fails;
--method leaves out their table.
With --target or --draft, and with --full, completions of 16 tokens are sampled from a pair of
models, and the place of every token in the target's distribution is tested for uniformity. The
table states the total variation that would be detected. Without --method, this test uses the first
lossless and the first seed-exact verifier; with --method, all named ones.
Without --method, the certificate is also written to OUT/certificate/DATE (DATE-quick without
--full), as certificate.json, certificate.md and certified.csv.
With --external or --scheduler, only your own program is certified. docs/external.md describes the
protocols.")]
pub(super) struct CertifyArgs {
    /// Certify only this method: a verifier, drafter or length policy, or several joined by "+",
    /// as in "rejection+model"; repeatable
    #[arg(long, value_name = "NAME")]
    method: Vec<String>,

    /// Cover every combination of method, sampling setting, toy and K, instead of every pair of
    /// these
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    models: ModelArgs,

    #[command(flatten)]
    prompts: SomePrompts,

    /// Number of tokens to sample from a pair, with each method and sampling setting [default:
    /// 4000]
    #[arg(long, value_name = "N", value_parser = count)]
    tokens: Option<usize>,

    #[command(flatten)]
    external: ExternalArgs,

    /// Also write the certificate as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Results folder for the certificate of all methods
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
}

/// Runs the command and prints the tables of methods and of known-wrong methods.
pub(super) fn run(args: &CertifyArgs) -> Result<()> {
    // Recorded before the run, because the sources may change during it.
    let provenance = Provenance::now();
    if let Some(command) = &args.external.external {
        return external::run(
            command,
            (&args.external, &args.models),
            provenance,
            args.json.as_deref(),
        );
    }
    if let Some(command) = &args.external.scheduler {
        return external::run_scheduler(command, &args.external, provenance, args.json.as_deref());
    }
    // The models are loaded first, so that a missing model fails at once.
    let pair = pair(args)?;
    let sample = pair.as_ref().and_then(|(pair, names, prompts)| {
        let (names, draft, tokens) =
            (names.clone(), pair.draft_model()?, args.tokens.unwrap_or(TOKENS));
        Some(PairSample { names, target: &*pair.target.model, draft, prompts, tokens })
    });
    let options = CertifyOptions { methods: args.method.clone(), full: args.full, pair: sample };
    let mut shown = Progress::new("checks", 0, 0).uneven();
    let certificate =
        certify(&options, &mut |progress| shown.reach(progress.done, progress.total, ""))?;
    drop(shown);
    // The certificate is written even if the reader of the table has closed the pipe.
    let shown = output::show(&match args.method[..] {
        [] => certificate.table(),
        _ => certificate.table_of_methods(),
    });
    let file = CertificateFile { provenance, certificate: &certificate };
    if let Some(path) = &args.json {
        write_whole(path, file.json()?.as_bytes())?;
    }
    if args.method.is_empty() {
        keep(&args.out, &file)?;
    }
    let said = output::show(&format!("{}\n", certificate.verdict()));
    match certificate.failures().len() {
        0 => shown.and(said),
        1 => bail!("1 check failed, see the line above that begins with FAILED"),
        n => bail!("{n} checks failed, see the lines above that begin with FAILED"),
    }
}

/// A pair, the names of its models, and prompts.
type PairWithPrompts = (Pair, [String; 2], Vec<Vec<Token>>);

/// The pair to sample from, with its prompts, if there is one.
fn pair(args: &CertifyArgs) -> Result<Option<PairWithPrompts>> {
    if !args.full && args.models.target.is_none() && args.models.draft.is_none() {
        if args.tokens.is_some() || args.prompts.are_named() {
            bail!("--tokens and --prompts apply to a pair: name it with --target, --draft");
        }
        return Ok(None);
    }
    let (pair, (target, draft)) = open_pair(&args.models, false, true)?;
    let prompts = args.prompts.tokens(&pair, PAIR_TOKENS)?;
    Ok(Some((pair, [target, draft.unwrap_or_default()], prompts)))
}

/// A certificate with its provenance, as written to files.
#[derive(Debug)]
struct CertificateFile<'c> {
    provenance: Provenance,
    certificate: &'c Certificate,
}

impl CertificateFile<'_> {
    /// One JSON object, with one line per cell, known-wrong method and other entry.
    fn json(&self) -> Result<String> {
        let Certificate { full, cells, forms, fits, pairs, mutants, controls } = self.certificate;
        let head = serde_json::to_string(&self.provenance)?;
        let head = head.trim_end_matches('}');
        let parts = [
            ("cells", lines(cells)?),
            ("forms", lines(forms)?),
            ("fits", lines(fits)?),
            ("pairs", lines(pairs)?),
            ("mutants", lines(mutants)?),
            ("controls", lines(controls)?),
        ];
        let parts = parts.map(|(name, lines)| format!(",\n\"{name}\":[\n{lines}\n]")).concat();
        Ok(format!("{head},\"full\":{full}{parts}}}\n"))
    }

    fn markdown(&self) -> String {
        let Provenance { date, specdec, git_commit, git_dirty } = &self.provenance;
        let form = if self.certificate.full { "full" } else { "quick" };
        let changed = if *git_dirty { ", changed" } else { "" };
        let table = self.certificate.table();
        let mistakes = mutants().fold(String::new(), |text, (bug, _)| {
            text + &format!("| `{}` | {} |\n", bug.name, bug.summary)
        });
        format!(
            "# Certificate\n\n{date}, {form}, specdec {specdec}, commit {git_commit}{changed}\n\n\
             ```\n{table}```\n\n| mutant | the mistake |\n| --- | --- |\n{mistakes}"
        )
    }
}

/// The values as JSON, one per line, separated by commas.
fn lines<T: Serialize>(values: &[T]) -> Result<String> {
    let lines = values.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(lines.join(",\n"))
}

/// Writes the certificate as JSON, Markdown and CSV into the folder of the day.
fn keep(out: &Path, file: &CertificateFile<'_>) -> Result<()> {
    let form = if file.certificate.full { "" } else { "-quick" };
    let day = file.provenance.date.get(..10).unwrap_or_default();
    let folder = out.join("certificate").join(format!("{day}{form}"));
    make_folder(&folder)?;
    write_whole(&folder.join("certificate.json"), file.json()?.as_bytes())?;
    write_whole(&folder.join("certificate.md"), file.markdown().as_bytes())?;
    let mut rows = csv::Writer::from_writer(Vec::new());
    for row in file.certificate.certified() {
        rows.serialize(row)?;
    }
    write_whole(&folder.join("certified.csv"), &rows.into_inner()?)?;
    terminal::say(format_args!("certificate: {}", folder.display()));
    Ok(())
}

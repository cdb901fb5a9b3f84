//! `specdec audit`: whether texts of any decoder were drawn from the target's law.

mod verdict;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::verdict::{SamplingVerdict, verdicts_text};
use super::models::open_pair;
use super::options::{ModelArgs, count};
use super::output;
use crate::audit::{AuditReader, AuditedDraft};
use crate::draft::{DRAFT_SAMPLING, draft_sampling};
use crate::model::LanguageModel;
use crate::params::{BadParam, Params, Value};
use crate::recording::{check_tokens, read_tape_file};
use crate::sampling::SamplingParams;
use crate::shown;
use crate::tape::Teacher;
use crate::terminal::Progress;

/// Options of `specdec audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec audit their.tape.jsonl --target models/big --draft models/small
  specdec audit speculative.tape.jsonl --plain plain.tape.jsonl --target models/big
  specdec tape import log.jsonl --format vllm --out their.tape.jsonl

The target reads every text of the tape and tells the law of each token; bets on the laws of known
bugs grow if the texts are not drawn from it, and the one that wins names the bug. --draft adds
bets that need the draft model. docs/audit.md describes the bets and what the numbers mean. Fails
if the texts are refuted.")]
pub(super) struct AuditArgs {
    /// A tape with the texts of the decoder; `specdec tape import` makes one from logs
    tape: PathBuf,
    /// A tape with texts of the same program without speculation: what it shows is due to other
    /// arithmetic, and nothing less is claimed
    #[arg(long, value_name = "TAPE")]
    plain: Option<PathBuf>,
    /// The level of the verdict: how often exact texts may be refuted
    #[arg(long, value_name = "P", default_value_t = 1e-3, value_parser = level)]
    level: f64,
    /// How many tokens a round drafts, as many as are possible, separated by commas
    #[arg(long, short = 'k', value_name = "K,…", value_delimiter = ',', value_parser = count,
        default_value = "1,2,3,4,5,6,8")]
    num_speculative_tokens: Vec<usize>,
    /// Temperature of the draft model [default: the target's]
    #[arg(long, value_name = "X")]
    draft_temperature: Option<Value>,
    /// top_k of the draft model [default: the target's]
    #[arg(long, value_name = "X")]
    draft_top_k: Option<Value>,
    /// top_p of the draft model [default: the target's]
    #[arg(long, value_name = "X")]
    draft_top_p: Option<Value>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    models: ModelArgs,
}

/// Parses a level.
fn level(text: &str) -> Result<f64, String> {
    let level = text.parse::<f64>().ok().filter(|level| (1e-12..=0.5).contains(level));
    level.ok_or_else(|| "allowed is a number from 1e-12 to 0.5".to_owned())
}

/// Audits.
pub(super) fn run(args: &AuditArgs) -> Result<()> {
    if args.num_speculative_tokens.iter().any(|k| !(1..=64).contains(k)) {
        bail!("--num-speculative-tokens: allowed are numbers from 1 to 64");
    }
    let with_draft = args.models.draft.is_some();
    let (pair, _) = open_pair(&args.models, false, with_draft)?;
    let models = (&*pair.target.model, pair.draft_model());
    let plain = args.plain.as_deref().map(|tape| args.audit(tape, models)).transpose()?;
    let own = args.audit(&args.tape, models)?;
    let verdicts = SamplingVerdict::of(&own, plain.as_deref(), args.level);
    if args.json {
        output::write_json(&verdicts)?;
    } else {
        output::write(&verdicts_text(&verdicts)?)?;
    }
    if verdicts.iter().any(|shown| shown.verdict.refuted) {
        bail!("{}: its texts are not drawn from the target's law", args.tape.display());
    }
    Ok(())
}

/// What was found for a sampling setting.
type Audited<'m> = (SamplingParams, AuditReader<'m>);

impl AuditArgs {
    /// Reads the texts of a tape, one sampling setting after the other.
    fn audit<'m>(
        &self,
        path: &Path,
        (target, draft): (&'m dyn LanguageModel, Option<&'m dyn LanguageModel>),
    ) -> Result<Vec<Audited<'m>>> {
        let tape = read_tape_file(path)?;
        let drafting = self.draft_params()?;
        for model in [Some(target), draft].into_iter().flatten() {
            check_tokens(&tape, model.info())?;
        }
        let mut progress = Progress::new("texts", tape.texts.len(), 0);
        let mut found = Vec::new();
        for (number, &sampling) in tape.header.samplings.iter().enumerate() {
            let teacher = Teacher::new(target)?;
            let draft = draft.map(|model| {
                let sampling = draft_sampling(sampling, &drafting);
                Ok::<_, anyhow::Error>(AuditedDraft { teacher: Teacher::new(model)?, sampling })
            });
            let ks = &self.num_speculative_tokens;
            let mut reader = AuditReader::new(teacher, sampling, draft.transpose()?, ks)?;
            for text in tape.texts.iter().filter(|text| text.sampling == number) {
                let place =
                    || format!("prompt {}, repeat {}", shown::line(&text.prompt), text.repeat);
                reader.read(text).with_context(place)?;
                progress.advance(&shown::line(&text.prompt));
            }
            if reader.audit.tokens > 0 {
                found.push((sampling, reader));
            }
        }
        if found.is_empty() {
            bail!("{} has no text: a log of rounds alone cannot be audited", path.display());
        }
        Ok(found)
    }

    /// The settings of the draft model that are not the target's.
    fn draft_params(&self) -> Result<Params, BadParam> {
        let own = [&self.draft_temperature, &self.draft_top_k, &self.draft_top_p];
        let set = DRAFT_SAMPLING.iter().zip(own);
        let set = set.filter_map(|(param, value)| Some((param, value.clone()?)));
        let set = set.fold(Params::default(), |set, (param, value)| set.with(param.key, value));
        set.of(&DRAFT_SAMPLING)
    }
}

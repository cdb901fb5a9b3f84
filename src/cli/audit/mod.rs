//! `specdec audit`: whether texts of any decoder were drawn from the target's law.

mod planted;
mod rounds;
mod scorer;
mod seeds;
#[cfg(feature = "serve")]
mod server;
mod verdict;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use self::rounds::ToldRounds;
use self::scorer::Scorer;
use self::seeds::SeedPairs;
#[cfg(feature = "serve")]
use self::server::AuditedServer;
use self::verdict::{SamplingVerdict, ShownAudit};
use super::options::{ModelArgs, count};
use super::output;
use super::sampling::SamplingArgs;
use crate::audit::{
    AuditLimits, AuditReader, AuditedDraft, AuditedText, RoundAudit, RoundVerdict, TokenAudit,
};
use crate::draft::draft_sampling;
use crate::exactness::mutants::Mutant;
use crate::recording::{OutsideTexts, check_tokens, read_outside_texts};
use crate::sampling::SamplingParams;
use crate::shown;
use crate::tape::{ChainLaw, Teacher};
use crate::terminal::Progress;

/// Options of `specdec audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec audit texts.jsonl --target models/big --draft models/small
  specdec audit speculative.jsonl --plain plain.jsonl --target models/big
  specdec audit texts.jsonl --url http://localhost:8000 --api vllm --tokens 200000 \\
      --target models/big --draft models/small
  specdec audit texts.jsonl --target-url http://localhost:8001 --api vllm
  specdec tape import log.jsonl --format vllm --out their.tape.jsonl

FILE has texts as JSON lines with prompt_ids, output_ids, sampling and seed, or is a tape.
The target reads every text and tells the law of each token; bets on the laws of known
bugs grow if the texts are not drawn from it, and the one that wins names the bug. --draft adds
bets that need the draft model. Where this program cannot load the target, a server that tells
log-probabilities takes its place (--target-url). docs/audit.md describes the bets and what the numbers mean. Fails
if the texts are refuted.")]
pub(super) struct AuditArgs {
    /// The texts of the decoder, or a tape of them; `specdec tape import` makes one from logs
    file: PathBuf,
    /// Texts of the same program without speculation: what they show is due to other arithmetic,
    /// and nothing less is claimed
    #[arg(long, value_name = "FILE")]
    plain: Option<PathBuf>,
    /// Let bets know the rounds that the texts tell; only for rules that decide token by token,
    /// such as rejection sampling, and not for block verification
    #[arg(long)]
    told_rounds: bool,
    /// The rule of the decoder, by which told rounds are looked at
    #[arg(long, value_name = "VERIFIER", default_value = ChainLaw::Token.verifier(), value_parser = rules())]
    rule: String,
    /// Logits that other arithmetic may reverse: a token with p = 0 whose logit is no further
    /// below one with p > 0 is no evidence
    #[arg(long, value_name = "GAP", default_value_t = 1e-3, value_parser = tie)]
    tie: f64,
    /// The level of the verdict: how often exact texts may be refuted
    #[arg(long, value_name = "P", default_value_t = 1e-3, value_parser = level)]
    level: f64,
    /// How many tokens a round drafts, as many as are possible, separated by commas
    #[arg(long, short = 'k', value_name = "K,…", value_delimiter = ',', value_parser = count,
        default_value = "1,2,3,4,5,6,8")]
    num_speculative_tokens: Vec<usize>,
    /// Audit texts of the same prompts, too, that this program makes with this known-wrong method
    /// (see `specdec serve --mutant`), which the audit should refute
    #[arg(long, value_name = "NAME")]
    planted: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    models: ModelArgs,
    #[cfg(feature = "serve")]
    #[command(flatten)]
    server: AuditedServer,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Parses a level.
fn level(text: &str) -> Result<f64, String> {
    let level = text.parse::<f64>().ok().filter(|level| (1e-12..=0.5).contains(level));
    level.ok_or_else(|| "allowed is a number from 1e-12 to 0.5".to_owned())
}

fn rules() -> PossibleValuesParser {
    ChainLaw::ALL.map(ChainLaw::verifier).into()
}

/// Parses a gap of logits.
fn tie(text: &str) -> Result<f64, String> {
    let gap = text.parse::<f64>().ok().filter(|gap| (0.0..=100.0).contains(gap));
    gap.ok_or_else(|| "allowed is a number from 0 to 100".to_owned())
}

/// Audits.
pub(super) fn run(args: &AuditArgs) -> Result<()> {
    if args.num_speculative_tokens.iter().any(|k| !(1..=64).contains(k)) {
        bail!("--num-speculative-tokens: allowed are numbers from 1 to 64");
    }
    if args.told_rounds && args.law() == ChainLaw::Block {
        bail!("--told-rounds: the rounds of block verification tell of tokens to come");
    }
    let planted = args.planted.as_deref().map(Mutant::of_any_models).transpose()?;
    args.check_sampling()?;
    let scorer = args.scorer()?;
    #[cfg(feature = "serve")]
    args.server.gather(&scorer, args.sampling.target()?, (&args.file, args.plain.as_deref()))?;
    let own = read_outside_texts(&args.file)?;
    let plain = args.plain.as_deref().map(read_outside_texts).transpose()?;
    let told = ToldRounds::of(&own, args.only_k())?;
    if args.told_rounds && told.shape.is_none() {
        bail!("--told-rounds: {} does not tell where rounds ended", args.file.display());
    }
    let found = args.audit(&args.file, &own, &scorer)?;
    let floor = match (&args.plain, &plain) {
        (Some(file), Some(texts)) => args.audit(file, texts, &scorer)?,
        _ => Vec::new(),
    };
    let pairs = plain.as_ref().map(|plain| SeedPairs::of(&own, plain)).filter(SeedPairs::any);
    let limits = AuditLimits { level: args.level, tie: args.tie };
    let verdicts = SamplingVerdict::of(&found, &floor, limits);
    let planted = match (planted, &scorer) {
        (Some(mutant), Scorer::Models(pair)) => {
            let k = args.num_speculative_tokens.iter().copied().max().unwrap_or(1).min(PLANTED_K);
            let texts = planted::planted(&mutant, pair, &own, k)?;
            SamplingVerdict::of(&args.audit(&args.file, &texts, &scorer)?, &floor, limits)
        }
        _ => Vec::new(),
    };
    let rounds = told.in_words(args.only_k(), scorer.models().1.is_some());
    let report = ShownAudit { verdicts, rounds, seeds: pairs, planted };
    if args.json {
        output::write_json(&report)?;
    } else {
        output::write(&report.text()?)?;
    }
    if report.verdicts.iter().any(|shown| shown.verdict.refuted) {
        bail!("{}: its texts are not drawn from the target's law", args.file.display());
    }
    Ok(())
}

/// What was found for a sampling setting.
#[derive(Debug)]
struct Audited {
    sampling: SamplingParams,
    audit: TokenAudit,
    rounds: Option<RoundVerdict>,
}

impl AuditArgs {
    /// Who tells the laws of the texts.
    fn scorer(&self) -> Result<Scorer> {
        #[cfg(feature = "serve")]
        if let Some(scoring) = self.server.scoring() {
            return Scorer::of_server(scoring, &self.models);
        }
        Scorer::of_models(&self.models)
    }

    /// Reads texts, one sampling setting after the other.
    fn audit(&self, path: &Path, texts: &OutsideTexts, scorer: &Scorer) -> Result<Vec<Audited>> {
        let (target, draft) = scorer.models();
        let (tape, drafting) = (&texts.tape, self.sampling.draft()?);
        let k = self.only_k();
        let told = ToldRounds::of(texts, k).with_context(|| path.display().to_string())?;
        for model in [Some(target), draft].into_iter().flatten() {
            check_tokens(tape, model.info())?;
        }
        tape.header.samplings.iter().try_for_each(|&sampling| scorer.check(sampling))?;
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
            if !scorer.knows_raw_target() {
                reader = reader.without_raw_target();
            }
            reader.rounds = told.shape.map(|_| RoundAudit::new(self.law(), k));
            reader.bets_know_rounds = self.told_rounds;
            let texts = tape.texts.iter().zip(&told.rounds);
            let mut texts = texts.filter(|(text, _)| text.sampling == number).collect::<Vec<_>>();
            // Models keep what a text begins with for the next one.
            texts.sort_by(|(a, _), (b, _)| a.prompt_tokens.cmp(&b.prompt_tokens));
            for (text, rounds) in texts {
                let place =
                    || format!("prompt {}, repeat {}", shown::line(&text.prompt), text.repeat);
                let rounds = rounds.as_deref();
                reader.read(AuditedText { text, rounds }).with_context(place)?;
                progress.advance(&shown::line(&text.prompt));
            }
            if reader.audit.tokens > 0 {
                let rounds = reader.rounds.as_ref().and_then(RoundAudit::verdict);
                found.push(Audited { sampling, audit: reader.audit, rounds });
            }
        }
        if found.is_empty() {
            bail!("{} has no text: a log of rounds alone cannot be audited", path.display());
        }
        Ok(found)
    }

    /// How many tokens each round drafts, if there is one answer.
    fn only_k(&self) -> Option<usize> {
        match *self.num_speculative_tokens {
            [k] => Some(k),
            _ => None,
        }
    }

    fn law(&self) -> ChainLaw {
        let named = ChainLaw::ALL.into_iter().find(|law| law.verifier() == self.rule);
        named.unwrap_or(ChainLaw::Token)
    }

    /// Refuses settings of the target where texts have settings of their own.
    fn check_sampling(&self) -> Result<()> {
        #[cfg(feature = "serve")]
        {
            self.server.check()?;
            if self.server.is_named() {
                return Ok(());
            }
        }
        match self.sampling.target()?.changes().next() {
            Some((key, _)) => bail!(
                "--{}: texts have sampling settings of their own; it is for --url",
                key.replace('_', "-")
            ),
            None => Ok(()),
        }
    }
}

/// What a planted bug drafts per round at most, as servers do by default.
const PLANTED_K: usize = 4;

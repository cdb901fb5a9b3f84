//! `specdec audit`: whether completions of any decoder were drawn from the target's distribution.

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

use self::rounds::ReportedRounds;
use self::scorer::Scorer;
use self::seeds::SeedPairs;
#[cfg(feature = "serve")]
use self::server::AuditedServer;
use self::verdict::{SamplingVerdict, ShownAudit};
use super::options::{ModelArgs, count, named};
use super::output;
use super::sampling::SamplingArgs;
use crate::audit::{
    AuditLimits, AuditReader, AuditedDraft, AuditedHead, AuditedSequence, RoundAudit, RoundVerdict,
    TokenAudit,
};
use crate::bugs::wrong_method;
use crate::core::params::Params;
use crate::core::sampling::SamplingParams;
use crate::io::shown;
use crate::io::terminal::Progress;
use crate::method::decode::MethodSpec;
use crate::method::draft::{Tools, draft_sampling};
use crate::model::LanguageModel;
use crate::tapes::recording::{
    ExternalSequences, check_tokens, read_external_sequences, write_scored,
};
use crate::tapes::tape::{AcceptanceRule, Teacher};

/// Options of `specdec audit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  specdec audit completions.jsonl --target models/big --draft models/small
  specdec audit speculative.jsonl --plain plain.jsonl --target models/big
  specdec audit completions.jsonl --url http://localhost:8000 --api vllm --tokens 200000 \\
      --target models/big --draft models/small
  specdec audit completions.jsonl --target-url http://localhost:8001 --api vllm
  specdec tape import log.jsonl --format vllm --out their.tape.jsonl

FILE has sequences as JSON lines with prompt_ids, output_ids, sampling and seed, or is a tape.
The target reads every sequence and computes the distribution of each token. Bets on the
distributions of known bugs grow if the completions are not drawn from the target's distribution.
The winning bet names the bug. --draft adds bets that need the draft model. If this program cannot
load the target, a server that reports log-probabilities can replace it (--target-url).
docs/audit.md describes the bets and the numbers. Fails if the completions are refuted.")]
pub(super) struct AuditArgs {
    /// The completions of the decoder, or a tape of them; `specdec tape import` makes one from logs
    file: PathBuf,
    /// Completions of the same program without speculation: deviations that they show, too, are due
    /// to rounding differences and do not count
    #[arg(long, value_name = "FILE")]
    plain: Option<PathBuf>,
    /// Let bets use the ends of reported rounds; only for rules that decide token by token, such as
    /// rejection sampling, and not for block verification
    #[arg(long)]
    reported_rounds: bool,
    /// The acceptance rule of the decoder, by which reported rounds are audited
    #[arg(long, value_name = "VERIFIER", default_value = AcceptanceRule::Token.verifier(),
        value_parser = named(AcceptanceRule::ALL, AcceptanceRule::verifier))]
    rule: AcceptanceRule,
    /// Gap between logits that rounding differences may reverse: a token with p = 0 whose logit is
    /// no further below one with p > 0 is no evidence
    #[arg(long, value_name = "GAP", default_value_t = 1e-3, value_parser = tie)]
    tie: f64,
    /// The level of the verdict: the probability with which exact completions may be refuted
    #[arg(long, value_name = "P", default_value_t = 1e-3, value_parser = level)]
    level: f64,
    /// Possible numbers of drafted tokens per round, separated by commas
    #[arg(long, short = 'k', value_name = "K,…", value_delimiter = ',', value_parser = count,
        default_value = "1,2,3,4,5,6,8")]
    num_speculative_tokens: Vec<usize>,
    /// Also audit completions of the same prompts that this program generates with this known-wrong
    /// method (see `specdec serve --mutant`); the audit should refute them
    #[arg(long, value_name = "NAME")]
    planted: Option<String>,
    /// Write the completions on a new tape, with the scores of the target and of --draft, for
    /// `specdec forecast`
    #[arg(long, value_name = "FILE")]
    tape: Option<PathBuf>,
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

fn level(text: &str) -> Result<f64, String> {
    let level = text.parse::<f64>().ok().filter(|level| (1e-12..=0.5).contains(level));
    level.ok_or_else(|| "allowed is a number from 1e-12 to 0.5".to_owned())
}

fn tie(text: &str) -> Result<f64, String> {
    let gap = text.parse::<f64>().ok().filter(|gap| (0.0..=100.0).contains(gap));
    gap.ok_or_else(|| "allowed is a number from 0 to 100".to_owned())
}

pub(super) fn run(args: &AuditArgs) -> Result<()> {
    if args.num_speculative_tokens.iter().any(|k| !(1..=64).contains(k)) {
        bail!("--num-speculative-tokens: allowed are numbers from 1 to 64");
    }
    if args.reported_rounds && args.rule == AcceptanceRule::Block {
        bail!("--reported-rounds: the rounds of block verification depend on tokens to come");
    }
    if let Some(tape) = args.tape.as_deref().filter(|tape| tape.exists()) {
        bail!("{} exists already: name another file", tape.display());
    }
    let planted = args.planted.as_deref().map(wrong_method).transpose()?;
    args.check_sampling()?;
    let scorer = args.scorer()?;
    #[cfg(feature = "serve")]
    args.server.gather(&scorer, args.sampling.target()?, (&args.file, args.plain.as_deref()))?;
    let read = |file: &Path| {
        let mut found = read_external_sequences(file)?;
        scorer.compile_grammars(&mut found.tape).with_context(|| file.display().to_string())?;
        Ok::<_, anyhow::Error>(found)
    };
    let own = read(&args.file)?;
    let plain = args.plain.as_deref().map(read).transpose()?;
    let reported = ReportedRounds::of(&own, args.only_k())?;
    if args.reported_rounds && reported.shape.is_none() {
        bail!("--reported-rounds: {} does not show where rounds ended", args.file.display());
    }
    let found = args.audit(&args.file, &own, &scorer)?;
    let floor = match (&args.plain, &plain) {
        (Some(file), Some(sequences)) => args.audit(file, sequences, &scorer)?,
        _ => Vec::new(),
    };
    let pairs = plain.as_ref().and_then(|plain| SeedPairs::of(&own, plain));
    let limits = AuditLimits { level: args.level, tie: args.tie };
    let verdicts = SamplingVerdict::of(&found, &floor, limits);
    let planted = match (planted, &scorer) {
        (Some((_, mutant)), Scorer::Models(pair)) => {
            let k = args.num_speculative_tokens.iter().copied().max().unwrap_or(1).min(PLANTED_K);
            let sequences = planted::planted(mutant, pair, &own, k)?;
            SamplingVerdict::of(&args.audit(&args.file, &sequences, &scorer)?, &floor, limits)
        }
        _ => Vec::new(),
    };
    let rounds = reported.in_words(args.only_k(), scorer.models().1.is_some());
    let report = ShownAudit { verdicts, rounds, seeds: pairs, planted };
    if args.json {
        output::write_json(&report)?;
    } else {
        output::show(&report.text()?)?;
    }
    if let Some(file) = &args.tape {
        let (target, draft) = scorer.models();
        let sampling = args.sampling.draft()?;
        // The q of a head depends on where drafts begin: `specdec tape score` writes its scores.
        let draft = draft.filter(|draft| !is_head(draft));
        write_scored(file, &own.tape, target, draft.map(|draft| (draft, sampling)))?;
    }
    if report.verdicts.iter().any(|shown| shown.verdict.refuted) {
        let file = args.file.display();
        bail!("{file}: its completions are not drawn from the target's distribution");
    }
    Ok(())
}

/// The findings for a sampling setting.
#[derive(Debug)]
struct Audited {
    sampling: SamplingParams,
    audit: TokenAudit,
    rounds: Option<RoundVerdict>,
}

impl AuditArgs {
    fn scorer(&self) -> Result<Scorer> {
        #[cfg(feature = "serve")]
        if let Some(scoring) = self.server.scoring() {
            return Scorer::of_server(scoring, &self.models);
        }
        Scorer::of_models(&self.models)
    }

    /// Reads sequences, one sampling setting after the other.
    fn audit(
        &self,
        path: &Path,
        sequences: &ExternalSequences,
        scorer: &Scorer,
    ) -> Result<Vec<Audited>> {
        let (target, draft) = scorer.models();
        let (tape, drafting) = (&sequences.tape, self.sampling.draft()?);
        let k = self.only_k();
        let reported =
            ReportedRounds::of(sequences, k).with_context(|| path.display().to_string())?;
        for model in [Some(target), draft].into_iter().flatten() {
            check_tokens(tape, model.info())?;
        }
        for sampling in &tape.header.samplings {
            scorer.check(sampling.clone())?;
        }
        let mut progress = Progress::new("sequences", tape.sequences.len(), 0);
        let mut found = Vec::new();
        for (number, sampling) in tape.header.samplings.iter().enumerate() {
            let teacher = Teacher::new(target)?;
            let (head, draft) = (draft.filter(is_head), draft.filter(|model| !is_head(model)));
            let draft = draft.map(|model| {
                let sampling = draft_sampling(sampling.clone(), &drafting);
                Ok::<_, anyhow::Error>(AuditedDraft { teacher: Teacher::new(model)?, sampling })
            });
            let ks = &self.num_speculative_tokens;
            let mut reader = AuditReader::new(teacher, sampling.clone(), draft.transpose()?, ks)?;
            if !scorer.knows_raw_target() {
                reader = reader.without_raw_target();
            }
            if let Some(head) = head {
                reader = reader.with_head(self.head(head, target, sampling.clone(), &drafting)?);
            }
            reader.rounds = reported.shape.map(|_| RoundAudit::new(self.rule, k));
            reader.bets_know_rounds = self.reported_rounds;
            let sequences = tape.sequences.iter().zip(&sequences.reports).zip(&reported.rounds);
            let mut sequences = sequences
                .filter(|((sequence, _), _)| sequence.sampling == number)
                .collect::<Vec<_>>();
            // Models reuse the prefix that two sequences in a row share.
            sequences.sort_by(|((a, _), _), ((b, _), _)| a.prompt_tokens.cmp(&b.prompt_tokens));
            for ((sequence, report), rounds) in sequences {
                let place = || {
                    format!("prompt {}, repeat {}", shown::line(&sequence.prompt), sequence.repeat)
                };
                let (rounds, seed) = (rounds.as_deref(), report.seed);
                reader.read(AuditedSequence { sequence, rounds, seed }).with_context(place)?;
                progress.advance(&shown::line(&sequence.prompt));
            }
            if reader.audit.tokens > 0 {
                let rounds = reader.rounds.as_ref().and_then(RoundAudit::verdict);
                found.push(Audited { sampling: sampling.clone(), audit: reader.audit, rounds });
            }
        }
        if found.is_empty() {
            bail!("{} has no sequence: a log of rounds alone cannot be audited", path.display());
        }
        Ok(found)
    }

    /// A head whose drafts rounds are compared with.
    fn head<'m>(
        &self,
        head: &'m dyn LanguageModel,
        target: &'m dyn LanguageModel,
        sampling: SamplingParams,
        drafting: &Params,
    ) -> Result<AuditedHead<'m>> {
        if self.rule == AcceptanceRule::Race {
            bail!("--rule {}: the rounds of a head are not audited by it", self.rule.verifier());
        }
        let most = self.num_speculative_tokens.iter().copied().max().unwrap_or(1);
        let default = MethodSpec::default();
        let (num_speculative_tokens, params) = (most, drafting.clone());
        let spec = MethodSpec { num_speculative_tokens, sampling, params, ..default };
        Ok(AuditedHead {
            spec,
            tools: Tools { draft: Some(head), target: Some(target), texts: None },
        })
    }

    /// How many tokens each round drafts, if there is only one possibility.
    fn only_k(&self) -> Option<usize> {
        match *self.num_speculative_tokens {
            [k] => Some(k),
            _ => None,
        }
    }

    /// Refuses settings of the target, since sequences have their own.
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
                "--{}: sequences have sampling settings of their own; it is for --url",
                key.replace('_', "-")
            ),
            None => Ok(()),
        }
    }
}

fn is_head(model: &&dyn LanguageModel) -> bool {
    !model.info().reads_text_alone()
}

/// Maximum number of tokens that a planted bug drafts per round, the default of servers.
const PLANTED_K: usize = 4;

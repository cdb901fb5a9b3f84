//! Reads sequences with the models that compute their distributions, and bets on their tokens.

use super::distributions::SequenceDists;
use super::drafted::{AuditedHead, DraftedOdds};
use super::impossible::gap;
use super::rounds::{ReportedRound, RoundAudit};
use super::tokens::TokenAudit;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{History, Logits, Sampler, SamplingParams};
use crate::tapes::tape::{TapeSequence, Teacher, distributions, parts};

/// The draft model of an audited decoder.
#[derive(Debug)]
pub struct AuditedDraft<'m> {
    /// The model.
    pub teacher: Teacher<'m>,
    /// The sampling settings of its drafts.
    pub sampling: SamplingParams,
}

/// A sequence of an audited decoder.
#[derive(Debug, Clone, Copy)]
pub struct AuditedSequence<'t> {
    /// The prompt and its completion.
    pub sequence: &'t TapeSequence,
    /// Its rounds, if the decoder reported them.
    pub rounds: Option<&'t [ReportedRound]>,
    /// Its seed, if it is known.
    pub seed: Option<u64>,
}

/// An audit whose distributions are computed by models.
#[derive(Debug)]
pub struct AuditReader<'m> {
    /// The bets on tokens.
    pub audit: TokenAudit,
    /// The bets on reported rounds, if these are audited.
    pub rounds: Option<RoundAudit>,
    /// Whether bets may use the ends of reported rounds (see `positions.rs`).
    pub bets_know_rounds: bool,
    target: Teacher<'m>,
    sampler: Sampler,
    /// Whether the temperature is 0.
    greedy: bool,
    /// The target without processors, if it has any.
    raw: Option<Sampler>,
    /// The same for the draft model.
    draft: Option<(Teacher<'m>, Sampler, Option<Sampler>)>,
    head: Option<AuditedHead<'m>>,
}

/// A part of a sequence, preceded by the prompt length and the context.
type PartOfSequence<'p> = ((usize, &'p [Token]), &'p [Token]);

impl<'m> AuditReader<'m> {
    /// An audit of sequences with this sampling setting, from a decoder that drafts one of these
    /// numbers of tokens per round.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        target: Teacher<'m>,
        sampling: SamplingParams,
        draft: Option<AuditedDraft<'m>>,
        ks: &[usize],
    ) -> Result<Self, Error> {
        let rows = target.model().for_each_row();
        let raw = |sampling: SamplingParams| {
            let processed = sampling != SamplingParams::NEUTRAL;
            processed.then(|| Ok::<_, Error>(Sampler::new(SamplingParams::NEUTRAL)?.on(rows)))
        };
        let draft = draft.map(|AuditedDraft { teacher, sampling }| {
            let raw = raw(sampling.clone()).transpose()?;
            Ok::<_, Error>((teacher, Sampler::new(sampling)?.on(rows), raw))
        });
        Ok(Self {
            audit: TokenAudit::new(ks).on(rows),
            rounds: None,
            bets_know_rounds: false,
            sampler: Sampler::new(sampling.clone())?.on(rows),
            greedy: sampling.is_greedy(),
            raw: raw(sampling).transpose()?,
            target,
            draft: draft.transpose()?,
            head: None,
        })
    }

    /// The same audit of a decoder with a head instead of a draft model. Its q depends on where
    /// drafts begin, so that rounds are audited by it, and no bets on tokens need it.
    #[must_use]
    pub fn with_head(self, head: AuditedHead<'m>) -> Self {
        Self { head: Some(head), ..self }
    }

    /// The same audit without the target's distribution before processors, for a target that
    /// reports only its most probable tokens.
    #[must_use]
    pub fn without_raw_target(self) -> Self {
        Self { raw: None, ..self }
    }

    /// Reads a sequence, unless it is a copy of another one.
    ///
    /// # Errors
    /// If a model fails, logits define no distribution, or the models have different
    /// vocabularies.
    pub fn read(
        &mut self,
        AuditedSequence { sequence, rounds, seed }: AuditedSequence<'_>,
    ) -> Result<(), Error> {
        // At temperature 0 the prompt alone determines a completion.
        let seed = if self.greedy { Some(0) } else { seed };
        let source = seed.map(|seed| (&sequence.prompt_tokens, seed));
        if self.audit.copies.is_copy(source, &sequence.tokens) {
            return Ok(());
        }
        self.audit.begin(&sequence.prompt, sequence.repeat);
        let prompt_len = sequence.prompt_tokens.len();
        let reported = rounds.filter(|_| self.bets_know_rounds);
        let ended = reported.map(|rounds| ends(rounds, sequence.tokens.len()));
        let (mut odds, mut log_p) = (Vec::new(), Vec::new());
        parts(sequence, |context, part| {
            let begin = context.len() - prompt_len;
            let (dists, gaps) = self.dists(((prompt_len, context), part))?;
            if rounds.is_some() && self.rounds.is_some() {
                odds.extend(dists.odds(part));
                log_p.extend(dists.target.iter().zip(part).map(|(p, &token)| p.p(token).ln()));
            }
            let ended = ended.as_ref().map(|ended| &ended[begin..begin + part.len()]);
            let known = self.audit.impossible.len();
            self.audit.read(part, dists, ended)?;
            let new = self.audit.impossible[known..].iter_mut();
            for (token, gap) in new.zip(gaps) {
                token.gap = gap;
            }
            Ok(())
        })?;
        if let (Some(audit), Some(rounds)) = (&mut self.rounds, rounds) {
            let odds = match &self.head {
                Some(head) => head.odds(sequence, &log_p)?,
                None => DraftedOdds::ByToken(odds),
            };
            audit.read(&odds, rounds);
        }
        self.audit.end();
        Ok(())
    }

    /// The distributions at a part's positions, and the gaps of its tokens with probability 0.
    fn dists(&mut self, part: PartOfSequence<'_>) -> Result<(SequenceDists, Vec<f64>), Error> {
        let (place @ (prompt_len, context), tokens) = part;
        let logits = self.target.logits(context, tokens)?;
        let target = distributions(&self.sampler, place, tokens, &logits, "the target")?;
        let gap = |at: usize| {
            let history = History { prompt_len, context, drafted: &tokens[..at] };
            let scores = self.sampler.scores(&logits[at], history);
            let scores = scores.map_err(Error::distribution("the target"))?;
            Ok::<_, Error>(gap(&target[at], &scores, tokens[at]))
        };
        let impossible = (0..tokens.len()).filter(|&at| target[at].p(tokens[at]) <= 0.0);
        let gaps = impossible.map(gap).collect::<Result<_, _>>()?;
        let raw_target = raw_dists(self.raw.as_ref(), part, &logits)?;
        let (mut draft, mut raw_draft) = (None, None);
        if let Some((teacher, sampler, raw)) = &mut self.draft {
            let logits = teacher.logits(context, tokens)?;
            draft = Some(distributions(sampler, place, tokens, &logits, "the draft model")?);
            raw_draft = raw_dists(raw.as_ref(), part, &logits)?;
        }
        Ok((SequenceDists { target, raw_target, draft, raw_draft }, gaps))
    }
}

fn raw_dists(
    raw: Option<&Sampler>,
    (place, part): PartOfSequence<'_>,
    logits: &[Logits],
) -> Result<Option<Vec<Dist>>, Error> {
    raw.map(|raw| distributions(raw, place, part, logits, "a model")).transpose()
}

/// Whether each token ends a round.
fn ends(rounds: &[ReportedRound], tokens: usize) -> Vec<bool> {
    let mut ends = vec![false; tokens];
    let mut end = 0;
    for round in rounds {
        end += round.tokens;
        if let Some(ended) = end.checked_sub(1).and_then(|last| ends.get_mut(last)) {
            *ended = true;
        }
    }
    ends
}

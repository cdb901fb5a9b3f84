//! Reads texts with the models that know their laws, and bets on their tokens.

use super::impossible::gap;
use super::laws::TextLaws;
use super::rounds::{RoundAudit, ToldRound};
use super::tokens::TokenAudit;
use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::sampling::{History, Logits, Sampler, SamplingParams};
use crate::tape::{TapeText, Teacher, laws, parts};

/// The draft model of an audited decoder.
#[derive(Debug)]
pub struct AuditedDraft<'m> {
    /// It.
    pub teacher: Teacher<'m>,
    /// How the decoder samples it.
    pub sampling: SamplingParams,
}

/// A text of an audited decoder.
#[derive(Debug, Clone, Copy)]
pub struct AuditedText<'t> {
    /// The text.
    pub text: &'t TapeText,
    /// Its rounds, if the decoder has told them.
    pub rounds: Option<&'t [ToldRound]>,
}

/// An audit whose laws are those of models.
#[derive(Debug)]
pub struct AuditReader<'m> {
    /// What it has found.
    pub audit: TokenAudit,
    /// What it has found of told rounds, if it looks at them.
    pub rounds: Option<RoundAudit>,
    /// Whether bets may know where told rounds ended (see `places.rs`).
    pub bets_know_rounds: bool,
    target: Teacher<'m>,
    sampler: Sampler,
    /// Without any processor, if the target has one.
    raw: Option<Sampler>,
    /// The same for the draft model.
    draft: Option<(Teacher<'m>, Sampler, Option<Sampler>)>,
}

/// A part of a text, and what comes before it.
type PartOfText<'p> = ((usize, &'p [Token]), &'p [Token]);

impl<'m> AuditReader<'m> {
    /// An audit of texts with this sampling setting, whose decoder drafts one of these numbers of
    /// tokens.
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
            let raw = raw(sampling).transpose()?;
            Ok::<_, Error>((teacher, Sampler::new(sampling)?.on(rows), raw))
        });
        Ok(Self {
            audit: TokenAudit::new(ks).on(rows),
            rounds: None,
            bets_know_rounds: false,
            sampler: Sampler::new(sampling)?.on(rows),
            raw: raw(sampling).transpose()?,
            target,
            draft: draft.transpose()?,
        })
    }

    /// The same without the target's law before its processors, for a target that tells its most
    /// probable tokens alone.
    #[must_use]
    pub fn without_raw_target(self) -> Self {
        Self { raw: None, ..self }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If a model fails, logits define no distribution, or the models have different
    /// vocabularies.
    pub fn read(&mut self, AuditedText { text, rounds }: AuditedText<'_>) -> Result<(), Error> {
        self.audit.begin(&text.prompt, text.repeat);
        let prompt_len = text.prompt_tokens.len();
        let told = rounds.filter(|_| self.bets_know_rounds);
        let ended = told.map(|rounds| ends(rounds, text.tokens.len()));
        let mut odds = Vec::new();
        parts(text, |context, part| {
            let begin = context.len() - prompt_len;
            let (laws, gaps) = self.laws(((prompt_len, context), part))?;
            if rounds.is_some() && self.rounds.is_some() {
                odds.extend(laws.odds(part));
            }
            let ended = ended.as_ref().map(|ended| &ended[begin..begin + part.len()]);
            let known = self.audit.impossible.len();
            self.audit.read(part, laws, ended)?;
            let new = self.audit.impossible[known..].iter_mut();
            new.zip(gaps).for_each(|(token, gap)| token.gap = gap);
            Ok(())
        })?;
        if let (Some(audit), Some(rounds)) = (&mut self.rounds, rounds) {
            audit.read(&odds, rounds);
        }
        self.audit.end();
        Ok(())
    }

    /// The laws of a part's tokens, and the gaps of those that have probability 0.
    fn laws(&mut self, part: PartOfText<'_>) -> Result<(TextLaws, Vec<f64>), Error> {
        let (place @ (prompt_len, context), tokens) = part;
        let logits = self.target.logits(context, tokens)?;
        let target = laws(&self.sampler, place, tokens, &logits, "the target")?;
        let gap = |at: usize| {
            let history = History { prompt_len, context, drafted: &tokens[..at] };
            gap(&target[at], &self.sampler.scores(&logits[at], history), tokens[at])
        };
        let impossible = (0..tokens.len()).filter(|&at| target[at].p(tokens[at]) <= 0.0);
        let gaps = impossible.map(gap).collect();
        let raw_target = raw_laws(self.raw.as_ref(), part, &logits)?;
        let (mut draft, mut raw_draft) = (None, None);
        if let Some((teacher, sampler, raw)) = &mut self.draft {
            let logits = teacher.logits(context, tokens)?;
            draft = Some(laws(sampler, place, tokens, &logits, "the draft model")?);
            raw_draft = raw_laws(raw.as_ref(), part, &logits)?;
        }
        Ok((TextLaws { target, raw_target, draft, raw_draft }, gaps))
    }
}

fn raw_laws(
    raw: Option<&Sampler>,
    (place, part): PartOfText<'_>,
    logits: &[Logits],
) -> Result<Option<Vec<Dist>>, Error> {
    raw.map(|raw| laws(raw, place, part, logits, "a model")).transpose()
}

/// Which tokens end a round.
fn ends(rounds: &[ToldRound], tokens: usize) -> Vec<bool> {
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

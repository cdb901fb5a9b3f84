//! Lets models read texts and bets on their tokens.

use super::laws::TextLaws;
use super::tokens::TokenAudit;
use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::sampling::{Logits, Sampler, SamplingParams};
use crate::tape::{TapeText, Teacher, laws, parts};

/// The draft model of an audited decoder.
#[derive(Debug)]
pub struct AuditedDraft<'m> {
    /// It.
    pub teacher: Teacher<'m>,
    /// How the decoder samples it.
    pub sampling: SamplingParams,
}

/// An audit whose laws are those of models.
#[derive(Debug)]
pub struct AuditReader<'m> {
    target: Teacher<'m>,
    sampler: Sampler,
    raw: Option<Sampler>,
    draft: Option<(Teacher<'m>, Sampler)>,
    /// What it has found.
    pub audit: TokenAudit,
}

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
        let raw = (sampling != SamplingParams::NEUTRAL).then_some(SamplingParams::NEUTRAL);
        let rows = target.model().for_each_row();
        let draft = draft.map(|AuditedDraft { teacher, sampling }| {
            Ok::<_, Error>((teacher, Sampler::new(sampling)?.on(rows)))
        });
        Ok(Self {
            sampler: Sampler::new(sampling)?.on(rows),
            raw: raw.map(|raw| Ok::<_, Error>(Sampler::new(raw)?.on(rows))).transpose()?,
            target,
            draft: draft.transpose()?,
            audit: TokenAudit::new(ks),
        })
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If a model fails, logits define no distribution, or the models have different
    /// vocabularies.
    pub fn read(&mut self, text: &TapeText) -> Result<(), Error> {
        self.audit.begin(&text.prompt, text.repeat);
        let prompt_len = text.prompt_tokens.len();
        parts(text, |context, part| {
            let place = (prompt_len, context);
            let logits = self.target.logits(context, part)?;
            let target = laws(&self.sampler, place, part, &logits, "the target")?;
            let raw_target = self.raw_laws(place, part, &logits)?;
            let (mut draft, mut raw_draft) = (None, None);
            if let Some((teacher, sampler)) = &mut self.draft {
                let logits = teacher.logits(context, part)?;
                draft = Some(laws(sampler, place, part, &logits, "the draft model")?);
                raw_draft = self.raw_laws(place, part, &logits)?;
            }
            self.audit.read(part, TextLaws { target, raw_target, draft, raw_draft })
        })?;
        self.audit.end();
        Ok(())
    }

    fn raw_laws(
        &self,
        place: (usize, &[Token]),
        part: &[Token],
        logits: &[Logits],
    ) -> Result<Option<Vec<Dist>>, Error> {
        let laws = |raw| laws(raw, place, part, logits, "a model");
        self.raw.as_ref().map(laws).transpose()
    }
}

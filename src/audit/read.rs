//! Reads texts and bets on their tokens.

use super::bet::Bet;
use super::bugs::BUGS;
use super::laws::PlaceLaws;
use super::wealth::log_mean_exp;
use crate::chance::{Chance, Request, Seeded};
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

/// A token that an exact decoder cannot have drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpossibleToken {
    /// The prompt.
    pub prompt: String,
    /// Which text of the prompt.
    pub repeat: u32,
    /// The token's place in the text.
    pub at: usize,
    /// The token.
    pub token: Token,
}

/// An audit.
#[derive(Debug)]
pub struct AuditReader<'m> {
    target: Teacher<'m>,
    sampler: Sampler,
    raw: Option<Sampler>,
    draft: Option<(Teacher<'m>, Sampler)>,
    chance: Seeded,
    /// The bets.
    pub bets: Vec<Bet>,
    /// Texts that were read.
    pub texts: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Tokens of probability 0.
    pub impossible: Vec<ImpossibleToken>,
    /// The largest wealth so far of a bet that is divided between all bugs, as a logarithm.
    pub best: f64,
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
            chance: Seeded::new(Request { seed: 0, prompt: "audit", repeat: 0 }),
            bets: BUGS.iter().map(|bug| Bet::new(bug, ks)).collect(),
            texts: 0,
            tokens: 0,
            impossible: Vec::new(),
            best: 0.0,
        })
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If a model fails, or logits define no distribution.
    pub fn read(&mut self, text: &TapeText) -> Result<(), Error> {
        self.bets.iter_mut().for_each(Bet::begin);
        let prompt_len = text.prompt_tokens.len();
        let mut before = None;
        let mut at = 0;
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
            for (i, &token) in part.iter().enumerate() {
                let laws = PlaceLaws {
                    target: &target[i],
                    raw_target: at_place(raw_target.as_deref(), i),
                    before: before.as_ref(),
                    draft: at_place(draft.as_deref(), i),
                    raw_draft: at_place(raw_draft.as_deref(), i),
                };
                self.token((text, at), token, &laws);
                before = Some(target[i].clone());
                at += 1;
            }
            Ok(())
        })?;
        self.texts += 1;
        let logs = self.bets.iter().map(|bet| bet.wealth.log()).collect::<Vec<_>>();
        self.best = self.best.max(log_mean_exp(&logs));
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

    fn token(&mut self, (text, at): (&TapeText, usize), token: Token, laws: &PlaceLaws<'_>) {
        if laws.target.p(token) <= 0.0 {
            let (prompt, repeat) = (text.prompt.clone(), text.repeat);
            self.impossible.push(ImpossibleToken { prompt, repeat, at, token });
        }
        self.chance.begin_round(self.tokens as u64);
        self.tokens += 1;
        for bet in &mut self.bets {
            bet.place(laws, token, &mut self.chance);
        }
    }
}

fn at_place(laws: Option<&[Dist]>, at: usize) -> Option<&Dist> {
    laws.map(|laws| &laws[at])
}

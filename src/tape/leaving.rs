//! Drafts that leave a text.
//!
//! Where rejection sampling rejects a drafted token, that token has the law norm((q − p)⁺),
//! whatever the text has in its place, and what follows it is drawn from q.

use super::format::TapeText;
use super::teacher::{Teacher, laws};
use crate::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::sampling::{Logits, Sampler};

/// How a draft model draws, and what it believes.
#[derive(Debug)]
pub(super) struct DraftLaws<'s> {
    sampler: &'s Sampler,
    /// For a greedy draft, what it believes at temperature 1.
    plain: Option<Sampler>,
}

/// Laws of the tokens of a part.
pub(super) struct PartLaws {
    /// Those that drafts are drawn from.
    pub(super) drafts: Vec<Dist>,
    /// Those that a greedy draft model believes in.
    pub(super) plain: Option<Vec<Dist>>,
}

impl<'s> DraftLaws<'s> {
    pub(super) fn new(sampler: &'s Sampler) -> Result<Self, Error> {
        let params = sampler.params();
        let plain = params.is_greedy().then(|| Sampler::new(params.penalties())).transpose()?;
        Ok(Self { sampler, plain })
    }

    /// The laws of a part's tokens, from their logits; what a greedy draft believes only if it
    /// is wanted.
    pub(super) fn laws(
        &self,
        before: (usize, &[Token]),
        part: &[Token],
        logits: &[Logits],
        beliefs: bool,
    ) -> Result<PartLaws, Error> {
        let of = |sampler| laws(sampler, before, part, logits, "the draft model");
        let plain = self.plain.as_ref().filter(|_| beliefs).map(of).transpose()?;
        Ok(PartLaws { drafts: of(self.sampler)?, plain })
    }

    /// The law of the token after `known`.
    pub(super) fn after(
        &self,
        teacher: &mut Teacher<'_>,
        (prompt_len, known): (usize, &[Token]),
    ) -> Result<PartLaws, Error> {
        // It does not depend on the token.
        let any = [0];
        let logits = teacher.logits(known, &any)?;
        self.laws((prompt_len, known), &any, &logits, true)
    }
}

impl PartLaws {
    /// What a draft model believes at a token.
    pub(super) fn belief(&self, at: usize) -> &Dist {
        self.plain.as_ref().map_or(&self.drafts[at], |plain| &plain[at])
    }
}

/// What is believed of a token.
pub(super) fn pair(belief: &Dist, token: Token) -> [f64; 2] {
    [belief.p(token), belief.entropy()]
}

/// Draws how drafts go on that leave a text.
#[derive(Debug)]
pub(super) struct Leaving {
    chance: Seeded,
    most: usize,
    prompt_len: usize,
}

impl Leaving {
    /// Drafts of at most `most` tokens that leave this text.
    pub(super) fn new(text: &TapeText, most: usize) -> Self {
        let request = Request { seed: 0, prompt: &text.prompt, repeat: text.repeat };
        let prompt_len = text.prompt_tokens.len();
        Self { chance: Seeded::new(request), most, prompt_len }
    }

    /// A draft that goes on after a whole text.
    pub(super) fn go_on(
        &mut self,
        (teacher, draft): (&mut Teacher<'_>, &DraftLaws<'_>),
        known: &[Token],
    ) -> Result<Vec<[f64; 2]>, Error> {
        let laws = draft.after(teacher, (self.prompt_len, known))?;
        self.draft((teacher, draft), known, (&laws.drafts[0], laws.belief(0)))
    }

    /// A draft after `known`, whose first token has the law `first` and is believed to have the
    /// law `belief`.
    pub(super) fn draft(
        &mut self,
        (teacher, draft): (&mut Teacher<'_>, &DraftLaws<'_>),
        known: &[Token],
        (first, belief): (&Dist, &Dist),
    ) -> Result<Vec<[f64; 2]>, Error> {
        self.chance.begin_round(known.len() as u64);
        let mut context = known.to_vec();
        let mut drawn = Vec::with_capacity(self.most);
        let mut token = self.token(0, first);
        drawn.push(pair(belief, token));
        while drawn.len() < self.most {
            context.push(token);
            let after = draft.after(teacher, (self.prompt_len, &context))?;
            token = self.token(drawn.len(), &after.drafts[0]);
            drawn.push(pair(after.belief(0), token));
        }
        Ok(drawn)
    }

    fn token(&mut self, node: usize, law: &Dist) -> Token {
        self.chance.categorical(Site { purpose: Purpose::Draft, node }, law)
    }
}

//! Drafts that diverge from a sequence.
//!
//! A token that rejection sampling rejects has distribution norm((q − p)⁺), independent of the
//! token that the sequence has at this position. The later tokens of the draft are drawn from q.

use super::format::TapeSequence;
use super::teacher::{Teacher, distributions};
use crate::core::chance::{Chance, Purpose, Request, Seeded, Site};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{Logits, Sampler};

/// How a draft model samples, and at which temperature policies see it.
#[derive(Debug)]
pub(super) struct DraftSamplers<'s> {
    sampler: &'s Sampler,
    /// For a greedy draft, the sampler at temperature 1.
    plain: Option<Sampler>,
}

/// The draft model's distributions at a part's positions.
pub(super) struct PartDists {
    /// Those that drafts are drawn from.
    pub(super) drafts: Vec<Dist>,
    /// For a greedy draft, those at temperature 1.
    pub(super) plain: Option<Vec<Dist>>,
}

impl<'s> DraftSamplers<'s> {
    pub(super) fn new(sampler: &'s Sampler) -> Result<Self, Error> {
        let params = sampler.params();
        let plain =
            params.is_greedy().then(|| Sampler::new(params.logit_processors())).transpose()?;
        Ok(Self { sampler, plain })
    }

    /// The distributions at a part's positions, from their logits; those at temperature 1 only if
    /// `beliefs` is set.
    pub(super) fn dists(
        &self,
        before: (usize, &[Token]),
        part: &[Token],
        logits: &[Logits],
        beliefs: bool,
    ) -> Result<PartDists, Error> {
        let of = |sampler| distributions(sampler, before, part, logits, "the draft model");
        let plain = self.plain.as_ref().filter(|_| beliefs).map(of).transpose()?;
        Ok(PartDists { drafts: of(self.sampler)?, plain })
    }

    /// The distributions of the token after `known`.
    pub(super) fn after(
        &self,
        teacher: &mut Teacher<'_>,
        (prompt_len, known): (usize, &[Token]),
    ) -> Result<PartDists, Error> {
        // They do not depend on the token itself.
        let any = [0];
        let logits = teacher.logits(known, &any)?;
        self.dists((prompt_len, known), &any, &logits, true)
    }
}

impl PartDists {
    /// The distribution that policies see at a position.
    pub(super) fn belief(&self, at: usize) -> &Dist {
        self.plain.as_ref().map_or(&self.drafts[at], |plain| &plain[at])
    }
}

/// What policies see of a token.
pub(super) fn pair(belief: &Dist, token: Token) -> [f64; 2] {
    [belief.p(token), belief.entropy()]
}

/// Draws drafts that diverge from a sequence.
#[derive(Debug)]
pub(super) struct DivergingDrafts {
    chance: Seeded,
    most: usize,
    ends: Vec<Token>,
    prompt_len: usize,
}

impl DivergingDrafts {
    /// Drafts of at most `most` tokens that diverge from this sequence, and end with any of `ends`.
    pub(super) fn new(sequence: &TapeSequence, most: usize, ends: &[Token]) -> Self {
        let request = Request { seed: 0, prompt: &sequence.prompt, repeat: sequence.repeat };
        let prompt_len = sequence.prompt_tokens.len();
        Self { chance: Seeded::new(request), most, ends: ends.to_vec(), prompt_len }
    }

    /// A draft after `known`. Its first token is drawn from `first`, and policies see it in
    /// `belief`.
    pub(super) fn draft(
        &mut self,
        (teacher, draft): (&mut Teacher<'_>, &DraftSamplers<'_>),
        known: &[Token],
        (first, belief): (&Dist, &Dist),
    ) -> Result<Vec<[f64; 2]>, Error> {
        self.chance.begin_round(known.len() as u64);
        let mut context = known.to_vec();
        let mut drawn = Vec::with_capacity(self.most);
        let mut token = self.token(0, first);
        drawn.push(pair(belief, token));
        while drawn.len() < self.most && !self.ends.contains(&token) {
            context.push(token);
            let after = draft.after(teacher, (self.prompt_len, &context))?;
            token = self.token(drawn.len(), &after.drafts[0]);
            drawn.push(pair(after.belief(0), token));
        }
        Ok(drawn)
    }

    fn token(&mut self, node: usize, dist: &Dist) -> Token {
        self.chance.categorical(Site { purpose: Purpose::Draft, node }, dist)
    }
}

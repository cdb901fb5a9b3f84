//! A draft model's score of a sequence, from one teacher-forced pass.

use super::acceptance::race_won;
use super::beliefs::DraftBeliefs;
use super::diverging::{DivergingDrafts, DraftSamplers, PartDists, pair};
use super::forecast::TapeEnd;
use super::format::{TapeScore, TapeSequence};
use super::level::LevelScores;
use super::siblings::SiblingScores;
use super::teacher::{Teacher, distributions, parts};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{Logits, Sampler};

/// The target, which reads the sequence in addition to the draft model.
#[derive(Debug)]
pub struct TargetReader<'a, 'm> {
    /// The model.
    pub teacher: &'a mut Teacher<'m>,
    /// Its sampler.
    pub sampler: &'a Sampler,
    /// The K up to which to draw drafts that diverge from the sequence.
    pub beliefs: Option<usize>,
    /// The tokens with which such a draft ends.
    pub ends: &'a [Token],
}

impl TargetReader<'_, '_> {
    /// p at the positions of a part, given the number of tokens of the prompt, and all tokens before
    /// the part.
    pub(super) fn distributions(
        &mut self,
        before: (usize, &[Token]),
        part: &[Token],
    ) -> Result<Vec<Dist>, Error> {
        let logits = self.teacher.logits(before.1, part)?;
        distributions(self.sampler, before, part, &logits, "the target")
    }
}

/// The natural logarithms of the probabilities that `sampler` gives the tokens of the completion,
/// each given the tokens before it; −∞ for a token that cannot be drawn.
///
/// # Errors
/// If the prompt is empty, the model fails, or logits define no distribution.
pub fn log_probs(
    teacher: &mut Teacher<'_>,
    sampler: &Sampler,
    sequence: &TapeSequence,
) -> Result<Vec<f64>, Error> {
    let scored = score_sequence(teacher, std::slice::from_ref(sampler), None, sequence)?;
    Ok(scored.into_iter().filter_map(|score| score.log_q).flatten().collect())
}

/// Scores a sequence by a draft model with each of some samplers, in one pass; with the target,
/// also by the overlap of both. The scores do not name their drafter and sequence.
///
/// # Errors
/// As [`log_probs`].
pub fn score_sequence(
    draft: &mut Teacher<'_>,
    samplers: &[Sampler],
    mut target: Option<TargetReader<'_, '_>>,
    sequence: &TapeSequence,
) -> Result<Vec<TapeScore>, Error> {
    let most = target.as_ref().and_then(|target| target.beliefs);
    let mut scored = vec![TapeScore::empty(target.is_some(), most); samplers.len()];
    let readers = samplers.iter().map(DraftSamplers::new).collect::<Result<Vec<_>, _>>()?;
    let mut diverging = target
        .as_ref()
        .and_then(|target| Some(DivergingDrafts::new(sequence, target.beliefs?, target.ends)));
    let prompt_len = sequence.prompt_tokens.len();
    parts(sequence, |context, part| {
        let before = (prompt_len, context);
        let targets = match &mut target {
            Some(target) => Some(target.distributions(before, part)?),
            None => None,
        };
        let logits = draft.logits(context, part)?;
        for (reader, scored) in readers.iter().zip(&mut scored) {
            let drafts = reader.dists(before, part, &logits, targets.is_some())?;
            scored.add(part, &drafts, targets.as_deref());
            if let (Some(diverging), Some(targets)) = (&mut diverging, &targets) {
                scored.add_diverging(
                    (draft, reader, diverging),
                    (context, part),
                    &drafts,
                    targets,
                )?;
            }
        }
        Ok(())
    })?;
    if sequence.end == TapeEnd::Token {
        // A draft ends with the last token.
        let beliefs = scored.iter_mut().filter_map(|score| score.beliefs.as_mut());
        for beliefs in beliefs {
            beliefs.behind.push(Vec::new());
        }
    }
    Ok(scored)
}

/// Scores a completion from the logits of both models at each of its tokens, as [`score_sequence`]
/// does with the target, but without beliefs. The score does not name its drafter and sequence.
///
/// # Errors
/// If logits define no distribution.
pub fn score_logits(
    (target, p): (&Sampler, &[Logits]),
    (draft, q): (&Sampler, &[Logits]),
    sequence: &TapeSequence,
) -> Result<TapeScore, Error> {
    let (prompt, tokens) = (&sequence.prompt_tokens, &sequence.tokens);
    let before = (prompt.len(), &prompt[..]);
    let targets = distributions(target, before, tokens, p, "the target")?;
    let drafts = DraftSamplers::new(draft)?.dists(before, tokens, q, true)?;
    let mut scored = TapeScore::empty(true, None);
    scored.add(tokens, &drafts, Some(&targets));
    Ok(scored)
}

/// A draft model that reads, how it samples, and its diverging drafts.
type Drafting<'a, 'm> = (&'a mut Teacher<'m>, &'a DraftSamplers<'a>, &'a mut DivergingDrafts);

impl TapeScore {
    fn empty(with_target: bool, most: Option<usize>) -> Self {
        let both = with_target.then(Vec::new);
        Self {
            log_q: Some(Vec::new()),
            overlap: both.clone(),
            race: both,
            siblings: with_target.then(SiblingScores::default),
            level: with_target.then(LevelScores::default),
            beliefs: most.map(|most| DraftBeliefs { most, ..DraftBeliefs::default() }),
            ..Self::default()
        }
    }

    fn add(&mut self, part: &[Token], dists: &PartDists, targets: Option<&[Dist]>) {
        let log = |(&token, dist): (&Token, &Dist)| dist.p(token).ln();
        if let Some(log_q) = &mut self.log_q {
            log_q.extend(part.iter().zip(&dists.drafts).map(log));
        }
        let both = targets.into_iter().flatten().zip(&dists.drafts);
        for (p, q) in both.clone() {
            self.add_position(p, Some(q));
        }
        if let Some(race) = &mut self.race {
            race.extend(both.clone().zip(part).map(|((p, q), &token)| race_won(p, q, token)));
        }
        if let Some(siblings) = &mut self.siblings {
            let belief = |at: usize| dists.plain.as_ref().map(|plain| &plain[at]);
            let each = both.zip(part).enumerate();
            for (at, ((p, q), &token)) in each {
                siblings.add(p, q, belief(at), token);
            }
        }
    }

    /// Adds the acceptance at a position, for any token there; without q nothing is drafted.
    pub(super) fn add_position(&mut self, p: &Dist, q: Option<&Dist>) {
        if let Some(overlap) = &mut self.overlap {
            overlap.push(q.map_or(0.0, |q| p.overlap(q)));
        }
        if let Some(level) = &mut self.level {
            level.add(p, q);
        }
    }

    /// Adds what policies see of the tokens of a part, and the drafts that diverge at them.
    fn add_diverging(
        &mut self,
        (draft, reader, diverging): Drafting<'_, '_>,
        (context, part): (&[Token], &[Token]),
        dists: &PartDists,
        targets: &[Dist],
    ) -> Result<(), Error> {
        let Some(beliefs) = &mut self.beliefs else { return Ok(()) };
        let mut known = context.to_vec();
        for (at, (&token, target)) in part.iter().zip(targets).enumerate() {
            let belief = dists.belief(at);
            beliefs.along.push(pair(belief, token));
            beliefs.behind.push(match dists.drafts[at].residual(target) {
                Some(first) => diverging.draft((draft, reader), &known, (&first, belief))?,
                None => Vec::new(),
            });
            known.push(token);
        }
        Ok(())
    }
}

//! What a draft model says of a text, from one teacher-forced pass over it.

use super::beliefs::DraftBeliefs;
use super::forecast::TapeEnd;
use super::format::TapeText;
use super::law::race_won;
use super::leaving::{DraftLaws, Leaving, PartLaws, pair};
use super::siblings::SiblingScores;
use super::teacher::{Teacher, laws, parts};
use crate::distribution::{Dist, Token};
use crate::error::Error;
use crate::sampling::Sampler;

/// What one sampling setting of a draft model says of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScoredText {
    /// log q of each token; −∞ for one that cannot be drawn.
    pub log_q: Vec<f64>,
    /// Σ min(p, q) at each token, if the target has read the text, too.
    pub overlap: Option<Vec<f64>>,
    /// The probability that q wins each token in a race that p has won with it, likewise.
    pub race: Option<Vec<f64>>,
    /// What several drafted tokens in one place would give, likewise.
    pub siblings: Option<SiblingScores>,
    /// What the model believes, if that was asked for.
    pub beliefs: Option<DraftBeliefs>,
}

/// The target, which reads the text beside a draft model.
#[derive(Debug)]
pub struct Beside<'a, 'm> {
    /// It.
    pub teacher: &'a mut Teacher<'m>,
    /// Its sampler.
    pub sampler: &'a Sampler,
    /// The K up to which to draw how drafts go on that leave the text.
    pub beliefs: Option<usize>,
}

/// The natural logarithms of the probabilities that `sampler` gives the tokens of `text`, each
/// given the tokens before it; −∞ for a token that cannot be drawn.
///
/// # Errors
/// If the prompt is empty, the model fails, or logits define no distribution.
pub fn log_probs(
    teacher: &mut Teacher<'_>,
    sampler: &Sampler,
    text: &TapeText,
) -> Result<Vec<f64>, Error> {
    let scored = score_text(teacher, std::slice::from_ref(sampler), None, text)?;
    Ok(scored.into_iter().flat_map(|scored| scored.log_q).collect())
}

/// What a draft model says of a text with each of some samplers, from one pass; with the target,
/// also how far both overlap.
///
/// # Errors
/// As [`log_probs`].
pub fn score_text(
    draft: &mut Teacher<'_>,
    samplers: &[Sampler],
    mut target: Option<Beside<'_, '_>>,
    text: &TapeText,
) -> Result<Vec<ScoredText>, Error> {
    let mut scored = vec![ScoredText::empty(target.as_ref()); samplers.len()];
    let readers = samplers.iter().map(DraftLaws::new).collect::<Result<Vec<_>, _>>()?;
    let mut leaving = target.as_ref().and_then(|beside| Some(Leaving::new(text, beside.beliefs?)));
    let prompt_len = text.prompt_tokens.len();
    parts(text, |context, part| {
        let before = (prompt_len, context);
        let targets = match &mut target {
            Some(Beside { teacher, sampler, .. }) => {
                let logits = teacher.logits(context, part)?;
                Some(laws(sampler, before, part, &logits, "the target")?)
            }
            None => None,
        };
        let logits = draft.logits(context, part)?;
        for (reader, scored) in readers.iter().zip(&mut scored) {
            let drafts = reader.laws(before, part, &logits, targets.is_some())?;
            scored.add(part, &drafts, targets.as_deref());
            if let (Some(leaving), Some(targets)) = (&mut leaving, &targets) {
                scored.leave((draft, reader, leaving), (context, part), &drafts, targets)?;
            }
        }
        Ok(())
    })?;
    if let Some(leaving) = leaving.as_mut().filter(|_| text.end == TapeEnd::Token) {
        let known = [text.prompt_tokens.as_slice(), &text.tokens].concat();
        for (reader, scored) in readers.iter().zip(&mut scored) {
            if let Some(beliefs) = &mut scored.beliefs {
                beliefs.behind.push(leaving.go_on((draft, reader), &known)?);
            }
        }
    }
    Ok(scored)
}

/// A draft model that reads, how it draws, and its draws.
type Drafting<'a, 'm> = (&'a mut Teacher<'m>, &'a DraftLaws<'a>, &'a mut Leaving);

impl ScoredText {
    fn empty(target: Option<&Beside<'_, '_>>) -> Self {
        let both = target.map(|_| Vec::new());
        let most = target.and_then(|beside| beside.beliefs);
        Self {
            log_q: Vec::new(),
            overlap: both.clone(),
            race: both,
            siblings: target.map(|_| SiblingScores::default()),
            beliefs: most.map(|most| DraftBeliefs { most, ..DraftBeliefs::default() }),
        }
    }

    fn add(&mut self, part: &[Token], laws: &PartLaws, targets: Option<&[Dist]>) {
        let log = |(&token, dist): (&Token, &Dist)| dist.p(token).ln();
        self.log_q.extend(part.iter().zip(&laws.drafts).map(log));
        let both = targets.into_iter().flatten().zip(&laws.drafts);
        if let Some(overlap) = &mut self.overlap {
            overlap.extend(both.clone().map(|(p, q)| p.overlap(q)));
        }
        if let Some(race) = &mut self.race {
            race.extend(both.clone().zip(part).map(|((p, q), &token)| race_won(p, q, token)));
        }
        if let Some(siblings) = &mut self.siblings {
            let belief = |at: usize| laws.plain.as_ref().map(|plain| &plain[at]);
            let each = both.zip(part).enumerate();
            each.for_each(|(at, ((p, q), &token))| siblings.add(p, q, belief(at), token));
        }
    }

    /// Adds what is believed of the tokens of a part, and drafts that leave the text at them.
    fn leave(
        &mut self,
        (draft, reader, leaving): Drafting<'_, '_>,
        (context, part): (&[Token], &[Token]),
        laws: &PartLaws,
        targets: &[Dist],
    ) -> Result<(), Error> {
        let Some(beliefs) = &mut self.beliefs else { return Ok(()) };
        let mut known = context.to_vec();
        for (at, (&token, target)) in part.iter().zip(targets).enumerate() {
            let belief = laws.belief(at);
            beliefs.along.push(pair(belief, token));
            beliefs.behind.push(match laws.drafts[at].residual(target) {
                Some(first) => leaving.draft((draft, reader), &known, (&first, belief))?,
                None => Vec::new(),
            });
            known.push(token);
        }
        Ok(())
    }
}

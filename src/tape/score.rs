//! What a draft model says of a text, from one teacher-forced pass over it.

use super::format::TapeText;
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

/// What a draft model says of a text with each of some samplers, from one pass; with the target
/// and its sampler, also how far both overlap.
///
/// # Errors
/// As [`log_probs`].
pub fn score_text(
    draft: &mut Teacher<'_>,
    samplers: &[Sampler],
    mut target: Option<(&mut Teacher<'_>, &Sampler)>,
    text: &TapeText,
) -> Result<Vec<ScoredText>, Error> {
    let both = target.is_some().then(Vec::new);
    let siblings = target.is_some().then(SiblingScores::default);
    let empty = ScoredText { log_q: Vec::new(), overlap: both.clone(), race: both, siblings };
    let mut scored = vec![empty; samplers.len()];
    parts(text, |context, part| {
        let before = (text.prompt_tokens.len(), context);
        let targets = match &mut target {
            Some((teacher, sampler)) => {
                let logits = teacher.logits(context, part)?;
                Some(laws(sampler, before, part, &logits, "the target")?)
            }
            None => None,
        };
        let logits = draft.logits(context, part)?;
        for (sampler, scored) in samplers.iter().zip(&mut scored) {
            let drafts = laws(sampler, before, part, &logits, "the draft model")?;
            let plain = sampler.params().penalties();
            let plain = (sampler.params().is_greedy() && targets.is_some()).then_some(plain);
            let beliefs = plain
                .map(|plain| laws(&Sampler::new(plain)?, before, part, &logits, "the draft model"));
            let beliefs = beliefs.transpose()?;
            scored.add(part, &drafts, beliefs.as_deref(), targets.as_deref());
        }
        Ok(())
    })?;
    Ok(scored)
}

impl ScoredText {
    fn add(
        &mut self,
        part: &[Token],
        drafts: &[Dist],
        beliefs: Option<&[Dist]>,
        targets: Option<&[Dist]>,
    ) {
        let log = |(&token, dist): (&Token, &Dist)| dist.p(token).ln();
        self.log_q.extend(part.iter().zip(drafts).map(log));
        let both = targets.into_iter().flatten().zip(drafts);
        if let Some(overlap) = &mut self.overlap {
            overlap.extend(both.clone().map(|(p, q)| p.overlap(q)));
        }
        if let Some(race) = &mut self.race {
            race.extend(both.clone().zip(part).map(|((p, q), &token)| race_won(p, q, token)));
        }
        if let Some(siblings) = &mut self.siblings {
            let belief = |at: usize| beliefs.map(|beliefs| &beliefs[at]);
            let each = both.zip(part).enumerate();
            each.for_each(|(at, ((p, q), &token))| siblings.add(p, q, belief(at), token));
        }
    }
}

/// The probability that q wins x in a race that p has won with it: 1 / Σ_y max(p(y), q(y)·p(x)/q(x)).
///
/// With exponential noise E, p wins x if E(x)·p(y)/p(x) < E(y) for all other y. Both win it with
/// probability 1 / Σ_y max(p(y)/p(x), q(y)/q(x)); that p does has probability p(x).
fn race_won(p: &Dist, q: &Dist, token: Token) -> f64 {
    let (own, other) = (p.p(token), q.p(token));
    if own == 0.0 || other == 0.0 {
        return 0.0;
    }
    let sum = p.zip(q, |p, q| p.max(q * own / other)).into_iter().sum::<f64>();
    (1.0 / sum).min(1.0)
}

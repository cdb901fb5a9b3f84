//! The odds that decide how far drafts survive in a completion.

use super::acceptance::{AcceptanceRule, TokenOdds};
use super::beliefs::{DraftBeliefs, DrawnBeliefs};
use super::forecast::{Forecast, TapeLength, forecast};
use super::format::{DraftStart, TapeScore, TapeSequence};
use super::siblings::{SiblingKind, SiblingScores};

/// The odds of the tokens of a completion with one drafter.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceOdds<'t> {
    length: TapeLength,
    drafts: DraftOdds,
    siblings: Option<&'t SiblingScores>,
    beliefs: Option<&'t DraftBeliefs>,
    /// Whether the length of a draft depends on tokens that it draws after it diverges.
    open: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum DraftOdds {
    /// By token, if q depends on the context alone: a draft has as many tokens as allowed.
    Anywhere(Vec<TokenOdds>),
    /// By the token at which a draft begins: its length, and the odds of its tokens that follow the
    /// sequence.
    From(Vec<(usize, Vec<TokenOdds>)>),
}

impl<'t> SequenceOdds<'t> {
    /// The odds that a tape holds; `None` if it lacks log p or log q.
    ///
    /// Without log p there are still odds if q(x) = 1 for every token that a draft shares with the
    /// completion. No rule rejects such a token, since the completion has it.
    pub fn new(sequence: &TapeSequence, score: &'t TapeScore) -> Option<Self> {
        let drafts = match (&score.log_q, &score.starts) {
            (Some(log_q), _) => {
                let log_p = sequence.log_p.as_ref()?;
                let race = |at: usize| score.race.as_ref().map(|race| race[at]);
                let both = log_p.iter().zip(log_q).enumerate();
                let all = both
                    .map(|(at, (&p, &q))| TokenOdds { race: race(at), ..TokenOdds::of_logs(p, q) });
                DraftOdds::Anywhere(all.collect())
            }
            (None, Some(starts)) => {
                let each = starts.iter().enumerate();
                DraftOdds::From(
                    each.map(|(at, start)| from(sequence, at, start)).collect::<Option<_>>()?,
                )
            }
            (None, None) => return None,
        };
        let (siblings, beliefs) = (score.siblings.as_ref(), score.beliefs.as_ref());
        Some(Self { length: sequence.length(), drafts, siblings, beliefs, open: false })
    }

    /// The largest K for which the tape holds what draft length policies see; 0 if it does not.
    pub fn seen(&self) -> usize {
        self.beliefs.map_or(0, |beliefs| beliefs.most)
    }

    /// What draft length policies see of a draft that begins at token `start` and follows the
    /// sequence for `followed` tokens; `None` if the tape does not hold it.
    pub fn drawn(&self, start: usize, followed: usize) -> Option<DrawnBeliefs<'t>> {
        self.beliefs.map(|beliefs| beliefs.drawn(start, followed))
    }

    /// Sets whether the length of a draft depends on tokens that the tape does not hold, those after
    /// it diverges from the sequence: a policy looks at them, or one of them ends the draft.
    #[must_use]
    pub fn open(self, open: bool) -> Self {
        Self { open, ..self }
    }

    /// The fewest and the most tokens that rounds are expected to draft with this rule, given a
    /// forecast. A draft that diverges has at least the token at which it does, and at most K
    /// tokens.
    pub fn proposed_within(&self, rule: AcceptanceRule, k: usize, found: &Forecast) -> [f64; 2] {
        if !self.open {
            return [found.proposed; 2];
        }
        let mut within = [0.0; 2];
        let mut survival = Vec::new();
        for (start, begins) in found.begins.iter().enumerate().filter(|(_, begins)| **begins > 0.0)
        {
            let (drafted, most) = (self.drafted(start, k), self.length.limit(start).min(k));
            survival.clear();
            self.survival(rule, start, drafted, &mut survival);
            // A draft that follows the sequence until the policy or the completion ends it.
            let longest = drafted.min(self.length.tokens - start);
            let kept = survival.last().copied().unwrap_or(1.0);
            let whole = if survival.len() == longest { kept } else { 0.0 };
            within[0] += begins * (survival.iter().sum::<f64>() + 1.0 - kept);
            within[1] += begins * (whole * longest as f64 + (1.0 - whole) * most as f64);
        }
        within
    }

    /// Whether q depends on the context alone, and not on where a draft begins.
    pub fn is_anywhere(&self) -> bool {
        matches!(self.drafts, DraftOdds::Anywhere(_))
    }

    /// Whether the tape holds what a rule depends on.
    pub fn knows(&self, rule: AcceptanceRule) -> bool {
        let raced = |odds: &TokenOdds| odds.race.is_some();
        rule != AcceptanceRule::Race
            || matches!(&self.drafts, DraftOdds::Anywhere(odds) if odds.iter().all(raced))
    }

    /// The lengths of the completion.
    pub fn length(&self) -> TapeLength {
        self.length
    }

    /// The length of a draft of at most `k` tokens that begins at token `start`.
    pub fn drafted(&self, start: usize, k: usize) -> usize {
        let limit = self.length.limit(start).min(k);
        match &self.drafts {
            DraftOdds::Anywhere(_) => limit,
            DraftOdds::From(starts) => {
                starts.get(start).map_or(0, |(drafted, _)| limit.min(*drafted))
            }
        }
    }

    /// Expected rounds and tokens with drafts of at most `k` tokens and this rule.
    pub fn forecast(&self, rule: AcceptanceRule, k: usize) -> Forecast {
        forecast(self.length, |start, survival| {
            let drafted = self.drafted(start, k);
            self.survival(rule, start, drafted, survival);
            [drafted, drafted.min(self.length.tokens - start)]
        })
    }

    /// The terms of [`Self::forecast`] by the token at which a round begins: the probability that
    /// one does, and the expected number of tokens that it accepts.
    pub fn by_start(&self, rule: AcceptanceRule, k: usize) -> Vec<(usize, [f64; 2])> {
        let begins = self.forecast(rule, k).begins.into_iter().enumerate();
        let mut survival = Vec::new();
        let accepted = |(start, begins)| {
            survival.clear();
            self.survival(rule, start, self.drafted(start, k), &mut survival);
            (start, [begins, survival.iter().sum()])
        };
        begins.map(accepted).collect()
    }

    /// Appends the probabilities that at least 1, 2, … tokens survive of a draft of `drafted`
    /// tokens that begins at token `start`.
    pub fn survival(
        &self,
        rule: AcceptanceRule,
        start: usize,
        drafted: usize,
        survival: &mut Vec<f64>,
    ) {
        let part = drafted.min(self.length.room(start));
        let known = self.from(start);
        let known = &known[..known.len().min(part)];
        let before = survival.len();
        survival.extend(rule.survival(known.iter().copied()));
        survival.resize(before + part, 0.0);
    }

    /// The odds of a draft closer to the target: q becomes (1 − share) q + share p.
    #[must_use]
    pub fn nearer(mut self, share: f64) -> Self {
        let near = |TokenOdds { q, ratio, .. }: TokenOdds| {
            // p(x), which is unknown where q(x) = 0.
            let p = if ratio > 0.0 { q / ratio } else { 0.0 };
            let (q, ratio) = ((1.0 - share) * q + share * p, (1.0 - share) * ratio + share);
            TokenOdds { q, ratio, race: None }
        };
        (self.siblings, self.beliefs) = (None, None);
        match &mut self.drafts {
            DraftOdds::Anywhere(odds) => {
                for odds in odds {
                    *odds = near(*odds);
                }
            }
            DraftOdds::From(starts) => {
                let odds = starts.iter_mut().flat_map(|(_, odds)| odds);
                for odds in odds {
                    *odds = near(*odds);
                }
            }
        }
        self
    }

    /// Expected rounds and tokens with trees in which every node of depth i has `tree[i]` children,
    /// decided by recursive rejection sampling; `None` if the tape does not cover such siblings.
    /// The drafted tokens are all nodes of the trees, also of those in which one ends the completion.
    pub fn forecast_tree(&self, kind: SiblingKind, tree: &[usize]) -> Option<Forecast> {
        let siblings = self.siblings?;
        let accepted = |&children: &usize| siblings.accepted(kind, children, 0);
        tree.iter().map(accepted).collect::<Option<Vec<_>>>()?;
        Some(forecast(self.length, |start, survival| {
            let depth = self.depth(start, tree.len());
            let mut left = 1.0;
            for (at, &children) in tree[..depth.min(self.length.room(start))].iter().enumerate() {
                left *= siblings.accepted(kind, children, start + at).unwrap_or(0.0);
                survival.push(left);
            }
            [nodes(&tree[..depth]); 2]
        }))
    }

    /// The depth that a tree of this depth may have at token `start`.
    pub fn depth(&self, start: usize, depth: usize) -> usize {
        depth.min(self.length.limit(start))
    }

    /// The odds of the tokens from `start` on.
    fn from(&self, start: usize) -> &[TokenOdds] {
        match &self.drafts {
            DraftOdds::Anywhere(odds) => odds.get(start..).unwrap_or_default(),
            DraftOdds::From(starts) => starts.get(start).map_or(&[], |(_, odds)| odds),
        }
    }
}

/// Number of nodes of a tree in which every node of depth i has `tree[i]` children.
pub fn nodes(tree: &[usize]) -> usize {
    let levels = tree.iter().scan(1, |level, children| {
        *level *= children;
        Some(*level)
    });
    levels.sum()
}

fn from(sequence: &TapeSequence, at: usize, start: &DraftStart) -> Option<(usize, Vec<TokenOdds>)> {
    let log_p = |i: usize| sequence.log_p.as_ref().map(|log_p| log_p[at + i]);
    let known = start.log_q.iter().enumerate().map(|(i, &log_q)| match log_p(i) {
        Some(log_p) => Some(TokenOdds::of_logs(log_p, log_q)),
        None => (log_q == 0.0).then_some(TokenOdds { q: 1.0, ratio: 1.0, race: None }),
    });
    Some((start.drafted, known.collect::<Option<_>>()?))
}

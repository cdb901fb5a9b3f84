//! How the rounds of a decoder produce tokens, which their counts alone do not show.

use super::rounds::ReportedRound;

/// The counts that a decoder reported for the rounds of a completion.
#[derive(Debug, Clone, Copy)]
pub struct ReportedCounts<'t> {
    /// The accepted tokens of each round.
    pub accepted: &'t [usize],
    /// The drafted tokens of each round, if they were reported.
    pub drafted: Option<&'t [usize]>,
    /// The tokens of the completion.
    pub tokens: usize,
}

/// How rounds produce tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundShape {
    /// Whether the prompt's pass, and not a round, gives the first token.
    pub prompt_gives_one: bool,
    /// Whether a bonus token follows a fully accepted draft.
    pub bonus: bool,
}

impl RoundShape {
    const ALL: [Self; 4] = [
        Self { prompt_gives_one: false, bonus: true },
        Self { prompt_gives_one: true, bonus: true },
        Self { prompt_gives_one: false, bonus: false },
        Self { prompt_gives_one: true, bonus: false },
    ];

    /// The shape that fits all completions. `None` if no shape fits, or if two shapes with a bonus
    /// token do. Rounds draft `k` tokens where they report no number; without either, a missing
    /// bonus token is not found.
    pub fn of<'t>(
        sequences: impl Iterator<Item = ReportedCounts<'t>> + Clone,
        k: Option<usize>,
    ) -> Option<Self> {
        let fits = |shape: &Self| sequences.clone().all(|sequence| shape.fits(sequence, k));
        let [with, without] = [true, false].map(|bonus| {
            let shapes = Self::ALL.into_iter().filter(|shape| shape.bonus == bonus);
            shapes.filter(fits).collect::<Vec<_>>()
        });
        match (&*with, &*without) {
            ([shape], _) | ([], [shape]) => Some(*shape),
            _ => None,
        }
    }

    /// The rounds of a completion, clipped at its end.
    pub fn rounds(self, sequence: ReportedCounts<'_>, k: Option<usize>) -> Vec<ReportedRound> {
        let prompt = ReportedRound { tokens: 1, accepted: 0, drafted: Some(0) };
        let prompt = self.prompt_gives_one.then_some(prompt);
        let rounds = sequence.accepted.iter().enumerate().map(|(at, &accepted)| {
            let drafted = sequence.drafted.map(|drafted| drafted[at]);
            ReportedRound { tokens: self.tokens(accepted, drafted.or(k)), accepted, drafted }
        });
        let mut left = sequence.tokens;
        let clipped = prompt.into_iter().chain(rounds).map(|round| {
            let tokens = round.tokens.min(left);
            left -= tokens;
            ReportedRound { tokens, ..round }
        });
        clipped.collect()
    }

    fn tokens(self, accepted: usize, drafted: Option<usize>) -> usize {
        accepted + usize::from(self.bonus || drafted.is_some_and(|drafted| accepted < drafted))
    }

    /// Whether the rounds produce the completion. Its end may cut the last round, which must give
    /// at least one token.
    fn fits(self, sequence: ReportedCounts<'_>, k: Option<usize>) -> bool {
        if !self.bonus && sequence.drafted.is_none() && k.is_none() {
            return false;
        }
        let whole = ReportedCounts { tokens: usize::MAX, ..sequence };
        let rounds = self.rounds(whole, k);
        let all = rounds.iter().map(|round| round.tokens).sum::<usize>();
        let last = rounds.last().map_or(0, |round| round.tokens);
        all >= sequence.tokens && (all - last < sequence.tokens || sequence.tokens == 0)
    }
}

//! How the rounds of a decoder give tokens, which their counts alone do not tell.

use super::rounds::ToldRound;

/// What a decoder has told of the rounds of a text.
#[derive(Debug, Clone, Copy)]
pub struct ToldCounts<'t> {
    /// The accepted tokens of each round.
    pub accepted: &'t [usize],
    /// The drafted ones, if they were told.
    pub drafted: Option<&'t [usize]>,
    /// The tokens of the text.
    pub tokens: usize,
}

/// How rounds give tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundShape {
    /// Whether the prompt's pass gives the first token, and no round.
    pub prompt_gives_one: bool,
    /// Whether a token of the target's follows a draft that was accepted as a whole.
    pub bonus: bool,
}

impl RoundShape {
    const ALL: [Self; 4] = [
        Self { prompt_gives_one: false, bonus: true },
        Self { prompt_gives_one: true, bonus: true },
        Self { prompt_gives_one: false, bonus: false },
        Self { prompt_gives_one: true, bonus: false },
    ];

    /// The shape that all texts have; `None` if they have none, or if shapes with a bonus token
    /// cannot be told apart. Rounds draft `k` tokens where they do not tell; without that, a
    /// missing bonus token is not found.
    pub fn of<'t>(
        texts: impl Iterator<Item = ToldCounts<'t>> + Clone,
        k: Option<usize>,
    ) -> Option<Self> {
        let fits = |shape: &Self| texts.clone().all(|text| shape.fits(text, k));
        let [with, without] = [true, false].map(|bonus| {
            let shapes = Self::ALL.into_iter().filter(|shape| shape.bonus == bonus);
            shapes.filter(fits).collect::<Vec<_>>()
        });
        match (&*with, &*without) {
            ([shape], _) | ([], [shape]) => Some(*shape),
            _ => None,
        }
    }

    /// The rounds of a text, as far as they are part of it.
    pub fn rounds(self, text: ToldCounts<'_>, k: Option<usize>) -> Vec<ToldRound> {
        let prompt = ToldRound { tokens: 1, accepted: 0, drafted: Some(0) };
        let prompt = self.prompt_gives_one.then_some(prompt);
        let rounds = text.accepted.iter().enumerate().map(|(at, &accepted)| {
            let drafted = text.drafted.map(|drafted| drafted[at]);
            ToldRound { tokens: self.tokens(accepted, drafted.or(k)), accepted, drafted }
        });
        let mut left = text.tokens;
        let clipped = prompt.into_iter().chain(rounds).map(|round| {
            let tokens = round.tokens.min(left);
            left -= tokens;
            ToldRound { tokens, ..round }
        });
        clipped.collect()
    }

    fn tokens(self, accepted: usize, drafted: Option<usize>) -> usize {
        accepted + usize::from(self.bonus || drafted.is_some_and(|drafted| accepted < drafted))
    }

    /// Whether the rounds give the text, the last one at least a part of it: the end of a text
    /// may cut it.
    fn fits(self, text: ToldCounts<'_>, k: Option<usize>) -> bool {
        if !self.bonus && text.drafted.is_none() && k.is_none() {
            return false;
        }
        let whole = ToldCounts { tokens: usize::MAX, ..text };
        let rounds = self.rounds(whole, k);
        let all = rounds.iter().map(|round| round.tokens).sum::<usize>();
        let last = rounds.last().map_or(0, |round| round.tokens);
        all >= text.tokens && (all - last < text.tokens || text.tokens == 0)
    }
}

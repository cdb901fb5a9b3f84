//! The rounds that texts tell of.

use anyhow::{Result, bail};

use crate::audit::{RoundShape, RoundVerdict, ToldCounts, ToldRound};
use crate::recording::OutsideTexts;
use crate::shown::{count, e_value};

/// The rounds of texts.
#[derive(Debug)]
pub(super) struct ToldRounds {
    /// Those of each text, if it tells and the texts tell how they give tokens.
    pub(super) rounds: Vec<Option<Vec<ToldRound>>>,
    /// How they give tokens.
    pub(super) shape: Option<RoundShape>,
    /// Whether every text that tells of rounds tells how many tokens they draft; `None` if none
    /// tells of any.
    drafted: Option<bool>,
}

impl ToldRounds {
    /// The rounds of texts; each drafts `k` tokens where it does not tell.
    ///
    /// # Errors
    /// If a round accepts more than K tokens.
    pub(super) fn of(texts: &OutsideTexts, k: Option<usize>) -> Result<Self> {
        let counts = texts.tape.texts.iter().zip(&texts.told).map(|(text, told)| {
            let accepted = told.accepted.as_deref()?;
            let (drafted, tokens) = (told.drafted.as_deref(), text.tokens.len());
            Some(ToldCounts { accepted, drafted, tokens })
        });
        let all = counts.clone().flatten();
        let mut drafted = all.clone().next().map(|_| true);
        for text in all.clone().filter(|text| text.drafted.is_none()) {
            drafted = Some(false);
            let most = text.accepted.iter().copied().max().unwrap_or(0);
            if let Some(k) = k.filter(|k| most > *k) {
                bail!("a round accepts {most} tokens: --num-speculative-tokens is {k}");
            }
        }
        let shape = RoundShape::of(all, k);
        let rounds = counts.map(|text| Some(shape?.rounds(text?, k)));
        Ok(Self { rounds: rounds.collect(), shape, drafted })
    }

    /// How they give tokens, or why they are not looked at; `None` if texts do not tell of them.
    pub(super) fn in_words(&self, k: Option<usize>, with_draft: bool) -> Option<&'static str> {
        let drafted = self.drafted?;
        Some(match self.shape {
            _ if !drafted && k.is_none() => {
                "not looked at, since neither \"drafted\" nor one --num-speculative-tokens tells \
                 how many tokens they draft"
            }
            None => "not looked at, since their counts do not tell which tokens they gave",
            _ if !with_draft => "not looked at, since that needs the draft model (--draft)",
            Some(RoundShape { bonus: false, .. }) => {
                "no token of the target's follows a draft that was accepted as a whole: the bonus \
                 token is missing"
            }
            Some(RoundShape { prompt_gives_one: true, .. }) => {
                "the prompt's pass gives the first token, each round one more than it accepts"
            }
            Some(_) => "each gives one token more than it accepts",
        })
    }
}

/// What rounds show.
pub(super) fn rounds_in_words(found: &RoundVerdict, level: f64) -> String {
    let reached = found.positions.iter().map(|at| at.reached).sum();
    let accepted = found.positions.iter().map(|at| at.accepted).sum::<usize>();
    let expected = found.positions.iter().map(|at| at.expected).sum::<f64>();
    let differs = match found.log10_e >= -level.log10() {
        false => "no difference is shown",
        true if found.log10_e_fewer > found.log10_e_more => "these accept fewer",
        true => "these accept more",
    };
    format!(
        "{}: {accepted} of {} are accepted, {expected:.1} on average by {} with this draft: {}, \
         {differs}",
        count(found.rounds, "round"),
        count(reached, "drafted token"),
        found.rule,
        e_value(found.log10_e)
    )
}

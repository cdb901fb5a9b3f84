//! What each drafter, rule and K takes for the texts of a tape.

use std::collections::BTreeMap;

use super::MOST_K;
use super::timing::{Costed, SpentTime};
use crate::statistics::Ratio;
use crate::tape::{ChainLaw, Forecast, Tape, TextOdds};

/// A way to decode, and what it takes, prompt by prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastCell {
    /// The sampling setting, by its number on the tape.
    pub sampling: usize,
    /// The drafter, by its number on the tape.
    pub drafter: usize,
    /// The rule.
    pub law: ChainLaw,
    /// K.
    pub k: usize,
    /// Number of texts.
    pub texts: usize,
    /// By prompt, in the order of their names.
    pub prompts: BTreeMap<String, PromptForecast>,
}

/// Sums over the texts of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptForecast {
    /// Tokens.
    pub tokens: f64,
    /// Expected rounds.
    pub rounds: f64,
    /// Expected accepted tokens.
    pub accepted: f64,
    /// Expected drafted tokens.
    pub proposed: f64,
    /// Expected rounds by the number of tokens that they draft.
    pub drafts: Vec<f64>,
    /// By position from 1: expected rounds that draft it and accept everything before it.
    pub reached: Vec<f64>,
    /// Those of them that accept it.
    pub survived: Vec<f64>,
    /// The times by setting ([`Costed::settings`]), where costs are known.
    pub times: Vec<SpentTime>,
}

/// All ways to decode that the tape tells of: every drafter × rule × K up to [`MOST_K`] ×
/// sampling setting, with their times where costs are known.
pub fn forecast_cells(tape: &Tape, costed: Option<&Costed<'_>>) -> Vec<ForecastCell> {
    let all = ChainLaw::ALL.map(|law| (law, 1..=MOST_K));
    let mut cells = BTreeMap::new();
    for drafter in 0..tape.drafters.len() {
        let most = tape.drafters[drafter].most.unwrap_or(MOST_K);
        let with_model = tape.drafters[drafter].model.is_some();
        for (number, text) in tape.texts.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number) else { continue };
            let ways = all.iter().cloned().flat_map(|(law, ks)| ks.map(move |k| (law, k)));
            for (law, k) in ways.filter(|(law, k)| *k <= most && odds.knows(*law)) {
                let place = (text.sampling, drafter, law, k);
                let cell = cells.entry(place).or_insert_with(|| ForecastCell::empty(place));
                cell.texts += 1;
                let sums = cell.prompts.entry(text.prompt.clone()).or_default();
                let found = odds.forecast(law, k);
                sums.add(&odds, &found);
                if let Some(costed) = costed {
                    let times =
                        costed.times(&odds, &found, k, (text.prompt_tokens.len(), with_model));
                    add_to(&mut sums.times, &times);
                }
            }
        }
    }
    cells.into_values().collect()
}

/// Adds list to list, place by place.
fn add_to<T: Copy + Default + std::ops::AddAssign>(sums: &mut Vec<T>, parts: &[T]) {
    sums.resize(sums.len().max(parts.len()), T::default());
    sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += *part);
}

impl PromptForecast {
    fn add(&mut self, odds: &TextOdds, found: &Forecast) {
        self.tokens += odds.text().tokens as f64;
        self.rounds += found.rounds;
        self.accepted += found.accepted;
        self.proposed += found.proposed;
        add_to(&mut self.drafts, &found.drafts);
        add_to(&mut self.reached, &found.reached);
        add_to(&mut self.survived, &found.survived);
    }
}

impl ForecastCell {
    fn empty((sampling, drafter, law, k): (usize, usize, ChainLaw, usize)) -> Self {
        Self { sampling, drafter, law, k, texts: 0, prompts: BTreeMap::new() }
    }

    /// The cell with those of the prompts alone whose number is kept.
    #[must_use]
    pub fn of(&self, keep: impl Fn(usize) -> bool) -> Self {
        let kept = self.prompts.iter().enumerate().filter(|(at, _)| keep(*at));
        let prompts = kept.map(|(_, (name, sums))| (name.clone(), sums.clone()));
        Self { prompts: prompts.collect(), ..*self }
    }

    /// τ: tokens per round before any cut, which is accepted tokens per round, plus one.
    pub fn block_efficiency(&self) -> Ratio {
        self.ratio(|sums| [sums.accepted, sums.rounds]).plus(1.0)
    }

    /// Tokens of the texts per round: the τ of a text, cut where it ends.
    pub fn tokens_per_round(&self) -> Ratio {
        self.ratio(|sums| [sums.tokens, sums.rounds])
    }

    /// Accepted ÷ drafted tokens.
    pub fn acceptance_rate(&self) -> Ratio {
        self.ratio(|sums| [sums.accepted, sums.proposed]).at_most_one()
    }

    /// The probability that a drafted token is kept, given that everything before it was. For
    /// the rule that decides token by token this is alpha.
    pub fn conditional_acceptance(&self) -> Ratio {
        let sum = |parts: &[f64]| parts.iter().sum::<f64>();
        self.ratio(|sums| [sum(&sums.survived), sum(&sums.reached)]).at_most_one()
    }

    /// By position from 1: the probability that it survives if everything before it did.
    pub fn survival(&self) -> Vec<Ratio> {
        let at = |sums: &[f64], i: usize| sums.get(i).copied().unwrap_or(0.0);
        let positions = self.prompts.values().map(|sums| sums.reached.len()).max().unwrap_or(0);
        let of = |i| self.ratio(|sums| [at(&sums.survived, i), at(&sums.reached, i)]).at_most_one();
        (0..positions).map(of).collect()
    }

    /// The time of plain decoding ÷ that with drafts, at the setting with this number; `None`
    /// without costs.
    pub fn speedup(&self, setting: usize) -> Option<Ratio> {
        let times = self.prompts.values().map(|sums| sums.times.get(setting).copied());
        let times = times.collect::<Option<Vec<_>>>()?;
        Some(Ratio::of(times.into_iter().map(|time| ([time.plain], [time.drafted]))))
    }

    /// Tokens, and rounds by the number of tokens that they draft, over all prompts.
    pub fn totals(&self) -> (f64, Vec<f64>) {
        let mut drafts = Vec::new();
        self.prompts.values().for_each(|sums| add_to(&mut drafts, &sums.drafts));
        (self.prompts.values().map(|sums| sums.tokens).sum(), drafts)
    }

    /// A ratio of sums over prompts.
    pub(super) fn ratio(&self, of: impl Fn(&PromptForecast) -> [f64; 2]) -> Ratio {
        Ratio::of(self.prompts.values().map(|sums| {
            let [above, below] = of(sums);
            ([above], [below])
        }))
    }
}

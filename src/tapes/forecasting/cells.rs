//! Forecasts for every drafter, rule and K on the completions of a tape.

use std::collections::BTreeMap;

use super::MAX_K;
use super::timing::{Costed, DraftedRound, SpentTime};
use crate::measure::statistics::{Ratio, looped_tokens};
use crate::tapes::tape::{
    AcceptanceRule, DraftPasses, Forecast, SequenceOdds, SiblingKind, Tape, nodes,
};

/// A decoding configuration and its forecast, by prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastCell {
    /// The configuration.
    pub config: DecodingConfig,
    /// Number of sequences.
    pub sequences: usize,
    /// By prompt, in the order of their names; equal prompts are one.
    pub prompts: BTreeMap<String, PromptForecast>,
}

/// A decoding configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecodingConfig {
    /// Index of the sampling setting on the tape.
    pub sampling: usize,
    /// Index of the drafter on the tape.
    pub drafter: usize,
    /// The tree that it drafts; none for chains.
    pub tree: Option<TreeShape>,
    /// The acceptance rule.
    pub rule: AcceptanceRule,
    /// K: the largest depth of a draft.
    pub k: usize,
}

/// A tree in which all nodes of the same depth have the same number of children.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeShape {
    /// How siblings are chosen.
    pub siblings: SiblingKind,
    /// Children per node, by depth.
    pub children: Vec<usize>,
}

impl TreeShape {
    /// The shape in words.
    pub fn describe(&self) -> String {
        let children = self.children.iter().map(ToString::to_string).collect::<Vec<_>>();
        format!("{} {}", children.join(","), self.siblings.name())
    }
}

/// Sums over the sequences of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PromptForecast {
    /// Tokens.
    pub tokens: f64,
    /// How many of them lie in repetition loops.
    pub looped: f64,
    /// Expected rounds.
    pub rounds: f64,
    /// Expected accepted tokens.
    pub accepted: f64,
    /// Expected drafted tokens.
    pub proposed: f64,
    /// The fewest and the most drafted tokens.
    pub proposed_within: [f64; 2],
    /// Expected rounds by the number of tokens that they draft.
    pub drafts: Vec<f64>,
    /// By position from 1: expected rounds that draft it and accept everything before it.
    pub reached: Vec<f64>,
    /// By position from 1: how many of these rounds accept it.
    pub survived: Vec<f64>,
    /// The times by setting ([`Costed::settings`]), if costs are known.
    pub times: Vec<SpentTime>,
}

/// The forecasts of all configurations that the tape covers: every drafter × rule × K up to
/// [`MAX_K`], and each of these trees, for every sampling setting; with times if costs are known.
pub fn forecast_cells(
    tape: &Tape,
    trees: &[TreeShape],
    costed: Option<&Costed<'_>>,
) -> Vec<ForecastCell> {
    let (mut cells, originals) = (BTreeMap::new(), tape.originals());
    let looped = tape.sequences.iter().map(|sequence| looped_tokens(&sequence.tokens) as f64);
    let looped = looped.collect::<Vec<_>>();
    for drafter in 0..tape.drafters.len() {
        let configs = configs(tape, drafter, trees);
        for (number, sequence) in tape.sequences.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number) else { continue };
            for config in &configs {
                let config = DecodingConfig { sampling: sequence.sampling, ..config.clone() };
                let Some(found) = config.forecast(&odds) else { continue };
                let empty = |config: &DecodingConfig| ForecastCell {
                    config: config.clone(),
                    sequences: 0,
                    prompts: BTreeMap::new(),
                };
                let cell = cells.entry(config).or_insert_with_key(empty);
                cell.sequences += 1;
                let sums = cell.prompts.entry(originals[number].to_owned()).or_default();
                sums.add(&odds, &cell.config, &found);
                sums.looped += looped[number];
                if let Some(costed) = costed {
                    let passes = tape.drafters[drafter].passes();
                    let round = |at| cell.config.round(&odds, at, passes);
                    let times = costed.times(&found, sequence.prompt_tokens.len(), round);
                    add_to(&mut sums.times, &times);
                }
            }
        }
    }
    cells.into_values().collect()
}

fn configs(tape: &Tape, drafter: usize, trees: &[TreeShape]) -> Vec<DecodingConfig> {
    let most = tape.drafters[drafter].most.unwrap_or(MAX_K).min(MAX_K);
    let config = |rule, k| DecodingConfig { sampling: 0, drafter, tree: None, rule, k };
    let chains =
        AcceptanceRule::ALL.into_iter().flat_map(|rule| (1..=most).map(move |k| config(rule, k)));
    let trees = trees.iter().map(|tree| DecodingConfig {
        tree: Some(tree.clone()),
        ..config(AcceptanceRule::Token, tree.children.len())
    });
    chains.chain(trees).collect()
}

impl DecodingConfig {
    /// Orders configurations that are equally good: chains, a small K and an early rule come first.
    pub(super) fn simplicity(&self) -> (bool, usize, AcceptanceRule) {
        (self.tree.is_some(), self.k, self.rule)
    }

    /// The forecast for a completion; `None` if the tape does not cover this configuration.
    fn forecast(&self, odds: &SequenceOdds<'_>) -> Option<Forecast> {
        match &self.tree {
            Some(tree) => odds.forecast_tree(tree.siblings, &tree.children),
            None => odds.knows(self.rule).then(|| odds.forecast(self.rule, self.k)),
        }
    }

    /// What a round drafts that begins at token `at`.
    fn round(&self, odds: &SequenceOdds<'_>, at: usize, passes: DraftPasses) -> DraftedRound {
        let (tokens, depth) = match &self.tree {
            Some(tree) => {
                let depth = odds.depth(at, self.k);
                (nodes(&tree.children[..depth]), depth)
            }
            None => {
                let drafted = odds.drafted(at, self.k);
                (drafted, drafted)
            }
        };
        DraftedRound { tokens, passes: passes.of(depth) }
    }
}

/// Two ratios and their ratio, from the numerators and the denominators of both by prompt.
pub(super) fn compared(prompts: &[[[f64; 2]; 2]]) -> [Ratio; 3] {
    let side = |i: usize| Ratio::of(prompts.iter().map(|both| ([both[i][0]], [both[i][1]])));
    let ratio = Ratio::of(prompts.iter().map(|[a, b]| ([a[0], b[1]], [a[1], b[0]])));
    [side(0), side(1), ratio]
}

/// Adds a list to the sums, element by element.
fn add_to<T: Copy + Default + std::ops::AddAssign>(sums: &mut Vec<T>, parts: &[T]) {
    sums.resize(sums.len().max(parts.len()), T::default());
    for (sum, part) in sums.iter_mut().zip(parts) {
        *sum += *part;
    }
}

impl PromptForecast {
    fn add(&mut self, odds: &SequenceOdds<'_>, config: &DecodingConfig, found: &Forecast) {
        self.tokens += odds.length().tokens as f64;
        self.rounds += found.rounds;
        self.accepted += found.accepted;
        self.proposed += found.proposed;
        let within = odds.proposed_within(config.rule, config.k, found);
        for (sum, part) in self.proposed_within.iter_mut().zip(within) {
            *sum += part;
        }
        add_to(&mut self.drafts, &found.drafts);
        add_to(&mut self.reached, &found.reached);
        add_to(&mut self.survived, &found.survived);
    }
}

impl ForecastCell {
    /// The cell with only those prompts whose number `keep` accepts.
    #[must_use]
    pub fn of(&self, keep: impl Fn(usize) -> bool) -> Self {
        let kept = self.prompts.iter().enumerate().filter(|(at, _)| keep(*at));
        let prompts = kept.map(|(_, (name, sums))| (name.clone(), sums.clone()));
        Self { config: self.config.clone(), sequences: self.sequences, prompts: prompts.collect() }
    }

    /// τ: accepted tokens per round, plus one. The end of a completion is not counted as a cut.
    pub fn block_efficiency(&self) -> Ratio {
        self.ratio(|sums| [sums.accepted, sums.rounds]).plus(1.0)
    }

    /// Tokens of the completions per round: τ where the end of a completion cuts the last round.
    pub fn tokens_per_round(&self) -> Ratio {
        self.ratio(|sums| [sums.tokens, sums.rounds])
    }

    /// The share of the tokens that lie in repetition loops; `None` without tokens.
    pub fn loop_share(&self) -> Option<f64> {
        self.ratio(|sums| [sums.looped, sums.tokens]).value()
    }

    /// Accepted ÷ drafted tokens.
    pub fn acceptance_rate(&self) -> Ratio {
        self.ratio(|sums| [sums.accepted, sums.proposed]).at_most_one()
    }

    /// The probability that a drafted token is kept, given that all tokens before it were. For
    /// rejection sampling this is alpha.
    pub fn conditional_acceptance(&self) -> Ratio {
        let sum = |parts: &[f64]| parts.iter().sum::<f64>();
        self.ratio(|sums| [sum(&sums.survived), sum(&sums.reached)]).at_most_one()
    }

    /// By position from 1: the probability that it survives, given that all positions before did.
    pub fn survival(&self) -> Vec<Ratio> {
        let at = |sums: &[f64], i: usize| sums.get(i).copied().unwrap_or(0.0);
        let positions = self.prompts.values().map(|sums| sums.reached.len()).max().unwrap_or(0);
        let of = |i| self.ratio(|sums| [at(&sums.survived, i), at(&sums.reached, i)]).at_most_one();
        (0..positions).map(of).collect()
    }

    /// The time of plain decoding ÷ the time with drafts, at the setting with this number; `None`
    /// without costs.
    pub fn speedup(&self, setting: usize) -> Option<Ratio> {
        let times = self.prompts.values().map(|sums| sums.times.get(setting).copied());
        let times = times.collect::<Option<Vec<_>>>()?;
        Some(Ratio::of(times.into_iter().map(|time| ([time.plain], [time.drafted]))))
    }

    /// Tokens per second of each sequence, decoding with drafts or plainly, at the setting with this
    /// number; `None` without costs.
    pub fn tokens_per_s(&self, setting: usize, plain: bool) -> Option<Ratio> {
        let rate = |sums: &PromptForecast| {
            let time = sums.times.get(setting)?;
            Some(([1e3 * sums.tokens], [if plain { time.plain } else { time.drafted }]))
        };
        Some(Ratio::of(self.prompts.values().map(rate).collect::<Option<Vec<_>>>()?))
    }

    /// Tokens of all completions, and their expected rounds by what they draft.
    pub fn totals(&self, passes: DraftPasses) -> (f64, Vec<(DraftedRound, f64)>) {
        let mut drafts = Vec::new();
        for sums in self.prompts.values() {
            add_to(&mut drafts, &sums.drafts);
        }
        let depth = |tokens: usize| match &self.config.tree {
            Some(tree) => {
                let deep = |&depth: &usize| nodes(&tree.children[..depth]) >= tokens;
                (0..self.config.k).find(deep).unwrap_or(self.config.k)
            }
            None => tokens,
        };
        let rounds = drafts.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
        let rounds = rounds.map(|(tokens, count)| {
            let passes = passes.of(depth(tokens));
            (DraftedRound { tokens, passes }, count)
        });
        (self.prompts.values().map(|sums| sums.tokens).sum(), rounds.collect())
    }

    /// A ratio of sums over prompts.
    pub(super) fn ratio(&self, of: impl Fn(&PromptForecast) -> [f64; 2]) -> Ratio {
        Ratio::of(self.prompts.values().map(|sums| {
            let [above, below] = of(sums);
            ([above], [below])
        }))
    }
}

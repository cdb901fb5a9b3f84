//! What each drafter, rule and K takes for the texts of a tape.

use std::collections::BTreeMap;

use super::MOST_K;
use super::timing::{Costed, DraftedRound, SpentTime};
use crate::statistics::Ratio;
use crate::tape::{ChainLaw, Forecast, SiblingKind, Tape, TextOdds, nodes};

/// A way to decode, and what it takes, prompt by prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastCell {
    /// The way.
    pub way: DecodedWay,
    /// Number of texts.
    pub texts: usize,
    /// By prompt, in the order of their names.
    pub prompts: BTreeMap<String, PromptForecast>,
}

/// A way to decode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecodedWay {
    /// The sampling setting, by its number on the tape.
    pub sampling: usize,
    /// The drafter, by its number on the tape.
    pub drafter: usize,
    /// What it drafts, if not chains.
    pub tree: Option<TreeShape>,
    /// The rule.
    pub law: ChainLaw,
    /// K: the largest depth of a draft.
    pub k: usize,
}

/// A tree in which every node of depth i has as many children.
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
    /// The fewest and the most that they can be.
    pub proposed_within: [f64; 2],
    /// Expected rounds by the number of tokens that they draft.
    pub drafts: Vec<f64>,
    /// By position from 1: expected rounds that draft it and accept everything before it.
    pub reached: Vec<f64>,
    /// Those of them that accept it.
    pub survived: Vec<f64>,
    /// The times by setting ([`Costed::settings`]), where costs are known.
    pub times: Vec<SpentTime>,
}

/// All ways to decode that the tape tells of: every drafter × rule × K up to [`MOST_K`], and each
/// of these trees, for every sampling setting; with their times where costs are known.
pub fn forecast_cells(
    tape: &Tape,
    trees: &[TreeShape],
    costed: Option<&Costed<'_>>,
) -> Vec<ForecastCell> {
    let mut cells = BTreeMap::new();
    for drafter in 0..tape.drafters.len() {
        let ways = ways(tape, drafter, trees);
        for (number, text) in tape.texts.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number) else { continue };
            for way in &ways {
                let way = DecodedWay { sampling: text.sampling, ..way.clone() };
                let Some(found) = way.forecast(&odds) else { continue };
                let empty = |way: &DecodedWay| ForecastCell {
                    way: way.clone(),
                    texts: 0,
                    prompts: BTreeMap::new(),
                };
                let cell = cells.entry(way).or_insert_with_key(empty);
                cell.texts += 1;
                let sums = cell.prompts.entry(text.prompt.clone()).or_default();
                sums.add(&odds, &cell.way, &found);
                if let Some(costed) = costed {
                    let with_model = tape.drafters[drafter].model.is_some();
                    let round = |at| cell.way.round(&odds, at, with_model);
                    let times = costed.times(&found, text.prompt_tokens.len(), round);
                    add_to(&mut sums.times, &times);
                }
            }
        }
    }
    cells.into_values().collect()
}

/// The ways to decode with a drafter.
fn ways(tape: &Tape, drafter: usize, trees: &[TreeShape]) -> Vec<DecodedWay> {
    let most = tape.drafters[drafter].most.unwrap_or(MOST_K).min(MOST_K);
    let way = |law, k| DecodedWay { sampling: 0, drafter, tree: None, law, k };
    let chains = ChainLaw::ALL.into_iter().flat_map(|law| (1..=most).map(move |k| way(law, k)));
    let trees = trees.iter().map(|tree| DecodedWay {
        tree: Some(tree.clone()),
        ..way(ChainLaw::Token, tree.children.len())
    });
    chains.chain(trees).collect()
}

impl DecodedWay {
    /// Smaller for ways that are preferred if several are as good: chains, a small K, and the
    /// rule that comes first.
    pub(super) fn simplicity(&self) -> (bool, usize, ChainLaw) {
        (self.tree.is_some(), self.k, self.law)
    }

    /// What the way takes for a text; `None` if the tape does not tell.
    fn forecast(&self, odds: &TextOdds<'_>) -> Option<Forecast> {
        match &self.tree {
            Some(tree) => odds.forecast_tree(tree.siblings, &tree.children),
            None => odds.knows(self.law).then(|| odds.forecast(self.law, self.k)),
        }
    }

    /// What a round drafts that begins at a token.
    fn round(&self, odds: &TextOdds<'_>, at: usize, with_model: bool) -> DraftedRound {
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
        DraftedRound { tokens, passes: if with_model { depth } else { 0 } }
    }
}

/// Adds list to list, place by place.
fn add_to<T: Copy + Default + std::ops::AddAssign>(sums: &mut Vec<T>, parts: &[T]) {
    sums.resize(sums.len().max(parts.len()), T::default());
    sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += *part);
}

impl PromptForecast {
    fn add(&mut self, odds: &TextOdds<'_>, way: &DecodedWay, found: &Forecast) {
        self.tokens += odds.text().tokens as f64;
        self.rounds += found.rounds;
        self.accepted += found.accepted;
        self.proposed += found.proposed;
        let within = odds.proposed_within(way.law, way.k, found);
        self.proposed_within.iter_mut().zip(within).for_each(|(sum, part)| *sum += part);
        add_to(&mut self.drafts, &found.drafts);
        add_to(&mut self.reached, &found.reached);
        add_to(&mut self.survived, &found.survived);
    }
}

impl ForecastCell {
    /// The cell with those of the prompts alone whose number is kept.
    #[must_use]
    pub fn of(&self, keep: impl Fn(usize) -> bool) -> Self {
        let kept = self.prompts.iter().enumerate().filter(|(at, _)| keep(*at));
        let prompts = kept.map(|(_, (name, sums))| (name.clone(), sums.clone()));
        Self { way: self.way.clone(), texts: self.texts, prompts: prompts.collect() }
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

    /// Tokens of all texts, and their rounds by what they draft.
    pub fn totals(&self, with_model: bool) -> (f64, Vec<(DraftedRound, f64)>) {
        let mut drafts = Vec::new();
        self.prompts.values().for_each(|sums| add_to(&mut drafts, &sums.drafts));
        let passes = |tokens: usize| match &self.way.tree {
            _ if !with_model => 0,
            Some(tree) => {
                let deep = |&depth: &usize| nodes(&tree.children[..depth]) >= tokens;
                (0..self.way.k).find(deep).unwrap_or(self.way.k)
            }
            None => tokens,
        };
        let rounds = drafts.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
        let rounds =
            rounds.map(|(tokens, count)| (DraftedRound { tokens, passes: passes(tokens) }, count));
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

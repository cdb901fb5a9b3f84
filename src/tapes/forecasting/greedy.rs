//! Whether drafts are accepted more if they are drawn from q, or if they are its most probable
//! tokens.

use std::collections::BTreeMap;

use serde::Serialize;

use super::SHOWN_KS;
use super::cells::compared;
use crate::measure::statistics::Ratio;
use crate::method::draft::{DRAFT_SAMPLING, draft_sampling};
use crate::tapes::tape::{
    AcceptanceRule, DRAWS, SequenceOdds, SiblingKind, Tape, TapeDrafter, TapeScore,
};

/// How tokens at one position are drawn from q, and how many.
const LEVELS: [(SiblingKind, usize); 4] = [
    (SiblingKind::Independent, 1),
    (SiblingKind::Independent, 2),
    (SiblingKind::Distinct, 2),
    (SiblingKind::Independent, 4),
];

/// A drafter's drawn and greedy drafts with a sampling setting. `docs/tape.md` describes the fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct GreedyForecast {
    pub sampling: usize,
    pub drafter: usize,
    pub lacks: Vec<&'static str>,
    pub levels: Vec<GreedyLevel>,
    pub chains: Vec<GreedyChain>,
}

/// The acceptance of several tokens at one position.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct GreedyLevel {
    pub tokens: usize,
    pub draws: &'static str,
    pub positions: usize,
    pub prompts: usize,
    pub drawn: Option<Bounded>,
    pub rejection: Option<Bounded>,
    pub greedy: Bounded,
    pub ratio: Option<Bounded>,
    pub greedy_better: Option<f64>,
}

/// τ of chains.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct GreedyChain {
    pub num_speculative_tokens: usize,
    pub rejection: Bounded,
    pub traversal: Bounded,
    pub greedy: Bounded,
    pub ratio: Bounded,
}

/// A value with its 95 % interval over prompts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Bounded {
    pub value: f64,
    pub lo: Option<f64>,
    pub hi: Option<f64>,
}

impl Bounded {
    fn of(ratio: &Ratio) -> Option<Self> {
        let (lo, hi) = ratio.interval().map(|interval| (interval.lo, interval.hi)).unzip();
        Some(Self { value: ratio.value()?, lo, hi })
    }
}

/// The comparison for every sampling setting with temperature above 0 and every drafter that draws;
/// a drafter whose q is one-hot has greedy drafts alone.
pub fn greedy_forecasts(tape: &Tape) -> Vec<GreedyForecast> {
    let drafters = 0..tape.drafters.len();
    let all = drafters.flat_map(|drafter| {
        let samplings = 0..tape.header.samplings.len();
        samplings.filter_map(move |sampling| greedy_forecast(tape, sampling, drafter))
    });
    all.collect()
}

fn greedy_forecast(tape: &Tape, sampling: usize, drafter: usize) -> Option<GreedyForecast> {
    let target = tape.header.samplings[sampling].clone();
    let described = &tape.drafters[drafter];
    if target.is_greedy() || draft_sampling(target.clone(), &described.params).is_greedy() {
        return None;
    }
    let greedy = tape.drafters.iter().position(|other| {
        draft_sampling(target.clone(), &other.params).is_greedy()
            && same_but_sampling(other, described)
    });
    let originals = tape.originals();
    let own = tape.sequences.iter().enumerate().filter(|(_, own)| own.sampling == sampling);
    let scored = own.filter_map(|(number, _)| {
        let score = tape.score(drafter, number)?;
        let odds = tape.odds(drafter, number);
        let greedy = greedy.and_then(|greedy| tape.odds(greedy, number));
        Some(Scored { prompt: originals[number], score, odds, greedy })
    });
    let scored = scored.collect::<Vec<_>>();
    if scored.iter().all(|own| is_one_hot(own.score)) {
        return None;
    }
    let levels = LEVELS.into_iter().filter_map(|draws| level(&scored, draws)).collect::<Vec<_>>();
    let most = described.most.unwrap_or(usize::MAX);
    let ks = SHOWN_KS.into_iter().filter(|k| *k <= most);
    let chains = ks.filter_map(|k| chain(&scored, k)).collect::<Vec<_>>();
    let lacks = if scored.iter().all(|own| own.odds.is_none()) {
        vec!["log p or log q of the tokens"]
    } else if levels.is_empty() {
        vec![
            "what shows which tokens are the most probable of q: score with --overlap, or once \
              more with --draft-temperature 0",
        ]
    } else {
        let exact = levels[0].greedy_better.is_some();
        let share = "both distributions at each position, which give the share of positions and \
                     trees: score with --overlap";
        let greedy = "greedy drafts of several tokens: score once more with --draft-temperature 0";
        let both = [(exact, share), (!chains.is_empty(), greedy)];
        both.into_iter().filter(|(held, _)| !held).map(|(_, what)| what).collect()
    };
    Some(GreedyForecast { sampling, drafter, lacks, levels, chains })
}

/// Whether two drafters differ in how they sample alone.
fn same_but_sampling(one: &TapeDrafter, other: &TapeDrafter) -> bool {
    let plain = |drafter: &TapeDrafter| TapeDrafter {
        params: DRAFT_SAMPLING.iter().fold(drafter.params.clone(), |all, param| all.without(param)),
        most: None,
        ..drafter.clone()
    };
    plain(one) == plain(other)
}

/// Whether q has one token wherever the tape shows it.
fn is_one_hot(score: &TapeScore) -> bool {
    let starts = score.starts.iter().flatten().flat_map(|start| &start.log_q);
    let mut all = score.log_q.iter().flatten().chain(starts);
    all.all(|&log_q| log_q == 0.0 || log_q == f64::NEG_INFINITY)
}

/// A sequence that a drafter has scored.
struct Scored<'t> {
    prompt: &'t str,
    score: &'t TapeScore,
    odds: Option<SequenceOdds<'t>>,
    /// The odds of the same drafter's greedy drafts, if it has scored them, too.
    greedy: Option<SequenceOdds<'t>>,
}

/// Acceptance at a position. Where a score does not hold it, this is the probability that the token
/// of the completion is accepted, which has the same mean.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    drawn: Option<f64>,
    rejection: Option<f64>,
    greedy: f64,
    /// Whether greedy tokens are accepted more, if that is known.
    better: Option<bool>,
}

impl Scored<'_> {
    /// `None` if the tape does not hold both sides.
    fn accepted(&self, draws: (SiblingKind, usize), at: usize) -> Option<Accepted> {
        let (kind, tokens) = draws;
        let TapeScore { overlap, siblings, level, .. } = self.score;
        let by = |kind| siblings.as_ref()?.accepted(kind, tokens, at);
        let one = |odds: &Option<SequenceOdds<'_>>| match tokens {
            1 => odds.as_ref().map(|odds| first(odds, at)),
            _ => None,
        };
        let exact = level.as_ref().map(|level| level.greedy[at][tokens - 1]);
        let greedy = exact.or_else(|| by(SiblingKind::TopK)).or_else(|| one(&self.greedy))?;
        let best = match DRAWS.iter().position(|other| *other == draws) {
            Some(place) => level.as_ref().map(|level| level.drawn[at][place]),
            None => overlap.as_ref().map(|overlap| overlap[at]),
        };
        let drawn = best.or_else(|| one(&self.odds));
        let rejection = if tokens == 1 { drawn } else { by(kind) };
        drawn.or(rejection)?;
        let better = exact.zip(best).map(|(greedy, best)| greedy > best);
        Some(Accepted { drawn, rejection, greedy, better })
    }
}

/// The probability that the first token of a draft survives, given the completion.
fn first(odds: &SequenceOdds<'_>, at: usize) -> f64 {
    let mut survival = Vec::new();
    odds.survival(AcceptanceRule::Token, at, odds.drafted(at, 1), &mut survival);
    survival.first().copied().unwrap_or(0.0)
}

fn level(scored: &[Scored<'_>], draws: (SiblingKind, usize)) -> Option<GreedyLevel> {
    let mut prompts = BTreeMap::<&str, Vec<Accepted>>::new();
    for own in scored {
        let Some(length) = own.odds.as_ref().map(SequenceOdds::length) else { continue };
        let begins = (0..length.tokens).filter(|&at| length.limit(at) > 0);
        let accepted = begins.map(|at| own.accepted(draws, at)).collect::<Option<Vec<_>>>();
        prompts.entry(own.prompt).or_default().extend(accepted.into_iter().flatten());
    }
    prompts.retain(|_, accepted| !accepted.is_empty());
    let mean = |of: fn(&Accepted) -> Option<f64>| {
        let sums = prompts.values().map(|all| {
            let sum = all.iter().map(of).sum::<Option<f64>>()?;
            Some(([sum], [all.len() as f64]))
        });
        Some(Ratio::of(sums.collect::<Option<Vec<_>>>()?))
    };
    let bounded = |mean: Option<&Ratio>| Bounded::of(&mean?.clone().at_most_one());
    let [drawn, rejection] = [mean(|own| own.drawn), mean(|own| own.rejection)];
    let greedy = mean(|own| Some(own.greedy))?;
    let better = mean(|own| own.better.map(|better| f64::from(u8::from(better))));
    let ratio = drawn.as_ref().or(rejection.as_ref()).map(|drawn| greedy.clone().over(drawn));
    Some(GreedyLevel {
        tokens: draws.1,
        draws: draws.0.name(),
        positions: prompts.values().map(Vec::len).sum(),
        prompts: prompts.len(),
        drawn: bounded(drawn.as_ref()),
        rejection: bounded(rejection.as_ref()),
        greedy: bounded(Some(&greedy))?,
        ratio: ratio.as_ref().and_then(Bounded::of),
        greedy_better: better.and_then(|share| share.value()),
    })
}

fn chain(scored: &[Scored<'_>], k: usize) -> Option<GreedyChain> {
    let mut prompts = BTreeMap::<&str, [[f64; 2]; 3]>::new();
    for own in scored {
        let Some(odds) = &own.odds else { continue };
        let drafted = own.greedy.as_ref().map(|greedy| greedy.forecast(AcceptanceRule::Token, k));
        let ranked = || odds.forecast_tree(SiblingKind::TopK, &vec![1; k]);
        let Some(greedy) = drafted.or_else(ranked) else { continue };
        let [token, block] = [AcceptanceRule::Token, AcceptanceRule::Block];
        let all = [odds.forecast(token, k), odds.forecast(block, k), greedy];
        let sums = prompts.entry(own.prompt).or_default();
        for (sums, found) in sums.iter_mut().zip(all) {
            sums[0] += found.accepted + found.rounds;
            sums[1] += found.rounds;
        }
    }
    let against = |one: usize| {
        compared(&prompts.values().map(|sums| [sums[2], sums[one]]).collect::<Vec<_>>())
    };
    let ([greedy, rejection, ratio], [_, traversal, _]) = (against(0), against(1));
    Some(GreedyChain {
        num_speculative_tokens: k,
        rejection: Bounded::of(&rejection)?,
        traversal: Bounded::of(&traversal)?,
        greedy: Bounded::of(&greedy)?,
        ratio: Bounded::of(&ratio)?,
    })
}

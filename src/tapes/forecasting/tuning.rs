//! The gain from other settings of a draft, and from a better draft.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cells::{ForecastCell, compared};
use crate::tapes::tape::{AcceptanceRule, Tape, TapeDrafter};

/// The best of several settings of a draft model. Each half of the prompts uses the setting that is
/// best on the other half, so no setting is judged on the prompts that chose it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TunedDraft {
    /// Index of the sampling setting on the tape.
    pub sampling: usize,
    /// The verifier with the acceptance rule.
    pub verifier: &'static str,
    /// K.
    pub num_speculative_tokens: usize,
    /// The settings that the halves of the prompts chose.
    pub chosen: [String; 2],
    /// τ with them.
    pub tuned: f64,
    /// τ with the target's own settings.
    pub untuned: f64,
    /// The first ÷ the second.
    pub ratio: f64,
    /// The lower end of its 95 % interval over prompts.
    pub lo: Option<f64>,
    /// Its upper end.
    pub hi: Option<f64>,
}

/// The tunings of a tape for one K: those of draft models that scored it with several settings, one
/// of them the target's.
pub fn tuned_drafts(tape: &Tape, cells: &[ForecastCell], k: usize) -> Vec<TunedDraft> {
    let mut groups = BTreeMap::<_, Vec<&ForecastCell>>::new();
    for cell in cells.iter().filter(|cell| cell.config.k == k && cell.config.tree.is_none()) {
        let TapeDrafter { drafter, model, .. } = &tape.drafters[cell.config.drafter];
        if let Some(model) = model {
            let place =
                (cell.config.sampling, cell.config.rule, drafter, &model.sha256, &model.dtype);
            groups.entry(place).or_default().push(cell);
        }
    }
    let several = groups.into_values().filter(|cells| cells.len() > 1);
    several.filter_map(|cells| tuned(tape, &cells)).collect()
}

fn tuned(tape: &Tape, cells: &[&ForecastCell]) -> Option<TunedDraft> {
    let params = |cell: &ForecastCell| &tape.drafters[cell.config.drafter].params;
    let untuned = cells.iter().find(|cell| params(cell).is_empty())?;
    let best_on = |half: usize| {
        let rate = |cell: &&&ForecastCell| {
            let half = cell.of(|prompt| prompt % 2 == half);
            half.block_efficiency().value().unwrap_or(0.0)
        };
        cells.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    // Each half uses the setting that the other half chose.
    let chosen = [best_on(1)?, best_on(0)?];
    let names = untuned.prompts.keys().enumerate();
    let sides = names.map(|(at, prompt)| {
        let (own, plain) = (chosen[at % 2].prompts.get(prompt)?, untuned.prompts.get(prompt)?);
        Some([
            [own.accepted + own.rounds, own.rounds],
            [plain.accepted + plain.rounds, plain.rounds],
        ])
    });
    let sides = sides.collect::<Option<Vec<_>>>()?;
    let [own, plain, ratio] = compared(&sides);
    let (lo, hi) = ratio.interval().map(|interval| (interval.lo, interval.hi)).unzip();
    let words = |cell: &&ForecastCell| {
        let set = params(cell).iter().map(|(key, value)| format!("{key} = {value}"));
        let set = set.collect::<Vec<_>>().join(", ");
        if set.is_empty() { "the target's".to_owned() } else { set }
    };
    Some(TunedDraft {
        sampling: untuned.config.sampling,
        verifier: untuned.config.rule.verifier(),
        num_speculative_tokens: untuned.config.k,
        chosen: chosen.map(words),
        tuned: own.value()?,
        untuned: plain.value()?,
        ratio: ratio.value()?,
        lo,
        hi,
    })
}

/// τ of a draft that is moved toward the target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NearerDraft {
    /// Index of the sampling setting on the tape.
    pub sampling: usize,
    /// Index of the drafter on the tape.
    pub drafter: usize,
    /// How far: q becomes (1 − share) q + share p.
    pub share: f64,
    /// τ of rejection sampling.
    pub rejection: f64,
    /// τ of block verification.
    pub traversal: f64,
}

/// τ of drafts that are closer to the target than those of the tape, at K = `k`.
pub fn nearer_drafts(tape: &Tape, k: usize) -> Vec<NearerDraft> {
    let shares = [0.0, 0.25, 0.5, 0.75, 1.0];
    let mut sums = BTreeMap::<_, [f64; 2]>::new();
    for drafter in 0..tape.drafters.len() {
        for (number, sequence) in tape.sequences.iter().enumerate() {
            let Some(odds) = tape.odds(drafter, number).filter(|odds| odds.is_anywhere()) else {
                continue;
            };
            for (at, &share) in shares.iter().enumerate() {
                let nearer = odds.clone().nearer(share);
                for rule in [AcceptanceRule::Token, AcceptanceRule::Block] {
                    let found = nearer.forecast(rule, k);
                    let sums = sums.entry((sequence.sampling, drafter, at, rule)).or_default();
                    sums[0] += found.accepted;
                    sums[1] += found.rounds;
                }
            }
        }
    }
    let tau = |sums: &[f64; 2]| sums[0] / sums[1] + 1.0;
    let token = sums.iter().filter(|((.., rule), _)| *rule == AcceptanceRule::Token);
    let rows = token.map(|(&(sampling, drafter, at, _), own)| NearerDraft {
        sampling,
        drafter,
        share: shares[at],
        rejection: tau(own),
        traversal: sums.get(&(sampling, drafter, at, AcceptanceRule::Block)).map_or(f64::NAN, tau),
    });
    rows.collect()
}

//! The calibrated speedup of a cell, by its definition in `docs/metrics.md`.

use std::collections::BTreeMap;

use specdec::measure::rows::RoundRow;
use specdec::method::decode::MethodSpec;
use specdec::run::experiment::Cell;

use crate::experiment_support::baseline_of;
use crate::rows_summary::{Sums, ratio};

/// A round, and the largest depth that its draft might have had.
struct Allowed<'r> {
    round: &'r RoundRow,
    tokens: usize,
}

/// Time per token of plain decoding divided by that of the cell, both from the costs
/// of the calibration; how many tokens a round accepts comes from the other prompts.
pub(crate) fn calibrated_speedup(sums: &Sums<'_>) -> Option<f64> {
    let (cell, calibration) = (sums.cell, &sums.calibration);
    // Drafts of trees and policies are not the beginnings of longer ones.
    let tree = sums.rounds().iter().any(|r| r.proposed > r.depth);
    let own = tree || cell.method.length != "fixed";
    let same = |other: &&Cell| {
        let k = cell.method.num_speculative_tokens;
        let method = MethodSpec { num_speculative_tokens: k, ..other.method.clone() };
        method == cell.method
            && other.control == cell.control
            && !Sums::new(sums.run, other).generations.is_empty()
    };
    let longest =
        sums.run.plan.cells.iter().filter(same).max_by_key(|c| c.method.num_speculative_tokens)?;
    let source = Sums::new(sums.run, if own { cell } else { longest });
    let deepest = source.rounds().iter().map(|r| r.depth).max()?;
    let most = source.cell.method.num_speculative_tokens.max(deepest);
    let k = if own { most } else { cell.method.num_speculative_tokens };

    let costs = calibration.cells[&cell.id];
    let baseline = baseline_of(&sums.run.plan, cell);
    let plain = calibration.cells[&baseline.id];
    let plain_us = calibration.target_us(1)? + plain.verify_us + plain.other_us;
    let mut prompts = BTreeMap::<&str, f64>::new();
    for generation in &sums.generations {
        *prompts.entry(&generation.prompt).or_default() += generation.new_tokens as f64;
    }
    let (mut plain_time, mut time) = (0.0, 0.0);
    for (prompt, tokens) in prompts {
        let others = allowed(&source, prompt, most);
        let mut us = 0.0;
        let full = others.iter().filter(|a| a.tokens == most).collect::<Vec<_>>();
        for Allowed { round, .. } in &full {
            let proposed = if k < most { round.proposed.min(k) } else { round.proposed };
            let pass = calibration.target_us(proposed + 1)?;
            let drafting = match proposed {
                0 => 0.0,
                n => n as f64 * costs.draft_us_per_token?,
            };
            us += (drafting + pass) / full.len() as f64;
        }
        if full.is_empty() {
            return None;
        }
        us += costs.verify_us + costs.other_us;
        plain_time += tokens * plain_us;
        time += tokens * us / (1.0 + accepted(&others, k)?);
    }
    ratio(plain_time, time)
}

/// The rounds on all prompts with another text.
fn allowed<'r>(source: &Sums<'r>, prompt: &str, most: usize) -> Vec<Allowed<'r>> {
    let mut emitted = BTreeMap::<(&str, u32), usize>::new();
    let (ids, texts) = (&source.run.plan.prompts, source.run.scenario.prompts);
    let text = |id: &str| texts[ids.iter().position(|known| known == id).unwrap()];
    let others = source.rounds().into_iter().filter(|r| text(&r.prompt) != text(prompt));
    let allowed = others.map(|round| {
        let before = emitted.entry((&round.prompt, round.repeat)).or_default();
        let tokens = most.min(source.run.plan.max_tokens - *before - 1);
        *before += round.emitted;
        Allowed { round, tokens }
    });
    allowed.collect()
}

/// Σ over positions i ≤ k of the probability that i is proposed and survives.
fn accepted(rounds: &[Allowed<'_>], k: usize) -> Option<f64> {
    let (mut survival, mut sum) = (1.0, 0.0);
    for i in 1..=k {
        let continues = |a: &&Allowed<'_>| a.round.accepted >= i - 1 && a.round.emitted >= i;
        let here = rounds.iter().filter(|a| a.tokens >= i).filter(continues);
        let survived = here.clone().filter(|a| a.round.accepted >= i).count();
        if survival > 0.0 {
            survival *= ratio(survived as f64, here.count() as f64)?;
        }
        sum += survival;
    }
    Some(sum)
}

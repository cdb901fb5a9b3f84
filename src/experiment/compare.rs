//! Texts that must be the baseline's: greedy ones, and those of class P.

use super::cell::Cell;
use super::divergence;
use super::folder::BlockRows;
use super::records::DivergenceRow;
use super::run::{Bench, Block, begin};
use crate::chance::Seeded;
use crate::clock::RealClock;
use crate::decode::{Blind, MethodSpec, PLAIN, generate};
use crate::dist::Token;
use crate::draft::Tools;
use crate::model::LanguageModel;

/// At T = 0 every cell must repeat the baseline's tokens: notes where it first
/// does not, and whether that is a tie within rounding.
pub(super) fn greedy(target: &dyn LanguageModel, block: &Block<'_>, rows: &mut BlockRows) {
    let Some(baseline) = block.cells.iter().find(|c| c.is_baseline() && c.sampling.is_greedy())
    else {
        return;
    };
    let Some(plain) = rows.texts.iter().find(|t| t.cell == baseline.id).map(|t| t.tokens.clone())
    else {
        return;
    };
    for (row, text) in rows.generations.iter_mut().zip(&rows.texts) {
        let Some(at) = divergence::first(&plain, &text.tokens) else { continue };
        row.first_divergence = Some(at);
        // A target that has just generated both texts can score the prefix.
        if let Ok(found) = divergence::explain(target, block.tokens, &plain, &text.tokens, at) {
            let cell = text.cell.clone();
            let (prompt, repeat) = (text.prompt.clone(), text.repeat);
            rows.divergences.push(DivergenceRow { cell, prompt, repeat, ..found });
        }
    }
}

/// A cell of class P must repeat the tokens of plain decoding with the same
/// verifier and seed, which is generated here, untimed: notes where it first
/// does not. Nothing excuses a difference, unless the engine's rounding may
/// depend on the number of rows (class `P~`).
pub(super) fn paths(bench: &Bench<'_>, block: &Block<'_>, rows: &mut BlockRows) {
    let mut plain = Vec::<(MethodSpec, Vec<Token>)>::new();
    for (row, text) in rows.generations.iter_mut().zip(&rows.texts) {
        let own = |cell: &&&Cell| cell.id == text.cell && cell.class.starts_with('P');
        let Some(cell) = block.cells.iter().find(own) else { continue };
        let method =
            MethodSpec { drafter: PLAIN.to_owned(), ..bench.plan.method(cell) }.canonical();
        // What cannot be generated now has failed, with its reason, before.
        let Ok(method) = method else { continue };
        if !plain.iter().any(|(known, _)| *known == method) {
            let Ok(tokens) = generate_plain(bench, block, &method) else { continue };
            plain.push((method.clone(), tokens));
        }
        let Some((_, plain)) = plain.iter().find(|(known, _)| *known == method) else { continue };
        let Some(at) = divergence::first(plain, &text.tokens) else { continue };
        row.first_divergence = Some(at);
        if cell.class == "P" {
            rows.divergences.push(DivergenceRow {
                cell: text.cell.clone(),
                prompt: text.prompt.clone(),
                repeat: text.repeat,
                position: at,
                plain_token: plain.get(at).copied(),
                token: text.tokens.get(at).copied(),
                ..DivergenceRow::default()
            });
        }
    }
}

fn generate_plain(
    bench: &Bench<'_>,
    block: &Block<'_>,
    method: &MethodSpec,
) -> anyhow::Result<Vec<Token>> {
    let mut generation = begin(bench, method.build_with(Tools::default())?, block)?;
    let mut chance = Seeded::new(block.request(bench.plan.seed));
    let clock = RealClock::default();
    generate(&mut generation, bench.target, &mut chance, &clock, &mut Blind)?;
    Ok(generation.new_tokens().to_vec())
}

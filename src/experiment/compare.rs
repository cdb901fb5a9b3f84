//! Texts that must be the baseline's: greedy ones, and those of class P.

use std::sync::atomic::Ordering;

use super::blocks::Block;
use super::cell::Cell;
use super::divergence;
use super::generation::{begin, failure};
use super::setup::Setup;
use crate::chance::Seeded;
use crate::clock::RealClock;
use crate::decode::{MethodSpec, NoObserver, PLAIN, generate};
use crate::distribution::Token;
use crate::draft::Tools;
use crate::model::LanguageModel;
use crate::rows::{BlockRows, DivergenceRow, TextRow};
use crate::sampling::Sampler;

/// Why a cell of class P was not compared.
const PLAIN_FAILED: &str = "plain decoding to compare with: ";

/// At T = 0 every cell must repeat the baseline's tokens: notes where it first
/// does not. A tie within rounding excuses it only where the engine's rounding
/// may depend on the number of rows: elsewhere the bits are promised to be the
/// same. Cells of class P have a comparison of their own.
pub(super) fn greedy(target: &dyn LanguageModel, block: &Block<'_>, rows: &mut BlockRows) {
    let Some(baseline) =
        block.cells.iter().find(|c| c.is_baseline() && c.method.sampling.is_greedy())
    else {
        return;
    };
    let Some(plain) = rows.texts.iter().find(|t| t.cell == baseline.id).map(|t| t.tokens.clone())
    else {
        return;
    };
    for (row, text) in rows.generations.iter_mut().zip(&rows.texts) {
        let own = |cell: &&&Cell| cell.id == text.cell && cell.class != "P";
        let Some(cell) = block.cells.iter().find(own) else { continue };
        let Some(at) = divergence::first(&plain, &text.tokens) else { continue };
        row.first_divergence = Some(at);
        // If the target fails now, nothing shows that it was a tie.
        let found = explain(target, cell, block, &plain, &text.tokens, at)
            .unwrap_or_else(|_| divergence::difference(&plain, &text.tokens, at));
        let tie = found.tie && !target.info().row_invariant;
        rows.divergences.push(DivergenceRow { tie, ..of(text, found) });
    }
}

fn explain(
    target: &dyn LanguageModel,
    cell: &Cell,
    block: &Block<'_>,
    plain: &[Token],
    tokens: &[Token],
    at: usize,
) -> anyhow::Result<DivergenceRow> {
    let sampler = Sampler::new(cell.method.sampling)?;
    Ok(divergence::explain(target, &sampler, block.tokens, plain, tokens, at)?)
}

/// A difference as one of this text.
fn of(text: &TextRow, found: DivergenceRow) -> DivergenceRow {
    let (cell, prompt, repeat) = (text.cell.clone(), text.prompt.clone(), text.repeat);
    DivergenceRow { cell, prompt, repeat, ..found }
}

/// A cell of class P must repeat the tokens of plain decoding with the same
/// verifier and seed, which is generated here, untimed: notes where it first
/// does not. Nothing excuses a difference, unless the engine's rounding may
/// depend on the number of rows (class `P~`). If plain decoding fails, that is
/// recorded: a text that was not compared has not passed.
pub(super) fn paths(setup: &Setup<'_>, block: &Block<'_>, rows: &mut BlockRows) {
    let mut plain = Vec::<(MethodSpec, Vec<Token>)>::new();
    for (row, text) in rows.generations.iter_mut().zip(&rows.texts) {
        if setup.interrupted.load(Ordering::Relaxed) {
            return;
        }
        let own = |cell: &&&Cell| cell.id == text.cell && cell.class.starts_with('P');
        let Some(cell) = block.cells.iter().find(own) else { continue };
        let method = MethodSpec { drafter: PLAIN.to_owned(), ..cell.method.clone() }.canonical();
        // A method that cannot be built has failed before, and the failure is recorded.
        let Ok(method) = method else { continue };
        if !plain.iter().any(|(known, _)| *known == method) {
            match generate_plain(setup, block, &method) {
                Ok(tokens) => plain.push((method.clone(), tokens)),
                Err(error) => rows.failures.push(failure(cell, block, &error, PLAIN_FAILED)),
            }
        }
        let Some((_, plain)) = plain.iter().find(|(known, _)| *known == method) else { continue };
        let Some(at) = divergence::first(plain, &text.tokens) else { continue };
        row.first_divergence = Some(at);
        if cell.class == "P" {
            let found = divergence::difference(plain, &text.tokens, at);
            rows.divergences.push(of(text, found));
        }
    }
}

fn generate_plain(
    setup: &Setup<'_>,
    block: &Block<'_>,
    method: &MethodSpec,
) -> anyhow::Result<Vec<Token>> {
    // If it is interrupted, half a text differs from a whole one in a block that is
    // not kept.
    let mut generation = begin(setup, method.build_with(Tools::default())?, block)?;
    let mut chance = Seeded::new(block.request(setup.plan.seed));
    let clock = RealClock::default();
    generate(&mut generation, setup.target, &mut chance, &clock, &mut NoObserver)?;
    Ok(generation.new_tokens().to_vec())
}

//! Compares texts that must equal plain decoding's: greedy ones, and those of class P.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::Ordering;

use anyhow::Context;

use super::blocks::{Block, BlockText};
use super::cell::Cell;
use super::divergence;
use super::generation::{begin, failure};
use super::setup::Setup;
use crate::core::chance::Seeded;
use crate::core::clock::RealClock;
use crate::core::distribution::Token;
use crate::core::sampling::Sampler;
use crate::measure::rows::{BlockRows, DivergenceRow, TextRow};
use crate::method::decode::{MethodSpec, NoObserver, PLAIN, generate};
use crate::method::draft::Tools;
use crate::model::LanguageModel;

/// Says in `failures.csv` why a text of class P was not compared.
const PLAIN_FAILED: &str = "plain decoding for the comparison failed: ";

/// Records where a cell first differs from the baseline: at T = 0, and in beam search, every
/// cell must repeat its tokens. A tie within rounding excuses a difference only if the
/// engine's rounding may depend on the number of rows; other engines promise the same bits.
/// Whether two beams tie cannot be read from the logits of one token, so on such an engine
/// beams that differ are counted and not recorded. [`paths`] compares cells of class P.
pub(super) fn greedy(target: &dyn LanguageModel, block: &Block<'_>, rows: &mut BlockRows) {
    let Some(baseline) = block.cells.iter().find(|c| c.is_baseline() && c.is_determined()) else {
        return;
    };
    let plain = rows.texts.iter().filter(|text| text.cell == baseline.id);
    let plain = plain.map(|text| ((text.prompt.clone(), text.repeat), text.tokens.clone()));
    let plain = plain.collect::<BTreeMap<_, _>>();
    for (row, text) in rows.generations.iter_mut().zip(&rows.texts) {
        let own = |cell: &&&Cell| cell.id == text.cell && cell.class != "P";
        let Some(cell) = block.cells.iter().find(own) else { continue };
        let Some(plain) = plain.get(&(text.prompt.clone(), text.repeat)) else { continue };
        let Some(at) = divergence::first(plain, &text.tokens) else { continue };
        row.first_divergence = Some(at);
        if cell.beam.is_some() {
            if target.info().row_invariant {
                rows.divergences.push(of(text, divergence::difference(plain, &text.tokens, at)));
            }
            continue;
        }
        // If the target fails here, nothing shows that the difference was a tie.
        let found = explain(target, cell, block, plain, text, at)
            .unwrap_or_else(|_| divergence::difference(plain, &text.tokens, at));
        let tie = found.tie && !target.info().row_invariant;
        rows.divergences.push(DivergenceRow { tie, ..of(text, found) });
    }
}

fn explain(
    target: &dyn LanguageModel,
    cell: &Cell,
    block: &Block<'_>,
    plain: &[Token],
    text: &TextRow,
    at: usize,
) -> anyhow::Result<DivergenceRow> {
    let sampler = Sampler::new(cell.method.sampling.clone())?;
    let asked = block.text(&text.prompt, text.repeat).context("a text of another block")?;
    Ok(divergence::explain(target, &sampler, asked.tokens, plain, &text.tokens, at)?)
}

/// The difference, with the cell, prompt and repeat of this text.
fn of(text: &TextRow, found: DivergenceRow) -> DivergenceRow {
    let (cell, prompt, repeat) = (text.cell.clone(), text.prompt.clone(), text.repeat);
    DivergenceRow { cell, prompt, repeat, ..found }
}

/// Records where a cell of class P first differs from plain decoding with the same
/// verifier and seed, whose tokens it must repeat. Plain decoding is run here, untimed and
/// with a prefill of its own, so that the comparison covers the shared one, too.
/// Nothing excuses a difference, unless the engine's rounding may depend on the number of
/// rows (class `P~`). If plain decoding fails, the failure is recorded, because a text
/// that was not compared has not passed.
pub(super) fn paths(setup: &Setup<'_>, block: &Block<'_>, rows: &mut BlockRows) {
    let mut known = Vec::<(&BlockText<'_>, MethodSpec, Vec<Token>)>::new();
    for (row, text) in rows.generations.iter_mut().zip(&rows.texts) {
        if setup.interrupted.load(Ordering::Relaxed) {
            return;
        }
        let own = |cell: &&&Cell| cell.id == text.cell && cell.class.starts_with('P');
        let Some(cell) = block.cells.iter().find(own) else { continue };
        let method = MethodSpec { drafter: PLAIN.to_owned(), ..cell.method.clone() }.canonical();
        // A method that cannot be built has already failed, and the failure is recorded.
        let Ok(method) = method else { continue };
        let Some(asked) = block.text(&text.prompt, text.repeat) else { continue };
        let same = |(of, by, _): &&(&BlockText<'_>, _, _)| ptr::eq(*of, asked) && *by == method;
        if known.iter().find(same).is_none() {
            match generate_plain(setup, asked, &method) {
                Ok(tokens) => known.push((asked, method.clone(), tokens)),
                Err(error) => rows.failures.push(failure(cell, asked, &error, PLAIN_FAILED)),
            }
        }
        let Some((_, _, plain)) = known.iter().find(same) else { continue };
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
    text: &BlockText<'_>,
    method: &MethodSpec,
) -> anyhow::Result<Vec<Token>> {
    // An interrupted text is cut short and may differ, but its block is not kept.
    let mut generation = begin(setup, setup.target, method.build_with(Tools::default())?, text)?;
    let mut chance = Seeded::new(text.request(setup.plan.seed));
    let clock = RealClock::default();
    generate(&mut generation, setup.target, &mut chance, &clock, &mut NoObserver)?;
    Ok(generation.new_tokens().to_vec())
}

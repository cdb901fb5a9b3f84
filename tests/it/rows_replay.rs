//! An independent replay of a run. Its generations are stepped through again;
//! from what each round proposed and kept, and from the models' tables, every
//! field of every row follows by the definitions of `docs/metrics.md`.

use sha2::{Digest, Sha256};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::measure::rows::{
    BlockRow, DivergenceRow, FailureRow, GenerationRow, PositionRow, RoundRow, TextRow, TraceRow,
};
use specdec::method::decode::{MethodSpec, PLAIN};
use specdec::model::ToyPair;
use specdec::run::experiment::prompts::Prompt;
use specdec::run::experiment::{Cell, Setup};

use crate::rows_blocks::attempts;
use crate::rows_distributions::gap;
use crate::rows_fields::Rows;
use crate::rows_steps::{Step, tokens_of};
use crate::rows_support::{Quirks, Scenario};

/// The rows that the run of a scenario must record, except for the digests of files.
pub(crate) fn replay(scenario: &Scenario, setup: &Setup<'_>) -> Rows {
    let replay = Replay { setup, pair: (scenario.pair)(), quirks: scenario.quirks };
    let (plan, prompts) = (setup.plan, setup.prompts);
    let mut blocks = Vec::new();
    for repeat in 0..plan.repeats {
        for (number, prompt) in prompts.iter().enumerate() {
            for cells in plan.cells.chunk_by(|a, b| a.method.sampling == b.method.sampling) {
                // The cells rotate: every block begins with another one.
                let first = repeat as usize * prompts.len() + number;
                let turns = (0..cells.len()).map(|i| &cells[(first + i) % cells.len()]);
                blocks.push(replay.block(turns, prompt, repeat));
            }
        }
    }
    attempts(&blocks, &scenario.attempts(plan))
}

/// A run, the models behind it and the quirks of its target.
pub(crate) struct Replay<'a> {
    pub(crate) setup: &'a Setup<'a>,
    pub(crate) pair: ToyPair,
    pub(crate) quirks: Quirks,
}

/// The rows of one generation.
struct Expected {
    row: GenerationRow,
    text: TextRow,
    rounds: Vec<RoundRow>,
    positions: Vec<PositionRow>,
    trace: TraceRow,
}

impl Replay<'_> {
    /// One prompt, repeat and sampling setting.
    fn block<'c>(
        &self,
        cells: impl Iterator<Item = &'c Cell>,
        prompt: &Prompt,
        repeat: u32,
    ) -> Rows {
        let (mut expected, mut rows) = (Vec::new(), Rows::default());
        for cell in cells {
            match self.generation(cell, prompt, repeat) {
                Ok(generation) => expected.push((cell, generation)),
                Err(error) => rows.failures.push(failure(cell, prompt, repeat, "", &error)),
            }
        }
        self.greedy(&mut expected, prompt, &mut rows);
        self.paths(&mut expected, prompt, repeat, &mut rows);
        for (_, expected) in expected {
            rows.rounds.extend(expected.rounds);
            rows.positions.extend(expected.positions);
            rows.generations.push(expected.row);
            rows.texts.push(expected.text);
            rows.traces.push(expected.trace);
        }
        rows.blocks.push(BlockRow {
            prompt: prompt.id.clone(),
            repeat,
            rounds: rows.rounds.len(),
            positions: rows.positions.len(),
            texts: rows.texts.len(),
            failures: rows.failures.len(),
            divergences: rows.divergences.len(),
            generations: rows.generations.len(),
            ..BlockRow::default()
        });
        rows
    }

    /// At temperature 0 every text is compared with the baseline's of its block,
    /// except those of class P.
    fn greedy(&self, expected: &mut [(&Cell, Expected)], prompt: &Prompt, rows: &mut Rows) {
        let plain = |(cell, _): &&(&Cell, Expected)| cell.method.drafter == PLAIN && !cell.control;
        let Some((_, plain)) = expected.iter().find(plain) else { return };
        let plain = plain.text.tokens.clone();
        let own = |cell: &Cell| cell.method.sampling.temperature == 0.0 && cell.class != "P";
        for (_, expected) in expected.iter_mut().filter(|(cell, _)| own(cell)) {
            expected.row.first_divergence = first_difference(&plain, &expected.text.tokens);
            rows.divergences.extend(expected.row.first_divergence.map(|at| {
                let found = difference(&expected.text, &plain, at);
                let text = [&tokens_of(&prompt.text)[..], &plain[..at]].concat();
                self.scored(&self.logits(&text, false), found)
            }));
        }
    }

    /// A difference with gap, bound and tie, by the baseline's logits at its position.
    fn scored(&self, logits: &[f64], found: DivergenceRow) -> DivergenceRow {
        let sizes = logits.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        let bound = if self.quirks.rounds { 1e-4 * sizes.fold(0.0, f64::max) } else { 0.0 };
        let larger = |token: usize| logits.iter().filter(|x| **x > logits[token]).count();
        let top = |token: Option<Token>| token.is_some_and(|token| larger(token as usize) < 2);
        let near = gap(logits) <= bound && top(found.plain_token) && top(found.token);
        let (top2_gap, bound) = (Some(gap(logits)), Some(bound));
        DivergenceRow { top2_gap, bound, tie: near && self.quirks.rounds, ..found }
    }

    /// Texts of class P are compared with plain decoding by the same verifier, prompt
    /// and repeat; those of class P~, too, but they leave no row.
    fn paths(
        &self,
        expected: &mut [(&Cell, Expected)],
        prompt: &Prompt,
        repeat: u32,
        rows: &mut Rows,
    ) {
        for (cell, expected) in expected.iter_mut().filter(|(cell, _)| cell.class.starts_with('P'))
        {
            let drafter = PLAIN.to_owned();
            let plain = MethodSpec { drafter, ..cell.method.clone() };
            match self.steps(&plain, prompt, repeat) {
                Ok((_, steps)) => {
                    let plain = self.tokens(PLAIN, &steps).0;
                    expected.row.first_divergence = first_difference(&plain, &expected.text.tokens);
                    let found = expected.row.first_divergence.filter(|_| cell.class == "P");
                    rows.divergences.extend(found.map(|at| difference(&expected.text, &plain, at)));
                }
                Err(error) => {
                    let what = "plain decoding for the comparison failed: ";
                    rows.failures.push(failure(cell, prompt, repeat, what, &error));
                }
            }
        }
    }

    fn generation(&self, cell: &Cell, prompt: &Prompt, repeat: u32) -> Result<Expected, Error> {
        let (prefill_ns, steps) = self.steps(&cell.method, prompt, repeat)?;
        let (tokens, emitted, stop) = self.tokens(&cell.method.drafter, &steps);
        let (mut rounds, mut positions) = (Vec::new(), Vec::new());
        for (round, (step, emitted)) in (0..).zip(steps.iter().zip(emitted)) {
            rounds.push(self.round(cell, (prompt, repeat, round), step, emitted));
            let ids = 0..step.nodes.len();
            positions.extend(ids.map(|id| self.position(cell, (prompt, repeat, round), step, id)));
        }
        let times = rounds.iter().map(|r| r.draft_us + r.target_us + r.verify_us + r.other_us);
        let decode_us = times.sum::<f64>();
        let text = tokens.iter().map(|&t| char::from(b'a' + t as u8)).collect::<String>();
        let row = GenerationRow {
            cell: cell.id.clone(),
            prompt: prompt.id.clone(),
            category: prompt.category.clone(),
            repeat,
            seed: self.setup.plan.seed,
            prompt_tokens: prompt.text.len(),
            new_tokens: tokens.len(),
            stop_reason: stop.to_owned(),
            target_forwards: steps.len(),
            draft_forwards: steps.iter().map(|step| step.draft_rows.len()).sum(),
            prefill_us: prefill_ns as f64 / 1e3,
            decode_us,
            tokens_per_second: tokens.len() as f64 / (decode_us / 1e6),
            // Set when the texts of a block are compared.
            first_divergence: None,
            text_sha256: Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect(),
            superseded: false,
        };
        let trace = self.trace(cell, (&prompt.id, repeat), &steps, &tokens);
        let (cell, prompt) = (cell.id.clone(), prompt.id.clone());
        let text = TextRow { cell, prompt, repeat, tokens, text, beam: None, thinking: None };
        Ok(Expected { row, text, rounds, positions, trace })
    }

    /// The tokens of some rounds, how many each of them added, and why the text
    /// ended.
    fn tokens(&self, drafter: &str, steps: &[Step]) -> (Vec<Token>, Vec<usize>, &'static str) {
        let (mut tokens, mut emitted, mut stop) = (Vec::new(), Vec::new(), "");
        for step in steps {
            let before = tokens.len();
            for token in step.path.iter().map(|&id| step.nodes[id].0).chain([step.next]) {
                if !stop.is_empty() {
                    break;
                }
                tokens.push(token);
                if self.eos(drafter).contains(&token) {
                    stop = "eos";
                } else if tokens.len() == self.setup.plan.max_tokens {
                    stop = "max_tokens";
                }
            }
            emitted.push(tokens.len() - before);
        }
        (tokens, emitted, stop)
    }
}

/// The first position at which two texts differ.
pub(crate) fn first_difference(plain: &[Token], tokens: &[Token]) -> Option<usize> {
    (0..plain.len().max(tokens.len())).find(|&i| plain.get(i) != tokens.get(i))
}

fn difference(text: &TextRow, plain: &[Token], at: usize) -> DivergenceRow {
    DivergenceRow {
        cell: text.cell.clone(),
        prompt: text.prompt.clone(),
        repeat: text.repeat,
        position: at,
        plain_token: plain.get(at).copied(),
        token: text.tokens.get(at).copied(),
        top2_gap: None,
        bound: None,
        tie: false,
    }
}

fn failure(cell: &Cell, prompt: &Prompt, repeat: u32, what: &str, error: &Error) -> FailureRow {
    FailureRow {
        cell: cell.id.clone(),
        prompt: prompt.id.clone(),
        repeat,
        reason: format!("{what}{error}"),
        superseded: false,
    }
}

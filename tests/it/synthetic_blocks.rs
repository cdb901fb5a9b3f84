//! `blocks.csv` of a simulated run, computed from its definition, and its traced tokens.

use std::collections::BTreeMap;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;
use sha2::{Digest, Sha256};
use specdec::measure::rows::{BlockRow, PositionRow, TextRow};
use specdec::run::experiment::Plan;

use crate::fixtures::uniform;
use crate::synthetic::Rows;

/// The beginning of the SHA-256 of rows as they stand in a CSV file.
fn digest<T: Serialize>(rows: &[&T]) -> String {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    rows.iter().for_each(|row| writer.serialize(row).unwrap());
    short(&writer.into_inner().unwrap())
}

/// The row with its seal: the digest of the row without a seal.
pub(crate) fn sealed(row: BlockRow) -> BlockRow {
    let open = BlockRow { seal: String::new(), superseded: false, ..row.clone() };
    BlockRow { seal: digest(&[&open]), ..row }
}

pub(crate) fn short(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The texts of the generations: `new_tokens` times token 0.
pub(crate) fn texts(rows: &Rows) -> Vec<TextRow> {
    let counted = rows.generations.iter().filter(|g| !g.superseded);
    let text = |g: &specdec::measure::rows::GenerationRow| TextRow {
        cell: g.cell.clone(),
        prompt: g.prompt.clone(),
        repeat: g.repeat,
        // A generation in the category "loop" repeats three tokens. The squares modulo 23 have no
        // period that is short enough for a loop.
        tokens: (0..g.new_tokens as u32)
            .map(|at| if g.category == "loop" { at % 3 } else { (at % 23).pow(2) % 23 })
            .collect(),
        text: "a".repeat(g.new_tokens),
        beam: None,
        thinking: None,
    };
    counted.map(text).collect()
}

impl Rows {
    /// Adds the drafted tokens of all rounds, as a traced run would.
    pub(crate) fn trace(&mut self) {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for round in &self.rounds {
            self.positions.extend((0..round.proposed).map(|node| PositionRow {
                cell: round.cell.clone(),
                prompt: round.prompt.clone(),
                repeat: round.repeat,
                round: round.round,
                node,
                parent: node.checked_sub(1),
                depth: node + 1,
                token: 0,
                p: 0.5,
                q: 0.5,
                overlap: 0.5,
                p_entropy: uniform(&mut rng),
                q_entropy: 1.0,
                top2_gap: 1.0,
                accepted: node < round.accepted,
            }));
        }
    }
}

/// A row per block that has a generation or a failure, undisturbed, of session 0.
pub(crate) fn blocks(rows: &Rows) -> Vec<BlockRow> {
    let place = numbers(&rows.plan);
    let mut numbers = BTreeMap::new();
    let generations = rows.generations.iter().map(|g| (&g.cell, &g.prompt, g.repeat));
    let failures = rows.failures.iter().map(|f| (&f.cell, &f.prompt, f.repeat));
    for (cell, prompt, repeat) in generations.chain(failures) {
        numbers.insert(place(cell, prompt, repeat), (prompt.clone(), repeat));
    }
    let texts = texts(rows);
    let block = |(block, (prompt, repeat)): (usize, (String, u32))| {
        macro_rules! own {
            ($rows:expr) => {
                $rows
                    .iter()
                    .filter(|r| place(&r.cell, &r.prompt, r.repeat) == block)
                    .collect::<Vec<_>>()
            };
        }
        let rounds = own!(rows.rounds);
        let positions = own!(rows.positions);
        let texts = own!(texts);
        let mut failures = own!(rows.failures);
        failures.retain(|f| !f.superseded);
        let divergences = own!(rows.divergences);
        let mut generations = own!(rows.generations);
        generations.retain(|g| !g.superseded);
        let lines = texts.iter().map(|text| serde_json::to_string(text).unwrap() + "\n");
        let digests = [
            digest(&rounds),
            digest(&positions),
            short(lines.collect::<String>().as_bytes()),
            digest(&failures),
            digest(&divergences),
            digest(&generations),
        ];
        sealed(BlockRow {
            block,
            prompt,
            repeat,
            rounds: rounds.len(),
            positions: positions.len(),
            texts: texts.len(),
            failures: failures.len(),
            divergences: divergences.len(),
            generations: generations.len(),
            digests: digests.join("-"),
            throttled_share: Some(0.0),
            stopped_share: Some(0.0),
            ..BlockRow::default()
        })
    };
    numbers.into_iter().map(block).collect()
}

/// The number of a generation's block: repeat, prompt, sampling setting.
fn numbers(plan: &Plan) -> impl Fn(&str, &str, u32) -> usize {
    let goals = plan.goals();
    let cells = goals.iter().enumerate();
    let cells = cells.flat_map(|(i, cells)| cells.iter().map(move |cell| (&*cell.id, i)));
    let cells = cells.collect::<BTreeMap<_, _>>();
    let prompts = plan.prompts.iter().enumerate().map(|(i, prompt)| (&**prompt, i));
    let prompts = prompts.collect::<BTreeMap<_, _>>();
    let (each, per_prompt) = (plan.prompts.len(), goals.len());
    move |cell, prompt, repeat| {
        (repeat as usize * each + prompts[prompt]) * per_prompt + cells[cell]
    }
}

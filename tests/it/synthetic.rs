//! A results folder as a run would leave it, from simulated rounds with known acceptance and
//! times: what the report says can be compared with what was put in.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::Serialize;
use sha2::{Digest, Sha256};
use specdec::core::sampling::SamplingParams;
use specdec::measure::rows::{
    Calibration, CellCosts, DivergenceRow, FailureRow, GenerationRow, PassCost, PositionRow,
    RAW_FILES, RoundRow,
};
use specdec::method::decode::MethodSpec;
use specdec::model::hex;
use specdec::run::experiment::{Cell, Choice, FORMAT, Plan, PlannedModel, SweepPoint};

use crate::fixtures::uniform;
use crate::synthetic_blocks::{blocks, texts};

/// What to simulate.
#[derive(Debug, Clone)]
pub(crate) struct Synthetic {
    pub(crate) prompts: usize,
    pub(crate) max_tokens: usize,
    pub(crate) drafters: Vec<&'static str>,
    pub(crate) draft_lengths: Vec<usize>,
    pub(crate) temperatures: Vec<f64>,
}

/// The rows of a simulated run.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) plan: Plan,
    pub(crate) calibration: Calibration,
    pub(crate) rounds: Vec<RoundRow>,
    pub(crate) generations: Vec<GenerationRow>,
    pub(crate) failures: Vec<FailureRow>,
    pub(crate) divergences: Vec<DivergenceRow>,
    pub(crate) positions: Vec<PositionRow>,
}

/// A run of one drafter at two draft lengths and temperatures.
pub(crate) fn simulated() -> Rows {
    let run = Synthetic {
        prompts: 12,
        max_tokens: 48,
        drafters: vec!["model"],
        draft_lengths: vec![2, 4],
        temperatures: vec![0.0, 1.0],
    };
    run.rows()
}

impl Synthetic {
    /// As large as the draft-length experiment.
    pub(crate) fn large() -> Self {
        Self {
            prompts: 40,
            max_tokens: 64,
            drafters: vec!["model", "prompt_lookup"],
            draft_lengths: vec![1, 2, 3, 4, 6, 8],
            temperatures: vec![0.0, 0.7, 1.0],
        }
    }

    /// So small that the report can be read by eye.
    pub(crate) fn tiny() -> Self {
        Self {
            prompts: 3,
            max_tokens: 16,
            drafters: vec!["model", "prompt_lookup"],
            draft_lengths: vec![1, 3],
            temperatures: vec![0.0, 1.0],
        }
    }

    pub(crate) fn rows(&self) -> Rows {
        let mut rows = Rows::none(self.plan());
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        (0..self.prompts).for_each(|prompt| rows.simulate(prompt, &mut rng));
        rows
    }

    /// Writes the folder prompt by prompt, because memory may not hold all of its rows.
    /// Returns the number of rounds.
    pub(crate) fn write(&self, folder: &Path) -> usize {
        let plan = self.plan();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut rounds = 0;
        for prompt in 0..self.prompts {
            let mut rows = Rows::none(plan.clone());
            rows.simulate(prompt, &mut rng);
            rounds += rows.rounds.len();
            match prompt {
                0 => rows.write(folder),
                _ => rows.append(folder),
            }
        }
        rounds
    }

    fn plan(&self) -> Plan {
        let mut cells = Vec::new();
        for &temperature in &self.temperatures {
            let sampling = SamplingParams { temperature, ..SamplingParams::default() };
            let methods =
                self.drafters.iter().flat_map(|d| self.draft_lengths.iter().map(|k| (*d, *k)));
            for (drafter, k) in [("none", 0)].into_iter().chain(methods) {
                cells.push(Cell {
                    id: format!("{drafter}-{k}-{temperature}"),
                    point: SweepPoint {
                        method: MethodSpec {
                            drafter: drafter.to_owned(),
                            num_speculative_tokens: k,
                            sampling: sampling.clone(),
                            ..MethodSpec::default()
                        },
                        ..SweepPoint::default()
                    },
                    class: if temperature == 0.0 { "G~" } else { "D" }.to_owned(),
                    control: false,
                });
            }
        }
        let model = |name: &str| PlannedModel {
            name: name.to_owned(),
            sha256: "00".repeat(32),
            engine: "candle".to_owned(),
            dtype: "f32".to_owned(),
            eos: Some(Vec::new()),
            ..PlannedModel::default()
        };
        Plan {
            format: FORMAT,
            experiment: "01-draft-length".to_owned(),
            question: "How far ahead should the draft look?".to_owned(),
            hash: "synthetic".to_owned(),
            stop_token_ids: Vec::new(),
            max_tokens: self.max_tokens,
            repeats: 1,
            seed: 7,
            ignore_eos: true,
            special_tokens: false,
            chat: false,
            thinking: ["<think>", "</think>"].map(str::to_owned),
            kv_cache: true,
            trace: false,
            clock: "real".to_owned(),
            warmup: 3,
            turns: BTreeMap::new(),
            texts: BTreeMap::new(),
            prompts: (0..self.prompts).map(|p| format!("prompt-{p:02}")).collect(),
            prompts_sha256: "11".repeat(32),
            copies: BTreeMap::new(),
            choice: Choice::default(),
            target: model("embedded-target"),
            draft: Some(model("embedded-draft")),
            cells,
        }
    }
}

impl Rows {
    fn none(plan: Plan) -> Self {
        Self {
            calibration: calibration(&plan),
            plan,
            rounds: Vec::new(),
            generations: Vec::new(),
            failures: Vec::new(),
            divergences: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// Adds the generations of a prompt.
    fn simulate(&mut self, prompt: usize, rng: &mut ChaCha8Rng) {
        let (plan, calibration) = (&self.plan, &self.calibration);
        let ease = 0.12 * (uniform(rng) - 0.5);
        let (name, category) = (&plan.prompts[prompt], ["code", "prose", "edit"][prompt % 3]);
        for cell in &plan.cells {
            let generation = Simulated { plan, calibration, cell, ease };
            let rows = generation.rounds(name, rng);
            self.generations.push(generation.row(name, category, &rows));
            self.rounds.extend(rows);
        }
    }

    /// Writes the folder.
    pub(crate) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let mut plan = self.plan.clone();
        plan.seal().unwrap();
        fs::write(folder.join("plan.toml"), toml::to_string(&plan).unwrap()).unwrap();
        fs::write(folder.join("manifest.json"), self.manifest()).unwrap();
        for name in RAW_FILES {
            let _ = fs::remove_file(folder.join(name));
        }
        self.append(folder);
    }

    /// Adds the rows to the files of a folder.
    fn append(&self, folder: &Path) {
        csv(&folder.join("rounds.csv"), &self.rounds);
        csv(&folder.join("generations.csv"), &self.generations);
        csv(&folder.join("blocks.csv"), &blocks(self));
        let lines = texts(self).into_iter().map(|t| serde_json::to_string(&t).unwrap() + "\n");
        let lines = lines.collect::<String>();
        added(&folder.join("generations.jsonl")).0.write_all(lines.as_bytes()).unwrap();
        if !self.failures.is_empty() {
            csv(&folder.join("failures.csv"), &self.failures);
        }
        if !self.divergences.is_empty() {
            csv(&folder.join("divergences.csv"), &self.divergences);
        }
        if !self.positions.is_empty() {
            csv(&folder.join("positions.csv"), &self.positions);
        }
    }

    /// Runs a cell again, `slower` times as slow.
    pub(crate) fn repeat(&mut self, cell: &str, slower: f64) {
        let again = format!("{cell}-again");
        let first = self.plan.cells.iter().find(|c| c.id == cell).unwrap();
        self.plan.cells.push(Cell { id: again.clone(), control: true, ..first.clone() });
        let rounds = self.rounds.iter().filter(|r| r.cell == cell);
        let rounds = rounds.map(|r| RoundRow {
            cell: again.clone(),
            draft_us: slower * r.draft_us,
            target_us: slower * r.target_us,
            verify_us: slower * r.verify_us,
            other_us: slower * r.other_us,
            ..r.clone()
        });
        self.rounds.extend(rounds.collect::<Vec<_>>());
        let generations = self.generations.iter().filter(|g| g.cell == cell);
        let generations = generations.map(|g| GenerationRow {
            cell: again.clone(),
            decode_us: slower * g.decode_us,
            ..g.clone()
        });
        self.generations.extend(generations.collect::<Vec<_>>());
    }

    fn manifest(&self) -> String {
        let mut calibration = self.calibration.clone();
        calibration.cells.retain(|id, _| self.plan.cells.iter().any(|cell| cell.id == *id));
        let session = serde_json::json!({
            "specdec": "0.1.0",
            "git_commit": "0123456789abcdef0123456789abcdef01234567",
            "git_dirty": false,
            "command_line": ["specdec", "run", "experiments/01-draft-length"],
            "rustc": "rustc 1.95.0",
            "libraries": [],
            "features": [],
            "cpu_model": "Simulated CPU @ 2.50GHz",
            "cpu_flags": "avx2",
            "cores": 2,
            "isa": "avx2",
            "threads": 2,
            "load_average": [1.2, 1.0, 0.8],
            "lost_before": 0.02,
            "lost_share": 0.01,
            "calibration": calibration,
            "started": "2026-11-21T03:00:00Z",
            "ended": "2026-11-21T03:04:30Z",
        });
        let manifest = serde_json::json!({
            "models": [],
            "prompts_sha256": "11",
            "status": "finished",
            "blocks": [1, 1],
            "sessions": [session],
        });
        serde_json::to_string_pretty(&manifest).unwrap()
    }
}

fn calibration(plan: &Plan) -> Calibration {
    let costs = |cell: &Cell| CellCosts {
        draft_us_per_token: match cell.method.drafter.as_str() {
            "model" => Some(420.0),
            "prompt_lookup" => Some(2.0),
            _ => None,
        },
        verify_us: 60.0 + 45.0 * cell.method.num_speculative_tokens as f64,
        other_us: 20.0,
        spread: Some(1.1),
    };
    let pass = |rows: usize| {
        let us = 3600.0 + 320.0 * (rows - 1) as f64;
        PassCost { rows, us, iqr_us: 40.0, samples: 15 }
    };
    Calibration {
        context_tokens: 96,
        passes: (1..=9).map(pass).collect(),
        cells: plan.cells.iter().map(|c| (c.id.clone(), costs(c))).collect::<BTreeMap<_, _>>(),
        ..Calibration::default()
    }
}

struct Simulated<'a> {
    plan: &'a Plan,
    calibration: &'a Calibration,
    cell: &'a Cell,
    ease: f64,
}

impl Simulated<'_> {
    fn rounds(&self, prompt: &str, rng: &mut ChaCha8Rng) -> Vec<RoundRow> {
        let costs = self.calibration.cells[&self.cell.id];
        let lookup = self.cell.method.drafter == "prompt_lookup";
        let t = self.cell.method.sampling.temperature;
        let (mut rows, mut left) = (Vec::new(), self.plan.max_tokens);
        while left > 0 {
            let found = !lookup || uniform(rng) < 0.45;
            let allowed = self.cell.method.num_speculative_tokens.min(left - 1);
            let proposed = if found { allowed } else { 0 };
            let accept = self.ease + if lookup { 0.55 - 0.12 * t } else { 0.86 - 0.1 * t };
            let accepted = (0..proposed).take_while(|_| uniform(rng) < accept).count();
            let reached = proposed.min(accepted + 1);
            let noise = 1.0 + 0.03 * (uniform(rng) - 0.5);
            let drafting = 0.5 + proposed as f64 * costs.draft_us_per_token.unwrap_or(0.0);
            // Clocks count nanoseconds.
            let clocked = |us: f64| (us * 1e3).round() / 1e3;
            rows.push(RoundRow {
                cell: self.cell.id.clone(),
                prompt: prompt.to_owned(),
                repeat: 0,
                round: rows.len() as u64,
                context_tokens: 30 + self.plan.max_tokens - left,
                proposed,
                depth: proposed,
                accepted,
                emitted: accepted + 1,
                truncated: false,
                reached,
                overlap_sum: reached as f64 * accept,
                forks: reached,
                ceiling_sum: Some(reached as f64 * accept),
                tv_sum: None,
                residual_fallbacks: 0,
                draft_forwards: if lookup { 0 } else { proposed },
                draft_us: clocked(noise * drafting),
                target_us: clocked(noise * self.calibration.passes[proposed].us),
                verify_us: costs.verify_us,
                other_us: costs.other_us,
                accepted_raw: Some(accepted),
                experts: Some(0),
            });
            left -= accepted + 1;
        }
        rows
    }

    fn row(&self, prompt: &str, category: &str, rounds: &[RoundRow]) -> GenerationRow {
        let us = |r: &RoundRow| r.draft_us + r.target_us + r.verify_us + r.other_us;
        let decode_us = rounds.iter().map(us).sum::<f64>();
        let new_tokens = rounds.iter().map(|r| r.emitted).sum::<usize>();
        GenerationRow {
            cell: self.cell.id.clone(),
            prompt: prompt.to_owned(),
            category: category.to_owned(),
            repeat: 0,
            seed: self.plan.seed,
            prompt_tokens: 30,
            new_tokens,
            stop_reason: "max_tokens".to_owned(),
            target_forwards: rounds.len(),
            draft_forwards: rounds.iter().map(|r| r.draft_forwards).sum(),
            prefill_us: 9000.0,
            decode_us,
            tokens_per_second: new_tokens as f64 * 1e6 / decode_us,
            first_divergence: None,
            text_sha256: hex(&Sha256::digest("a".repeat(new_tokens))),
            superseded: false,
        }
    }
}

/// The file, to write at its end, and whether it is empty.
fn added(path: &Path) -> (File, bool) {
    let file = File::options().create(true).append(true).open(path).unwrap();
    let new = file.metadata().unwrap().len() == 0;
    (file, new)
}

fn csv<T: Serialize>(path: &Path, rows: &[T]) {
    let (file, new) = added(path);
    let mut writer = csv::WriterBuilder::new().has_headers(new).from_writer(file);
    rows.iter().for_each(|row| writer.serialize(row).unwrap());
    writer.flush().unwrap();
}

//! Wrong targets and wrong samplers of the target.

use std::any::Any;

use super::{CASE, Case, Mutant, RIGHT, TREE_CASE, drafters};
use crate::distribution::Token;
use crate::error::Error;
use crate::lanes::LANES;
use crate::model::{Evaluation, KvCache, LanguageModel, ModelInfo, Session, Toy, Want, Work};
use crate::sampling::{Logits, SamplingParams};
use crate::tree::{Draft, MAX_NODES, Row};

/// Modifies the rows of a pass over a draft.
type Tamper = fn(&Draft, &mut Vec<Logits>);

/// A toy whose rows are modified on their way to the verifier.
#[derive(Debug)]
struct Tampered {
    toy: Toy,
    tamper: Tamper,
}

impl LanguageModel for Tampered {
    fn info(&self) -> &ModelInfo {
        self.toy.info()
    }

    fn session(&self) -> Result<Session, Error> {
        self.toy.session()
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        let mut evaluations = self.toy.evaluate(work)?;
        for (work, evaluation) in work.iter().zip(&mut evaluations) {
            if work.want == Want::All {
                (self.tamper)(work.draft, &mut evaluation.rows);
            }
        }
        Ok(evaluations)
    }
}

fn tampered(toy: Toy, tamper: Tamper) -> Box<dyn LanguageModel> {
    Box::new(Tampered { toy, tamper })
}

/// The row before row `i + 1`: that of the node's parent.
fn parent_row(draft: &Draft, node: usize) -> usize {
    Row::after(draft.node(node).parent).number()
}

/// Replaces the logit of each token.
fn replace(logits: &mut Logits, value: impl Fn(Token, f64) -> f64) {
    let values = (0..logits.len() as Token).map(|t| value(t, logits.get(t))).collect();
    *logits = Logits::F64(values);
}

/// A toy with its own cache, which may fail to overwrite, move or copy rows.
#[derive(Debug)]
struct Careless {
    toy: Toy,
    care: Care,
}

/// The operations that the cache performs.
#[derive(Debug, Clone, Copy)]
struct Care {
    overwrites: bool,
    moves: bool,
    copies: bool,
}

const ALL_CARE: Care = Care { overwrites: true, moves: true, copies: true };

#[derive(Debug, Clone)]
struct CarelessCache {
    rows: Vec<Option<Token>>,
    care: Care,
}

impl KvCache for CarelessCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        if self.care.moves {
            self.rows[to] = self.rows[from];
        }
        Ok(())
    }

    /// Copies all rows, or those of whole tiles only.
    fn fork(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        let mut fork = self.clone();
        if !self.care.copies {
            fork.rows[slots / LANES * LANES..].fill(None);
        }
        Ok(Box::new(fork))
    }

    /// All rows, including those beyond the sequence: they matter here.
    fn key(&self, _slots: usize) -> Vec<u8> {
        self.rows.iter().flat_map(|row| row.unwrap_or(Token::MAX).to_le_bytes()).collect()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl LanguageModel for Careless {
    fn info(&self) -> &ModelInfo {
        self.toy.info()
    }

    fn session(&self) -> Result<Session, Error> {
        let slots = MAX_NODES;
        let cache = CarelessCache { rows: vec![None; slots], care: self.care };
        Ok(Session::new(Box::new(cache), slots, slots))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        work.iter_mut()
            .map(|work| {
                let step = Session::prepare(work)?;
                let cache = work.session.cache().as_any().downcast_mut::<CarelessCache>();
                let cache = cache.ok_or_else(|| Error::engine("not a session of this model"))?;
                for feed in &step.feed {
                    let row = &mut cache.rows[feed.slot];
                    if self.care.overwrites || row.is_none() {
                        *row = Some(feed.token);
                    }
                }
                let mut rows = Vec::new();
                for &row in &step.rows {
                    let feed = &step.feed[row];
                    let slots = (0..feed.prefix).chain(feed.ancestors.iter().copied());
                    let sequence = slots.filter_map(|slot| cache.rows[slot]).collect::<Vec<_>>();
                    rows.push(Logits::F64(self.toy.logits(&sequence)?.to_vec()));
                }
                Session::commit(work, &step);
                Ok(Evaluation { rows, computed: step.feed.len() })
            })
            .collect()
    }
}

/// An engine cache whose forks end with the last whole tile.
#[derive(Debug)]
struct WholeTiles(Box<dyn KvCache>);

impl KvCache for WholeTiles {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.0.copy_row(from, to)
    }

    fn fork(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self(self.0.fork(slots / LANES * LANES)?)))
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        self.0.key(slots)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self.0.as_any()
    }
}

/// The same cache without a mistake.
pub(super) const RIGHT_ROWS: Mutant = Mutant {
    name: "right_cache",
    target: |toy| Box::new(Careless { toy, care: ALL_CARE }),
    ..drafters::RIGHT_TREE
};

const COOL: SamplingParams = SamplingParams { temperature: 0.7, ..SamplingParams::NEUTRAL };
const TOP_2: SamplingParams = SamplingParams { top_k: 2, ..SamplingParams::NEUTRAL };
const FREQUENCY: f64 = 0.8;
const PENALISED: Case = Case {
    target: SamplingParams { frequency_penalty: FREQUENCY, ..SamplingParams::NEUTRAL },
    ..CASE
};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "bonus_row_not_warped",
        imitates: "the bonus token is drawn from the plain softmax, past the temperature",
        case: Case { target: COOL, draft: COOL, ..CASE },
        // Undoes the later division by the temperature.
        target: |toy| {
            tampered(toy, |draft, rows| {
                replace(&mut rows[draft.len()], |_, logit| logit * COOL.temperature);
            })
        },
        ..RIGHT
    },
    Mutant {
        name: "bonus_context_stale",
        imitates: "the bonus token is drawn without its last context token",
        target: |toy| {
            tampered(toy, |draft, rows| {
                if let Some(last) = draft.len().checked_sub(1) {
                    rows[last + 1] = rows[parent_row(draft, last)].clone();
                }
            })
        },
        ..RIGHT
    },
    Mutant {
        name: "target_row_off_by_one",
        imitates: "each draft token but the first is verified by the row before its own",
        target: |toy| {
            tampered(toy, |draft, rows| {
                for node in (0..draft.len()).rev() {
                    rows[node + 1] = rows[parent_row(draft, node)].clone();
                }
            })
        },
        ..RIGHT
    },
    Mutant {
        name: "penalties_ignore_draft",
        imitates: "penalties count committed tokens only, not the drafted ones before a row",
        case: PENALISED,
        // Compensates the penalty that the sampler will subtract for drafted tokens.
        target: |toy| {
            tampered(toy, |draft, rows| {
                for (node, row) in rows.iter_mut().skip(1).enumerate() {
                    let drafted = draft.tokens_to(node);
                    let count = |t| drafted.iter().filter(|&&d| d == t).count() as f64;
                    replace(row, |t, logit| logit + FREQUENCY * count(t));
                }
            })
        },
        ..RIGHT
    },
    Mutant {
        name: "penalties_count_whole_draft",
        imitates: "penalties at a row also count the drafted tokens after it",
        case: PENALISED,
        // Subtracts for later tokens what the sampler subtracts for earlier ones.
        target: |toy| {
            tampered(toy, |draft, rows| {
                for (row, logits) in rows.iter_mut().enumerate() {
                    let before = if row == 0 { Vec::new() } else { draft.path(row - 1) };
                    let count = |t| {
                        let later = (0..draft.len()).filter(|id| !before.contains(id));
                        later.filter(|&id| draft.node(id).token == t).count() as f64
                    };
                    replace(logits, |t, logit| logit - FREQUENCY * count(t));
                }
            })
        },
        ..RIGHT
    },
    Mutant {
        name: "stale_kv",
        imitates: "the cache keeps the row of a rejected token",
        target: |toy| Box::new(Careless { toy, care: Care { overwrites: false, ..ALL_CARE } }),
        ..RIGHT
    },
    Mutant {
        name: "tree_rows_not_compacted",
        imitates: "the cache rows of an accepted tree path stay where they were",
        case: TREE_CASE,
        target: |toy| Box::new(Careless { toy, care: Care { moves: false, ..ALL_CARE } }),
        drafter: drafters::SAMPLED_TREE,
        ..RIGHT
    },
    Mutant {
        name: "fork_loses_partial_tile",
        imitates: "a copied cache lacks the rows that do not fill a tile of sixteen",
        case: Case { engine: true, ..CASE },
        target: |toy| Box::new(Careless { toy, care: Care { copies: false, ..ALL_CARE } }),
        cache: |cache| Box::new(WholeTiles(cache)),
        ..RIGHT
    },
];

/// Samplers that ignore a requested setting.
pub(super) const SAMPLERS: &[Mutant] = &[
    Mutant {
        name: "target_temperature_ignored",
        imitates: "temperature 0.7 is asked for and the target is sampled at 1",
        case: Case { target: COOL, draft: COOL, ..CASE },
        sampler: |params| SamplingParams { temperature: 1.0, ..params },
        ..RIGHT
    },
    Mutant {
        name: "target_top_k_ignored",
        imitates: "top-k 2 is asked for and applied to the draft alone",
        case: Case { target: TOP_2, draft: TOP_2, ..CASE },
        sampler: |params| SamplingParams { top_k: 0, ..params },
        ..RIGHT
    },
];

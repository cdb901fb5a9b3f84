//! Wrong targets.

use std::any::Any;

use super::mutant::{CASE, COOL, Case, Mutant, RIGHT, TREE_CASE};
use super::rejection::{OtherInputs, SAME_INPUTS};
use super::{BUG, Bug, BugDistribution, drafters};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::lanes::LANES;
use crate::core::sampling::{Logits, SamplingParams};
use crate::core::tree::{Draft, MAX_NODES, Row};
use crate::model::{
    Evaluation, KvCache, LanguageModel, ModelInfo, Session, Toy, ToyDrafts, ToyPair, Want, Work,
};

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
    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
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
                Ok(Evaluation { rows, computed: step.feed.len(), ..Evaluation::default() })
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

    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self(self.0.try_clone(slots / LANES * LANES)?)))
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
    target: Some(|toy| Box::new(Careless { toy, care: ALL_CARE })),
    ..drafters::RIGHT_TREE
};

/// The target's first layers without a mistake.
pub(super) const RIGHT_EXIT: Mutant =
    Mutant { draft: Some(|pair, _| exit(pair, ToyDrafts::FirstLayers)), ..RIGHT };

fn exit(pair: &ToyPair, drafts: ToyDrafts) -> Result<Box<dyn LanguageModel>, Error> {
    pair.clone().drafting_with(drafts).drafter("draft")
}

const FREQUENCY: f64 = 0.8;
const PENALISED: Case = Case {
    target: &SamplingParams { frequency_penalty: FREQUENCY, ..SamplingParams::NEUTRAL },
    ..CASE
};

/// A wrong target with right everything else.
const fn wrong(case: Case, target: fn(Toy) -> Box<dyn LanguageModel>) -> Bug {
    Bug { mutant: Some(Mutant { case, target: Some(target), ..RIGHT }), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "bonus_row_not_warped",
        summary: "the bonus token is drawn from the plain softmax, past the temperature",
        // Undoes the later division by the temperature.
        ..wrong(Case { target: COOL, draft: COOL, ..CASE }, |toy| {
            tampered(toy, |draft, rows| {
                replace(&mut rows[draft.len()], |_, logit| logit * COOL.temperature);
            })
        })
    },
    Bug {
        name: "bonus_from_stale_row",
        summary: "the bonus token is drawn from the target's row at the previous position",
        was: &["bonus_context_stale"],
        verifier: Some(&OtherInputs {
            targets: |draft, targets| {
                [&targets[..draft.len()], &targets[draft.len() - 1..draft.len()]].concat()
            },
            ..SAME_INPUTS
        }),
        distribution: Some(|dists| {
            dists.before.clone().filter(|_| dists.draft.is_some()).map(BugDistribution::Bonus)
        }),
        ..wrong(CASE, |toy| {
            tampered(toy, |draft, rows| {
                if let Some(last) = draft.len().checked_sub(1) {
                    rows[last + 1] = rows[parent_row(draft, last)].clone();
                }
            })
        })
    },
    Bug {
        name: "target_row_early",
        summary: "each draft token but the first is verified by the row before its own",
        was: &["target_row_off_by_one"],
        verifier: Some(&OtherInputs {
            targets: |draft, targets| [&targets[..1], &targets[..draft.len()]].concat(),
            ..SAME_INPUTS
        }),
        ..wrong(CASE, |toy| {
            tampered(toy, |draft, rows| {
                for node in (0..draft.len()).rev() {
                    rows[node + 1] = rows[parent_row(draft, node)].clone();
                }
            })
        })
    },
    Bug {
        name: "penalties_ignore_draft",
        summary: "penalties count committed tokens only, not the drafted ones before a row",
        // Compensates the penalty that the sampler will subtract for drafted tokens.
        ..wrong(PENALISED, |toy| {
            tampered(toy, |draft, rows| {
                for (node, row) in rows.iter_mut().skip(1).enumerate() {
                    let drafted = draft.tokens_to(node);
                    let count = |t| drafted.iter().filter(|&&d| d == t).count() as f64;
                    replace(row, |t, logit| logit + FREQUENCY * count(t));
                }
            })
        })
    },
    Bug {
        name: "penalties_count_whole_draft",
        summary: "penalties at a row also count the drafted tokens after it",
        // Subtracts for later tokens what the sampler subtracts for earlier ones.
        ..wrong(PENALISED, |toy| {
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
        })
    },
    Bug {
        name: "stale_kv",
        summary: "the cache keeps the row of a rejected token",
        ..wrong(CASE, |toy| {
            Box::new(Careless { toy, care: Care { overwrites: false, ..ALL_CARE } })
        })
    },
    Bug {
        name: "early_exit_continues_stale",
        summary: "the target continues from what its first layers computed of a rejected token",
        mutant: Some(Mutant {
            target: Some(|toy| Box::new(toy.keeping_old_rows())),
            draft: Some(|pair, _| exit(pair, ToyDrafts::StaleFirstLayers)),
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "tree_rows_not_compacted",
        summary: "the cache rows of an accepted tree path stay where they were",
        mutant: Some(Mutant {
            case: TREE_CASE,
            target: Some(|toy| Box::new(Careless { toy, care: Care { moves: false, ..ALL_CARE } })),
            drafter: drafters::SAMPLED_TREE,
            ..RIGHT
        }),
        ..BUG
    },
    Bug {
        name: "fork_loses_partial_tile",
        summary: "a copied cache lacks the rows that do not fill a tile of sixteen",
        mutant: Some(Mutant {
            case: Case { engine: true, ..CASE },
            target: Some(|toy| {
                Box::new(Careless { toy, care: Care { copies: false, ..ALL_CARE } })
            }),
            cache: |cache| Box::new(WholeTiles(cache)),
            ..RIGHT
        }),
        ..BUG
    },
];

//! Medusa heads on our own engine (Cai et al. 2024, arXiv 2401.10774): blocks of one layer on the
//! target's last state, one head for each depth of a draft.
//!
//! They have no pass of their own over tokens: head k predicts the token k + 1 after the last
//! committed one from the state of the token before that, regardless of what is drafted in between.

use std::sync::{Mutex, PoisonError};

use super::front::Front;
use super::head::TargetTables;
use super::memory::Memory;
use super::packer::{Linear, Wanted, in_tiles, next, pack};
use super::pass::{Network, Pass, Weighted};
use super::workspace::Workspace;
use crate::core::error::Error;
use crate::core::sampling::{ForEachRow, Logits};
use crate::core::tree::MAX_NODES;
use crate::engine::Dtype;
use crate::engine::decoder::{Config, MedusaConfig, Tensors, masked};
use crate::engine::pool::Pool;
use crate::model::{
    Computed, Evaluation, HeadStep, LanguageModel, ModelInfo, ModelInputs, NoRows, Session, Work,
};

/// Medusa heads.
#[derive(Debug)]
pub(crate) struct NativeMedusa {
    info: ModelInfo,
    config: MedusaConfig,
    /// The target's, without layers.
    decoder: Config,
    memory: Memory,
    /// By head: its blocks, and its own product to logits.
    heads: Vec<(Vec<Linear>, Option<Linear>)>,
    target: TargetTables,
    space: Mutex<Workspace>,
}

impl NativeMedusa {
    /// Packs the weights from `tensors`, by the names of [`MedusaConfig`].
    pub(crate) fn load(
        info: ModelInfo,
        config: MedusaConfig,
        dtype: Dtype,
        tensors: &dyn Tensors,
        target: &TargetTables,
    ) -> Result<Self, Error> {
        let tables = config.tables(info.vocab).into_iter();
        let wanted = tables.map(|table| Wanted::table(table, usize::MAX)).collect::<Vec<_>>();
        let (memory, linears) = pack((target.isa, dtype), tensors, &wanted)?;
        let mut linears = linears.into_iter();
        let mut heads = Vec::with_capacity(config.heads);
        for head in 0..config.heads {
            let mut blocks = Vec::with_capacity(config.blocks);
            for block in 0..config.blocks {
                let mut linear = next(&mut linears)?;
                let (name, shape) = config.bias(head, block);
                linear.bias = Some(in_tiles(&tensors.get(&name, &shape)?));
                blocks.push(linear);
            }
            let own = config.own_heads.then(|| next(&mut linears)).transpose()?;
            heads.push((blocks, own));
        }
        let info = ModelInfo { sha256: tensors.sha256()?, ..info };
        let space = Mutex::new(Workspace::new(target.pool.threads()));
        let decoder = Config { layers: Vec::new(), ..target.config.clone() };
        Ok(Self { info, config, decoder, memory, heads, target: target.clone(), space })
    }

    /// Computes the wanted rows of a level.
    fn run(&self, level: usize, steps: &[&HeadStep]) -> Result<Vec<Computed>, Error> {
        let (blocks, own) = self.heads.get(level).ok_or_else(|| {
            Error::engine(format!("{} heads draft no token {}", self.config.heads, level + 1))
        })?;
        let width = self.config.width;
        let rows = steps.iter().map(|step| step.rows.len()).sum::<usize>();
        let weights = &self.target.weights;
        let shared = Weighted { memory: &weights.memory, linear: &weights.head };
        let net = Network {
            config: &self.decoder,
            isa: self.target.isa,
            layers: &[],
            below: 0,
            memory: &self.memory,
            norm: None,
            head: own.as_ref().map_or(shared, |linear| Weighted { memory: &self.memory, linear }),
            vocab: self.info.vocab,
            per_layer: None,
            front: Some(Front::Medusa(blocks)),
        };
        let space = &mut *self.space.lock().unwrap_or_else(PoisonError::into_inner);
        let words = blocks.iter().chain([net.head.linear]).map(|one| one.matrix.words_per_row());
        space.reserve((net.config, words.max().unwrap_or(0)), (rows, 0), rows * net.vocab);
        let wanted_rows =
            steps.iter().flat_map(|step| step.rows.iter().map(move |row| (step, row)));
        for (x, (step, row)) in space.x.get_mut().chunks_exact_mut(width).zip(wanted_rows) {
            x.copy_from_slice(&step.inputs[row * width..(row + 1) * width]);
        }
        let wanted = (0..rows).collect::<Vec<_>>();
        let pass = Pass { net, space, tokens: &[], rows, wanted: &wanted, taps: &[] };
        if rows > 0 {
            let pool = &self.target.pool;
            pool.run_on(pool.threads(), &|worker| pass.run(worker));
        }
        let mut logits = space.logits.get_mut().chunks_exact(net.vocab);
        let mut next = || logits.next().map(|row| masked(row.to_vec(), &self.target.unused));
        let each = steps.iter().map(|step| Computed {
            logits: step.rows.iter().filter_map(|_| next()).collect::<Vec<Logits>>(),
            // Every head reads the same state.
            states: step.inputs.clone(),
            experts: 0,
        });
        Ok(each.collect())
    }
}

impl LanguageModel for NativeMedusa {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let (positions, width) = (self.info.context_length, self.config.width);
        let session = Session::new(Box::new(NoRows), positions + MAX_NODES, positions);
        match &self.info.inputs {
            ModelInputs::Features(features) => Ok(session.of_head(features, width)),
            _ => Err(Error::engine("Medusa heads read features")),
        }
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_by_level(work, |level, sequences: &mut [(&mut NoRows, HeadStep)]| {
            self.run(level, &sequences.iter().map(|(_, step)| step).collect::<Vec<_>>())
        })
    }

    fn threads(&self, _rows: usize) -> usize {
        self.target.pool.threads()
    }

    fn for_each_row(&self) -> ForEachRow {
        ForEachRow(Pool::for_each_row)
    }
}

//! Toy heads: the draft table of a toy pair, behind the interface of heads.
//!
//! The hidden states of a toy target encode which state of which token it is, at which position and
//! after which text. A toy head compares them with the tokens that its own cache holds. If all
//! belong together, its distributions are those of the pair's draft model; if anything does not,
//! they are uniform. So a wrong tap, row, position or slot, or a row that should have been computed
//! again, changes its distributions and is detected.

use std::any::Any;

use super::toy::{CONTEXT_LENGTH, Toy};
use super::toy_cache::ToyCache;
use super::toy_states::{LAYERS, OWN, WIDTH, extended, state};
use super::{
    Computed, Evaluation, Features, Feed, HeadFault, HeadStep, KvCache, LanguageModel, ModelInfo,
    ModelInputs, Session, Step, Tap, Work,
};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::Logits;
use crate::core::tree::MAX_NODES;

/// The states that a toy head reads.
const TAPS: [Tap; 3] = [Tap::After(1), Tap::After(3), Tap::Normed];
/// The layers of a toy target that draft.
pub(super) const EXIT: usize = 2;

/// The first layers of a toy target, in the target's sequence: they have the distributions of the
/// pair's draft model.
#[derive(Debug, Clone)]
pub(super) struct ToyFirstLayers {
    draft: Toy,
    info: ModelInfo,
    keeps_stale_rows: bool,
}

impl ToyFirstLayers {
    /// First layers with the distributions of `draft`.
    pub(super) fn new(draft: Toy, keeps_stale_rows: bool) -> Self {
        let inputs = ModelInputs::FirstLayers(vec![Tap::After(EXIT)]);
        let info = ModelInfo { inputs, hidden: None, ..draft.info().clone() };
        Self { draft, info, keeps_stale_rows }
    }
}

impl LanguageModel for ToyFirstLayers {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        Err(Error::engine("the first layers of a target use its sequence"))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_first(work, EXIT, &mut |sequences| {
            if !self.keeps_stale_rows {
                return self.draft.run_all(sequences);
            }
            let each = sequences.iter_mut();
            each.map(|(cache, step)| self.draft.run(cache, &stale(cache, step))).collect()
        })
    }
}

/// A step that computes the tokens whose rows the cache has, instead of its own.
fn stale(cache: &ToyCache, step: &Step) -> Step {
    let mut step = step.clone();
    for feed in &mut step.feed {
        feed.token = cache.get(feed.slot).unwrap_or(feed.token);
    }
    step
}

/// A head over the states of a toy target.
#[derive(Debug, Clone)]
pub(super) struct ToyHead {
    /// The draft model of the pair.
    draft: Toy,
    info: ModelInfo,
    features: Features,
}

impl ToyHead {
    /// A head with the distributions of `draft`.
    ///
    /// # Errors
    /// If it cannot have the fault.
    pub(super) fn new(draft: Toy, fault: Option<HeadFault>) -> Result<Self, Error> {
        let (taps, width) = (TAPS.to_vec(), TAPS.len() * WIDTH);
        let right = Features { taps, width, ..Features::default() };
        let faulty = fault.map(|fault| right.clone().with_fault(fault, LAYERS)).transpose()?;
        let features = faulty.unwrap_or(right);
        let inputs = ModelInputs::Features(features.clone());
        let info = ModelInfo { inputs, hidden: None, ..draft.info().clone() };
        Ok(Self { draft, info, features })
    }

    fn run(
        &self,
        cache: &mut ToyHeadCache,
        level: usize,
        step: &HeadStep,
    ) -> Result<Computed, Error> {
        let inputs = step.inputs.chunks_exact(if level == 0 { TAPS.len() * WIDTH } else { WIDTH });
        let mut computed = Computed::default();
        for (feed, input) in step.feed.iter().zip(inputs) {
            let row =
                if level == 0 { Row::of_features(feed, input) } else { Row::of_state(feed, input) };
            cache.put(feed.slot, row);
            computed.states.extend(row.state());
        }
        for &row in &step.rows {
            computed.logits.push(self.logits(cache, &step.feed[row])?);
        }
        Ok(computed)
    }

    /// The distribution after a row: the draft model's if all that the row sees belongs together.
    fn logits(&self, cache: &ToyHeadCache, feed: &Feed) -> Result<Logits, Error> {
        let rows = feed.seen().map(|slot| cache.rows.get(slot).copied().flatten());
        let rows = rows.collect::<Option<Vec<_>>>();
        let Some(text) = rows.as_deref().and_then(text_of) else {
            return Ok(Logits::F64(vec![0.0; self.info.vocab]));
        };
        Ok(Logits::F64(self.draft.logits(&text)?.to_vec()))
    }
}

/// The text that consecutive rows are of, if they belong together.
fn text_of(rows: &[Row]) -> Option<Vec<Token>> {
    let mut text = vec![rows.first()?.before];
    let mut code = extended(1, text[0]);
    let mut drafted = false;
    for (position, row) in rows.iter().enumerate() {
        let right = row.right && row.position == position && row.before == text[position];
        // Rows of drafted tokens come last: a kept one would be in front of a committed one.
        if !right || row.code != code || drafted && !row.drafted {
            return None;
        }
        drafted = row.drafted;
        text.push(row.token);
        code = extended(code, row.token);
    }
    Some(text)
}

/// What a row of the cache holds: a token, and what its input says of the token before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    token: Token,
    before: Token,
    position: usize,
    code: u32,
    /// Whether the input is of the right kind, and its parts are of one token.
    right: bool,
    /// Whether the input is a state of the head.
    drafted: bool,
}

impl Row {
    fn of_features(feed: &Feed, features: &[f32]) -> Self {
        let states = features.chunks_exact(WIDTH).collect::<Vec<_>>();
        let expected = TAPS.map(|tap| state(tap, 0, &[])[0]);
        let taps = states.iter().map(|state| state[0]).eq(expected);
        let alike = states.iter().all(|state| state[1..] == states[0][1..]);
        Self::of(feed, states[0], taps && alike)
    }

    fn of_state(feed: &Feed, state: &[f32]) -> Self {
        Self::of(feed, state, state[0] == OWN)
    }

    fn of(feed: &Feed, state: &[f32], right: bool) -> Self {
        let [_, position, before, code] = [state[0], state[1], state[2], state[3]];
        let right = right && feed.position == position as usize;
        let (before, position, code) = (before as Token, position as usize, code as u32);
        Self { token: feed.token, before, position, code, right, drafted: state[0] == OWN }
    }

    /// What the rows of drafted tokens after it continue from.
    fn state(&self) -> [f32; WIDTH] {
        let code = extended(self.code, self.token);
        [OWN, (self.position + 1) as f32, self.token as f32, code as f32]
    }
}

impl LanguageModel for ToyHead {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let slots = CONTEXT_LENGTH + MAX_NODES;
        let session = Session::new(Box::new(ToyHeadCache::default()), slots, CONTEXT_LENGTH);
        Ok(session.of_head(&self.features, WIDTH))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_by_level(work, |level, sequences| {
            let each = sequences.iter_mut();
            each.map(|(cache, step)| self.run(cache, level, step)).collect()
        })
    }
}

/// Rows up to the last one written.
#[derive(Debug, Default)]
struct ToyHeadCache {
    rows: Vec<Option<Row>>,
}

impl ToyHeadCache {
    fn put(&mut self, slot: usize, row: Row) {
        self.rows.resize(self.rows.len().max(slot + 1), None);
        self.rows[slot] = Some(row);
    }
}

impl KvCache for ToyHeadCache {
    fn copy_row(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.rows[to] = self.rows[from];
        Ok(())
    }

    fn try_clone(&self, slots: usize) -> Result<Box<dyn KvCache>, Error> {
        Ok(Box::new(Self { rows: self.rows[..slots.min(self.rows.len())].to_vec() }))
    }

    fn key(&self, slots: usize) -> Vec<u8> {
        format!("{:?}", &self.rows[..slots.min(self.rows.len())]).into_bytes()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

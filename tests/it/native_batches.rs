//! Many sequences in one pass: each has the bits that it has alone.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use specdec::core::tree::Draft;
use specdec::engine::{Dtype, Settings};
use specdec::model::{CacheDtype, LanguageModel, Session, Want, Work, evaluate_one};

use crate::checkpoint::Checkpoint;
use crate::families::folders;
use crate::native::{bits_of, plain, ways_of};

/// A sequence that reads a text in passes over trees.
struct Reading {
    text: Vec<u32>,
    expected: Vec<Vec<u32>>,
    session: Session,
    at: usize,
    draft: Draft,
    /// The nodes of the text among those of the draft.
    nodes: Vec<usize>,
}

impl Reading {
    fn of(model: &dyn LanguageModel, text: Vec<u32>, at: usize) -> Self {
        let expected = plain(model, &text);
        let (session, draft) = (model.session().unwrap(), Draft::empty(model.info().vocab));
        Self { text, expected, session, at, draft, nodes: Vec::new() }
    }

    /// A draft of what comes next in the text, among other tokens.
    fn draft(&mut self, rng: &mut impl Rng) {
        let vocab = self.draft.vocab();
        self.draft = Draft::empty(vocab);
        self.nodes.clear();
        let mut path = None;
        let end = self.text.len().min(self.at + rng.random_range(0..9));
        for &token in &self.text[self.at..end] {
            for _ in 0..rng.random_range(0..3) {
                let parent = rng.random_range(0..=self.draft.len()).checked_sub(1);
                self.draft.certain(parent, rng.random_range(0..vocab as u32));
            }
            path = Some(self.draft.certain(path, token));
            self.nodes.extend(path);
        }
    }

    fn work(&mut self) -> Work<'_> {
        let context = &self.text[..self.at];
        Work { session: &mut self.session, context, draft: &self.draft, want: Want::All }
    }

    /// Takes a share in what another sequence has read of a text that begins in the same way.
    fn share_with(&mut self, other: &mut Self, rng: &mut impl Rng) {
        let common = self.text.iter().zip(&other.text).take_while(|(a, b)| a == b).count();
        let asked = rng.random_range(0..=common);
        self.session = other.session.share(asked).unwrap();
        let read = asked.min(other.session.context().len());
        assert_eq!(self.session.context(), &self.text[..read]);
    }

    /// Compares the rows of the text, and continues after them.
    fn check(&mut self, rows: &[Vec<u32>]) {
        assert!(rows[0] == self.expected[self.at - 1], "context of {}", self.at);
        for (i, &node) in self.nodes.iter().enumerate() {
            assert!(rows[node + 1] == self.expected[self.at + i], "token {}", self.at + i);
        }
        self.at += self.nodes.len() + 1;
    }

    fn has_ended(&self) -> bool {
        self.at > self.text.len()
    }
}

/// Reads texts together: each pass has some of those that are left, in any order, and texts
/// begin and end while others go on.
fn in_batches(model: &dyn LanguageModel, mut waiting: Vec<Reading>, rng: &mut impl Rng) {
    let mut running = Vec::<Reading>::new();
    while !(waiting.is_empty() && running.is_empty()) {
        while !waiting.is_empty() && (running.is_empty() || rng.random_bool(0.4)) {
            let at = rng.random_range(0..=running.len());
            running.insert(at, waiting.pop().unwrap());
        }
        let turn = rng.random_range(0..running.len());
        running.rotate_left(turn);
        let taken = rng.random_range(1..=running.len());
        let batch = &mut running[..taken];
        for reading in &mut *batch {
            reading.draft(rng);
            if rng.random_bool(0.2) {
                // Room is made in blocks of 256 slots.
                reading.session.expect(rng.random_range(0..800)).unwrap();
            }
        }
        let mut work = batch.iter_mut().map(Reading::work).collect::<Vec<_>>();
        let found = model.evaluate(&mut work).unwrap();
        for (reading, found) in batch.iter_mut().zip(found) {
            reading.check(&bits_of(found.rows));
        }
        running.retain(|reading| !reading.has_ended());
    }
}

fn text(rng: &mut impl Rng, vocab: usize, most: usize) -> Vec<u32> {
    (0..rng.random_range(1..most)).map(|_| rng.random_range(0..vocab as u32)).collect()
}

/// Odd and even shapes, in every type, with every instruction set and several threads.
/// Catches: keys and values in the wrong slot; a row attends to all that the longest row of its
/// sequence sees; a pass that is too long loses its last sequence.
#[test]
fn a_sequence_has_the_same_bits_in_any_batch() {
    let shapes = [
        Checkpoint { hidden: 48, intermediate: 72, head_dim: 20, ..Checkpoint::default() },
        Checkpoint {
            hidden: 64,
            intermediate: 96,
            head_dim: 16,
            kv_heads: 1,
            ..Checkpoint::default()
        },
    ];
    for shape in shapes {
        let folder = tempfile::tempdir().unwrap();
        shape.write(folder.path());
        for dtype in Dtype::ALL {
            let settings = Settings { dtype: Some(dtype), ..Settings::default() };
            for (way, loaded) in ways_of(folder.path(), &settings).iter().enumerate() {
                let rng = &mut ChaCha8Rng::seed_from_u64(way as u64);
                let model = &*loaded.model;
                let reading = |_| {
                    let text = text(rng, model.info().vocab, 50);
                    let at = rng.random_range(1..=text.len());
                    Reading::of(model, text, at)
                };
                let readings = (0..6).map(reading).collect();
                in_batches(model, readings, rng);
            }
        }
    }
}

/// Sequences of one prompt keep its rows once, write to their own, and share with others what they
/// have read since; some go back into the prompt and write there.
/// Catches: a sequence writes to shared slots, or loses its own rows behind them; the values of
/// shared slots are left out; one sequence is scored there for all, or its sums stand for all;
/// sequences with different prompts share a group; a sequence takes a smaller share than it asked
/// for.
#[test]
fn sequences_that_share_a_prompt_have_the_same_bits() {
    let mut shared = 0;
    for (number, folder) in folders().into_iter().enumerate() {
        for dtype in CacheDtype::ALL {
            let settings = Settings {
                dtype: Some(Dtype::F32),
                kv_cache_dtype: Some(dtype),
                ..Settings::default()
            };
            for (way, loaded) in ways_of(&folder, &settings).iter().enumerate() {
                let rng = &mut ChaCha8Rng::seed_from_u64((number * 100 + way) as u64);
                let model = &*loaded.model;
                let (vocab, room) = (model.info().vocab, model.info().context_length);
                if room < 64 {
                    // Drafts reach up to sixteen tokens beyond texts of up to 46.
                    continue;
                }
                shared += 1;
                let prompt = text(rng, vocab, 36);
                let mut readings = Vec::<Reading>::new();
                for _ in 0..6 {
                    let text = [&prompt[..], &text(rng, vocab, 12)].concat();
                    let mut reading = Reading::of(model, text, prompt.len());
                    if !readings.is_empty() {
                        let other = rng.random_range(0..readings.len());
                        reading.share_with(&mut readings[other], rng);
                    }
                    let found = evaluate_one(model, reading.work()).unwrap();
                    reading.check(&bits_of(found.rows));
                    if rng.random_bool(0.2) {
                        reading.at = rng.random_range(1..=prompt.len());
                    }
                    readings.push(reading);
                }
                in_batches(model, readings, rng);
            }
        }
    }
    assert!(shared > 100, "{shared} models");
}

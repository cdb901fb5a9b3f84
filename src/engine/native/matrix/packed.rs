//! A weight matrix in memory.

use std::ops::Range;

use super::groups::Groups;
use super::storage::{WeightStorage, WithFormat};
use super::{StorageFormat, ValueForm};
use crate::core::lanes::{Isa, IsaKind, Kernel, LANES};
use crate::engine::native::memory::{Memory, Part, bytes_of};

/// A matrix of `outputs` rows and `inputs` columns, as in checkpoints, packed in tiles.
#[derive(Debug)]
pub(in super::super) struct Matrix {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    /// The instruction set for which it is packed.
    pub(super) isa: IsaKind,
    /// One after the other; all but the last consist of whole tiles.
    pub(super) segments: Vec<Segment>,
}

/// Neighbouring outputs that are stored in the same way.
#[derive(Debug)]
pub(super) struct Segment {
    /// The tiles of the matrix that it holds.
    pub(super) tiles: Range<usize>,
    pub(super) storage: WeightStorage,
    /// The steps of all tiles, tile by tile.
    pub(super) steps: Part,
}

/// The form in which a segment needs the values of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowForm {
    pub form: ValueForm,
    /// Rows are packed in the groups in which they are multiplied.
    pub groups: Groups,
    /// Inputs of a value.
    pub inputs: usize,
    /// Size of a value.
    pub words: usize,
}

impl RowForm {
    /// The number of values of a row.
    pub(super) fn per_row(self, inputs: usize) -> usize {
        inputs.div_ceil(self.inputs)
    }
}

impl Matrix {
    /// Bytes that it takes in memory.
    pub(in super::super) fn bytes_in_memory(&self) -> usize {
        self.segments.iter().map(|segment| segment.steps.bytes()).sum()
    }

    /// Bytes that the outputs of one segment take in memory.
    pub(in super::super) fn bytes(storage: WeightStorage, outputs: usize, inputs: usize) -> usize {
        struct SegmentBytes(usize, usize);
        impl WithFormat for SegmentBytes {
            type Output = usize;
            fn with<S: StorageFormat>(self) -> usize {
                bytes_of::<S::Step>(self.0 * self.1.div_ceil(S::INPUTS))
            }
        }
        storage.with(SegmentBytes(outputs.div_ceil(LANES), inputs))
    }

    /// Writes the weights of one output to `row`, as the products use them.
    pub(in super::super) fn unpack(&self, memory: &Memory, output: usize, row: &mut [f32]) {
        let tile = output / LANES;
        if let Some(segment) = self.segments.iter().find(|s| s.tiles.contains(&tile)) {
            let output = output - segment.tiles.start * LANES;
            segment.storage.with(Unpack { memory, segment, isa: self.isa, output, row });
        }
    }

    /// The forms in which it needs the values of each row, without repetitions.
    pub(super) fn forms(&self) -> impl Iterator<Item = RowForm> {
        let earlier = |i: usize| self.segments[..i].iter().map(|s| s.form(self.isa));
        let forms = self.segments.iter().map(|s| s.form(self.isa)).enumerate();
        forms.filter(move |&(i, form)| earlier(i).all(|e| e != form)).map(|(_, form)| form)
    }

    /// The words that `rows` rows take in the forms before this one, which all rows have one
    /// after the other.
    pub(super) fn words_before(&self, form: RowForm, rows: usize) -> usize {
        let before = self.forms().take_while(|f| *f != form);
        before.map(|form| rows * form.per_row(self.inputs) * form.words).sum()
    }

    /// The words of a packed row.
    pub(in super::super) fn words_per_row(&self) -> usize {
        self.forms().map(|form| form.per_row(self.inputs) * form.words).sum()
    }

    /// Number of outputs.
    pub(in super::super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of inputs.
    pub(in super::super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of tiles.
    pub(super) fn tiles(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    /// Bytes of one tile, on average.
    pub(super) fn tile_bytes(&self) -> usize {
        self.segments.iter().map(|s| s.steps.bytes()).sum::<usize>() / self.tiles().max(1)
    }
}

impl Segment {
    /// The form in which it needs the values of each row.
    pub(super) fn form(&self, isa: IsaKind) -> RowForm {
        struct Form(IsaKind);
        impl WithFormat for Form {
            type Output = RowForm;
            fn with<S: StorageFormat>(self) -> RowForm {
                RowForm {
                    form: S::FORM,
                    groups: Groups::new::<S>(self.0),
                    inputs: S::INPUTS * S::STEPS,
                    words: self.0.run(ValueWords::<S>(std::marker::PhantomData)),
                }
            }
        }
        self.storage.with(Form(isa))
    }
}

/// The size of a value on an instruction set.
struct ValueWords<S>(std::marker::PhantomData<S>);

impl<S: StorageFormat> Kernel for ValueWords<S> {
    type Output = usize;

    #[inline(always)]
    fn run<I: Isa>(self, _: I) -> usize {
        size_of::<S::Value<I>>() / size_of::<u32>()
    }
}

/// Writes an output's weights.
struct Unpack<'a> {
    memory: &'a Memory,
    segment: &'a Segment,
    isa: IsaKind,
    /// Counted within the segment.
    output: usize,
    row: &'a mut [f32],
}

impl WithFormat for Unpack<'_> {
    type Output = ();

    fn with<S: StorageFormat>(self) {
        let count = self.row.len().div_ceil(S::INPUTS);
        let steps = self.memory.get::<S::Step>(&self.segment.steps);
        let tile = &steps[self.output / LANES * count..][..count];
        let weights = tile.iter().flat_map(|step| S::unpack(self.isa, step, self.output % LANES));
        for (to, weight) in self.row.iter_mut().zip(weights) {
            *to = weight;
        }
    }
}

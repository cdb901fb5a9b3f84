//! Numbers of the slots of a cache, in lines of sixteen that the kernels read.

#![allow(unsafe_code)] // reads buffers that a pass shares

use std::ops::Range;

use bytemuck::Pod;

use crate::core::lanes::LANES;
use crate::engine::pool::Shared;

/// What the lanes of a line are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Across {
    /// Sixteen slots: `[slot / 16][number][slot % 16]`.
    Slot,
    /// Sixteen numbers of a slot: `[number / 16][slot][number % 16]`.
    Number,
}

/// What a plane holds for every slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) lane: Across,
    /// Numbers of a slot.
    pub(super) width: usize,
    /// Bytes of a number: 1, 2 or 4.
    pub(super) bytes: usize,
}

/// Numbers of all slots.
#[derive(Debug)]
pub(super) struct Plane {
    shape: Shape,
    /// Slots that there is room for.
    room: usize,
    words: Shared<u32>,
}

impl Shape {
    /// Lines from one tile to the next, with room for `room` slots.
    fn stride(self, room: usize) -> usize {
        match self.lane {
            Across::Slot => self.width,
            Across::Number => room,
        }
    }

    /// Number of tiles: lines whose lanes are the same slots, or the same numbers.
    fn tiles(self, room: usize) -> usize {
        match self.lane {
            Across::Slot => room.div_ceil(LANES),
            Across::Number => self.width.div_ceil(LANES),
        }
    }

    /// The first byte of a number of a slot.
    fn place(self, slot: usize, number: usize, room: usize) -> usize {
        let (line, lane) = match self.lane {
            Across::Slot => (slot / LANES * self.width + number, slot % LANES),
            Across::Number => (number / LANES * room + slot, number % LANES),
        };
        (line * LANES + lane) * self.bytes
    }

    /// Calls `each` with the first slot, the first number and the bytes of every part of these
    /// slots that lies in one piece, for any room.
    fn for_each_part(self, slots: Range<usize>, mut each: impl FnMut(usize, usize, usize)) {
        match self.lane {
            Across::Number => {
                for number in (0..self.width).step_by(LANES) {
                    each(slots.start, number, slots.len() * LANES * self.bytes);
                }
            }
            Across::Slot => {
                let mut slot = slots.start;
                while slot < slots.end {
                    let whole = (slots.end - slot) / LANES * LANES;
                    if slot.is_multiple_of(LANES) && whole > 0 {
                        // Whole tiles follow each other.
                        each(slot, 0, whole * self.width * self.bytes);
                        slot += whole;
                        continue;
                    }
                    let end = slots.end.min((slot / LANES + 1) * LANES);
                    for number in 0..self.width {
                        each(slot, number, (end - slot) * self.bytes);
                    }
                    slot = end;
                }
            }
        }
    }
}

impl Plane {
    pub(super) fn new(shape: Shape, room: usize) -> Self {
        let lines = shape.tiles(room) * shape.stride(room);
        let words = Shared::new(lines * LANES * shape.bytes / size_of::<u32>(), 0);
        Self { shape, room, words }
    }

    /// Lines from one tile to the next.
    pub(super) fn stride(&self) -> usize {
        self.shape.stride(self.room)
    }

    /// Number of tiles: lines whose lanes are the same slots, or the same numbers.
    pub(super) fn tiles(&self) -> usize {
        self.shape.tiles(self.room)
    }

    /// Lines of numbers of type `T`, whose size must be that of the plane's numbers.
    ///
    /// # Safety
    /// As [`Shared::read`].
    pub(super) unsafe fn read<T: Pod>(&self, lines: Range<usize>) -> &[[T; LANES]] {
        // SAFETY: guaranteed by the caller.
        bytemuck::cast_slice(unsafe { self.words.read(self.words_of::<T>(lines)) })
    }

    /// Lines to write.
    ///
    /// # Safety
    /// As [`Shared::write`].
    #[allow(clippy::mut_from_ref)]
    unsafe fn write<T: Pod>(&self, lines: Range<usize>) -> &mut [[T; LANES]] {
        // SAFETY: guaranteed by the caller.
        bytemuck::cast_slice_mut(unsafe { self.words.write(self.words_of::<T>(lines)) })
    }

    fn words_of<T>(&self, lines: Range<usize>) -> Range<usize> {
        assert_eq!(size_of::<T>(), self.shape.bytes);
        let per_line = LANES * size_of::<T>() / size_of::<u32>();
        lines.start * per_line..lines.end * per_line
    }

    /// Stores the numbers of a slot.
    ///
    /// # Safety
    /// No other thread may access the plane.
    pub(super) unsafe fn put<T: Pod>(&self, slot: usize, mut numbers: impl Iterator<Item = T>) {
        match self.shape.lane {
            Across::Slot => {
                let first = slot / LANES * self.shape.width;
                // SAFETY: guaranteed by the caller.
                let lines = unsafe { self.write(first..first + self.shape.width) };
                for (line, x) in lines.iter_mut().zip(numbers) {
                    line[slot % LANES] = x;
                }
            }
            Across::Number => {
                for at in (slot..).step_by(self.room).take(self.tiles()) {
                    // SAFETY: guaranteed by the caller.
                    let line = &mut unsafe { self.write(at..at + 1) }[0];
                    for (to, x) in line.iter_mut().zip(&mut numbers) {
                        *to = x;
                    }
                }
            }
        }
    }

    /// Copies the numbers of the slots `slots` from a plane of the same shape to the slots from
    /// `first` on, which is as many slots away as tiles of slots have, or a multiple.
    pub(super) fn copy(&mut self, from: &Self, slots: Range<usize>, first: usize) {
        debug_assert_eq!(slots.start % LANES, first % LANES);
        // SAFETY: only a pass writes to a cache through shared references, and it holds
        // the cache mutably while it runs, so none runs now.
        let source: &[u8] = bytemuck::cast_slice(unsafe { from.words.read_all() });
        let to: &mut [u8] = bytemuck::cast_slice_mut(self.words.get_mut());
        let begin = slots.start;
        self.shape.for_each_part(slots, |slot, number, bytes| {
            let at = self.shape.place(slot, number, from.room);
            let to_at = self.shape.place(slot - begin + first, number, self.room);
            to[to_at..to_at + bytes].copy_from_slice(&source[at..at + bytes]);
        });
    }

    /// Copies the numbers of one slot to another.
    pub(super) fn copy_slot(&mut self, from: usize, to: usize) {
        let all: &mut [u8] = bytemuck::cast_slice_mut(self.words.get_mut());
        self.shape.for_each_part(from..from + 1, |slot, number, bytes| {
            let [from, to] = [slot, to].map(|slot| self.shape.place(slot, number, self.room));
            all.copy_within(from..from + bytes, to);
        });
    }

    /// A copy with room for `room` slots, of which the first `used` are filled.
    pub(super) fn resized(&self, used: usize, room: usize) -> Self {
        let mut new = Self::new(self.shape, room);
        new.copy(self, 0..used, 0);
        new
    }

    /// The numbers as bytes.
    pub(super) fn bytes(&mut self) -> &[u8] {
        bytemuck::cast_slice(self.words.get_mut())
    }
}

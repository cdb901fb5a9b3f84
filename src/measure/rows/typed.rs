//! The rows that can stand in columns: the type of each column, and how a row gives and takes
//! its value.

use std::collections::BTreeMap;

use parquet::data_type::ByteArray;

use super::records::{BeamRow, GenerationRow, PositionRow, RoundRow, TextRow};
use super::traces::{TraceRound, TraceRow};

/// A column of rows of type `R`.
pub(crate) struct TypedColumn<R> {
    /// The name of the field.
    pub(super) name: &'static str,
    pub(super) cells: TypedCells<R>,
}

/// The values of a column, by their type in the file.
pub(super) enum TypedCells<R> {
    Flag(CellAccess<R, bool>),
    Whole(CellAccess<R, i64>),
    Number(CellAccess<R, f64>),
    /// Microseconds that are whole nanoseconds, as clocks give them.
    Time(CellAccess<R, f64>),
    /// Strings, and as JSON what has no column of its own kind.
    Text(CellAccess<R, ByteArray>),
}

/// How a row gives and takes a value; `None` is that of an empty cell.
pub(super) struct CellAccess<R, V> {
    pub(super) get: fn(&R) -> Option<V>,
    /// Returns whether the field can have the value.
    pub(super) set: fn(&mut R, Option<V>) -> bool,
}

impl<R: Default> TypedColumn<R> {
    /// Whether its cells may be empty. Those of rows without any value are.
    pub(super) fn is_optional(&self) -> bool {
        let row = R::default();
        match &self.cells {
            TypedCells::Flag(cells) => (cells.get)(&row).is_none(),
            TypedCells::Whole(cells) => (cells.get)(&row).is_none(),
            TypedCells::Number(cells) | TypedCells::Time(cells) => (cells.get)(&row).is_none(),
            TypedCells::Text(cells) => (cells.get)(&row).is_none(),
        }
    }
}

/// A field whose values are those of a column of `V`.
trait TypedField<V>: Sized {
    fn value(&self) -> Option<V>;

    /// The field with a value, if it can have it.
    fn of(value: Option<V>) -> Option<Self>;
}

impl TypedField<bool> for bool {
    fn value(&self) -> Option<bool> {
        Some(*self)
    }

    fn of(value: Option<bool>) -> Option<Self> {
        value
    }
}

impl TypedField<f64> for f64 {
    fn value(&self) -> Option<f64> {
        Some(*self)
    }

    fn of(value: Option<f64>) -> Option<Self> {
        value
    }
}

impl TypedField<ByteArray> for String {
    fn value(&self) -> Option<ByteArray> {
        Some(self.as_str().into())
    }

    fn of(value: Option<ByteArray>) -> Option<Self> {
        Some(std::str::from_utf8(value?.data()).ok()?.to_owned())
    }
}

macro_rules! json {
    ($($value:ty),*) => {
        $(impl TypedField<ByteArray> for $value {
            fn value(&self) -> Option<ByteArray> {
                serde_json::to_vec(self).ok().map(ByteArray::from)
            }

            fn of(value: Option<ByteArray>) -> Option<Self> {
                serde_json::from_slice(value?.data()).ok()
            }
        })*
    };
}

json!(BeamRow, BTreeMap<u32, String>, Vec<TraceRound>, Vec<u32>, [usize; 2]);

macro_rules! whole {
    ($($number:ty),*) => {
        $(impl TypedField<i64> for $number {
            fn value(&self) -> Option<i64> {
                // Numbers above those of i64 keep their bits.
                Some((*self as u64).cast_signed())
            }

            fn of(value: Option<i64>) -> Option<Self> {
                value?.cast_unsigned().try_into().ok()
            }
        })*
    };
}

whole!(u32, u64, usize);

impl<V, T: TypedField<V>> TypedField<V> for Option<T> {
    fn value(&self) -> Option<V> {
        self.as_ref().and_then(T::value)
    }

    fn of(value: Option<V>) -> Option<Self> {
        match value {
            None => Some(None),
            some => T::of(some).map(Some),
        }
    }
}

macro_rules! typed {
    ($name:ident, $row:ty: $($field:ident $kind:ident,)*) => {
        pub(super) const $name: &[TypedColumn<$row>] = &[$(TypedColumn {
            name: stringify!($field),
            cells: TypedCells::$kind(CellAccess {
                get: |row| row.$field.value(),
                set: |row, value| match TypedField::of(value) {
                    Some(value) => {
                        row.$field = value;
                        true
                    }
                    None => false,
                },
            }),
        },)*];
    };
}

typed! { ROUND, RoundRow:
    cell Text,
    prompt Text,
    repeat Whole,
    round Whole,
    context_tokens Whole,
    proposed Whole,
    depth Whole,
    accepted Whole,
    emitted Whole,
    truncated Flag,
    reached Whole,
    overlap_sum Number,
    forks Whole,
    ceiling_sum Number,
    tv_sum Number,
    residual_fallbacks Whole,
    draft_forwards Whole,
    draft_us Time,
    target_us Time,
    verify_us Time,
    other_us Time,
    accepted_raw Whole,
    experts Whole,
}

typed! { POSITION, PositionRow:
    cell Text,
    prompt Text,
    repeat Whole,
    round Whole,
    node Whole,
    parent Whole,
    depth Whole,
    token Whole,
    p Number,
    q Number,
    overlap Number,
    p_entropy Number,
    q_entropy Number,
    top2_gap Number,
    accepted Flag,
}

typed! { GENERATION, GenerationRow:
    cell Text,
    prompt Text,
    category Text,
    repeat Whole,
    seed Whole,
    prompt_tokens Whole,
    new_tokens Whole,
    stop_reason Text,
    target_forwards Whole,
    draft_forwards Whole,
    prefill_us Time,
    decode_us Time,
    tokens_per_second Number,
    first_divergence Whole,
    text_sha256 Text,
    superseded Flag,
}

typed! { TEXT, TextRow:
    cell Text,
    prompt Text,
    repeat Whole,
    tokens Text,
    text Text,
    beam Text,
    thinking Text,
}

typed! { TRACE, TraceRow:
    cell Text,
    prompt Text,
    repeat Whole,
    strings Text,
    rounds Text,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::columns;

    fn names<R>(typed: &[TypedColumn<R>]) -> Vec<&'static str> {
        typed.iter().map(|column| column.name).collect()
    }

    #[test]
    fn every_field_of_a_row_is_a_column_in_its_place() {
        assert_eq!(names(ROUND), columns::<RoundRow>());
        assert_eq!(names(POSITION), columns::<PositionRow>());
        assert_eq!(names(GENERATION), columns::<GenerationRow>());
        assert_eq!(names(TRACE), columns::<TraceRow>());
        assert_eq!(names(TEXT), columns::<TextRow>());
        let optional = ROUND.iter().filter(|column| column.is_optional());
        let optional = optional.map(|column| column.name).collect::<Vec<_>>();
        assert_eq!(optional, ["ceiling_sum", "tv_sum", "accepted_raw", "experts"]);
    }

    #[test]
    fn large_numbers_keep_their_bits_or_are_refused() {
        for number in [0, 7, u64::MAX] {
            assert_eq!(TypedField::<i64>::of(number.value()), Some(number));
        }
        assert_eq!(<u32 as TypedField<i64>>::of(Some(1 << 32)), None);
        assert_eq!(<u32 as TypedField<i64>>::of(None), None);
        assert_eq!(<Option<u32> as TypedField<i64>>::of(Some(-1)), None);
        assert_eq!(<Option<u32> as TypedField<i64>>::of(None), Some(None));
        assert_eq!(String::of(Some(vec![0xff].into())), None);
    }
}

//! The columns of a row type, taken from the type itself, so that readers,
//! writers and the documentation cannot disagree about them.

use serde::de::{Deserializer, Error, Visitor, value};
use serde::{Deserialize, forward_to_deserialize_any};

/// The names of the fields of `T`, in order, as in the header of a CSV file. Empty if `T`
/// is not a struct with named fields.
pub fn columns<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The probe records the names and then fails instead of giving any value.
    let _refused = T::deserialize(FieldNames { names: &mut names });
    names
}

struct FieldNames<'a> {
    names: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.names = fields;
        Err(value::Error::custom("only the names were wanted"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(value::Error::custom("only structs have columns"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

//! Messages in the format of Protocol Buffers, field by field.

/// The fields of a message: their numbers, and what they hold.
pub(super) struct Fields<'m>(pub(super) &'m [u8]);

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Field<'m> {
    Number(u64),
    /// Four bytes or eight.
    Fixed(&'m [u8]),
    /// A text or a message.
    Bytes(&'m [u8]),
}

impl<'m> Fields<'m> {
    fn next_field(&mut self) -> Option<(u64, Field<'m>)> {
        let key = self.number()?;
        let field = match key % 8 {
            0 => Field::Number(self.number()?),
            1 => Field::Fixed(self.bytes(8)?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Field::Bytes(self.bytes(length)?)
            }
            5 => Field::Fixed(self.bytes(4)?),
            _ => return None,
        };
        Some((key / 8, field))
    }

    /// A number of seven bits a byte, the lowest first; all but the last byte have the highest bit.
    fn number(&mut self) -> Option<u64> {
        let last = self.0.iter().take(10).position(|byte| byte & 0x80 == 0)?;
        let bytes = self.bytes(last + 1)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f)))
    }

    fn bytes(&mut self, count: usize) -> Option<&'m [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Result<(u64, Field<'m>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.next_field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "not a complete SentencePiece model".to_owned()))
    }
}

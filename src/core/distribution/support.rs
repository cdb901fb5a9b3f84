//! The iterator over the tokens of positive probability.

/// One iterator type for all storages. Toy models iterate over millions of distributions with few
/// tokens, for which boxed iterators would cost more than the tokens.
pub(super) enum Support<D, S, P> {
    Double(D),
    Single(S),
    Sparse(P),
}

impl<T, D, S, P> Iterator for Support<D, S, P>
where
    D: Iterator<Item = T>,
    S: Iterator<Item = T>,
    P: Iterator<Item = T>,
{
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Double(tokens) => tokens.next(),
            Self::Single(tokens) => tokens.next(),
            Self::Sparse(tokens) => tokens.next(),
        }
    }

    /// Matches on the storage once instead of for every token.
    fn fold<B, F: FnMut(B, T) -> B>(self, init: B, f: F) -> B {
        match self {
            Self::Double(tokens) => tokens.fold(init, f),
            Self::Single(tokens) => tokens.fold(init, f),
            Self::Sparse(tokens) => tokens.fold(init, f),
        }
    }
}

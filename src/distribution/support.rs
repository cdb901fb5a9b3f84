//! The iterator over the tokens of positive probability.

/// One iterator for all storages: toy models ask for the few tokens of millions of
/// distributions, for which a box each would cost more than the tokens.
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

    /// Decides on the storage once and not for every token.
    fn fold<B, F: FnMut(B, T) -> B>(self, init: B, f: F) -> B {
        match self {
            Self::Double(tokens) => tokens.fold(init, f),
            Self::Single(tokens) => tokens.fold(init, f),
            Self::Sparse(tokens) => tokens.fold(init, f),
        }
    }
}

//! What requests ask of the tokens of a completion: in their own words, and grammars as masks of a
//! model's tokens.

mod grammar;
mod request;

pub use grammar::GrammarCompiler;
pub use request::ControlRequest;

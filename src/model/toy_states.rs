//! The hidden states of toys: numbers that say which state of which token they are, at which position
//! and after which text.

use super::Tap;
use crate::core::distribution::Token;

/// Layers of a toy, as far as hidden states go.
pub(super) const LAYERS: usize = 4;
/// Numbers in a hidden state of a toy: the tap, the position, the token, and the text.
pub(super) const WIDTH: usize = 4;
/// The tap that a head's own states bear.
pub(super) const OWN: f32 = -1.0;
/// Codes of texts are below this number, so that f32 holds them exactly.
const CODES: u32 = 1 << 22;

/// The hidden state of a token after `text`, at a tap.
pub(super) fn state(tap: Tap, position: usize, text: &[Token]) -> [f32; WIDTH] {
    let code = text.iter().fold(1, |code, &token| extended(code, token));
    let tap = match tap {
        Tap::After(layers) => layers as f32,
        Tap::Normed => (LAYERS + 1) as f32,
    };
    [tap, position as f32, text.last().map_or(OWN, |&token| token as f32), code as f32]
}

/// The code of a text with one more token.
pub(super) fn extended(code: u32, token: Token) -> u32 {
    (code.wrapping_mul(31) ^ token.wrapping_mul(0x9e37)).wrapping_add(7) % CODES
}

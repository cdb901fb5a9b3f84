//! Methods of decoding: drafters, draft lengths, verifiers, the loop that runs them, and beam
//! search. It knows models by their trait alone.

pub mod beam;
#[cfg(feature = "engine")]
pub mod controls;
pub mod decode;
pub mod draft;
pub mod length;
pub mod verify;

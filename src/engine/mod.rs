//! The engines: the decoder on our own CPU kernels and on candle, and its threads. It knows no
//! file format. This is the only module of the project that names candle.

pub(crate) mod blocks;
#[cfg(feature = "candle")]
pub(crate) mod candle;
pub(crate) mod decoder;
pub(crate) mod device;
pub(crate) mod native;
pub(crate) mod options;
pub mod pool;
pub(crate) mod threads;

pub use native::PackedMatrix;
#[cfg(feature = "harness")]
pub(crate) use native::large_pages;
pub use options::{
    AsWritten, Dtype, Engine, Feedback, FirstRow, HeadSettings, Settings, Source, TapSetting,
};
pub use threads::{Threads, set_threads};

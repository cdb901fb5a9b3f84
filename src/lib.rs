//! specdec: a research harness for speculative decoding.
//!
//! A cheap *drafter* proposes K tokens, the *target* model scores all of them in one pass, and a
//! *verifier* decides which are kept, such that the output has exactly the target's distribution.
//! This crate runs such methods, proves them exact, and measures their speedup.
//!
//! # The loop
//!
//! Everything happens in rounds ([`method::decode::generate`]). p is the target's distribution
//! after all sampling settings, q the drafter's:
//!
//! ```text
//! prefill: the target reads the prompt but for its last token
//! until a stop rule holds:
//!     draft    = drafter.propose(context)            tokens drawn from q, each with its q
//!     logits   = target.evaluate(context, draft)     one pass, a row per drafted token and one
//!     targets  = sampler.distributions(logits)       p at every position
//!     verdict  = verifier.verify(draft, targets)     an accepted path, then one more token:
//!                                                    the correction after a rejection, or the
//!                                                    bonus token after a full acceptance
//!     context += accepted path + that token
//!     the session forgets what was rejected; drafter and length policy observe the round
//! ```
//!
//! Plain autoregressive decoding is the same loop with the drafter `none`.
//!
//! # Parts
//!
//! - A [`Draft`](crate::core::tree::Draft) draws its own tokens, so the recorded q is always the
//!   distribution that was sampled. [`Chance`](crate::core::chance::Chance) is the only source of
//!   randomness: seeded, or exhaustive.
//! - [`method`] holds drafters, draft lengths and verifiers: one file and one registry line each.
//!   [`MethodSpec`] names a combination.
//! - [`proof`] enumerates every outcome of this loop on toy models ([`model::ToyPair`]) and
//!   compares the joint distribution of several tokens with the target's.
//! - [`tapes`] forecast the savings of drafts from recorded sequences, without running the drafts.
//! - With the feature `engine`: models from checkpoints, on a CPU engine whose logits have the
//!   same bits in every pass; `candle` adds a second engine. `harness` (the default):
//!   experiments, statistics, reports and the command line.
//!
//! # Examples
//!
//! The exact distribution of a method on a toy pair:
//!
//! ```
//! use specdec::method::decode::{Generation, MethodSpec, StopRules};
//! use specdec::proof::enumerate;
//! use specdec::model::ToyPair;
//!
//! let pair = ToyPair::context_free(&[0.7, 0.3], &[0.4, 0.6]);
//! let (target, draft) = (pair.target("target")?, pair.draft("draft")?);
//! let method = MethodSpec::default().build(Some(&draft))?;
//! let stop = StopRules::max_tokens(2);
//! let generation = Generation::new(&target, method, &pair.prompt, stop, None)?;
//! let found = enumerate(&target, generation, &mut [])?;
//! assert!((found.dist[&vec![0, 1]] - 0.7 * 0.3).abs() < 1e-12);
//! # Ok::<(), specdec::Error>(())
//! ```
#![cfg_attr(
    feature = "engine",
    doc = r#"
A completion by a pair of models (here a toy pair; otherwise folders in the Hugging Face layout):

```
use specdec::{MethodSpec, Pair, SamplingParams};

let pair = Pair::load("toy:mixed")?.with_draft("toy:mixed")?;
let sampling = SamplingParams { temperature: 0.0, ..Default::default() };
let speculative = MethodSpec { sampling, ..Default::default() };
let plain = MethodSpec { drafter: "none".to_owned(), ..speculative.clone() };
let (seed, max_tokens) = (0, 20);
let fast = pair.generate("ab", &speculative, max_tokens, seed)?;
let slow = pair.generate("ab", &plain, max_tokens, seed)?;
assert_eq!(fast.text, slow.text);
assert!(fast.totals.target_forwards < slow.totals.target_forwards);
# Ok::<(), specdec::Error>(())
```
"#
)]

pub mod audit;
pub mod bugs;
#[cfg(feature = "engine")]
pub mod checkpoint;
#[cfg(feature = "harness")]
pub mod cli;
pub mod core;
#[cfg(feature = "engine")]
pub mod engine;
#[cfg(feature = "serve")]
pub mod gather;
#[cfg(feature = "engine")]
pub mod io;
#[cfg(feature = "harness")]
pub mod measure;
pub mod method;
pub mod model;
pub mod proof;
#[cfg(feature = "harness")]
pub mod run;
#[cfg(feature = "serve")]
pub mod serve;
pub mod tapes;

#[cfg(feature = "engine")]
pub use crate::checkpoint::pair::Pair;
pub use crate::core::error::Error;
pub use crate::core::sampling::SamplingParams;
pub use crate::method::decode::MethodSpec;

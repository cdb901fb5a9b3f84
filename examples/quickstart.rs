//! Computes the exact output distribution of a speculative decoder by enumerating every
//! random outcome of the production code: drafter, verifier, session and decode loop.
//!
//! ```text
//! cargo run --example quickstart --no-default-features
//! ```

use std::error::Error;

use specdec::core::sampling::{Sampler, SamplingParams};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::model::ToyPair;
use specdec::proof::{enumerate, target_distribution};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    // Three tokens whose probabilities do not depend on the context.
    let pair = ToyPair::context_free(&[0.5, 0.3, 0.2], &[0.2, 0.3, 0.5]);
    let (target, draft) = (pair.target("target")?, pair.draft("draft")?);
    let (prompt, tokens) = (&pair.prompt, 3);

    // Each round drafts two tokens and verifies them by rejection sampling.
    let spec = MethodSpec { num_speculative_tokens: 2, ..MethodSpec::default() };
    let (method, stop) = (spec.build(Some(&draft))?, StopRules::max_tokens(tokens));
    let generation = Generation::new(&target, method, prompt, stop, None)?;
    let found = enumerate(&target, generation, &mut [])?;

    let sampler = Sampler::new(SamplingParams::default())?;
    let expected = target_distribution(&target, &sampler, prompt, tokens)?;
    println!("completion   speculative  target");
    for (completion, p) in &found.dist {
        println!("{completion:?}    {p:.9}  {:.9}", expected[completion]);
    }
    println!("{:.3} tokens per target pass in the first round", found.tally.first_emitted);
    Ok(())
}

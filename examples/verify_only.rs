//! Runs a verifier on your own p and q, without a model or a decode loop.
//!
//! ```text
//! cargo run --example verify_only --no-default-features
//! ```

use std::error::Error;
use std::rc::Rc;

use specdec::core::chance::{Request, Seeded};
use specdec::core::distribution::Dist;
use specdec::core::tree::Draft;
use specdec::method::verify::{Rejection, Verifier};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let (p, q) = (vec![0.5, 0.3, 0.2], vec![0.2, 0.3, 0.5]);
    let q = Rc::new(Dist::from_probs(q)?);
    // One target distribution after the context and one after the drafted token.
    let targets = [Dist::from_probs(p)?, Dist::one_hot(3, 0)];

    let (mut accepted, mut first) = (0, [0; 3]);
    let runs = 100_000;
    for repeat in 0..runs {
        // Every repeat has its own random numbers; the same request reproduces them.
        let mut chance = Seeded::new(Request { seed: 1, prompt: "verify_only", repeat });
        let mut draft = Draft::empty(3);
        let node = draft.sample(None, &q, &mut chance);
        let verdict = Rejection.verify(&draft, &targets, &mut chance);
        let kept = !verdict.path.is_empty();
        accepted += u32::from(kept);
        first[if kept { draft.node(node).token } else { verdict.next } as usize] += 1;
    }
    let share = |n: u32| f64::from(n) / f64::from(runs);
    println!("acceptance {:.3}; overlap of p and q {:.3}", share(accepted), targets[0].overlap(&q));
    println!("first token {:.3?}; p is [0.5, 0.3, 0.2]", first.map(share));
    Ok(())
}

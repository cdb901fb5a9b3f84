//! The cases of a certificate.

use super::aimed::aimed_cases;
use super::cases::{CASES, INDEPENDENT, RoundCase};

/// V and K by default.
pub(super) const SHAPE: [usize; 2] = [4, 3];

/// The shapes that are certified with them: a longer draft, and a larger vocabulary. Whether they
/// are sampled, too: a large vocabulary has more sequences, which takes more rounds.
const OTHER_SHAPES: [([usize; 2], bool); 2] = [([2, 6], true), ([40, 1], false)];

/// All cases for a vocabulary and a K; the seed is that of the random ones.
pub(super) fn round_cases(vocab: usize, k: usize, seed: u64) -> Vec<RoundCase> {
    let shape = [vocab, k];
    let mut cases =
        (0..).zip(CASES).map(|(number, spec)| spec.build(number, shape)).collect::<Vec<_>>();
    aimed_cases(&mut cases, shape, seed, usize::MAX);
    if shape == SHAPE {
        for (other, sampled) in OTHER_SHAPES {
            let named = (0..).zip(CASES).filter(|(_, spec)| spec.name == INDEPENDENT);
            cases.extend(named.map(|(number, spec)| {
                let mut case = spec.build(number, other);
                case.kind.sampled = sampled;
                case
            }));
            aimed_cases(&mut cases, other, seed, 1);
        }
    }
    cases
}

/// The cases that are sampled.
pub(super) fn sampled_cases(mut cases: Vec<RoundCase>) -> Vec<RoundCase> {
    cases.retain(|case| case.kind.sampled);
    cases
}

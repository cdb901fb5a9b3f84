//! Drafts across vocabularies, on toys: exact by enumeration, with the acceptance that q
//! restricted to the shared tokens must have.

use specdec::decode::{Generation, MethodSpec, StopRules};
use specdec::exactness::{
    ChainCase, Gap, Rule, draft_model, draft_rows, enumerate, target_distribution,
};
use specdec::model::zoo::{self, OTHER_VOCABULARIES};
use specdec::sampling::{Sampler, SamplingParams};

const PROMPT: &[u32] = &[0, 1, 0];

#[test]
fn a_draft_in_another_vocabulary_keeps_the_distribution_of_the_target() {
    let sampler = Sampler::new(SamplingParams::NEUTRAL).unwrap();
    for toy in OTHER_VOCABULARIES {
        let pair = zoo::toy(toy.name).unwrap();
        let target = pair.target("t").unwrap();
        let (draft, rows) = (draft_model(&pair, &target).unwrap(), draft_rows(&pair).unwrap());
        for (verifier, rule) in [("rejection", Rule::Rejection), ("traversal", Rule::Block)] {
            for k in 1..=4 {
                let spec = MethodSpec {
                    verifier: verifier.to_owned(),
                    num_speculative_tokens: k,
                    ..MethodSpec::default()
                };
                let (method, stop) =
                    (spec.build(Some(&*draft)).unwrap(), StopRules::max_tokens(k + 2));
                let generation = Generation::new(&target, method, PROMPT, stop, None).unwrap();
                let found = enumerate(&target, generation, &mut []).unwrap();
                let expected = target_distribution(&target, &sampler, PROMPT, k + 2).unwrap();
                let gap = Gap::between(&found.dist, &expected);
                assert!(gap.is_zero(), "{} {verifier} {k}: {gap:?}", toy.name);
                let chain = ChainCase {
                    target: &target,
                    target_sampler: &sampler,
                    draft: &*rows,
                    draft_sampler: &sampler,
                    prompt: PROMPT,
                };
                let length = chain.expected_emitted(rule, k).unwrap();
                let emitted = found.tally.first_emitted;
                assert!((emitted - length).abs() < 1e-12, "{} {k}: {emitted}", toy.name);
            }
        }
    }
}

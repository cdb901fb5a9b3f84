//! After any history, a predictor's rows have the bits of a fresh predictor's that gets the context
//! at once, and the target's have those of a pass in a fresh sequence.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use specdec::core::chance::{Chance, Request, Seeded};
use specdec::core::clock::{VirtualClock, VirtualCosts};
use specdec::core::distribution::Token;
use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, NodeId};
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::Tools;
use specdec::model::{LanguageModel, Want, Work, evaluate_one};

use crate::asking::spec;

/// Drafters that read a predictor, and settings with which they draft trees and chains.
pub(super) const DRAFTERS: [(&str, &[(&str, &str)]); 6] = [
    ("model", &[]),
    ("cascade", &[("cascade_tokens", "2")]),
    ("hybrid", &[]),
    ("model_tree", &[("tree", "2,1,2"), ("siblings", "distinct")]),
    ("model_tree", &[("tree", "3,2"), ("siblings", "top_k")]),
    ("tree_confidence", &[("tree_nodes", "6")]),
];

/// A clock that does not advance.
pub(super) fn still() -> VirtualClock {
    let none = Duration::ZERO;
    VirtualClock::new(VirtualCosts {
        draft_pass: none,
        draft_row: none,
        target_pass: none,
        target_row: none,
    })
}

/// The tokens of a draft, their parents, and the bits of what they were drawn from.
pub(super) type Content = Vec<(Token, Option<NodeId>, Vec<u64>)>;

pub(super) fn content(draft: &Draft) -> Content {
    let nodes = draft.nodes().iter();
    let bits = |dist: &specdec::core::distribution::Dist| {
        (0..draft.vocab() as Token).map(|token| dist.p(token).to_bits()).collect()
    };
    let each = nodes.map(|node| {
        let belief = node.belief(draft.vocab());
        (node.token, node.parent, bits(&belief))
    });
    each.collect()
}

/// A generation in steps, each of which compares its draft with a fresh one.
pub(super) struct Steps<'a> {
    pub(super) pair: [&'a dyn LanguageModel; 2],
    pub(super) spec: MethodSpec,
    pub(super) generation: Generation<'a>,
    max_tokens: usize,
    round: u64,
    /// Whether all drafts so far were those of fresh generations.
    pub(super) same: bool,
}

fn chance() -> Seeded {
    Seeded::new(Request { seed: 11, prompt: "history", repeat: 0 })
}

impl<'a> Steps<'a> {
    /// A generation before its prefill.
    pub(super) fn new(
        pair: [&'a dyn LanguageModel; 2],
        spec: &MethodSpec,
        prompt: &[Token],
        max_tokens: usize,
    ) -> Self {
        let tools = Tools { draft: Some(pair[1]), target: Some(pair[0]), texts: None };
        let method = spec.build_with(tools).unwrap();
        let stop = StopRules::max_tokens(max_tokens);
        let generation = Generation::new(pair[0], method, prompt, stop, None).unwrap();
        Self { pair, spec: spec.clone(), generation, max_tokens, round: 0, same: true }
    }

    pub(super) fn prefill(&mut self) {
        self.generation.prefill(self.pair[0], &still()).unwrap();
    }

    /// The draft of a fresh generation after the same tokens.
    fn fresh(&self) -> Draft {
        let left = self.max_tokens - self.generation.new_tokens().len();
        let mut fresh = Self::new(self.pair, &self.spec, self.generation.tokens(), left);
        fresh.prefill();
        let mut chance = chance();
        chance.begin_round(self.round);
        fresh.generation.propose(&mut chance, &still()).unwrap().draft
    }

    /// The target's rows of a draft in a sequence of its own.
    fn plain(&self, draft: &Draft) -> Vec<Logits> {
        let (session, context) = (&mut self.pair[0].session().unwrap(), self.generation.tokens());
        let work = Work { session, context, draft, want: Want::All };
        evaluate_one(self.pair[0], work).unwrap().rows
    }

    /// A round, and whether another one follows.
    pub(super) fn step(&mut self) -> bool {
        let fresh = content(&self.fresh());
        let (mut chance, generation) = (chance(), &mut self.generation);
        chance.begin_round(self.round);
        let proposal = generation.propose(&mut chance, &still()).unwrap();
        self.same &= content(&proposal.draft) == fresh;
        let mut session = generation.session();
        let rows = evaluate_one(self.pair[0], generation.work(&mut session, &proposal)).unwrap();
        drop(session);
        assert!(rows.rows == self.plain(&proposal.draft), "{:?}", self.spec);
        let generation = &mut self.generation;
        let evaluated = generation.evaluated(&proposal, rows).unwrap();
        let verdict = generation.verify(&proposal, &evaluated, &mut chance);
        let outcome = generation.commit(&proposal, verdict).unwrap();
        generation.observe(self.round, &proposal, &evaluated, &outcome);
        self.round += 1;
        generation.begin(Duration::ZERO).is_none()
    }

    /// A copy continues.
    pub(super) fn fork(&mut self) {
        self.generation = self.generation.try_clone().unwrap();
    }
}

/// Asserts that random histories of a pair change no draft.
pub(super) fn histories(pair: [&dyn LanguageModel; 2], greedy: bool, rng: &mut ChaCha8Rng) {
    for (drafter, settings) in DRAFTERS {
        assert!(history_changes_nothing(pair, (drafter, settings), greedy, rng), "{drafter}");
    }
}

/// Whether a random history changes no draft: prompts, forks, prompts shared with an earlier text.
pub(super) fn history_changes_nothing(
    pair: [&dyn LanguageModel; 2],
    (drafter, settings): (&str, &[(&str, &str)]),
    greedy: bool,
    rng: &mut ChaCha8Rng,
) -> bool {
    let vocab = pair[0].info().vocab;
    let mut spec = spec(drafter, rng.random_range(1..5), settings);
    if greedy {
        spec.sampling.temperature = 0.0;
    }
    if spec.validate().is_err() {
        spec.verifier = "greedy_multi".to_owned();
    }
    let prompt = |rng: &mut ChaCha8Rng| {
        let length = rng.random_range(1..24);
        (0..length).map(|_| rng.random_range(0..vocab as Token)).collect::<Vec<_>>()
    };
    let mut first = Steps::new(pair, &spec, &prompt(rng), 20);
    first.prefill();
    while first.step() {
        if rng.random_bool(0.2) {
            first.fork();
        }
    }
    // A text that begins as this one, and shares its rows.
    let tokens = first.generation.tokens().to_vec();
    let shared = rng.random_range(1..tokens.len());
    let prompt = [&tokens[..shared], &prompt(rng)].concat();
    let mut second = Steps::new(pair, &spec, &prompt, 12);
    second.generation.share_with_one_of([&mut first.generation].into_iter()).unwrap();
    second.prefill();
    while second.step() {}
    first.same && second.same
}

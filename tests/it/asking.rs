//! Asks a drafter for drafts and reports rounds to it, without a target or a verifier.

use std::time::Duration;

use specdec::core::chance::{Chance, Request, Seeded};
use specdec::core::clock::{Clock as _, VirtualClock, VirtualCosts};
use specdec::core::distribution::Token;
use specdec::core::params::Params;
use specdec::core::round::{RoundEvent, RoundTimes, Verdict};
use specdec::core::sampling::Logits;
use specdec::core::tree::{Draft, NodeId};
use specdec::method::decode::{Method, MethodSpec};
use specdec::method::draft::{PassDesk, Round, Tools, at_once};

/// A method with this drafter, K and settings.
pub(crate) fn spec(drafter: &str, k: usize, settings: &[(&str, &str)]) -> MethodSpec {
    let set =
        |params: Params, (key, value): &(&str, &str)| params.with(key, value.parse().unwrap());
    MethodSpec {
        drafter: drafter.to_owned(),
        num_speculative_tokens: k,
        params: settings.iter().fold(Params::default(), set),
        ..MethodSpec::default()
    }
}

/// A drafter outside of a generation, which can be asked for drafts.
pub(crate) struct Asking<'a> {
    method: Method<'a>,
    clock: VirtualClock,
    vocab: usize,
    prompt_len: usize,
    /// Passes of the drafter's model for the last draft.
    pub(crate) passes: usize,
    /// Virtual time of these passes and their rows, at [`VirtualCosts::default`].
    pub(crate) took: Duration,
}

impl<'a> Asking<'a> {
    /// The drafter of `spec`, which has read `prompt`.
    pub(crate) fn new(
        spec: &MethodSpec,
        tools: Tools<'a>,
        vocab: usize,
        prompt: &[Token],
    ) -> Asking<'a> {
        let mut method = spec.build_with(tools).unwrap();
        let clock = VirtualClock::new(VirtualCosts::default());
        method.drafter.prefill(&PassDesk::new(prompt, None), &clock).unwrap();
        Asking { method, clock, vocab, prompt_len: prompt.len(), passes: 0, took: Duration::ZERO }
    }

    /// Its draft after `context`, of at most `limit` levels.
    pub(crate) fn ask_within(
        &mut self,
        context: &[Token],
        limit: usize,
        chance: &mut dyn Chance,
    ) -> Draft {
        let desk = PassDesk::new(context, None);
        let sizes = (self.prompt_len, self.vocab);
        let round = Round::new(&desk, sizes, &mut *self.method.length, chance);
        let mut round = Round { limit, ..round };
        let start = self.clock.now();
        let drafted = at_once(self.method.drafter.propose(&mut round), &desk, &self.clock);
        self.took = self.clock.now() - start;
        self.passes = round.forwards;
        drafted.unwrap()
    }

    /// Its draft after `context`.
    pub(crate) fn ask(&mut self, context: &[Token], chance: &mut dyn Chance) -> Draft {
        self.ask_within(context, usize::MAX, chance)
    }

    /// The tokens of its draft after `context`, in the order of proposal; random drafts are
    /// drawn with a fixed seed.
    pub(crate) fn tokens(&mut self, context: &[Token]) -> Vec<Token> {
        let draft = self.ask(context, &mut seeded_draws(0));
        draft.nodes().iter().map(|node| node.token).collect()
    }

    /// The key of the state on which its later drafts after `context` depend.
    pub(crate) fn key(&mut self, context: &[Token]) -> Vec<u8> {
        self.method.drafter.state_key(context).unwrap()
    }

    /// Reports a round to it.
    pub(crate) fn report(&mut self, round: &FinishedRound<'_>) {
        round.event(|event| self.method.drafter.observe(event));
    }
}

/// Draws with a fixed seed.
pub(crate) fn seeded_draws(seed: u64) -> Seeded {
    Seeded::new(Request { seed, prompt: "ask", repeat: 0 })
}

/// A finished round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinishedRound<'t> {
    pub(crate) context: &'t [Token],
    pub(crate) draft: &'t Draft,
    pub(crate) logits: &'t [Logits],
    pub(crate) path: &'t [NodeId],
    pub(crate) draft_forwards: usize,
    pub(crate) times: RoundTimes,
}

impl<'t> FinishedRound<'t> {
    /// A round in which `path` of `draft` was kept.
    pub(crate) fn new(draft: &'t Draft, path: &'t [NodeId]) -> Self {
        let times = RoundTimes::default();
        Self { context: &[0], draft, logits: &[], path, draft_forwards: 0, times }
    }

    /// Calls `observe` with the round as an event.
    pub(crate) fn event(&self, observe: impl FnOnce(&RoundEvent<'_>)) {
        let verdict = Verdict { path: self.path.to_vec(), ..Verdict::default() };
        observe(&RoundEvent {
            round: 0,
            context: self.context,
            draft: self.draft,
            logits: self.logits,
            targets: &[],
            verdict: &verdict,
            accepted_raw: self.path.len(),
            emitted: &[],
            truncated: false,
            draft_forwards: self.draft_forwards,
            experts: 0,
            times: self.times,
            batch: 1,
        });
    }
}

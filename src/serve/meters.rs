//! Counters in the text format of Prometheus.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ServeLimits;
use super::pulse::Pulse;
use super::speculation::Speculation;

#[derive(Debug, Clone, Default)]
pub(super) struct Meters {
    registry: Arc<Registry>,
    requests: Family<StatusLabel, Counter>,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    completions: Counter,
    running: Gauge,
    waiting: Gauge,
    drafts: Counter,
    draft_tokens: Counter,
    accepted: Counter,
    without_room: Counter,
    accepted_per_pos: Family<PositionLabel, Counter>,
    rounds: Family<SharedLabel, Counter>,
    round_seconds: Family<SharedLabel, Counter<f64, AtomicU64>>,
    pub(super) pulse: Arc<Pulse>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PositionLabel {
    position: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SharedLabel {
    requests: u32,
}

impl Meters {
    pub(super) fn new(limits: &ServeLimits) -> Self {
        let (mut registry, meters) = (Registry::with_prefix("specdec"), Self::default());
        let slots = Gauge::<i64>::default();
        slots.set(i64::try_from(limits.slots).unwrap_or(i64::MAX));
        registry.register("slots", "Completions that share rounds at most", slots);
        registry.register("requests", "Responses by status", meters.requests.clone());
        registry.register(
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted drafted tokens by their position in the draft",
            meters.accepted_per_pos.clone(),
        );
        let rounds = "Rounds by the number of completions that shared them";
        registry.register("rounds", rounds, meters.rounds.clone());
        let seconds = "Time of rounds by the number of completions that shared them";
        registry.register("round_seconds", seconds, meters.round_seconds.clone());
        for (name, help, counter) in [
            ("prompt_tokens", "Tokens of prompts", &meters.prompt_tokens),
            ("generation_tokens", "Generated tokens", &meters.generation_tokens),
            ("texts", "Completions that have ended", &meters.completions),
            ("spec_decode_num_drafts", "Rounds with a draft", &meters.drafts),
            ("spec_decode_num_draft_tokens", "Drafted tokens", &meters.draft_tokens),
            ("spec_decode_num_accepted_tokens", "Accepted drafted tokens", &meters.accepted),
            (
                "draft_context_full",
                "Rounds without a draft because the context of the draft model was full",
                &meters.without_room,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, gauge) in [
            ("num_requests_running", "Completions that are being generated", &meters.running),
            ("num_requests_waiting", "Completions that wait", &meters.waiting),
        ] {
            registry.register(name, help, gauge.clone());
        }
        Self { registry: Arc::new(registry), ..meters }
    }

    /// A response has begun.
    pub(super) fn responded(&self, status: u16) {
        self.requests.get_or_create(&StatusLabel { status: status.into() }).inc();
    }

    /// A prompt has been read.
    pub(super) fn prefilled(&self, prompt: usize) {
        self.prompt_tokens.inc_by(prompt as u64);
    }

    /// A completion has ended.
    pub(super) fn ended(&self, tokens: usize, speculation: &Speculation) {
        self.completions.inc();
        self.generation_tokens.inc_by(tokens as u64);
        let (drafts, drafted, accepted) = speculation.counts();
        self.drafts.inc_by(drafts as u64);
        self.draft_tokens.inc_by(drafted as u64);
        self.accepted.inc_by(accepted.iter().sum::<usize>() as u64);
        for position in accepted.iter().flat_map(|&accepted| 0..accepted as u32) {
            self.accepted_per_pos.get_or_create(&PositionLabel { position }).inc();
        }
    }

    /// Rounds of a completion have had no draft because the draft model's context was full.
    pub(super) fn without_room(&self, rounds: usize) {
        self.without_room.inc_by(rounds as u64);
    }

    /// Some completions have had a round together, and the tokens have been handed over.
    pub(super) fn shared_round(&self, requests: usize, took: Duration) {
        let label = SharedLabel { requests: requests as u32 };
        self.rounds.get_or_create(&label).inc();
        self.round_seconds.get_or_create(&label).inc_by(took.as_secs_f64());
    }

    /// How many completions run and wait.
    pub(super) fn load(&self, running: usize, waiting: usize) {
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn encoded(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

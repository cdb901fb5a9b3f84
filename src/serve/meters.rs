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

use super::latencies::Latencies;
use super::pulse::Pulse;
use super::response::finish_reason;
use super::speculation::Speculation;
use super::{MetricNames, ServeSettings};
use crate::method::decode::StopReason;

/// What all names begin with, or those that vLLM does not have.
const OWN: &str = "specdec_";

#[derive(Debug, Clone, Default)]
pub(super) struct Meters {
    registry: Arc<Registry>,
    requests: Family<StatusLabel, Counter>,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    completions: Counter,
    ends: Family<EndLabel, Counter>,
    pub(super) latencies: Latencies,
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
struct EndLabel {
    finished_reason: &'static str,
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
    pub(super) fn new(settings: &ServeSettings) -> Self {
        let meters = Self::default();
        let (shared, labels) = match settings.metrics {
            MetricNames::Own => (OWN, Vec::new()),
            MetricNames::Vllm => (
                "vllm:",
                vec![
                    ("model_name".into(), settings.model.clone().into()),
                    ("engine".into(), "0".into()),
                ],
            ),
        };
        let mut registry = Registry::with_labels(labels.into_iter());
        meters.register_shared(&mut registry, shared);
        meters.register_own(&mut registry, settings.limits.slots);
        Self { registry: Arc::new(registry), ..meters }
    }

    /// What vLLM has, too, under the same names after the prefix.
    fn register_shared(&self, registry: &mut Registry, prefix: &str) {
        let name = |name: &str| format!("{prefix}{name}");
        for (metric, help, counter) in [
            ("prompt_tokens", "Tokens of prompts", &self.prompt_tokens),
            ("generation_tokens", "Generated tokens", &self.generation_tokens),
            ("spec_decode_num_drafts", "Rounds with a draft", &self.drafts),
            ("spec_decode_num_draft_tokens", "Drafted tokens", &self.draft_tokens),
            ("spec_decode_num_accepted_tokens", "Accepted drafted tokens", &self.accepted),
        ] {
            registry.register(name(metric), help, counter.clone());
        }
        for (metric, help, gauge) in [
            ("num_requests_running", "Completions that are being generated", &self.running),
            ("num_requests_waiting", "Completions that wait", &self.waiting),
        ] {
            registry.register(name(metric), help, gauge.clone());
        }
        for (metric, help, histogram) in self.latencies.named() {
            registry.register(name(metric), help, histogram.clone());
        }
        let per_pos = "Accepted drafted tokens by their position in the draft";
        let metric = name("spec_decode_num_accepted_tokens_per_pos");
        registry.register(metric, per_pos, self.accepted_per_pos.clone());
        let success = "Completions that have ended, by the reason";
        registry.register(name("request_success"), success, self.ends.clone());
    }

    fn register_own(&self, registry: &mut Registry, most: usize) {
        let name = |name: &str| format!("{OWN}{name}");
        let slots = Gauge::<i64>::default();
        slots.set(i64::try_from(most).unwrap_or(i64::MAX));
        registry.register(name("slots"), "Completions that share rounds at most", slots);
        registry.register(name("requests"), "Responses by status", self.requests.clone());
        let rounds = "Rounds by the number of completions that shared them";
        registry.register(name("rounds"), rounds, self.rounds.clone());
        let seconds = "Time of rounds by the number of completions that shared them";
        registry.register(name("round_seconds"), seconds, self.round_seconds.clone());
        registry.register(name("texts"), "Completions that have ended", self.completions.clone());
        let full = "Rounds without a draft because the context of the draft model was full";
        registry.register(name("draft_context_full"), full, self.without_room.clone());
    }

    /// A response has begun.
    pub(super) fn responded(&self, status: u16) {
        self.requests.get_or_create(&StatusLabel { status: status.into() }).inc();
    }

    /// A prompt has been read.
    pub(super) fn prefilled(&self, prompt: usize) {
        self.prompt_tokens.inc_by(prompt as u64);
    }

    /// A completion has ended; without a reason it failed, or its client has gone.
    pub(super) fn ended(
        &self,
        tokens: usize,
        reason: Option<StopReason>,
        speculation: &Speculation,
    ) {
        self.completions.inc();
        let finished_reason = reason.map_or("abort", finish_reason);
        self.ends.get_or_create(&EndLabel { finished_reason }).inc();
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

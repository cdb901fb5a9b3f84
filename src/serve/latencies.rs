//! How long completions take, as histograms.

use std::time::{Duration, Instant};

use prometheus_client::metrics::histogram::Histogram;

/// The upper bounds of the histograms, in seconds.
const BOUNDS: [f64; 18] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
    200.0, 500.0,
];

/// The histograms, in seconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    queue: Histogram,
    first_token: Histogram,
    between_tokens: Histogram,
    per_token: Histogram,
    whole: Histogram,
}

impl Default for Latencies {
    fn default() -> Self {
        let [queue, first_token, between_tokens, per_token, whole] =
            [(); 5].map(|()| Histogram::new(BOUNDS));
        Self { queue, first_token, between_tokens, per_token, whole }
    }
}

impl Latencies {
    /// Their names, as in vLLM, and what they measure.
    pub(super) fn named(&self) -> [(&'static str, &'static str, &Histogram); 5] {
        [
            ("request_queue_time_seconds", "Time in the queue", &self.queue),
            ("time_to_first_token_seconds", "Time to the first token", &self.first_token),
            (
                "inter_token_latency_seconds",
                "Time between two rounds of a completion, each of which gives one token or more",
                &self.between_tokens,
            ),
            (
                "request_time_per_output_token_seconds",
                "Mean time per token of a completion after its first round",
                &self.per_token,
            ),
            ("e2e_request_latency_seconds", "Time of a completion, with its queue", &self.whole),
        ]
    }
}

/// When a completion arrived and got its tokens.
#[derive(Debug)]
pub(super) struct CompletionTimes {
    arrived: Instant,
    /// When its first and its last round ended, and the tokens of the rounds after the first.
    rounds: Option<(Instant, Instant, usize)>,
}

impl CompletionTimes {
    /// A completion that has waited since it arrived.
    pub(super) fn begin(arrived: Instant, latencies: &Latencies) -> Self {
        latencies.queue.observe(arrived.elapsed().as_secs_f64());
        Self { arrived, rounds: None }
    }

    /// A round has given some tokens.
    pub(super) fn round(&mut self, tokens: usize, latencies: &Latencies) {
        let now = Instant::now();
        let seconds = |since: Instant| now.duration_since(since).as_secs_f64();
        self.rounds = match self.rounds {
            None => {
                latencies.first_token.observe(seconds(self.arrived));
                Some((now, now, 0))
            }
            Some((first, last, before)) => {
                latencies.between_tokens.observe(seconds(last));
                Some((first, now, before + tokens))
            }
        };
    }

    /// The completion has ended.
    pub(super) fn end(&self, latencies: &Latencies) {
        latencies.whole.observe(self.arrived.elapsed().as_secs_f64());
        if let Some((first, last, tokens @ 1..)) = self.rounds {
            let time = last.duration_since(first).as_secs_f64();
            latencies.per_token.observe(time / tokens as f64);
        }
    }
}

/// When a request arrived that must be done by `deadline`.
pub(super) fn arrival(deadline: Instant, limit: Duration) -> Instant {
    deadline.checked_sub(limit).unwrap_or_else(Instant::now)
}

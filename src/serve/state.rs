//! What all connections of a server share.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::ServeSettings;
use super::job::CompletionJob;
use super::meters::Meters;
use super::prompts::PromptReader;

/// How long a stream may be silent: then it begins, or a comment is sent, which clients skip, so
/// that neither they nor proxies take the connection for dead during a long prefill.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What all connections share.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) jobs: Sender<CompletionJob>,
    pub(super) settings: ServeSettings,
    pub(super) meters: Meters,
    pub(super) prompts: PromptReader,
    pub(super) requests: AtomicU64,
    pub(super) ending: AtomicBool,
    pub(super) keep_alive: Duration,
}

impl ServerState {
    pub(super) fn new(
        jobs: Sender<CompletionJob>,
        settings: ServeSettings,
        meters: Meters,
        prompts: PromptReader,
    ) -> Self {
        let (requests, ending) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { jobs, settings, meters, prompts, requests, ending, keep_alive: KEEP_ALIVE }
    }
}

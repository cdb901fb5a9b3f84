//! The thread that has the models: it gives all running texts a round together.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use anyhow::{Context, Result, anyhow};
use tokio::sync::mpsc::{Receiver, channel};

use super::ServeSettings;
use super::api_error::ApiError;
use super::engine::{ServedPair, ServingEngine};
use super::job::TextJob;
use super::router::listen;
use super::running::RunningText;

/// Serves until it is told to end; `began` gets the address once connections are accepted.
///
/// # Errors
/// If the method cannot be built, or the address is taken.
pub fn serve(
    served: ServedPair<'_>,
    settings: ServeSettings,
    began: impl FnOnce(SocketAddr),
) -> Result<()> {
    let engine = ServingEngine::new(served, settings)?;
    let address = engine.settings.address;
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let address = listener.local_addr()?;
    let (jobs, queue) = channel(engine.settings.limits.queue);
    let (settings, meters) = (engine.settings.clone(), engine.meters.clone());
    let connections = thread::Builder::new().name("connections".to_owned());
    let connections = connections.spawn(move || listen(listener, jobs, settings, meters))?;
    began(address);
    generate_all(&engine, queue);
    connections.join().map_err(|_| anyhow!("the thread of the connections has panicked"))?
}

/// Generates texts until no connection can send any more.
fn generate_all(engine: &ServingEngine<'_>, mut queue: Receiver<TextJob>) {
    let mut running = Vec::<RunningText<'_>>::new();
    loop {
        // A text that has ended is told of before others read their prompts.
        running.retain_mut(RunningText::goes_on);
        while running.len() < engine.settings.limits.slots {
            engine.meters.load(running.len(), queue.len());
            let job =
                if running.is_empty() { queue.blocking_recv() } else { queue.try_recv().ok() };
            match job {
                Some(job) => {
                    let text = RunningText::begin(job, engine, &mut running);
                    running.extend(text.and_then(|mut text| text.goes_on().then_some(text)));
                }
                None if running.is_empty() => return,
                None => break,
            }
        }
        engine.meters.load(running.len(), queue.len());
        let mut rounds = round(&mut running, engine).into_iter();
        running.retain_mut(|text| text.tell(rounds.next().unwrap_or(Ok(()))));
    }
}

/// A round of all texts, and what each of them has failed with.
fn round(running: &mut [RunningText<'_>], engine: &ServingEngine<'_>) -> Vec<Result<(), ApiError>> {
    match RunningText::round(running, engine) {
        Ok(rounds) => rounds.into_iter().map(|round| round.map_err(ApiError::from)).collect(),
        Err(error) => {
            let error = ApiError::from(error);
            running.iter().map(|_| Err(error.clone())).collect()
        }
    }
}

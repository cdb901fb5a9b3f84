//! The thread that has the models: it gives all running completions a round together.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use tokio::sync::mpsc::{Receiver, channel};

use super::ServeSettings;
use super::engine::{ServedPair, ServingEngine};
use super::job::CompletionJob;
use super::prompts::PromptReader;
use super::router::listen;
use super::running::RunningCompletion;

/// Serves until it is interrupted; `began` gets the address once connections are accepted.
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
    let codec = Arc::clone(&engine.served.pair.target.codec);
    let prompts = PromptReader::new(codec, engine.info.clone());
    let connections =
        connections.spawn(move || listen(listener, jobs, settings, meters, prompts))?;
    began(address);
    generate_all(&engine, queue);
    connections.join().map_err(|_| anyhow!("the thread of the connections has panicked"))?
}

/// Generates completions until no connection can send any more.
fn generate_all(engine: &ServingEngine<'_>, mut queue: Receiver<CompletionJob>) {
    let mut running = Vec::<RunningCompletion<'_>>::new();
    loop {
        // The end of a completion is reported before others read their prompts.
        running.retain_mut(RunningCompletion::continues);
        while running.len() < engine.settings.limits.slots {
            engine.meters.load(running.len(), queue.len());
            let job = if running.is_empty() {
                engine.meters.pulse.rest();
                queue.blocking_recv()
            } else {
                queue.try_recv().ok()
            };
            match job {
                Some(job) => {
                    // While its prompt is read, it no longer waits.
                    engine.meters.load(running.len() + 1, queue.len());
                    engine.meters.pulse.step();
                    let begun = RunningCompletion::begin(job, engine, &mut running);
                    running.extend(begun.and_then(|mut begun| begun.continues().then_some(begun)));
                }
                None if running.is_empty() => return,
                None => break,
            }
        }
        engine.meters.load(running.len(), queue.len());
        engine.meters.pulse.step();
        let (begun, requests) = (Instant::now(), running.len());
        let mut rounds = RunningCompletion::round(&mut running, engine).into_iter();
        running.retain_mut(|completion| completion.report(rounds.next().unwrap_or(Ok(()))));
        engine.meters.shared_round(requests, begun.elapsed());
    }
}

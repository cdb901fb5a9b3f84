//! The thread that has the models: it gives all running texts a round in turn.

use std::net::TcpListener;
use std::thread;

use anyhow::{Context, Result, anyhow};
use tokio::sync::mpsc::{Receiver, channel};

use super::ServeSettings;
use super::job::TextJob;
use super::meters::Meters;
use super::router::listen;
use super::running::RunningText;
use super::token_text::TokenTexts;
use crate::chance::{Chance, Seeded};
use crate::decode::{Method, MethodSpec};
use crate::draft::{Texts, Tools};
use crate::error::Error;
use crate::exactness::mutants::Mutant;
use crate::input::read_text;
use crate::model::{Codec, LanguageModel};
use crate::pair::Pair;
use crate::sampling::SamplingParams;

/// What is served.
#[derive(Debug)]
pub struct Served<'p> {
    /// The models.
    pub pair: &'p Pair,
    /// How they decode; each request has sampling settings of its own.
    pub spec: MethodSpec,
    /// A known-wrong method in its place.
    pub mutant: Option<Mutant>,
}

/// The models, and what all texts have in common.
#[derive(Debug)]
pub(super) struct Engine<'p> {
    pair: &'p Pair,
    pub(super) spec: MethodSpec,
    mutant: Option<Mutant>,
    text_files: Texts<'p>,
    pub(super) texts: TokenTexts,
    pub(super) settings: ServeSettings,
    pub(super) meters: Meters,
}

/// Serves until it is told to end; `began` gets the address once connections are accepted.
///
/// # Errors
/// If the method cannot be built, or the address is taken.
pub fn serve(
    served: Served<'_>,
    settings: ServeSettings,
    began: impl FnOnce(std::net::SocketAddr),
) -> Result<()> {
    let Served { pair, spec, mutant } = served;
    let codec = &*pair.target.codec;
    let engine = Engine {
        texts: TokenTexts::new(codec, pair.target.model.info().vocab)?,
        text_files: Texts::new(codec, read_text),
        meters: Meters::new(&settings.limits),
        pair,
        spec,
        mutant,
        settings,
    };
    engine.method(engine.spec.sampling)?;
    let address = engine.settings.address;
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let address = listener.local_addr()?;
    let (jobs, queue) = channel(engine.settings.limits.queue);
    let (settings, meters) = (engine.settings.clone(), engine.meters.clone());
    let connections = thread::Builder::new().name("connections".to_owned());
    let connections = connections.spawn(move || listen(listener, jobs, settings, meters))?;
    began(address);
    engine.run(queue);
    connections.join().map_err(|_| anyhow!("the thread of the connections has panicked"))?
}

impl Engine<'_> {
    pub(super) fn target(&self) -> &dyn LanguageModel {
        &*self.pair.target.model
    }

    pub(super) fn codec(&self) -> &dyn Codec {
        &*self.pair.target.codec
    }

    /// The method of a text.
    ///
    /// # Errors
    /// If a setting is out of range, or does not go with the method.
    pub(super) fn method(&self, sampling: SamplingParams) -> Result<Method<'_>, Error> {
        let spec = MethodSpec { sampling, ..self.spec.clone() };
        let draft = self.pair.draft_model();
        let tools = Tools { draft, target: Some(self.target()), texts: Some(&self.text_files) };
        match &self.mutant {
            Some(mutant) => mutant.method(&spec, tools),
            None => spec.build_with(tools),
        }
    }

    /// Calls `round` with the random numbers of a text, which a known-wrong method may spoil.
    pub(super) fn with_chance<T>(
        &self,
        chance: &mut Seeded,
        round: impl FnOnce(&mut dyn Chance) -> T,
    ) -> T {
        match &self.mutant {
            Some(mutant) => round(&mut *mutant.wrap(chance)),
            None => round(chance),
        }
    }

    /// Generates texts until no connection can send any more.
    fn run(&self, mut queue: Receiver<TextJob>) {
        let mut running = Vec::<RunningText<'_>>::new();
        loop {
            while running.len() < self.settings.limits.slots {
                self.meters.load(running.len(), queue.len());
                let job =
                    if running.is_empty() { queue.blocking_recv() } else { queue.try_recv().ok() };
                match job {
                    Some(job) => running.extend(RunningText::begin(job, self)),
                    None if running.is_empty() => return,
                    None => break,
                }
            }
            self.meters.load(running.len(), queue.len());
            running.retain_mut(|text| text.round(self));
        }
    }
}

//! The file of requests that are played.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::player::RequestToPlay;
use crate::error::Error;
use crate::recording::TapePrompt;
use crate::shown::{self, cell};
use crate::simulation::{RequestTimes, ServedRequest, ServedRun};

/// A row of the file of requests, of which the other columns are not read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct AskedRow {
    request: u32,
    #[serde(with = "cell")]
    prompt: String,
    tokens: usize,
    #[serde(default)]
    arrived_ms: f64,
    #[serde(default)]
    clients: Option<usize>,
}

/// The requests of a file, in the order in which they come.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestFile {
    rows: Vec<AskedRow>,
    /// How many clients send them; none if they come at times of their own.
    clients: Option<usize>,
}

impl RequestFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is missing, a row is malformed or impossible, or it holds more than one load.
    pub fn read(path: &Path) -> Result<Self> {
        let mut reader = csv::Reader::from_path(path).map_err(|error| Error::file(path, error))?;
        let mut rows = BTreeMap::new();
        for (number, row) in reader.deserialize::<AskedRow>().enumerate() {
            let place = || format!("{}, row {}", path.display(), number + 1);
            let row = row.with_context(place)?;
            row.check().with_context(place)?;
            if let Some(same) = rows.insert(row.request, row) {
                bail!(
                    "{}: request {} occurs twice; a file has the requests of one load, policy and \
                     repeat",
                    place(),
                    same.request
                );
            }
        }
        Self::of(rows.into_values().collect()).with_context(|| path.display().to_string())
    }

    fn of(mut rows: Vec<AskedRow>) -> Result<Self> {
        let Some(first) = rows.first() else { bail!("it has no request") };
        let clients = first.clients;
        if let Some(other) = rows.iter().find(|row| row.clients != clients) {
            bail!(
                "requests {} and {} differ in clients; a file has the requests of one load",
                first.request,
                other.request
            );
        }
        if clients.is_none() {
            rows.sort_by(|a, b| a.arrived_ms.total_cmp(&b.arrived_ms));
        }
        Ok(Self { rows, clients })
    }

    /// The requests with their prompts.
    ///
    /// # Errors
    /// If a prompt is missing, or a text does not fit into `context` tokens.
    pub fn with_prompts<'a>(
        &'a self,
        prompts: &'a [TapePrompt],
        context: usize,
    ) -> Result<Vec<RequestToPlay<'a>>> {
        let by_id = prompts.iter().map(|prompt| (&*prompt.id, &*prompt.tokens));
        let by_id = by_id.collect::<BTreeMap<_, _>>();
        let play = |(number, row): (usize, &'a AskedRow)| {
            let (id, request) = (shown::line(&row.prompt), row.request);
            let Some(&prompt) = by_id.get(&*row.prompt) else {
                bail!("request {request}: there is no prompt {id} (--prompts)");
            };
            if prompt.len() + row.tokens > context {
                bail!(
                    "request {request}: prompt {id} has {} tokens and its text {}, and the models \
                     have room for {context}",
                    prompt.len(),
                    row.tokens
                );
            }
            let comes = match self.clients {
                None => Some(row.arrived_ms),
                Some(clients) => (number < clients).then_some(0.0),
            };
            let (id, repeat) = (&*row.prompt, row.request);
            Ok(RequestToPlay { id, repeat, prompt, tokens: row.tokens, comes })
        };
        self.rows.iter().enumerate().map(play).collect()
    }

    /// What became of them, in the order of their numbers.
    pub fn replayed(&self, run: &ServedRun) -> Vec<RequestTimes> {
        let row = |served: &ServedRequest| {
            let AskedRow { request, prompt, .. } = &self.rows[served.number];
            RequestTimes::of((*request as usize, prompt), served)
        };
        let mut rows = run.requests.iter().map(row).collect::<Vec<_>>();
        rows.sort_by_key(|row| row.request);
        rows
    }
}

impl AskedRow {
    fn check(&self) -> Result<()> {
        if self.tokens == 0 || self.clients == Some(0) {
            bail!("tokens and clients: allowed are numbers above 0");
        }
        if !self.arrived_ms.is_finite() || self.arrived_ms < 0.0 {
            bail!("arrived_ms = {}: allowed is a finite number >= 0", self.arrived_ms);
        }
        Ok(())
    }
}

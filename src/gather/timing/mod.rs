//! Times the rounds of a server of OpenAI's `/v1/completions` from outside: by the number of
//! requests, the length of their prompts, and the length of drafts.

mod request;
mod volley;

use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use self::request::{TimedCompletion, body, timed};
use self::volley::shared_rounds;
use super::http::HttpServer;
use super::vllm;
use crate::io::shown::count;
use crate::io::terminal::Progress;
use crate::measure::bench::{ServedPoint, ServedSample};

/// Repetitions of each setting that must agree.
const REPETITIONS: usize = 3;
/// Repetitions may take this many times the budget until they agree.
const PATIENCE: u32 = 3;
/// The most tokens of a completion, up to which a setting is repeated with longer ones until all of
/// its requests decode at the same time.
const MOST_TOKENS: usize = 2048;
/// Characters of the first prompt, which shows how many of them make a token.
const FIRST_PROMPT: usize = 400;
/// Tokens of the first completion, enough for a round.
const FIRST_TOKENS: usize = 8;
/// The seed of the order of repetitions.
const SEED: u64 = 17;

/// A server to time.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchedServer {
    /// Its address.
    pub url: String,
    /// The lengths of its drafts, if it does not report them.
    pub k: Option<usize>,
}

/// What to time.
#[derive(Debug)]
pub struct ServerBench<'a> {
    /// The servers, of which one decodes plainly.
    pub servers: &'a [BenchedServer],
    /// The bearer token that they require.
    pub api_key: Option<&'a str>,
    /// The name of the model; none for the first one that each server lists.
    pub model: Option<&'a str>,
    /// Numbers of requests at the same time.
    pub batches: &'a [usize],
    /// Tokens of prompts.
    pub prompts: &'a [usize],
    /// Tokens of completions, at first.
    pub tokens: usize,
    /// Temperature of requests.
    pub temperature: f64,
    /// The text that prompts are cut from.
    pub text: &'a str,
    /// Time for all repetitions; three of each setting are taken at least.
    pub budget: Duration,
}

/// The repetitions of all settings, and why some settings were given up.
#[derive(Debug, Default)]
pub struct ServerTimes {
    /// The repetitions, in their order.
    pub samples: Vec<ServedSample>,
    /// A sentence for each setting that was given up.
    pub given_up: Vec<String>,
    /// What ended the repetitions early.
    pub failed: Option<anyhow::Error>,
}

/// A setting of a server.
#[derive(Debug, Clone, Copy)]
struct Setting {
    server: usize,
    batch: usize,
    prompt: usize,
    /// Tokens of a completion; 0 once the setting has been given up.
    tokens: usize,
}

struct OpenServer {
    named: BenchedServer,
    http: HttpServer,
    characters_per_token: f64,
}

/// Cuts different prompts from a text.
struct PromptCutter {
    text: Vec<char>,
    at: usize,
}

impl ServerBench<'_> {
    /// Times all settings in turns, until a server fails.
    ///
    /// # Errors
    /// If a server refuses its first request, does not answer, or does not report what is needed.
    pub fn run(&self) -> Result<ServerTimes> {
        let mut cutter = PromptCutter { text: self.text.chars().collect(), at: 0 };
        if cutter.text.is_empty() {
            bail!("there is no text to cut prompts from");
        }
        let open = |named: &BenchedServer| {
            self.open(named, &mut cutter).with_context(|| named.url.clone())
        };
        let servers = self.servers.iter().map(open).collect::<Result<Vec<_>>>()?;
        let mut settings = self.settings();
        let mut found = ServerTimes::default();
        let mut order = ChaCha8Rng::seed_from_u64(SEED);
        let mut progress = Progress::new("repetitions", 0, 0).uneven();
        let begun = Instant::now();
        loop {
            settings.retain(|setting| setting.tokens > 0);
            settings.shuffle(&mut order);
            let due =
                settings.iter_mut().filter(|setting| self.is_due(setting, &found.samples, begun));
            let due = due.collect::<Vec<_>>();
            if due.is_empty() {
                return Ok(found);
            }
            progress.more(due.len());
            for setting in due {
                let server = &servers[setting.server];
                let taken = self.repeat(server, setting, &mut cutter, &mut found);
                if let Err(error) = taken.with_context(|| server.named.url.clone()) {
                    found.failed = Some(error);
                    return Ok(found);
                }
                progress.advance(&format!("{} requests", setting.batch));
            }
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for server in 0..self.servers.len() {
            for &batch in self.batches {
                for &prompt in self.prompts {
                    settings.push(Setting { server, batch, prompt, tokens: self.tokens });
                }
            }
        }
        settings
    }

    /// Whether a setting is to be repeated: until it has enough repetitions, then until these agree
    /// or the patience ends, and then as long as there is time.
    fn is_due(&self, setting: &Setting, samples: &[ServedSample], begun: Instant) -> bool {
        let own = self.samples_of(setting, samples).cloned().collect::<Vec<_>>();
        let (count, spent) = (own.len(), begun.elapsed());
        let steady = || ServedPoint::all(&own).iter().all(ServedPoint::is_steady);
        count < REPETITIONS || spent < self.budget || (!steady() && spent < self.budget * PATIENCE)
    }

    fn samples_of<'s>(
        &self,
        setting: &Setting,
        samples: &'s [ServedSample],
    ) -> impl Iterator<Item = &'s ServedSample> {
        let (url, place) =
            (self.servers[setting.server].url.clone(), (setting.batch, setting.prompt));
        let is_own =
            move |one: &&ServedSample| one.server == url && (one.batch, one.prompt) == place;
        samples.iter().filter(is_own)
    }

    fn open(&self, named: &BenchedServer, cutter: &mut PromptCutter) -> Result<OpenServer> {
        let mut http = HttpServer::new(&named.url, self.api_key)?;
        http.model = match self.model {
            Some(name) => Some(name.to_owned()),
            None => vllm::model(&http)?,
        };
        let prompt = cutter.cut(FIRST_PROMPT);
        let asked = body(&http, &prompt, FIRST_TOKENS, self.temperature);
        let first = timed(&http, &asked, Instant::now(), named.k == Some(0))?;
        let characters_per_token = FIRST_PROMPT as f64 / first.prompt.max(1) as f64;
        Ok(OpenServer { named: named.clone(), http, characters_per_token })
    }

    /// Takes a sample, with longer completions if the requests do not decode at the same time.
    fn repeat(
        &self,
        server: &OpenServer,
        setting: &mut Setting,
        cutter: &mut PromptCutter,
        found: &mut ServerTimes,
    ) -> Result<()> {
        loop {
            let requests = match self.volley(server, setting, cutter) {
                // A completion that was made longer may have no room in the context.
                Err(error) if setting.tokens > self.tokens => {
                    let why = format!("with completions of {} tokens, {error:#}", setting.tokens);
                    found.given_up.push(self.given_up(setting, &why));
                    setting.tokens = 0;
                    return Ok(());
                }
                answered => answered?,
            };
            if let Some(shared) = shared_rounds(&requests) {
                let [rounds, drafted] = drafts(&server.named, &requests)?;
                let most = requests.iter().map(|own| own.most).max();
                let first = requests.iter().filter_map(|own| own.arrivals.first()).sum::<f64>();
                found.samples.push(ServedSample {
                    server: server.named.url.clone(),
                    k: server.named.k.or(most).unwrap_or(0),
                    batch: setting.batch,
                    prompt: setting.prompt,
                    drafted: drafted / rounds,
                    context: shared.context,
                    round_ms: shared.round_ms,
                    tokens_per_s: shared.tokens_per_s,
                    first_ms: first / requests.len() as f64,
                });
                return Ok(());
            }
            setting.tokens *= 2;
            if setting.tokens > MOST_TOKENS {
                found.given_up.push(self.given_up(setting, "they do not decode at the same time"));
                setting.tokens = 0;
                return Ok(());
            }
        }
    }

    /// Why a setting was given up, in a sentence.
    fn given_up(&self, setting: &Setting, why: &str) -> String {
        format!(
            "{}: {} with prompts of {} tokens: {why}",
            self.servers[setting.server].url,
            count(setting.batch, "request"),
            setting.prompt
        )
    }

    /// Sends the requests of a setting at once.
    fn volley(
        &self,
        server: &OpenServer,
        setting: &Setting,
        cutter: &mut PromptCutter,
    ) -> Result<Vec<TimedCompletion>> {
        let length = (setting.prompt as f64 * server.characters_per_token) as usize;
        let mut bodies = Vec::new();
        for _ in 0..setting.batch {
            let prompt = cutter.cut(length.max(1));
            bodies.push(body(&server.http, &prompt, setting.tokens, self.temperature));
        }
        let (begun, plain) = (Instant::now(), server.named.k == Some(0));
        thread::scope(|scope| {
            let mut asked = Vec::new();
            for body in &bodies {
                let ask = move || timed(&server.http, body, begun, plain);
                let thread = Builder::new().spawn_scoped(scope, ask);
                asked.push(thread.context("the system starts no thread for a request")?);
            }
            let joined = asked.into_iter().map(|one| one.join().unwrap_or_else(|_| panicked()));
            joined.collect()
        })
    }
}

fn panicked() -> Result<TimedCompletion> {
    bail!("a thread that waited for its answer ended")
}

/// Rounds and drafted tokens of some completions.
fn drafts(server: &BenchedServer, requests: &[TimedCompletion]) -> Result<[f64; 2]> {
    let sum = |of: fn(&TimedCompletion) -> f64| requests.iter().map(of).sum::<f64>();
    let (rounds, tokens) = (sum(|own| own.rounds), sum(|own| own.tokens as f64));
    let reported = requests.iter().any(|own| own.drafted.is_some());
    let drafted = match (reported, server.k) {
        (true, _) => sum(|own| own.drafted.unwrap_or_default()),
        (false, Some(k)) => k as f64 * rounds,
        (false, None) => 0.0,
    };
    if server.k == Some(0) && drafted > 0.0 {
        bail!("it drafts: name a server that decodes plainly by --plain-url");
    }
    if drafted == 0.0 && tokens > 1.1 * rounds {
        bail!(
            "it emits {:.2} tokens per round and does not report how many it drafts: state that by \
             -k",
            tokens / rounds
        );
    }
    Ok([rounds, drafted])
}

impl PromptCutter {
    /// The next characters; the text begins again at its end.
    fn cut(&mut self, length: usize) -> String {
        let begin = self.at;
        self.at = (begin + length) % self.text.len();
        self.text.iter().cycle().skip(begin).take(length).collect()
    }
}

//! Serves the stock decoders of candle-transformers over the line protocol of
//! `specdec bench --interactive`, for the comparison in `experiments/90-engine`.
//!
//! ```text
//! candle_peer llama FOLDER          f32, from a Hugging Face folder
//! candle_peer quantized FILE.gguf   weights as stored in the file
//! ```
//!
//! Requests are lines on standard input: `pass M`, `prefill N`, `logits M`, `quit`; every
//! answer is a line of JSON. Both decoders compute only the logits of the last row. Their
//! caches cannot be rewound, so every pass gets a copy of a filled cache; copying is not
//! timed.

use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use candle_core::quantized::gguf_file::Content;
use candle_core::utils::get_num_threads;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use serde_json::{Value, json};
use specdec_peers::candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use specdec_peers::candle_transformers::models::quantized_llama::ModelWeights;

/// The version of candle that Cargo.toml pins.
const VERSION: &str = "0.11.1";
/// Tokens in the cache before a timed pass. The first row of a pass is the last of 64 context
/// tokens.
const CACHED: usize = 63;
/// The minimum duration of a sample; short passes are repeated within it.
const LEAST: Duration = Duration::from_micros(500);

/// A decoder and its cache. Copies share the weights.
#[derive(Clone)]
enum State {
    Llama(Rc<Llama>, Cache),
    Quantized(ModelWeights),
}

/// A decoder with an empty cache, and with [`CACHED`] tokens in the cache.
struct Peer {
    name: String,
    dtype: &'static str,
    vocab: usize,
    empty: State,
    filled: State,
}

impl State {
    /// Runs a pass over tokens after `past` cached ones; returns the logits of the last row.
    fn forward(&mut self, tokens: &Tensor, past: usize) -> Result<Tensor> {
        let logits = match self {
            Self::Llama(model, cache) => model.forward(tokens, past, cache),
            Self::Quantized(model) => model.forward(tokens, past),
        };
        Ok(logits?)
    }
}

impl Peer {
    fn open(kind: &str, path: &Path) -> Result<Self> {
        let (dtype, vocab, empty) = match kind {
            "llama" => llama(path)?,
            "quantized" => quantized(path)?,
            _ => bail!("unknown kind {kind}: allowed are llama and quantized"),
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut peer = Self { name, dtype, vocab, filled: empty.clone(), empty };
        let tokens = peer.tokens(0, CACHED)?;
        peer.filled.forward(&tokens, 0)?;
        Ok(peer)
    }

    fn ready(&self) -> Value {
        json!({
            "ready": true, "name": self.name, "dtype": self.dtype, "version": VERSION,
            "threads": get_num_threads(),
        })
    }

    fn answer(&self, request: &str) -> Result<Value> {
        let (verb, count) =
            request.split_once(' ').context("a request must be a word and a number")?;
        let count = count.parse()?;
        match verb {
            "pass" => self.time(&self.filled, CACHED, count),
            "prefill" => self.time(&self.empty, 0, count),
            "logits" => {
                let tokens = self.tokens(CACHED, count)?;
                let logits = self.filled.clone().forward(&tokens, CACHED)?;
                Ok(json!({ "logits": logits.flatten_all()?.to_vec1::<f32>()? }))
            }
            _ => bail!("unknown request {verb}"),
        }
    }

    /// Takes one sample: times passes over `count` tokens from copies of `state`.
    fn time(&self, state: &State, past: usize, count: usize) -> Result<Value> {
        let tokens = self.tokens(past, count)?;
        let (begin, waited_before) = (Instant::now(), waited());
        let (mut spent, mut passes) = (Duration::ZERO, 0u32);
        while spent < LEAST {
            let mut copy = state.clone();
            let start = Instant::now();
            copy.forward(&tokens, past)?;
            spent += start.elapsed();
            passes += 1;
        }
        let wall = begin.elapsed().as_secs_f64();
        let waited = waited().saturating_sub(waited_before).as_secs_f64();
        let micros = spent.as_secs_f64() * 1e6 / f64::from(passes);
        Ok(json!({ "micros": micros, "queue_share": waited / wall }))
    }

    /// `count` tokens from position `first`, as a batch of one: shape (1, `count`).
    fn tokens(&self, first: usize, count: usize) -> Result<Tensor> {
        let tokens = (first..first + count).map(|i| ((i * 7 + 3) % self.vocab) as u32);
        Ok(Tensor::from_iter(tokens, &Device::Cpu)?.unsqueeze(0)?)
    }
}

fn llama(folder: &Path) -> Result<(&'static str, usize, State)> {
    let text = fs::read_to_string(folder.join("config.json"))?;
    let config = serde_json::from_str::<LlamaConfig>(&text)?.into_config(false);
    let tensors = candle_core::safetensors::load(folder.join("model.safetensors"), &Device::Cpu)?;
    let weights = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    let model = Rc::new(Llama::load(weights, &config)?);
    let cache = Cache::new(true, DType::F32, &config, &Device::Cpu)?;
    Ok(("f32", config.vocab_size, State::Llama(model, cache)))
}

fn quantized(path: &Path) -> Result<(&'static str, usize, State)> {
    let mut file = File::open(path)?;
    let content = Content::read(&mut file)?;
    let table = content.tensor_infos.get("token_embd.weight").context("no token_embd.weight")?;
    let vocab = table.shape.dims()[0];
    let model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?;
    Ok(("q8_0", vocab, State::Quantized(model)))
}

/// The total time for which threads of this process have waited for a core: the second number
/// of each `schedstat`.
fn waited() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    Duration::from_nanos(nanos)
}

fn main() -> Result<()> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let [kind, path] = &args[..] else { bail!("usage: candle_peer llama|quantized PATH") };
    let peer = Peer::open(kind, Path::new(path)).with_context(|| format!("cannot load {path}"))?;
    let mut out = io::stdout();
    writeln!(out, "{}", peer.ready())?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line == "quit" {
            break;
        }
        let answer = peer.answer(&line).unwrap_or_else(|e| json!({ "error": format!("{e:#}") }));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

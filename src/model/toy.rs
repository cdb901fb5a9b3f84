//! Toy models: tables of exact probabilities that depend on the last tokens.
//!
//! They run through the same trait, session and cache as real models: a toy's cache
//! holds the tokens themselves and its distributions are read *from the cache*, so a
//! wrong slot, mask or rollback changes the distribution and is detected.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::head_fault::HeadFault;
use super::toy_cache::ToyCache;
use super::toy_states::{LAYERS, WIDTH, state};
use super::{
    CacheDtype, Codec, Computed, Evaluation, HiddenStates, LanguageModel, Letters, ModelInfo,
    ModelInputs, Role, Session, Step, Vocabulary, Words, Work,
};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::Logits;
use crate::core::tree::MAX_NODES;

/// Positions of a toy: far more than any test needs.
pub(super) const CONTEXT_LENGTH: usize = 1024;

/// A target and a draft table over one vocabulary, as read from JSON:
/// `{"vocab": 3, "order": 2, "target": {"": [...], "0": [...], "0,1": [...]},
/// "draft": {...}, "prompt": [0], "eos": [2]}`; keys are the last `order` tokens,
/// shorter ones are used at the start of a text. `eos` may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToyPair {
    /// Number of tokens.
    pub vocab: usize,
    /// How many last tokens the distributions depend on.
    pub order: usize,
    /// Distributions of the target by context.
    pub target: BTreeMap<String, Vec<f64>>,
    /// Distributions of the draft by context.
    pub draft: BTreeMap<String, Vec<f64>>,
    /// A prompt to begin with.
    pub prompt: Vec<Token>,
    /// Tokens that end a text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eos: Vec<Token>,
    /// A token that marks the start of a text: the distributions after it are those of
    /// the empty text.
    #[serde(skip)]
    start: Option<Token>,
    /// What the draft is.
    #[serde(skip)]
    pub drafts: ToyDrafts,
    /// What the tokens of the target and those of the draft stand for, if the draft has a
    /// vocabulary of its own; its table is then in its own ids.
    #[serde(skip)]
    pub words: Option<[Words; 2]>,
}

/// What the draft of a toy pair is; its distributions are those of the table in any case, but blocks
/// have masks in place of drafted tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToyDrafts {
    /// A draft model.
    #[default]
    Model,
    /// A head, which reads hidden states of the target.
    Head,
    /// The same with a mistake.
    WrongHead(HeadFault),
    /// A drafter of blocks with hidden states of the target; see [`block_text`](super::block_text).
    Block,
    /// The draft model behind masks: a row has masks in place of all drafted tokens.
    Parallel,
    /// The target's first layers.
    FirstLayers,
    /// The same, whose pass keeps the rows of rejected tokens.
    StaleFirstLayers,
}

/// A model whose distributions are stored in a table.
#[derive(Debug, Clone)]
pub struct Toy {
    info: ModelInfo,
    order: usize,
    start: Option<Token>,
    table: BTreeMap<Vec<Token>, Vec<f64>>,
    /// Whether its cache keeps rows beyond the sequence, and copies them.
    keeps_old_rows: bool,
}

impl ToyPair {
    /// A pair of these tables, with the prompt 0 and without end tokens.
    pub fn new(
        vocab: usize,
        order: usize,
        target: BTreeMap<String, Vec<f64>>,
        draft: BTreeMap<String, Vec<f64>>,
    ) -> Self {
        Self {
            vocab,
            order,
            target,
            draft,
            prompt: vec![0],
            eos: Vec::new(),
            start: None,
            drafts: ToyDrafts::default(),
            words: None,
        }
    }

    /// A pair whose distributions are `p` and `q` after every text.
    pub fn context_free(p: &[f64], q: &[f64]) -> Self {
        let table = |dist: &[f64]| BTreeMap::from([(String::new(), dist.to_vec())]);
        Self::new(p.len(), 0, table(p), table(q))
    }

    /// Reads a pair from JSON text.
    ///
    /// # Errors
    /// If the text is not such a pair; `name` is named in the sentence.
    pub fn from_json(name: &str, json: &str) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|e| Error::input(format!("toy model {name}: {e}")))
    }

    /// The same pair with a prompt that is not empty: an empty prompt is replaced by a
    /// start token, which has probability zero everywhere.
    pub fn with_start(mut self) -> Self {
        if !self.prompt.is_empty() {
            return self;
        }
        for dist in self.target.values_mut().chain(self.draft.values_mut()) {
            dist.push(0.0);
        }
        self.start = Some(self.vocab as Token);
        self.prompt.extend(self.start);
        self.vocab += 1;
        self
    }

    /// The target as a model.
    ///
    /// # Errors
    /// If the vocabulary is empty, or a table entry is invalid. A missing context is an
    /// error only once a text reaches it.
    pub fn target(&self, name: &str) -> Result<Toy, Error> {
        Toy::new(name, self, Role::Target)
    }

    /// The draft as a model.
    ///
    /// # Errors
    /// As [`Self::target`].
    pub fn draft(&self, name: &str) -> Result<Toy, Error> {
        Toy::new(name, self, Role::Draft)
    }

    /// The same pair, whose draft is of another kind.
    #[must_use]
    pub fn drafting_with(self, drafts: ToyDrafts) -> Self {
        Self { drafts, ..self }
    }

    /// How the draft's tokens relate to the target's.
    pub fn vocabulary(&self) -> Vocabulary {
        if self.words.is_some() { Vocabulary::Intersection } else { Vocabulary::Same }
    }

    /// The tokenizer of a model.
    pub fn codec(&self, role: Role) -> Arc<dyn Codec> {
        match self.words {
            None => Arc::new(Letters { vocab: self.vocab }),
            Some([target, draft]) => Arc::new(if role == Role::Target { target } else { draft }),
        }
    }
}

impl Toy {
    fn new(name: &str, pair: &ToyPair, role: Role) -> Result<Self, Error> {
        let &ToyPair { order, start, .. } = pair;
        let dists = if role == Role::Target { &pair.target } else { &pair.draft };
        let words =
            pair.words.map(|[target, draft]| if role == Role::Target { target } else { draft });
        let vocab = words.map_or(pair.vocab, |words| words.0.len());
        let fail = |what: String| Error::input(format!("toy model {name}: {what}"));
        if vocab == 0 {
            return Err(fail("vocab is 0, but must be at least 1".to_owned()));
        }
        let mut table = BTreeMap::new();
        for (key, dist) in dists {
            let context = key
                .split(',')
                .filter(|part| !part.is_empty())
                .map(|part| part.trim().parse::<Token>())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| fail(format!("\"{key}\" is not a list of tokens like \"0,2\"")))?;
            if context.len() > order || context.iter().any(|&t| t as usize >= vocab) {
                return Err(fail(format!(
                    "context \"{key}\" does not fit order {order} and {vocab} tokens"
                )));
            }
            if dist.len() != vocab {
                return Err(fail(format!(
                    "the distribution of \"{key}\" has {} entries, not {vocab}",
                    dist.len()
                )));
            }
            Dist::from_probs(dist.clone())
                .map_err(|e| fail(format!("the distribution of \"{key}\": {e}")))?;
            table.insert(context, dist.iter().map(|p| p.ln()).collect());
        }
        // A draft never ends a text, so one with other tokens need not know which do.
        let own_words = role == Role::Draft && words.is_some();
        let eos = if own_words { Vec::new() } else { pair.eos.clone() };
        if let Some(end) = eos.iter().find(|&&t| t as usize >= vocab) {
            return Err(fail(format!(
                "the end token {end} does not exist: tokens are 0 to {}",
                vocab - 1
            )));
        }
        let mut hash = Sha256::new();
        hash.update(format!("{vocab} {order} {table:?}"));
        if !eos.is_empty() {
            hash.update(format!(" {eos:?}"));
        }
        let info = ModelInfo {
            name: name.to_owned(),
            revision: None,
            vocab,
            context_length: CONTEXT_LENGTH,
            eos,
            engine: "toy",
            dtype: "f64",
            cache_dtype: CacheDtype::F32,
            device: super::CPU.to_owned(),
            sha256: hex(&hash.finalize()),
            tokenizer_sha256: hex(&Sha256::digest(match words {
                None => format!("letters {vocab}"),
                Some(Words(words)) => format!("words {words:?}"),
            })),
            parameters: table.len() * vocab,
            bytes_per_token: vocab * size_of::<f64>(),
            experts: None,
            row_invariant: true,
            hidden: Some(HiddenStates { layers: LAYERS, width: WIDTH }),
            inputs: ModelInputs::Tokens,
            deepest: None,
            at_once: false,
            note: None,
            projection_weights: 0,
        };
        Ok(Self { info, order, start, table, keeps_old_rows: false })
    }

    /// The logits after the given last tokens (at most `order` of them count).
    ///
    /// # Errors
    /// If the table has no such context.
    pub fn logits(&self, text: &[Token]) -> Result<&[f64], Error> {
        let tail = &text[text.len().saturating_sub(self.order)..];
        let start = tail.iter().rposition(|&token| Some(token) == self.start);
        let tail = &tail[start.map_or(0, |at| at + 1)..];
        self.table.get(tail).map(Vec::as_slice).ok_or_else(|| {
            Error::input(format!(
                "toy model {}: no distribution for context {tail:?}",
                self.info.name
            ))
        })
    }

    /// The same model with a cache that keeps rows beyond the sequence, for bugs that read them.
    pub(crate) fn keeping_old_rows(self) -> Self {
        Self { keeps_old_rows: true, ..self }
    }

    /// Computes steps, each with its sequence's cache.
    pub(super) fn run_all(
        &self,
        sequences: &mut [(&mut ToyCache, &Step)],
    ) -> Result<Vec<Computed>, Error> {
        sequences.iter_mut().map(|(cache, step)| self.run(cache, step)).collect()
    }

    pub(super) fn run(&self, cache: &mut ToyCache, step: &Step) -> Result<Computed, Error> {
        for feed in &step.feed {
            cache.put(feed.slot, Some(feed.token));
        }
        let mut computed = Computed::default();
        for &row in &step.rows {
            let feed = &step.feed[row];
            let tail = cache.last(feed, self.order)?;
            // The layers above continue from the state of this token after this text, or from
            // nothing that they know.
            let right = cache.continues(step, row)?;
            let row = self.logits(&tail)?;
            let uniform = vec![0.0; self.info.vocab];
            computed.logits.push(Logits::F64(if right { row.to_vec() } else { uniform }));
        }
        for feed in step.feed.iter().filter(|_| !step.taps.is_empty()) {
            let text = cache.last(feed, usize::MAX)?;
            let states = step.taps.iter().flat_map(|&tap| state(tap, feed.position, &text));
            computed.states.extend(states);
        }
        Ok(computed)
    }
}

impl LanguageModel for Toy {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn session(&self) -> Result<Session, Error> {
        let slots = CONTEXT_LENGTH + MAX_NODES;
        let cache = ToyCache { rows: Vec::new(), keeps_old_rows: self.keeps_old_rows };
        Ok(Session::new(Box::new(cache), slots, CONTEXT_LENGTH))
    }

    fn evaluate(&self, work: &mut [Work<'_>]) -> Result<Vec<Evaluation>, Error> {
        Session::evaluate_together(work, |sequences| self.run_all(sequences))
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// All texts of up to `order` tokens.
pub(super) fn contexts(vocab: usize, order: usize) -> Vec<Vec<Token>> {
    let mut contexts = vec![vec![]];
    let mut last = 0;
    for _ in 0..order {
        let longer = contexts[last..].iter().flat_map(|text: &Vec<Token>| {
            (0..vocab as Token).map(move |token| [&text[..], &[token]].concat())
        });
        let longer = longer.collect::<Vec<_>>();
        last = contexts.len();
        contexts.extend(longer);
    }
    contexts
}

pub(super) fn key(context: &[Token]) -> String {
    context.iter().map(Token::to_string).collect::<Vec<_>>().join(",")
}

//! Grammars as masks of a model's tokens, by llguidance.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use parking_lot::Mutex;

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::sampling::{Grammar, GrammarKind, SamplingParams, TokenRules, TokenSet};
use crate::model::{Codec, ModelInfo, Spelling};

/// Masks that a grammar keeps: those of two drafts and the rows around them.
const KEPT: usize = 128;

/// Makes rules for the tokens of a model. It reads the tokenizer once, for the first grammar.
#[derive(Default)]
pub struct GrammarCompiler {
    factory: OnceLock<Result<ParserFactory, Error>>,
}

impl GrammarCompiler {
    /// The rules of a grammar for the tokens of a model.
    ///
    /// # Errors
    /// If the grammar is invalid, the tokenizer does not say what its tokens stand for, or no token
    /// ends a text.
    pub fn compile(
        &self,
        (kind, text): (GrammarKind, &str),
        codec: &dyn Codec,
        model: &ModelInfo,
    ) -> Result<Grammar, Error> {
        let refused = |why: String| Error::setting(format!("grammar {}: {why}", kind.name()));
        let ends = model.eos.clone();
        if ends.is_empty() {
            let why = format!("{} has no token that ends a text, as a grammar needs", model.name);
            return Err(refused(why));
        }
        let factory = self.factory.get_or_init(|| factory(codec, model.vocab)).as_ref();
        let factory = factory.map_err(Clone::clone)?;
        let written = match kind {
            GrammarKind::JsonSchema => {
                let schema = serde_json::from_str(text).map_err(|bad| refused(bad.to_string()))?;
                TopLevelGrammar::from_json_schema(schema)
            }
            GrammarKind::Regex => TopLevelGrammar::from_regex(text),
            GrammarKind::Lark => TopLevelGrammar::from_lark(text.to_owned()),
        };
        let matcher = Matcher::new(factory.create_parser(written));
        if let Some(why) = matcher.get_error() {
            // Between the place and the mistake, it draws the grammar.
            let (first, last) = (why.lines().next(), why.lines().last());
            let last =
                last.filter(|last| Some(*last) != first).map(|last| format!(" {}", last.trim()));
            return Err(refused(first.unwrap_or_default().to_owned() + &last.unwrap_or_default()));
        }
        let state = MatcherState { matcher, consumed: Vec::new(), known: VecDeque::new() };
        let end = model.vocab as Token;
        let rules = CompiledRules { state: Mutex::new(state), ends, end };
        Ok(Grammar::new(kind, text.to_owned(), Arc::new(rules)))
    }
}

impl GrammarCompiler {
    /// Settings that were read from a file, with the rules of their grammar for the tokens of a
    /// model.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn compile_in(
        &self,
        sampling: &mut SamplingParams,
        codec: &dyn Codec,
        model: &ModelInfo,
    ) -> Result<(), Error> {
        let compile = |kind: GrammarKind, text: &str| self.compile((kind, text), codec, model);
        sampling.controls = sampling.controls.compiled(compile)?;
        Ok(())
    }
}

impl fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarCompiler").finish_non_exhaustive()
    }
}

/// The tokens of a model, with one more behind them that stands for all that end a text.
fn factory(codec: &dyn Codec, vocab: usize) -> Result<ParserFactory, Error> {
    let control = |name: &str| [&[TokTrie::SPECIAL_TOKEN_MARKER], name.as_bytes()].concat();
    let bytes = |spelling: Option<Spelling>| match spelling {
        Some(Spelling::Control(name)) => control(&name),
        Some(spelling) => spelling.bytes().to_vec(),
        None => Vec::new(),
    };
    let mut words = codec.spellings()?.into_iter().map(bytes).collect::<Vec<_>>();
    words.resize(vocab, Vec::new());
    words.push(control("<end of text>"));
    let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, vocab as Token), &words);
    let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let factory = ParserFactory::new_simple(&tokens);
    let mut factory = factory.map_err(|why| Error::engine(format!("grammars: {why}")))?;
    factory.quiet();
    Ok(factory)
}

/// The rules of a grammar. The matcher is moved to the completion that is asked for, so the order of
/// questions does not matter.
struct CompiledRules {
    state: Mutex<MatcherState>,
    /// The tokens that end a text, and the one that stands for them in the grammar.
    ends: Vec<Token>,
    end: Token,
}

struct MatcherState {
    matcher: Matcher,
    /// The tokens that the matcher has read.
    consumed: Vec<Token>,
    /// The last masks, by completion: p and q ask for the same one.
    known: VecDeque<(Vec<Token>, Option<Arc<TokenSet>>)>,
}

impl TokenRules for CompiledRules {
    fn allowed(&self, completion: &[Token]) -> Result<Option<Arc<TokenSet>>, String> {
        if completion.iter().any(|token| self.ends.contains(token)) {
            return Ok(None);
        }
        let mut state = self.state.lock();
        if let Some((_, known)) = state.known.iter().find(|(of, _)| of == completion) {
            return Ok(known.clone());
        }
        let found = match state.read(completion)? {
            true => Some(Arc::new(self.next(&mut state.matcher)?)),
            false => None,
        };
        if state.known.len() == KEPT {
            state.known.pop_front();
        }
        state.known.push_back((completion.to_vec(), found.clone()));
        Ok(found)
    }
}

impl CompiledRules {
    fn next(&self, matcher: &mut Matcher) -> Result<TokenSet, String> {
        let mask = matcher.compute_mask_or_eos().map_err(|why| why.to_string())?;
        let mut set = TokenSet::of_bits(mask.as_slice().to_vec());
        if set.remove(self.end) {
            for &end in &self.ends {
                set.insert(end);
            }
        }
        Ok(set)
    }
}

impl MatcherState {
    /// Moves the matcher to a completion. False if this follows no rule: then the matcher stands
    /// before the token that breaks one.
    fn read(&mut self, completion: &[Token]) -> Result<bool, String> {
        let same = self.consumed.iter().zip(completion).take_while(|(a, b)| a == b).count();
        let fault = |why| format!("{why}");
        self.matcher.rollback(self.consumed.len() - same).map_err(fault)?;
        self.consumed.truncate(same);
        let new = self.matcher.try_consume_tokens(&completion[same..]).map_err(fault)?;
        self.consumed.extend_from_slice(&completion[same..same + new]);
        Ok(self.consumed.len() == completion.len())
    }
}

impl fmt::Debug for CompiledRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledRules").finish_non_exhaustive()
    }
}

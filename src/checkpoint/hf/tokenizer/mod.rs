//! A tokenizer of the library `tokenizers` as a [`Codec`], mostly from `tokenizer.json`.

mod added;
mod charsmap;
mod chat;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use tokenizers::{
    AddedVocabulary, DecoderWrapper, Model, ModelWrapper, OffsetType, PreTokenizedString,
    PreTokenizer, Result as TokenizerResult, Tokenizer,
};

use self::added::{ignore_beyond, set_apart};
use super::config::Marks;
use super::files::Text;
use super::guard::guarded;
use crate::checkpoint::alphabet;
use crate::checkpoint::chat::{ChatTemplate, TemplateSource};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::io::input::foreign;
use crate::model::toy::hex;
use crate::model::{Codec, Conversation, Spelling};

/// Steps that another format than `tokenizer.json` defines otherwise than the library.
pub(crate) trait Dialect: std::fmt::Debug + Send + Sync {
    /// The tokens of a part of a text; `model` knows their names.
    ///
    /// # Errors
    /// If the part has no tokens.
    fn tokens(&self, model: &ModelWrapper, part: &str) -> TokenizerResult<Vec<tokenizers::Token>>;

    /// What a token with this name stands for, if it is no control token.
    fn spelling(&self, id: Token, name: String) -> Spelling;

    /// The text of tokens, each of which comes with its name.
    fn text(&self, tokens: Vec<(Token, String)>) -> String;
}

/// A tokenizer of the Hugging Face format. The library keeps up to 10,000 words that a thread
/// has encoded with a tokenizer until the thread ends, even if the tokenizer is gone.
#[derive(Debug)]
pub(crate) struct HfTokenizer {
    file: PathBuf,
    tokenizer: Tokenizer,
    dialect: Option<Box<dyn Dialect>>,
    vocab: usize,
    marks: Marks,
    /// The names of the added tokens without an embedding.
    ignored: Vec<String>,
    /// Control tokens: the special ones and those that end a text.
    controls: BTreeSet<Token>,
    /// The added tokens that are recognised in texts, unless control tokens are
    /// allowed.
    in_texts: AddedVocabulary,
    /// Whether texts may contain control tokens.
    special_tokens: bool,
    /// Where the chat template comes from, and the template once it has been asked for.
    chat: (TemplateSource, OnceLock<Result<ChatTemplate, Error>>),
}

impl HfTokenizer {
    /// Makes a tokenizer of `tokenizer.json` for a model with `rows` embeddings.
    pub(in crate::checkpoint) fn new(
        text: &Text,
        rows: usize,
        marks: Marks,
        special_tokens: bool,
    ) -> Result<Self, Error> {
        let make = || Ok((prepared(&text.bytes).map_err(not_one)?, None));
        let rows = (rows, "config.json has vocab_size");
        let chat = TemplateSource::Folder(text.file.parent().unwrap_or(Path::new("")).to_owned());
        Self::build(&text.file, make, rows, marks, special_tokens, chat)
    }

    /// Makes a tokenizer that `file` describes. `rows` is the number of embeddings, and
    /// what says so; `chat` says where the chat template comes from.
    ///
    /// # Errors
    /// If `make` fails, or the tokenizer is empty or has more tokens than the model. Added tokens
    /// do not count: without an embedding they can neither be read nor written, and are ignored.
    pub(crate) fn build(
        file: &Path,
        make: impl FnOnce() -> Result<(Tokenizer, Option<Box<dyn Dialect>>), String>,
        (rows, said): (usize, &str),
        marks: Marks,
        special_tokens: bool,
        chat: TemplateSource,
    ) -> Result<Self, Error> {
        let fail = |what: String| Error::file(file, what);
        let made = guarded(|| Ok::<_, String>(make())).map_err(not_one).flatten();
        let (mut tokenizer, dialect) = made.map_err(fail)?;
        let ignored =
            ignore_beyond(&mut tokenizer, rows).map_err(|e| fail(not_one(e.to_string())))?;
        let last = tokenizer.get_vocab(true).into_iter().max_by_key(|&(_, id)| id);
        let (token, id) = last.ok_or_else(|| Error::file(file, "the vocabulary is empty"))?;
        let vocab = id as usize + 1;
        if vocab > rows {
            let token = token.chars().take(40).collect::<String>();
            return Err(fail(format!("token {token:?} has the id {id}, but {said} {rows}")));
        }
        let marks = marks.below(vocab, |name| tokenizer.token_to_id(name));
        let (controls, in_texts) =
            set_apart(&tokenizer, &marks).map_err(|e| fail(not_one(e.to_string())))?;
        Ok(Self {
            file: file.to_owned(),
            tokenizer,
            dialect,
            vocab,
            marks,
            ignored,
            controls,
            in_texts,
            special_tokens,
            chat: (chat, OnceLock::new()),
        })
    }

    /// Number of tokens, added ones included: the largest id plus one.
    pub(crate) fn vocab(&self) -> usize {
        self.vocab
    }

    /// The tokens that end a text.
    pub(crate) fn ends(&self) -> &[Token] {
        &self.marks.end
    }

    /// What a user should know about its tokens.
    pub(crate) fn notes(&self) -> Vec<String> {
        let ignored = (!self.ignored.is_empty()).then(|| {
            format!("added tokens without an embedding are ignored: {}", self.ignored.join(", "))
        });
        ignored.into_iter().chain(self.marks.note.map(str::to_owned)).collect()
    }

    /// The ids below [`Self::vocab`] that belong to no token.
    pub(crate) fn unused(&self) -> Vec<Token> {
        let known = |&id: &Token| self.tokenizer.id_to_token(id).is_some();
        (0..self.vocab as Token).filter(|id| !known(id)).collect()
    }

    /// SHA-256 of the sorted map from token to id: equal for models with the same
    /// tokens.
    pub(crate) fn fingerprint(&self) -> String {
        let mut tokens = self.tokenizer.get_vocab(true).into_iter().collect::<Vec<_>>();
        tokens.sort();
        let mut hash = Sha256::new();
        for (token, id) in tokens {
            hash.update((token.len() as u64).to_le_bytes());
            hash.update(token);
            hash.update(id.to_le_bytes());
        }
        hex(&hash.finalize())
    }

    /// The tokens of a text; with those that the model expects around it, if `whole`.
    fn ids(&self, text: &str, whole: bool) -> TokenizerResult<Vec<Token>> {
        let tokenizer = &self.tokenizer;
        let all = tokenizer.get_added_vocabulary();
        let added = if self.special_tokens { all } else { &self.in_texts };
        let parts = added.extract_and_normalize(tokenizer.get_normalizer(), text);
        self.pieced(parts, whole)
    }

    /// The tokens of a text of which the added tokens have been found, and, if `around`,
    /// those that the model expects around every text.
    fn pieced(&self, mut parts: PreTokenizedString, around: bool) -> TokenizerResult<Vec<Token>> {
        let tokenizer = &self.tokenizer;
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut parts)?;
        }
        parts.tokenize(|part| match self.special_tokens {
            true => self.pieces(part.get()),
            false => self.plain(part.get()),
        })?;
        let encoding = parts.into_encoding(None, 0, OffsetType::None)?;
        Ok(tokenizer.post_process(encoding, None, around)?.get_ids().to_vec())
    }

    fn encoded(&self, text: &str, whole: bool) -> Result<Vec<Token>, Error> {
        let fail = |why| Error::file(&self.file, format!("the text cannot be tokenised: {why}"));
        guarded(|| self.ids(text, whole)).map_err(fail)
    }

    /// The tokens of a part of a text, control tokens among them.
    fn pieces(&self, part: &str) -> TokenizerResult<Vec<tokenizers::Token>> {
        let model = self.tokenizer.get_model();
        self.dialect.as_ref().map_or_else(|| model.tokenize(part), |d| d.tokens(model, part))
    }

    /// The text of tokens; that of special ones only if it is asked for.
    fn text(&self, tokens: &[Token], special: bool) -> TokenizerResult<String> {
        let Some(dialect) = &self.dialect else { return self.tokenizer.decode(tokens, !special) };
        let added = self.tokenizer.get_added_vocabulary();
        let named = |&id: &Token| {
            let name = self.tokenizer.id_to_token(id)?;
            (special || !added.is_special_token(&name)).then_some((id, name))
        };
        Ok(dialect.text(tokens.iter().filter_map(named).collect()))
    }

    /// [`Self::text`] of tokens from outside.
    fn decoded(&self, tokens: &[Token], special: bool) -> Result<String, Error> {
        if let Some(token) = tokens.iter().find(|&&t| t as usize >= self.vocab) {
            return Err(Error::file(&self.file, format!("there is no token {token}")));
        }
        let fail = |e| Error::file(&self.file, format!("tokens cannot be turned into text: {e}"));
        guarded(|| self.text(tokens, special)).map_err(fail)
    }

    /// The tokens of a part of a text. A piece that the tokenizer's model would encode
    /// as a control token is split after its first character, and both parts are
    /// encoded separately.
    fn plain(&self, part: &str) -> TokenizerResult<Vec<tokenizers::Token>> {
        let model = self.tokenizer.get_model();
        let tokens = self.pieces(part)?;
        // A token for unknown text may be special, but the text does not spell its
        // name.
        let is_control = |token: &tokenizers::Token, piece: &str| {
            self.controls.contains(&token.id)
                && (self.marks.end.contains(&token.id)
                    || model.token_to_id(piece) == Some(token.id))
        };
        let mut plain = Vec::with_capacity(tokens.len());
        for token in tokens {
            let piece = part.get(token.offsets.0..token.offsets.1).unwrap_or_default();
            if !is_control(&token, piece) {
                plain.push(token);
                continue;
            }
            match piece.char_indices().nth(1) {
                Some((cut, _)) => {
                    plain.extend(self.plain(&piece[..cut])?);
                    plain.extend(self.plain(&piece[cut..])?);
                }
                None => {
                    let id = token.id;
                    return Err(format!(
                        "{piece:?} can only be encoded as control token {id}; --special-tokens, or \
                         special_tokens = true in an experiment, allows that"
                    )
                    .into());
                }
            }
        }
        Ok(plain)
    }
}

/// How the names of a vocabulary write bytes.
#[derive(Debug, Clone, Copy)]
enum Written<'d> {
    As(&'d dyn Dialect),
    InBytes,
    Escaped,
}

impl Written<'_> {
    /// By what turns tokens into text; `None` if it is neither.
    fn by(decoder: Option<&DecoderWrapper>) -> Option<Self> {
        match decoder? {
            DecoderWrapper::ByteLevel(_) => Some(Self::InBytes),
            DecoderWrapper::ByteFallback(_) | DecoderWrapper::Metaspace(_) => Some(Self::Escaped),
            DecoderWrapper::Sequence(steps) => {
                steps.get_decoders().iter().find_map(|step| Self::by(Some(step)))
            }
            _ => None,
        }
    }
}

/// What is said about a file that does not describe a tokenizer.
fn not_one(why: String) -> String {
    format!("not a tokenizer: {why}")
}

/// Reads a tokenizer and removes settings that are meant for training: a prompt is
/// neither truncated nor padded, and has the same tokens every time.
fn prepared(json: &[u8]) -> Result<Tokenizer, String> {
    charsmap::check(json)?;
    let unreadable = |e: tokenizers::Error| foreign(json).unwrap_or_else(|| e.to_string());
    let mut tokenizer = Tokenizer::from_bytes(json).map_err(unreadable)?;
    tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
    tokenizer.with_padding(None);
    if let ModelWrapper::BPE(model) = tokenizer.get_model()
        && model.dropout.is_some()
    {
        let mut model = model.clone();
        model.dropout = None;
        tokenizer.with_model(model);
    }
    Ok(tokenizer)
}

impl Codec for HfTokenizer {
    fn encode(&self, text: &str) -> Result<Vec<Token>, Error> {
        let ids = self.encoded(text, true)?;
        match self.marks.begin {
            Some(begin) if ids.is_empty() => Ok(vec![begin]),
            None if ids.is_empty() => Err(Error::input(
                "the prompt is empty, and the model has no beginning-of-text token to start from: \
                 give at least one character",
            )),
            _ => Ok(ids),
        }
    }

    fn head(&self) -> Vec<Token> {
        // Around an empty text, nothing shows where it begins.
        let [part, whole] = [false, true].map(|whole| self.encoded("a", whole).unwrap_or_default());
        let before = whole.len().checked_sub(part.len()).into_iter().flat_map(|most| 0..=most);
        let at = before.into_iter().find(|&at| whole[at..].starts_with(&part)).unwrap_or_default();
        whole[..at].to_vec()
    }

    fn control_string(&self, text: &str) -> Option<String> {
        let names = self.controls.iter().filter(|_| !self.special_tokens);
        let mut names = names.filter_map(|&id| self.tokenizer.id_to_token(id));
        names.find(|name| text.contains(name))
    }

    fn encode_chat(&self, conversation: &Conversation) -> Result<Vec<Token>, Error> {
        self.conversation(conversation)
    }

    fn chat_sha256(&self) -> Result<String, Error> {
        Ok(self.template()?.sha256().to_owned())
    }

    fn chat_names(&self, name: &str) -> Result<bool, Error> {
        Ok(self.template()?.names(name))
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        self.decoded(tokens, false)
    }

    fn decode_all(&self, tokens: &[Token]) -> Result<String, Error> {
        self.decoded(tokens, true)
    }

    fn spellings(&self) -> Result<Vec<Option<Spelling>>, Error> {
        let written = match &self.dialect {
            Some(dialect) => Written::As(&**dialect),
            None => Written::by(self.tokenizer.get_decoder()).ok_or_else(|| {
                let sentence = "its decoder is not that of byte-level BPE or SentencePiece, so \
                                the bytes of its tokens are not known";
                Error::file(&self.file, sentence)
            })?,
        };
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let spelling = |id: Token| {
            let name = self.tokenizer.id_to_token(id)?;
            Some(match written {
                _ if self.controls.contains(&id) => Spelling::Control(name),
                Written::As(dialect) => dialect.spelling(id, name),
                _ if added.contains_key(&id) => Spelling::Text(name.into_bytes()),
                Written::InBytes => alphabet::byte_level(&name),
                Written::Escaped => alphabet::escaped(&name),
            })
        };
        Ok((0..self.vocab as Token).map(spelling).collect())
    }

    fn encode_part(&self, part: &str) -> Result<Vec<Token>, Error> {
        // Some tokenizers put a space even there.
        if part.is_empty() { Ok(Vec::new()) } else { self.encoded(part, false) }
    }

    fn token_label(&self, token: Token) -> String {
        match guarded(|| self.text(&[token], true)) {
            Ok(text) if !text.is_empty() && !text.contains('\u{FFFD}') => text,
            // For part of a character, its name in the vocabulary is more useful.
            _ => self.tokenizer.id_to_token(token).unwrap_or_else(|| format!("#{token}")),
        }
    }
}

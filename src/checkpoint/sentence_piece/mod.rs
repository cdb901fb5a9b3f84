//! `tokenizer.model`, a SentencePiece model, as the tokenizer of a folder in the Hugging Face
//! layout without `tokenizer.json`.
//!
//! A text has the tokens that SentencePiece gives it. Which tokens are put around it, and which
//! are found in it first, is said by `tokenizer_config.json`, `special_tokens_map.json` and
//! `added_tokens.json`, as in `transformers`.

mod message;
mod model;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{AddedToken, Result as TokenizerResult};

use self::model::Model;
use super::alphabet::SPACE;
use super::chat::{TemplateSource, strings_of_tokens};
use super::ggml_vocabulary::{GgmlVocabulary, Made};
use super::hf::{HfTokenizer, Marks, Text};
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::io::input::is_there;

/// The file.
pub(super) const FILE: &str = "tokenizer.model";

/// How to make `tokenizer.json` of a model that is not supported. The classes of transformers that
/// are named after models, to which LlamaTokenizer belongs, would read it as if it were.
const CONVERT: &str = "install transformers 5.24 or newer, sentencepiece and protobuf, and run \
     python -c \"from transformers import PreTrainedTokenizerFast as T; \
     T.from_pretrained('DIR').backend_tokenizer.save('DIR/tokenizer.json')\"";

/// The keys of `tokenizer_config.json` that say how a text is tokenised.
#[derive(Debug, Default, Deserialize)]
struct Keys {
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    /// Whether every part of a text behind a control token is tokenised as a text of its own, with
    /// a space before it, as all checkpoints did that are older than the key.
    legacy: Option<bool>,
    #[serde(default)]
    added_tokens_decoder: BTreeMap<Token, AddedToken>,
}

/// What a folder says of its tokenizer, apart from the model.
#[derive(Default)]
struct Settings {
    keys: Keys,
    /// The names of tokens, by keys such as `bos_token`.
    named: Map<String, Value>,
    /// Tokens by id: new ones, and pieces that are found in texts before others.
    added: BTreeMap<Token, AddedToken>,
    /// The files.
    texts: Vec<Text>,
}

/// Makes the tokenizer of a folder, for a model with `rows` embeddings, and returns the files that
/// say what it does.
///
/// # Errors
/// One sentence that names the file at fault.
pub(super) fn read(
    folder: &Path,
    rows: usize,
    marks: Marks,
    special_tokens: bool,
) -> Result<(HfTokenizer, Vec<Text>), Error> {
    let text = Text::read(folder.join(FILE))?;
    let fail = |why: String| Error::file(&text.file, why);
    let model = Model::read(&text.bytes).map_err(fail)?;
    if let Some(what) = &model.unsupported {
        let convert = CONVERT.replace("DIR", &folder.to_string_lossy());
        return Err(fail(format!("{what}, so tokenizer.json is needed: {convert}")));
    }
    let settings = Settings::read(folder)?;
    // Errors name pieces by the keys that they have in GGUF files.
    let named = |why: String| why.replace("tokenizer.ggml.", "").replace("_token_id", "_token");
    let make = || settings.tokenizer(&model).map_err(named);
    let rows = (rows, "config.json has vocab_size");
    let chat = TemplateSource::Folder(folder.to_owned());
    let codec = HfTokenizer::build(&text.file, make, rows, marks, special_tokens, chat)?;
    Ok((codec, [text].into_iter().chain(settings.texts).collect()))
}

impl Settings {
    fn read(folder: &Path) -> Result<Self, Error> {
        let mut settings = Self::default();
        let text = |name: &str| {
            let file = folder.join(name);
            is_there(&file).then(|| Text::read(file)).transpose()
        };
        if let Some(map) = text("special_tokens_map.json")? {
            settings.named = strings_of_tokens(map.json()?);
            settings.texts.push(map);
        }
        if let Some(config) = text("tokenizer_config.json")? {
            settings.named.extend(strings_of_tokens(config.json()?));
            settings.keys = config.json()?;
            settings.added = std::mem::take(&mut settings.keys.added_tokens_decoder);
            settings.texts.push(config);
        }
        if let Some(added) = text("added_tokens.json")? {
            // It is older, and has no more than names.
            for (name, id) in added.json::<BTreeMap<String, Token>>()? {
                let special = settings.named.values().any(|named| *named == *name);
                settings.added.entry(id).or_insert_with(|| AddedToken::from(name, special));
            }
            settings.texts.push(added);
        }
        Ok(settings)
    }

    fn tokenizer(&self, model: &Model) -> Result<Made, String> {
        let fail = |e: tokenizers::Error| e.to_string();
        let vocabulary = GgmlVocabulary {
            tokens: model.pieces.iter().map(|piece| piece.name.clone()).collect(),
            scores: model.pieces.iter().map(|piece| piece.score).collect(),
            types: model.pieces.iter().map(|piece| piece.kind).collect(),
            bos: self.id("bos_token", "<s>", model),
            eos: self.id("eos_token", "</s>", model),
            add_bos: Some(self.keys.add_bos_token.unwrap_or(true)),
            add_eos: self.keys.add_eos_token,
            add_space_prefix: Some(model.add_dummy_prefix),
            ..GgmlVocabulary::default()
        };
        let (mut tokenizer, dialect) = vocabulary.sentence_piece()?;
        let is_legacy = self.keys.legacy.unwrap_or(true);
        let steps = steps(model, is_legacy).map_err(fail)?;
        tokenizer.with_normalizer(Some(Sequence::new(steps))).map_err(fail)?;
        if model.add_dummy_prefix && !is_legacy {
            let space = SPACE.chars().next().unwrap_or_default();
            tokenizer.with_pre_tokenizer(Some(Metaspace::new(space, PrependScheme::First, false)));
        }
        let added = self.added.values().map(|token| token.clone().normalized(false));
        tokenizer.add_tokens(added).map_err(fail)?;
        let is_wrong =
            |id: Token, token: &AddedToken| tokenizer.token_to_id(&token.content) != Some(id);
        match self.added.iter().find(|(id, token)| is_wrong(**id, token)) {
            None => Ok((tokenizer, dialect)),
            Some((id, token)) => Err(format!(
                "the added token {:?} has the id {id}, which is another token's or leaves a gap",
                token.content
            )),
        }
    }

    /// The id of a token that the settings name, or else of the usual one.
    fn id(&self, key: &str, usual: &str, model: &Model) -> Option<Token> {
        let name = self.named.get(key).and_then(Value::as_str).unwrap_or(usual);
        let piece = model.pieces.iter().position(|piece| piece.name == name);
        let mut added = self.added.iter().filter(|(_, token)| token.content == name);
        piece.map(|id| id as Token).or_else(|| added.next().map(|(id, _)| *id))
    }
}

/// What is done to a text before it is split into pieces.
fn steps(model: &Model, is_legacy: bool) -> TokenizerResult<Vec<NormalizerWrapper>> {
    let pattern = |regex: &str| ReplacePattern::Regex(regex.to_owned());
    let mut steps = vec![Replace::new(" ", SPACE)?.into()];
    if model.remove_extra_whitespaces {
        // As in SentencePiece, only the last step sees U+2581 of the text itself.
        steps.insert(0, Replace::new(pattern(r"\A +"), "")?.into());
        steps.insert(1, Replace::new(pattern(" {2,}"), " ")?.into());
        steps.push(Replace::new(pattern(&format!(r"(?:{SPACE})+\z")), "")?.into());
    }
    if model.add_dummy_prefix && is_legacy {
        steps.push(Prepend::new(SPACE.to_owned()).into());
    }
    Ok(steps)
}

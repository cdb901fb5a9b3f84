//! A compiled chat template.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Map;
use sha2::{Digest, Sha256};

use super::environment::{MAX_STEPS, Refusal, environment, set_today};
use crate::core::error::Error;
use crate::model::date::ChatDate;
use crate::model::toy::hex;

/// The longest source, and the longest text that a rendering may give, in bytes. Templates of
/// models have at most a few ten thousand.
const MOST_SOURCE: usize = 256 << 10;
const MOST_TEXT: usize = 4 << 20;
/// The stack of the thread that compiles and renders: the source decides how deeply
/// expressions and values are nested, and minijinja follows them by recursion.
const STACK: usize = 512 << 20;

/// The name of the one template of an environment.
const NAME: &str = "chat_template";

/// A chat template, ready to be rendered.
#[derive(Debug)]
pub struct ChatTemplate {
    /// The file that it comes from.
    file: PathBuf,
    pub(super) source: String,
    /// It is compiled where it is rendered, which may be another process.
    environment: OnceLock<Result<Environment<'static>, Error>>,
    /// `bos_token` and the like.
    pub(super) tokens: Map<String, serde_json::Value>,
    sha256: String,
}

impl ChatTemplate {
    /// A template that comes from `file`. `tokens` are the strings of the special tokens that it
    /// may name, such as `bos_token`.
    ///
    /// # Errors
    /// Names the file if the source is too long.
    pub fn new(
        file: &Path,
        source: &str,
        tokens: Map<String, serde_json::Value>,
    ) -> Result<Self, Error> {
        if source.len() > MOST_SOURCE {
            let why = format!("the chat template fails: it has more than {MOST_SOURCE} bytes");
            return Err(Error::file(file, why));
        }
        let (file, source) = (file.to_owned(), source.to_owned());
        let sha256 = hex(&Sha256::digest(&source));
        Ok(Self { file, source, environment: OnceLock::new(), tokens, sha256 })
    }

    fn compiled(&self) -> Result<Environment<'static>, Error> {
        let fail = |e: minijinja::Error| Error::file(&self.file, sentence(&e));
        let mut compiled = environment().map_err(fail)?;
        let source = without_tracking(&self.source);
        deeply(|| compiled.add_template_owned(NAME, source))?.map_err(fail)?;
        Ok(compiled)
    }

    /// The file that it comes from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether its source has a name in it, as a whole word.
    pub fn names(&self, name: &str) -> bool {
        self.source.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name)
    }

    /// SHA-256 of its source.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Renders the template with these values, to which the special tokens are added, on the
    /// day `today`. This bounds the steps, but neither the time nor the memory that each takes.
    ///
    /// # Errors
    /// Names the line that is no template, or gives the sentence with which the template refuses the values, or what it does that Python
    /// would refuse or minijinja cannot do.
    pub fn render(
        &self,
        values: &Map<String, serde_json::Value>,
        today: Option<ChatDate>,
    ) -> Result<String, Error> {
        let mut all = self.tokens.clone();
        all.extend(values.clone());
        let compiled = self.environment.get_or_init(|| self.compiled());
        let mut environment = compiled.as_ref().map_err(Clone::clone)?.clone();
        set_today(&mut environment, today);
        let mut text = Bounded::default();
        let rendered = deeply(|| {
            let template = environment.get_template(NAME)?;
            template.render_captured_to(Value::from(Serde(&all)), &mut text).map(drop)
        })?;
        if text.full {
            let why = format!("the chat template fails: it writes more than {MOST_TEXT} bytes");
            return Err(Error::file(&self.file, why));
        }
        rendered.map_err(|e| Error::file(&self.file, sentence(&e)))?;
        String::from_utf8(text.bytes).map_err(|e| Error::file(&self.file, e))
    }
}

/// Makes a call in a thread with a large stack.
fn deeply<T: Send>(call: impl FnOnce() -> T + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, call);
        let started = started.map_err(|e| Error::engine(format!("no thread can be started: {e}")));
        started?.join().map_err(|_| Error::engine("the chat template made minijinja panic"))
    })
}

/// A text of at most [`MOST_TEXT`] bytes.
#[derive(Debug, Default)]
struct Bounded {
    bytes: Vec<u8>,
    /// Whether there was more.
    full: bool,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + part.len() > MOST_TEXT {
            self.full = true;
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An error of the template in one sentence.
fn sentence(error: &minijinja::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut deepest = error;
    while let Some(current) = cause {
        if let Some(Refusal(why)) = current.downcast_ref() {
            return format!("the chat template refuses the conversation: {}", why.trim());
        }
        deepest = current.downcast_ref().unwrap_or(deepest);
        cause = current.source();
    }
    let line = deepest.line().map_or_else(String::new, |line| format!(" in line {line}"));
    if deepest.kind() == ErrorKind::OutOfFuel {
        return format!("the chat template fails{line}: it takes more than {MAX_STEPS} steps");
    }
    let what = match deepest.detail() {
        Some(detail) => detail.to_owned(),
        None => deepest.kind().to_string(),
    };
    format!("the chat template fails{line}: {what}")
}

/// The source with `{% generation %}` as `{% with %}`: `transformers` marks by it which
/// tokens the assistant wrote, and otherwise it only opens a scope.
fn without_tracking(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        text.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end);
        let word = tag[2..].trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let plain = match word {
            "generation" => tag.replacen("generation", "with", 1),
            "endgeneration" => tag.replacen("endgeneration", "endwith", 1),
            _ => tag.to_owned(),
        };
        text.push_str(&plain);
        rest = after;
    }
    text + rest
}

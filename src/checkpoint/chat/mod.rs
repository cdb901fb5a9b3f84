//! Chat templates: a conversation becomes a prompt.
//!
//! A template is a Jinja program that comes with a model. It is rendered as the library
//! `transformers` renders it: with the same settings, filters and functions, so that the text
//! has the same bytes. What Python would refuse is refused here, too.

mod apart;
mod child;
mod environment;
mod json;
mod python;
mod source;
mod template;
mod values;

pub use self::apart::ChatText;
pub(crate) use self::child::prompt;
pub use self::child::{
    RENDER_CHAT, RENDER_LATE, RENDER_MEMORY, RENDER_TIME, render_by, render_chat,
};
pub(crate) use self::source::{TemplateSource, eos_token, strings_of_tokens};
pub use self::template::ChatTemplate;

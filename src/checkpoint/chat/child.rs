//! Conversations are rendered in a process of their own.
//!
//! A template is a program from outside. Its steps are limited, but not what a step costs: after n
//! steps that add a list to itself, the next one may read 2^n items. Only a process can be ended in
//! the middle of a step, and only the memory of a process is bounded by the system.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::apart::ChatText;
use super::template::ChatTemplate;
use crate::core::error::Error;
use crate::model::conversation::{ChatMessage, Conversation};

/// The argument with which the program is started to render a conversation.
pub const RENDER_CHAT: &str = "render-chat";

/// How long the process may take, and its exit code after that.
pub const RENDER_TIME: Duration = Duration::from_secs(10);
/// See [`RENDER_TIME`].
pub const RENDER_LATE: u8 = 3;

/// The memory that the process may take, in bytes. A quarter is the stack of the renderer.
pub const RENDER_MEMORY: u64 = 2 << 30;

/// The program that renders.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Lets codecs start this program to render conversations; it must call [`render_chat`] if its
/// argument is [`RENDER_CHAT`]. Only the first call has an effect. Without a program, conversations
/// are rendered in this process.
pub fn render_by(program: PathBuf) {
    PROGRAM.get_or_init(|| program);
}

/// What the process is to render.
#[derive(Debug, Serialize, Deserialize)]
struct RenderRequest {
    source: String,
    tokens: Map<String, Value>,
    messages: Vec<ChatMessage>,
    tools: Vec<Value>,
    arguments: Map<String, Value>,
    today: Option<String>,
    controls: Vec<String>,
}

/// What it answers: the text, or what is wrong with the template or the conversation.
type Rendered = Result<ChatText, String>;

/// Renders the conversation that another process asks for, and writes the answer. The caller bounds
/// time and memory.
///
/// # Errors
/// If there is no request, or the answer cannot be written.
pub fn render_chat(request: impl Read, mut answer: impl Write) -> std::io::Result<()> {
    let rendered = rendered(serde_json::from_reader(request)?);
    let rendered: Rendered = rendered.map_err(|error| match error {
        Error::File { why, .. } => why,
        error => error.to_string(),
    });
    answer.write_all(&serde_json::to_vec(&rendered)?)
}

fn rendered(request: RenderRequest) -> Result<ChatText, Error> {
    let RenderRequest { source, tokens, messages, tools, arguments, today, controls } = request;
    let today = today.map(|day| day.parse()).transpose()?;
    let controls = controls.iter().map(String::as_str).collect::<Vec<_>>();
    let template = ChatTemplate::new(Path::new(""), &source, tokens)?;
    template.prompt(&Conversation { messages, tools, arguments, today }, &controls)
}

/// [`ChatTemplate::prompt`] in a process of its own, if a program was named for it.
///
/// # Errors
/// As [`ChatTemplate::prompt`], or if the process takes too much time or memory.
pub(crate) fn prompt(
    template: &ChatTemplate,
    conversation: &Conversation,
    controls: &[&str],
) -> Result<ChatText, Error> {
    let Some(program) = PROGRAM.get() else { return template.prompt(conversation, controls) };
    let request = RenderRequest {
        source: template.source.clone(),
        tokens: template.tokens.clone(),
        messages: conversation.messages.clone(),
        tools: conversation.tools.clone(),
        arguments: conversation.arguments.clone(),
        today: conversation.today.map(|today| today.to_string()),
        controls: controls.iter().map(|&name| name.to_owned()).collect(),
    };
    let fail = |error: std::io::Error| {
        Error::engine(format!("the chat template cannot be rendered: {error}"))
    };
    let (status, answer) = asked(program, &request).map_err(fail)?;
    let rendered = match serde_json::from_slice::<Rendered>(&answer) {
        Ok(rendered) if status.success() => rendered,
        _ => Err(format!("the chat template fails: {}", why_ended(status))),
    };
    rendered.map_err(|why| Error::file(template.file(), why))
}

/// Starts the program, and waits for its answer.
fn asked(program: &Path, request: &RenderRequest) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let request = serde_json::to_vec(request)?;
    let mut command = Command::new(program);
    command.arg(RENDER_CHAT).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    // An interrupt of this program lets requests that are open be answered.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A process that has ended reads nothing; its status says why.
        let _ = input.write_all(&request);
    }
    let output = child.wait_with_output()?;
    Ok((output.status, output.stdout))
}

fn why_ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code == i32::from(RENDER_LATE) => {
            format!("it takes more than {} s", RENDER_TIME.as_secs())
        }
        // The allocator ends a process without memory by a signal.
        None => format!("it takes more than {} GiB of memory", RENDER_MEMORY >> 30),
        Some(_) => "the process that renders it has failed".to_owned(),
    }
}

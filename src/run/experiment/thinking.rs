//! Which tokens of a completion the target thinks with: those between two strings, such as `<think>`
//! and `</think>`, wherever the tokenizer puts them.

use crate::core::distribution::Token;
use crate::model::Codec;

/// How many tokens at the end of a prompt may open the thinking, as some chat templates do.
const OPENED: usize = 64;

/// The strings before and after what models think.
pub(super) const THINKING: [&str; 2] = ["<think>", "</think>"];

/// The tokens of a completion from the one that opens the thinking, or the first if the prompt has
/// opened it, to before the one after its end: two counts of tokens. `None` if it has no thinking.
pub(super) fn thinking(
    codec: &dyn Codec,
    [open, close]: [&str; 2],
    prompt: &[Token],
    completion: &[Token],
) -> Option<[usize; 2]> {
    let (prompt, _) = labels(codec, &prompt[prompt.len().saturating_sub(OPENED)..]);
    let opened = prompt.rfind(open) > prompt.rfind(close);
    let (text, ends) = labels(codec, completion);
    let from = if opened { 0 } else { text.find(open)? };
    let to = text[from..].find(close).map_or(text.len(), |at| from + at + close.len());
    let token = |at: usize| ends.partition_point(|&end| end <= at);
    Some([token(from), token(to.saturating_sub(1)) + 1].map(|count| count.min(completion.len())))
}

/// The labels of tokens as one text, and where each of them ends in it.
fn labels(codec: &dyn Codec, tokens: &[Token]) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut ends = Vec::with_capacity(tokens.len());
    for &token in tokens {
        text += &codec.token_label(token);
        ends.push(text.len());
    }
    (text, ends)
}

//! The probability of every token of a text, by teacher-forced passes.

use crate::distribution::Token;
use crate::error::Error;
use crate::model::{LanguageModel, Want, Work, evaluate_one};
use crate::sampling::{History, Sampler};
use crate::tree::{Draft, MAX_NODES};

/// The natural logarithms of the probabilities that `sampler` gives the tokens of `text` after
/// `prompt`, each given the tokens before it; −∞ for a token that cannot be drawn.
///
/// # Errors
/// If the prompt is empty, the model fails, or logits define no distribution.
pub fn log_probs(
    model: &dyn LanguageModel,
    sampler: &Sampler,
    prompt: &[Token],
    text: &[Token],
) -> Result<Vec<f64>, Error> {
    let mut session = model.session()?;
    let mut context = prompt.to_vec();
    let mut found = Vec::with_capacity(text.len());
    // A pass gives the rows after its context and after each token of a chain, so the last
    // token of a part needs no place in the chain.
    for part in text.chunks(MAX_NODES + 1) {
        let known = &part[..part.len() - 1];
        let draft = chain(model.info().vocab, known);
        let work =
            Work { session: &mut session, context: &context, draft: &draft, want: Want::All };
        let rows = evaluate_one(model, work)?.rows;
        for (at, (&token, row)) in part.iter().zip(&rows).enumerate() {
            let history =
                History { prompt_len: prompt.len(), context: &context, drafted: &known[..at] };
            let dist = sampler.distribution(row, history);
            let dist = dist.map_err(Error::distribution("the model"))?;
            found.push(dist.p(token).ln());
        }
        context.extend_from_slice(part);
    }
    Ok(found)
}

fn chain(vocab: usize, tokens: &[Token]) -> Draft {
    let mut draft = Draft::empty(vocab);
    let mut last = None;
    for &token in tokens {
        last = Some(draft.certain(last, token));
    }
    draft
}

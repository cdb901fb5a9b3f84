//! Records sequences: plain decoding that keeps the probability of every token.

use super::forecast::TapeEnd;
use super::format::TapeSequence;
use crate::core::chance::{Request, Seeded};
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::round::RoundEvent;
use crate::core::sampling::SamplingParams;
use crate::method::decode::{
    Generation, MethodSpec, Observer, PLAIN, StopReason, StopRules, generate,
};
use crate::model::{Codec, LanguageModel};

/// A prompt to continue, and how.
#[derive(Debug, Clone)]
pub struct TapeRequest<'a> {
    /// The source of random numbers: the prompt's id, its repeat and the seed.
    pub request: Request<'a>,
    /// The category of the prompt.
    pub category: &'a str,
    /// Its tokens.
    pub prompt: &'a [Token],
    /// The sampling setting, and its number on the tape.
    pub sampling: (usize, SamplingParams),
}

/// Records a sequence of the target. Its completion is the one that plain decoding gives in an
/// experiment with the same request.
///
/// # Errors
/// If the prompt leaves no room, the model fails, or logits define no distribution.
pub fn record_sequence(
    target: &dyn LanguageModel,
    codec: Option<&dyn Codec>,
    stop: StopRules<'_>,
    asked: &TapeRequest<'_>,
    clock: &dyn Clock,
) -> Result<TapeSequence, Error> {
    let (sampling, params) = asked.sampling.clone();
    let plain = MethodSpec { drafter: PLAIN.to_owned(), sampling: params, ..MethodSpec::default() };
    let room = target.info().context_length.saturating_sub(asked.prompt.len());
    let max_tokens = stop.max_tokens.min(room);
    let mut generation = Generation::new(target, plain.build(None)?, asked.prompt, stop, codec)?;
    let (mut chance, mut log_p) = (Seeded::new(asked.request), LogP::default());
    generate(&mut generation, target, &mut chance, clock, &mut log_p)?;
    let tokens = generation.new_tokens().to_vec();
    let ended = matches!(
        generation.stopped(),
        Some(StopReason::Eos | StopReason::StopToken | StopReason::StopString)
    );
    // The last token within the maximum cannot be drafted, even if it ends the completion.
    let end = if ended && tokens.len() < max_tokens { TapeEnd::Token } else { TapeEnd::Cut };
    Ok(TapeSequence {
        prompt: asked.request.prompt.to_owned(),
        category: asked.category.to_owned(),
        repeat: asked.request.repeat,
        sampling,
        prompt_tokens: asked.prompt.to_vec(),
        tokens,
        max_tokens,
        end,
        log_p: Some(log_p.0),
    })
}

#[derive(Debug, Default)]
struct LogP(Vec<f64>);

impl Observer for LogP {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let each = event.emitted.iter().zip(event.targets);
        self.0.extend(each.map(|(&token, p)| p.p(token).ln()));
        Ok(())
    }
}

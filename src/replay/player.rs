//! Serves requests as they come: the loop of `specdec serve` without its connections.

use std::time::Duration;

use super::meter::{PlayedStep, StepMeter, ms};
use crate::bench::Timed;
use crate::chance::{Request, Seeded};
use crate::clock::Clock;
use crate::decode::{
    Generation, Lane, MethodSpec, Observer, StopRules, Totals, one_round_together, prefill,
};
use crate::distribution::Token;
use crate::draft::Tools;
use crate::error::Error;
use crate::model::LanguageModel;
use crate::round::RoundEvent;
use crate::simulation::{RequestQueue, ServedRequest, ServedRound, ServedRun};

/// What serves the requests.
#[derive(Debug, Clone, Copy)]
pub struct Player<'p> {
    /// The target.
    pub target: &'p dyn LanguageModel,
    /// What drafters use.
    pub tools: Tools<'p>,
    /// How texts are decoded.
    pub spec: &'p MethodSpec,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The most requests that share a round; others wait.
    pub slots: usize,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestToPlay<'r> {
    /// What its random numbers are addressed by, together with `repeat`.
    pub id: &'r str,
    /// Tells requests with the same prompt apart.
    pub repeat: u32,
    /// Tokens of its prompt.
    pub prompt: &'r [Token],
    /// The most tokens of its text; end tokens do not end it.
    pub tokens: usize,
    /// When it comes, in ms; `None` if it comes when another one is done.
    pub comes: Option<f64>,
}

impl Player<'_> {
    /// Serves requests, in this order. Each reads its prompt when it is taken; then it has rounds
    /// together with the others. `watch` is told of every step.
    ///
    /// # Errors
    /// If the method cannot be built, a prompt has no room, or a model fails.
    pub fn play(
        &self,
        requests: &[RequestToPlay<'_>],
        clock: &dyn Clock,
        watch: &mut dyn FnMut(&PlayedStep),
    ) -> Result<ServedRun, Error> {
        let target = Timed::new(self.target, clock);
        let draft = self.tools.draft.map(|model| Timed::new(model, clock));
        let model = draft.as_ref().map(|model| -> &dyn LanguageModel { model });
        let tools = Tools { draft: model, target: Some(&target), ..self.tools };
        let timed = Player { target: &target, tools, ..*self };
        timed.serve(requests, &StepMeter::new(clock, &target, draft.as_ref()), watch)
    }

    fn serve(
        &self,
        requests: &[RequestToPlay<'_>],
        meter: &StepMeter<'_>,
        watch: &mut dyn FnMut(&PlayedStep),
    ) -> Result<ServedRun, Error> {
        let clock = meter.clock;
        let queued = requests.iter().enumerate().map(|(text, request)| (text, request.comes));
        let mut queue = RequestQueue::of(queued.collect());
        let mut texts = Vec::<PlayedText<'_>>::new();
        let mut run = ServedRun::default();
        let begun = clock.now();
        let now = || ms(clock.now() - begun);
        loop {
            if !queue.is_empty() {
                run.loaded_until(now());
            }
            while texts.len() < self.slots {
                let taken = now();
                let Some((number, text, arrived)) = queue.take(taken) else { break };
                meter.lap();
                let mut text = self.begin(&requests[text], &mut texts, clock)?;
                let prefilled = now();
                run.step(&[], prefilled - taken);
                let prompt = text.generation.tokens().len().saturating_sub(1);
                watch(&PlayedStep { prompt, took: meter.lap(), ..PlayedStep::default() });
                text.served =
                    ServedRequest { number, sequence: number, arrived, prefilled, ..text.served };
                texts.push(text);
            }
            if texts.is_empty() {
                // A client's next request comes when its last one is done, so nobody waits here.
                let Some(next) = queue.next_at() else { return Ok(run) };
                let ahead = Duration::from_secs_f64((next - now()).max(0.0) / 1000.0);
                // Rounded up, so that it has come then.
                clock.wait(ahead + Duration::from_nanos(1));
                continue;
            }
            let started = now();
            meter.lap();
            let rounds = self.round(&mut texts, clock)?;
            let ended = now();
            run.step(&rounds, ended - started);
            watch(&PlayedStep {
                drafts: rounds.iter().map(|round| round.drafted).collect(),
                context: texts.iter().map(|text| text.last.context).sum(),
                prompt: 0,
                took: meter.lap(),
            });
            texts.retain_mut(|text| {
                let goes_on = text.goes_on(ended);
                if !goes_on {
                    run.requests.push(text.served);
                    queue.done(ended);
                }
                goes_on
            });
        }
    }

    /// Gives all texts a round.
    fn round(
        &self,
        texts: &mut [PlayedText<'_>],
        clock: &dyn Clock,
    ) -> Result<Vec<ServedRound>, Error> {
        let mut lanes = texts.iter_mut().map(PlayedText::lane).collect::<Vec<_>>();
        let rounds = one_round_together(&mut lanes, self.target, clock)?;
        rounds.into_iter().collect::<Result<(), _>>()?;
        let round =
            |text: &PlayedText<'_>| ServedRound { request: text.served.number, ..text.last.round };
        Ok(texts.iter().map(round).collect())
    }

    /// Reads the prompt of a request beside others.
    fn begin<'t>(
        &'t self,
        request: &RequestToPlay<'_>,
        others: &mut [PlayedText<'t>],
        clock: &dyn Clock,
    ) -> Result<PlayedText<'t>, Error> {
        let (method, stop) =
            (self.spec.build_with(self.tools)?, StopRules::max_tokens(request.tokens));
        let mut generation = Generation::new(self.target, method, request.prompt, stop, None)?;
        generation.share_with_one_of(others.iter_mut().map(|other| &mut other.generation))?;
        let totals = prefill(&mut generation, self.target, clock)?;
        let RequestToPlay { id: prompt, repeat, .. } = *request;
        let chance = Seeded::new(Request { seed: self.seed, prompt, repeat });
        let (last, served) = (LastRound::default(), ServedRequest::default());
        Ok(PlayedText { generation, chance, totals, last, served })
    }
}

/// A text that is being made.
#[derive(Debug)]
struct PlayedText<'t> {
    generation: Generation<'t>,
    chance: Seeded,
    totals: Totals,
    last: LastRound,
    served: ServedRequest,
}

impl<'t> PlayedText<'t> {
    fn lane(&mut self) -> Lane<'_, 't> {
        let Self { generation, chance, totals, last, .. } = self;
        Lane { generation, chance, observer: last, totals }
    }

    /// Whether it goes on after a round that has ended now.
    fn goes_on(&mut self, now: f64) -> bool {
        let served = &mut self.served;
        if served.tokens == 0 {
            served.first = now;
        }
        served.tokens += self.last.round.emitted;
        served.finished = now;
        self.generation.begin(self.totals.decode).is_none()
    }
}

/// Keeps what the last round was.
#[derive(Debug, Default)]
struct LastRound {
    round: ServedRound,
    /// Tokens before it.
    context: usize,
}

impl Observer for LastRound {
    fn round(&mut self, event: &RoundEvent<'_>) -> Result<(), Error> {
        let times = event.times;
        self.context = event.context.len();
        self.round = ServedRound {
            request: 0,
            drafted: event.draft.len(),
            accepted: event.verdict.path.len(),
            emitted: event.emitted.len(),
            draft_ms: ms(times.draft),
            verify_ms: ms(times.total() - times.draft),
        };
        Ok(())
    }
}

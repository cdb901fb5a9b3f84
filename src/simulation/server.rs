//! The server: requests wait, read their prompts, and decode in steps that they share.

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::arrivals::{Arrivals, RequestQueue, uniform};
use super::measures::{ServedRequest, ServedRun};
use super::policy::{DecodingRequest, ServedRound, ServerStep, ServingPolicy};
use super::step::{StepCosts, StepWork};
use super::text::{ServedPlace, SimulatedText};

/// What a server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// The most requests that share a step.
    pub max_batch: usize,
    /// The most rows of a step, as far as prompts need them: requests that decode always do.
    /// `None`: steps read no prompts; each is read as a whole when its request is taken.
    pub step_rows: Option<usize>,
}

/// A server in simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Server<'s> {
    /// The texts that requests ask for.
    pub texts: &'s [SimulatedText<'s>],
    /// What steps cost.
    pub costs: StepCosts<'s>,
    /// What the server allows.
    pub limits: ServerLimits,
}

/// A request that is being served.
#[derive(Debug)]
struct ActiveRequest<'s> {
    text: &'s SimulatedText<'s>,
    /// Tokens of the prompt that are yet to be read. The last one is read by the first round.
    unread: usize,
    place: ServedPlace,
    served: ServedRequest,
}

impl Server<'_> {
    /// Serves so many requests.
    pub fn serve(
        &self,
        policy: &mut dyn ServingPolicy,
        arrivals: Arrivals,
        requests: usize,
        seed: u64,
    ) -> ServedRun {
        let mut queue = RequestQueue::new(self.texts.len(), requests, arrivals, seed);
        let mut active = Vec::<ActiveRequest<'_>>::new();
        let mut run = ServedRun::default();
        let mut now = 0.0;
        loop {
            if !queue.is_empty() {
                run.loaded_until(now);
            }
            while active.len() < self.limits.max_batch {
                let Some((number, text, arrived)) = queue.take(now) else { break };
                let served = ServedRequest { number, text, arrived, ..ServedRequest::default() };
                let mut request = ActiveRequest::new(&self.texts[text], served, now);
                if self.limits.step_rows.is_none() {
                    let ms = self.costs.prompt(request.unread).total();
                    now += ms;
                    request.read(request.unread, now);
                    run.step(&[], ms);
                }
                active.push(request);
            }
            if active.is_empty() {
                // A client's next request comes when its last one is done, so nobody waits here.
                let Some(next) = queue.next_at() else { return run };
                now = next;
                continue;
            }
            now += self.step(&mut active, policy, (now, seed), &mut run);
            active.retain(|request| {
                let open = request.place.token < request.text.tokens;
                if !open {
                    policy.forget(request.served.number);
                    run.requests.push(ServedRequest { finished: now, ..request.served });
                    if let Arrivals::Clients(_) = arrivals {
                        queue.done(now);
                    }
                }
                open
            });
        }
    }

    /// Makes a step, and returns its time.
    fn step(
        &self,
        active: &mut [ActiveRequest<'_>],
        policy: &mut dyn ServingPolicy,
        (now, seed): (f64, u64),
        run: &mut ServedRun,
    ) -> f64 {
        let decoding = active.iter().filter(|request| request.unread == 0);
        let decoding = decoding.map(|request| request.seen(seed)).collect::<Vec<_>>();
        let mut drafts = vec![0; decoding.len()];
        if !decoding.is_empty() {
            // How much room prompts have depends on the drafts; policies see as much as there is.
            let work = self.work(active, &self.chunks(active, &drafts));
            drafts = policy.drafts(&ServerStep { requests: &decoding, costs: self.costs, work });
            let own = drafts.iter_mut().zip(&decoding);
            own.for_each(|(drafted, request)| *drafted = (*drafted).min(request.most));
        }
        let chunks = self.chunks(active, &drafts);
        let ms = self.costs.step(&StepWork { drafts: &drafts, ..self.work(active, &chunks) });
        let after = now + ms.total();
        let mut drafts = drafts.into_iter();
        let mut rounds = Vec::with_capacity(decoding.len());
        for (request, chunk) in active.iter_mut().zip(chunks) {
            if request.unread > 0 {
                request.read(chunk, after);
            } else {
                let before = request.place.token;
                let (drafted, accepted) = request.round(drafts.next().unwrap_or(0), seed, after);
                rounds.push(ServedRound {
                    request: request.served.number,
                    drafted,
                    accepted,
                    emitted: request.place.token.min(request.text.tokens) - before,
                    draft_ms: ms.draft,
                    verify_ms: ms.target + ms.outside,
                });
            }
        }
        policy.observe(&rounds);
        run.step(&rounds, ms.total());
        ms.total()
    }

    /// The tokens of each request's prompt that a step reads, beside these drafts: those that came
    /// first are read first. A step that decodes nothing always reads some.
    fn chunks(&self, active: &[ActiveRequest<'_>], drafts: &[usize]) -> Vec<usize> {
        let rows = drafts.len() + drafts.iter().sum::<usize>();
        let mut room = self.limits.step_rows.unwrap_or_default().saturating_sub(rows);
        if drafts.is_empty() {
            room = room.max(1);
        }
        let chunk = |request: &ActiveRequest<'_>| {
            let chunk = request.unread.min(room);
            room -= chunk;
            chunk
        };
        active.iter().map(chunk).collect()
    }

    /// What a step computes beside drafts.
    fn work(&self, active: &[ActiveRequest<'_>], chunks: &[usize]) -> StepWork<'static> {
        let mut work = StepWork::default();
        for (request, &chunk) in active.iter().zip(chunks) {
            if request.unread == 0 || chunk > 0 {
                work.context += request.context();
            }
            work.prefills += usize::from(chunk > 0);
            work.prefill_rows += chunk;
        }
        work
    }
}

impl<'s> ActiveRequest<'s> {
    fn new(text: &'s SimulatedText<'s>, served: ServedRequest, now: f64) -> Self {
        let served = ServedRequest { tokens: text.tokens, prefilled: now, ..served };
        let unread = text.prompt.saturating_sub(1);
        Self { text, unread, place: ServedPlace::default(), served }
    }

    /// What a policy sees.
    fn seen(&self, seed: u64) -> DecodingRequest<'s> {
        let most = self.text.drafted(self.place, usize::MAX);
        let draft = self.text.drawn(self.place, || self.draw(seed));
        DecodingRequest { number: self.served.number, most, draft }
    }

    /// The draw of its next round, from [0, 1).
    fn draw(&self, seed: u64) -> f64 {
        let place = ((self.served.number as u64) << 32) ^ self.place.token as u64;
        uniform(&mut ChaCha8Rng::seed_from_u64(seed.wrapping_mul(SPREAD) ^ place))
    }

    /// Tokens before its next row, which is that of a token that is known.
    fn context(&self) -> usize {
        self.text.prompt.saturating_sub(self.unread) + self.place.token
    }

    /// Reads a part of its prompt.
    fn read(&mut self, chunk: usize, after: f64) {
        self.unread -= chunk;
        self.served.prefilled = after;
    }

    /// A round with a draft of at most so many tokens: how many it has, and how many of them are
    /// accepted.
    fn round(&mut self, k: usize, seed: u64, after: f64) -> (usize, usize) {
        let drafted = self.text.drafted(self.place, k);
        let accepted = self.text.accepted(self.place, drafted, self.draw(seed));
        if self.place.round == 0 {
            self.served.first = after;
        }
        self.place.token += accepted + 1;
        self.place.round += 1;
        (drafted, accepted)
    }
}

/// Keeps the draws of small seeds apart: an odd number near 2⁶⁴ divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

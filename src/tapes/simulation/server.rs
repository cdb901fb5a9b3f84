//! The server: requests wait, read their prompts, and decode in steps that they share.

use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::arrivals::{Arrivals, RequestQueue, uniform};
use super::measures::{ServedRequest, ServedRun};
use super::policy::{DecodingRequest, ServedRound, ServerStep, ServingPolicy};
use super::sequence::{RequestProgress, SimulatedSequence};
use super::step::{StepCosts, StepWork};

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Maximum number of requests that share a step.
    pub max_batch: usize,
    /// Maximum number of rows of a step, which limits the prompt tokens that it reads; requests
    /// that decode always get their rows. `None`: steps read no prompts; each prompt is read as a
    /// whole when its request is taken.
    pub step_rows: Option<usize>,
}

/// A server in simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Server<'s> {
    /// The sequences that requests ask for.
    pub sequences: &'s [SimulatedSequence<'s>],
    /// What steps cost.
    pub costs: StepCosts<'s>,
    /// What the server allows.
    pub limits: ServerLimits,
}

/// A request that is being served.
#[derive(Debug)]
struct ActiveRequest<'s> {
    sequence: &'s SimulatedSequence<'s>,
    /// Prompt tokens that are yet to be read. The first round reads the last one.
    unread: usize,
    progress: RequestProgress,
    served: ServedRequest,
}

impl Server<'_> {
    /// Serves `requests` requests.
    pub fn serve(
        &self,
        policy: &mut dyn ServingPolicy,
        arrivals: Arrivals,
        requests: usize,
        seed: u64,
    ) -> ServedRun {
        let mut queue = RequestQueue::new(self.sequences.len(), requests, arrivals, seed);
        let mut active = Vec::<ActiveRequest<'_>>::new();
        let mut run = ServedRun::default();
        let mut now = 0.0;
        loop {
            if !queue.is_empty() {
                run.loaded_until(now);
            }
            while active.len() < self.limits.max_batch {
                let Some((number, sequence, arrived)) = queue.take(now) else { break };
                let served =
                    ServedRequest { number, sequence, arrived, ..ServedRequest::default() };
                let mut request = ActiveRequest::new(&self.sequences[sequence], served, now);
                if self.limits.step_rows.is_none() {
                    let ms = self.costs.prompt(request.unread).total();
                    now += ms;
                    request.read(request.unread, now);
                    run.step(&[], ms);
                }
                active.push(request);
            }
            if active.is_empty() {
                // A client's next request arrives when its last one is done, so none waits here.
                let Some(next) = queue.next_at() else { return run };
                now = next;
                continue;
            }
            now += self.step(&mut active, policy, (now, seed), &mut run);
            active.retain(|request| {
                let open = request.progress.token < request.sequence.tokens;
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

    /// Runs a step, and returns its time.
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
            // Drafts reduce the room for prompts; policies see the room without drafts.
            let work = self.work(active, &self.chunks(active, &drafts));
            drafts = policy.drafts(&ServerStep { requests: &decoding, costs: self.costs, work });
            let own = drafts.iter_mut().zip(&decoding);
            for (drafted, request) in own {
                *drafted = (*drafted).min(request.most);
            }
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
                let before = request.progress.token;
                let (drafted, accepted) = request.round(drafts.next().unwrap_or(0), seed, after);
                rounds.push(ServedRound {
                    request: request.served.number,
                    drafted,
                    accepted,
                    emitted: request.progress.token.min(request.sequence.tokens) - before,
                    draft_ms: ms.draft,
                    verify_ms: ms.target + ms.outside,
                });
            }
        }
        policy.observe(&rounds);
        run.step(&rounds, ms.total());
        ms.total()
    }

    /// The prompt tokens of each request that a step with these drafts reads. Requests that arrived
    /// first are read first. A step that decodes nothing reads at least one token.
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

    /// The work of a step apart from drafts.
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
    fn new(sequence: &'s SimulatedSequence<'s>, served: ServedRequest, now: f64) -> Self {
        let served = ServedRequest { tokens: sequence.tokens, prefilled: now, ..served };
        let unread = sequence.prompt.saturating_sub(1);
        Self { sequence, unread, progress: RequestProgress::default(), served }
    }

    /// What a policy sees.
    fn seen(&self, seed: u64) -> DecodingRequest<'s> {
        let most = self.sequence.drafted(self.progress, usize::MAX);
        let draft = self.sequence.drawn(self.progress, || self.draw(seed));
        DecodingRequest { number: self.served.number, most, draft }
    }

    /// The draw of its next round, from [0, 1).
    fn draw(&self, seed: u64) -> f64 {
        let round = ((self.served.number as u64) << 32) ^ self.progress.token as u64;
        uniform(&mut ChaCha8Rng::seed_from_u64(seed.wrapping_mul(SPREAD) ^ round))
    }

    /// Tokens before its next row.
    fn context(&self) -> usize {
        self.sequence.prompt.saturating_sub(self.unread) + self.progress.token
    }

    /// Reads a part of its prompt.
    fn read(&mut self, chunk: usize, after: f64) {
        self.unread -= chunk;
        self.served.prefilled = after;
    }

    /// Runs a round with a draft of at most `k` tokens. Returns the length of the draft and the
    /// number of accepted tokens.
    fn round(&mut self, k: usize, seed: u64, after: f64) -> (usize, usize) {
        let drafted = self.sequence.drafted(self.progress, k);
        let accepted = self.sequence.accepted(self.progress, drafted, self.draw(seed));
        if self.progress.round == 0 {
            self.served.first = after;
        }
        self.progress.token += accepted + 1;
        self.progress.round += 1;
        (drafted, accepted)
    }
}

/// Separates the draws of small seeds: an odd number near 2⁶⁴ divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

//! Generations stepped through again by the methods themselves; only what these
//! proposed, kept and drew next is used.

use std::cell::RefCell;
use std::time::Duration;

use specdec::core::chance::{Chance, Request, Seeded};
use specdec::core::clock::{Clock, Who};
use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::method::decode::{Generation, MethodSpec, StopRules};
use specdec::method::draft::Tools;
use specdec::model::evaluate_one;
use specdec::run::experiment::Setup;
use specdec::run::experiment::prompts::Prompt;

use crate::rows_replay::Replay;
use crate::rows_support::{look_ns, pass_ns};

/// What a round proposed and kept, and what it computed for that.
pub(crate) struct Step {
    pub(crate) context: Vec<Token>,
    /// Proposed tokens and their parent nodes.
    pub(crate) nodes: Vec<(Token, Option<usize>)>,
    /// The accepted nodes that the text kept.
    pub(crate) path: Vec<usize>,
    /// The number of nodes that the verifier accepted.
    pub(crate) accepted: usize,
    /// Whether the text ended before all of them and the next token were in it.
    pub(crate) cut: bool,
    pub(crate) next: Token,
    pub(crate) fallbacks: usize,
    pub(crate) draft_rows: Vec<usize>,
    pub(crate) target_rows: usize,
}

impl Step {
    pub(crate) fn children(&self, at: Option<usize>) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&id| self.nodes[id].1 == at).collect()
    }

    /// The path of nodes down to and including one.
    pub(crate) fn line(&self, at: Option<usize>) -> Vec<usize> {
        let Some(id) = at else { return Vec::new() };
        [self.line(self.nodes[id].1), vec![id]].concat()
    }

    /// The text down to a node.
    pub(crate) fn text(&self, at: Option<usize>) -> Vec<Token> {
        let drafted = self.line(at).into_iter().map(|id| self.nodes[id].0);
        self.context.iter().copied().chain(drafted).collect()
    }

    /// Whether the text ends with a node.
    fn ends_at(&self, at: Option<usize>) -> bool {
        self.cut && at == self.path.last().copied()
    }

    /// The accepted nodes and the context, as far as they have children and the text continues.
    pub(crate) fn forks(&self) -> Vec<Option<usize>> {
        let kept = [None].into_iter().chain(self.path.iter().copied().map(Some));
        kept.filter(|&at| !self.children(at).is_empty() && !self.ends_at(at)).collect()
    }

    /// Whether a node was decided on: every node before it was accepted, none of the siblings
    /// before it was, and the text had not ended.
    pub(crate) fn reached(&self, id: usize) -> bool {
        let accepted = |id: &usize| self.path.contains(id);
        let parent = self.nodes[id].1;
        self.line(parent).iter().all(accepted)
            && !self.ends_at(parent)
            && !self.children(parent).iter().filter(|&&other| other < id).any(accepted)
    }
}

/// Notes the rows of every pass.
#[derive(Debug, Default)]
struct Passes(RefCell<Vec<(Who, usize)>>);

impl Passes {
    fn take(&self) -> Vec<(Who, usize)> {
        self.0.take()
    }
}

impl Clock for Passes {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn forward(&self, who: Who, rows: usize) {
        self.0.borrow_mut().push((who, rows));
    }
}

impl Replay<'_> {
    /// The nanoseconds of the prefill, and the rounds.
    pub(crate) fn steps(
        &self,
        method: &MethodSpec,
        prompt: &Prompt,
        repeat: u32,
    ) -> Result<(u64, Vec<Step>), Error> {
        let Setup { plan, target, draft, texts, .. } = self.setup;
        let tools = Tools { draft: *draft, target: Some(*target), texts: Some(*texts) };
        let stop = StopRules {
            eos: self.eos(&method.drafter).to_vec(),
            ..StopRules::max_tokens(plan.max_tokens)
        };
        let (method, prompt_tokens) = (method.build_with(tools)?, tokens_of(&prompt.text));
        let mut generation = Generation::new(*target, method, &prompt_tokens, stop, None)?;
        let mut chance = Seeded::new(Request { seed: plan.seed, prompt: &prompt.id, repeat });
        let (passes, mut steps) = (Passes::default(), Vec::new());
        generation.prefill(*target, &passes)?;
        // A prefill is timed on its own, once for all generations of the block.
        let one = |(who, rows)| look_ns(0) + pass_ns(who, rows);
        let prefill = passes.take().into_iter().map(one).sum::<u64>();
        while generation.begin(Duration::ZERO).is_none() {
            let round = steps.len() as u64;
            chance.begin_round(round);
            let context = generation.tokens().to_vec();
            let proposal = generation.propose(&mut chance, &passes)?;
            let evaluation =
                evaluate_one(*target, generation.work(&mut generation.session(), &proposal))?;
            let target_rows = evaluation.computed;
            let evaluated = generation.evaluated(&proposal, evaluation)?;
            let verdict = generation.verify(&proposal, &evaluated, &mut chance);
            let mut path = verdict.path.clone();
            let outcome = generation.commit(&proposal, verdict)?;
            generation.observe(round, &proposal, &evaluated, &outcome);
            let event = outcome.event(round, generation.tokens(), &proposal, &evaluated);
            let (accepted, emitted) = (path.len(), event.emitted.len());
            path.truncate(emitted);
            steps.push(Step {
                context,
                nodes: proposal.draft.nodes().iter().map(|n| (n.token, n.parent)).collect(),
                path,
                accepted,
                cut: emitted <= accepted,
                next: event.verdict.next,
                fallbacks: event.verdict.residual_fallbacks,
                draft_rows: passes.take().into_iter().map(|(_, rows)| rows).collect(),
                target_rows,
            });
        }
        Ok((prefill + look_ns(0), steps))
    }

    /// The tokens that end a text.
    pub(crate) fn eos(&self, drafter: &str) -> &'static [Token] {
        let obeyed = !self.setup.plan.ignore_eos;
        if obeyed { self.quirks.eos[usize::from(drafter != "none")] } else { &[] }
    }
}

/// Letters as tokens: a is 0.
pub(crate) fn tokens_of(text: &str) -> Vec<Token> {
    text.bytes().map(|letter| Token::from(letter - b'a')).collect()
}

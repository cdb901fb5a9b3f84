//! A predictor behind the interface that drafters use: it returns processed distributions and
//! counts passes.

use std::rc::Rc;

use super::passes::DraftPass;
use super::predict::{Predictor, predictor};
use super::{PassDesk, Round};
use crate::core::clock::{Clock, Who};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{History, Logits, Sampler};
use crate::core::tree::{Draft, Row};
use crate::model::{
    Evaluation, Features, LanguageModel, ModelInfo, ModelInputs, Tap, Want, Work, evaluate_one,
};

/// A predictor with its sampler.
#[derive(Debug)]
pub struct Reader<'a> {
    predictor: Box<dyn Predictor<'a> + 'a>,
    sampler: Sampler,
    /// For the beliefs of a greedy sampler: the same sampler at temperature 1 and without
    /// truncation.
    plain: Option<Sampler>,
    ranks: bool,
}

/// A draft model's prediction at one row.
#[derive(Debug)]
pub(super) struct Prediction {
    /// The distribution that drafts are drawn from.
    pub(super) dist: Rc<Dist>,
    /// The draft model's own probabilities of the tokens. They equal `dist` unless the
    /// sampler is greedy: then they are taken at temperature 1 and without truncation,
    /// but only if the drafter or the length policy uses them.
    pub(super) belief: Rc<Dist>,
    /// The probability that the token after the row will be accepted, as the model estimates it
    /// before that token is drawn.
    pub(super) confidence: Option<f64>,
}

impl Prediction {
    /// Whether drafts are the most probable tokens instead of draws. Also false if the belief of a
    /// greedy sampler was not computed.
    pub(super) fn greedy(&self) -> bool {
        !Rc::ptr_eq(&self.dist, &self.belief)
    }
}

impl<'a> Reader<'a> {
    /// A reader of `model`.
    pub(super) fn new(model: &'a dyn LanguageModel, sampler: Sampler) -> Result<Self, Error> {
        let greedy = sampler.params().is_greedy();
        let params = sampler.params().logit_processors();
        let plain = greedy.then(|| Sampler::new(params)).transpose();
        let plain = plain?;
        Ok(Self { predictor: predictor(model)?, sampler, plain, ranks: false })
    }

    /// The same reader for a drafter that ranks tokens by belief.
    pub(super) fn ranking(self) -> Self {
        Self { ranks: true, ..self }
    }

    /// The hidden states of the target that it reads.
    pub(crate) fn taps(&self) -> &'a [Tap] {
        self.predictor.taps()
    }

    /// Whether the model estimates the acceptance of a token before it is drawn.
    pub(crate) fn estimates(&self) -> bool {
        matches!(&self.info().inputs, ModelInputs::Features(Features { estimates: true, .. }))
    }

    fn info(&self) -> &'a ModelInfo {
        self.predictor.model().info()
    }

    pub(super) fn expect(&mut self, tokens: usize) -> Result<(), Error> {
        self.predictor.session().map_or(Ok(()), |session| session.borrow_mut().expect(tokens))
    }

    /// Processes the prompt, which is the context of the desk.
    pub(super) fn prefill(
        &mut self,
        desk: &PassDesk<'a, '_>,
        clock: &dyn Clock,
    ) -> Result<(), Error> {
        let Some(session) = self.predictor.session() else { return Ok(()) };
        let (skipped, tokens) = (self.predictor.skipped(), desk.context().len() - 1);
        let Some(head) = desk.context().get(skipped..tokens).filter(|head| !head.is_empty()) else {
            return Ok(());
        };
        // A prompt that does not fit is never drafted after.
        if head.len() > self.info().context_length {
            return Ok(());
        }
        self.predictor.prepare(desk, tokens)?;
        let (draft, session) = (Draft::empty(self.info().vocab), &mut *session.borrow_mut());
        let work = Work { session, context: head, draft: &draft, want: Want::Nothing };
        let computed = evaluate_one(self.predictor.model(), work)?.computed;
        clock.forward(Who::Draft, computed);
        Ok(())
    }

    /// Limits the depth of a draft to what the model's context has room for. Nothing is drafted after
    /// a context without rows, or where the target lacks what the first one reads.
    pub(super) fn limit(&self, round: &mut Round<'a, '_>) -> Result<(), Error> {
        let rows = round.context.len().saturating_sub(self.predictor.skipped());
        let room = (self.info().context_length + 1).saturating_sub(rows);
        round.full = room == 0 && round.limit > 0;
        let deepest = self.info().deepest.unwrap_or(usize::MAX);
        let drafts = rows > 0 && self.predictor.is_ready(round.desk)?;
        round.limit = if drafts { round.limit.min(room).min(deepest) } else { 0 };
        Ok(())
    }

    /// The model's predictions at these rows, from one pass, to which the draft is lent. Where a
    /// grammar leaves one token, no pass is needed.
    pub(super) async fn predict(
        &mut self,
        round: &mut Round<'a, '_>,
        draft: &mut Draft,
        rows: Vec<Row>,
    ) -> Result<Vec<Prediction>, Error> {
        if self.sampler.params().controls.is_none() {
            return self.compute(round, draft, rows).await;
        }
        let mut forced = Vec::with_capacity(rows.len());
        for row in &rows {
            forced.push(self.forced(round, &row.drafted(draft))?);
        }
        let open = rows.iter().zip(&forced).filter(|(_, known)| known.is_none());
        let open = open.map(|(row, _)| *row).collect::<Vec<_>>();
        let computed = match open.is_empty() {
            true => Vec::new(),
            false => self.compute(round, draft, open).await?,
        };
        let mut computed = computed.into_iter();
        Ok(forced.into_iter().filter_map(|known| known.or_else(|| computed.next())).collect())
    }

    /// The prediction after a draft, where a grammar leaves one token.
    fn forced(
        &self,
        round: &Round<'_, '_>,
        drafted: &[Token],
    ) -> Result<Option<Prediction>, Error> {
        let history = History { prompt_len: round.prompt_len, context: round.context, drafted };
        let fault = Error::distribution(format!("draft model {}", self.info().name));
        let Some(token) = self.sampler.forced(history).map_err(fault)? else { return Ok(None) };
        let dist = Rc::new(Dist::one_hot(round.vocab, token));
        let belief = match self.plain {
            Some(_) => Rc::new(Dist::one_hot(round.vocab, token)),
            None => Rc::clone(&dist),
        };
        Ok(Some(Prediction { dist, belief, confidence: Some(1.0) }))
    }

    async fn compute(
        &mut self,
        round: &mut Round<'a, '_>,
        draft: &mut Draft,
        rows: Vec<Row>,
    ) -> Result<Vec<Prediction>, Error> {
        self.predictor.prepare(round.desk, round.context.len())?;
        let pass = round.desk.pass(DraftPass {
            model: self.predictor.model(),
            session: self.predictor.session().map_or_else(|| round.desk.shared_target(), Ok)?,
            skipped: self.predictor.skipped(),
            draft: std::mem::take(draft),
            rows,
            found: Evaluation::default(),
        });
        let pass = pass.await?;
        *draft = pass.draft;
        round.forwards += usize::from(pass.found.computed > 0);
        let looked_at = self.ranks || round.length.needs_confidence();
        let plain = self.plain.as_ref().filter(|_| looked_at);
        let mut predictions = Vec::with_capacity(pass.rows.len());
        let Evaluation { rows, confidences, .. } = &pass.found;
        for (place, (row, logits)) in pass.rows.iter().zip(rows).enumerate() {
            let drafted = row.drafted(draft);
            let (prompt_len, context) = (round.prompt_len, round.context);
            let history = History { prompt_len, context, drafted: &drafted };
            let dist = self.distribution(&self.sampler, logits, history)?;
            let belief = match plain {
                Some(plain) => self.distribution(plain, logits, history)?,
                None => Rc::clone(&dist),
            };
            let confidence = confidences.get(place).copied();
            predictions.push(Prediction { dist, belief, confidence });
        }
        Ok(predictions)
    }

    fn distribution(
        &self,
        sampler: &Sampler,
        logits: &Logits,
        history: History<'_>,
    ) -> Result<Rc<Dist>, Error> {
        let fault = Error::distribution(format!("draft model {}", self.info().name));
        sampler.drafting(logits, history).map(Rc::new).map_err(fault)
    }

    pub(super) fn state_key(&mut self, context: &[Token]) -> Result<Vec<u8>, Error> {
        let Some(session) = self.predictor.session() else { return Ok(Vec::new()) };
        let session = &mut *session.borrow_mut();
        session.rewind(context.get(self.predictor.skipped()..).unwrap_or_default())?;
        Ok(session.state_key())
    }

    pub(super) fn try_clone(&self) -> Result<Self, Error> {
        let (sampler, plain) = (self.sampler.clone(), self.plain.clone());
        Ok(Self { predictor: self.predictor.try_clone()?, sampler, plain, ranks: self.ranks })
    }
}

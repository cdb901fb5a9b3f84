//! A drafter that reads the target's distribution and drafts with a chosen acceptance
//! rate.
//!
//! It drafts from `q = a·p + (1 − a)·δ_z`, where z is the token with the smallest
//! target probability. Rejection sampling then accepts with probability
//! `a·(1 − p(z)) + min(p(z), q(z))`, which is close to a if p(z) is small. It needs a
//! target pass per token and serves to test the harness and the cost model, on toy
//! models and the virtual clock.

use std::rc::Rc;

use super::reader::Reader;
use super::{BuildDrafter, Drafter, Pausing, Round};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape, Row};

const ACCEPTANCE: Param =
    Param::number("oracle_acceptance", 0.8, 0.0..=1.0, "a: the acceptance rate to aim for");

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "oracle",
    aliases: &[],
    params: &[ACCEPTANCE],
    summary: "reads the target's distribution and drafts with a chosen acceptance rate; for tests",
    paper: "-",
    build: BuildDrafter {
        needs_model: false,
        shape: |_| Ok(DraftShape::SAMPLED),
        make: |params| {
            let target = params.tools.target.ok_or_else(|| {
                Error::setting("drafter \"oracle\" needs the target, which is not available")
            })?;
            let reader = Reader::new(target, params.target_sampler.clone())?;
            Ok(Box::new(Oracle { reader, acceptance: params.params.number(&ACCEPTANCE) }))
        },
    },
};

#[derive(Debug)]
struct Oracle<'a> {
    reader: Reader<'a>,
    acceptance: f64,
}

impl Oracle<'_> {
    fn distribution(&self, p: &Rc<Dist>) -> Rc<Dist> {
        let all = (0..p.vocab() as Token).map(|token| (token, p.p(token)));
        let least = all.clone().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(token, _)| token);
        let mixed = all.map(|(token, p)| {
            let wrong = if token == least { 1.0 - self.acceptance } else { 0.0 };
            self.acceptance * p + wrong
        });
        Dist::from_weights(mixed.collect()).map_or_else(|_| Rc::clone(p), Rc::new)
    }
}

impl<'a> Drafter<'a> for Oracle<'a> {
    fn reader(&mut self) -> Option<&mut Reader<'a>> {
        Some(&mut self.reader)
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            let mut draft = Draft::empty(round.vocab);
            let mut parent = None;
            while round.go_deeper(&draft) {
                for prediction in
                    &self.reader.predict(round, &mut draft, vec![Row::after(parent)]).await?
                {
                    parent = Some(round.draw(
                        &mut draft,
                        parent,
                        &self.distribution(&prediction.dist),
                        0,
                    ));
                }
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        let reader = self.reader.try_clone()?;
        Ok(Box::new(Self { reader, acceptance: self.acceptance }))
    }
}

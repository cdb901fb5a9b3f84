//! The score of any chain drafter: its drafts from every token of a completion on, drawn so that
//! they follow the completion as far as they can.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use super::format::{DraftStart, TapeScore, TapeSequence};
use super::level::LevelScores;
use super::score::TargetReader;
use super::teacher::parts;
use crate::core::chance::{Chance, Site};
use crate::core::clock::RealClock;
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::tree::Draft;
use crate::method::decode::Method;
use crate::method::draft::{PassDesk, Round, at_once};
use crate::model::{LanguageModel, Session, Tap, Want, Work, evaluate_one};

/// The drafts of at most `most` tokens that begin at each token of a completion, in a vocabulary of
/// a size and with the tokens that end a completion. Neither the drafter nor the draft length
/// policy may depend on earlier rounds, and the drafts must be chains. Heads read `target`.
///
/// After a draft diverges from the completion, it continues with its most probable tokens. Its
/// length is exact unless the policy looks at those. With a `reader`, the score also has what the
/// first token of each draft accepts, for any token that the completion has there.
///
/// # Errors
/// If the drafter fails.
pub fn draft_starts(
    mut method: Method<'_>,
    target: Option<&dyn LanguageModel>,
    (vocab, ends): (usize, &[Token]),
    sequence: &TapeSequence,
    most: usize,
    mut reader: Option<TargetReader<'_, '_>>,
) -> Result<TapeScore, Error> {
    let clock = RealClock::default();
    let prompt_len = sequence.prompt_tokens.len();
    let all = [sequence.prompt_tokens.as_slice(), &sequence.tokens].concat();
    let session = read_by(target, method.drafter.taps(), &all)?;
    let prompt = PassDesk::new(&sequence.prompt_tokens, session.clone());
    method.drafter.prefill(&prompt, &clock)?;
    let mut starts = Vec::with_capacity(sequence.tokens.len());
    let mut scored = TapeScore {
        overlap: reader.is_some().then(Vec::new),
        level: reader.is_some().then(LevelScores::default),
        ..TapeScore::default()
    };
    parts(sequence, |context, part| {
        let targets = match &mut reader {
            Some(reader) => reader.distributions((prompt_len, context), part)?,
            None => Vec::new(),
        };
        for at in 0..part.len() {
            let start = starts.len();
            let rest = &sequence.tokens[start..];
            let mut following = Following { rest };
            let desk = PassDesk::new(&all[..prompt_len + start], session.clone());
            let sizes = (prompt_len, vocab);
            let round = Round::new(&desk, sizes, &mut *method.length, &mut following);
            let limit = sequence.length().limit(start).min(most);
            let mut round = Round { ends, limit, ..round };
            let draft = at_once(method.drafter.propose(&mut round), &desk, &clock)?;
            starts.push(start_of(&draft, rest));
            if let Some(p) = targets.get(at) {
                let first = draft.nodes().first().map(|node| node.distribution(draft.vocab()));
                scored.add_position(p, first.as_deref());
            }
        }
        Ok(())
    })?;
    Ok(TapeScore { starts: Some(starts), ..scored })
}

/// The sequence of the target after a text, with the hidden states that a head reads; none if the
/// drafter is no head.
fn read_by(
    target: Option<&dyn LanguageModel>,
    taps: &[Tap],
    text: &[Token],
) -> Result<Option<Rc<RefCell<Session>>>, Error> {
    let Some(target) = target.filter(|_| !taps.is_empty()) else { return Ok(None) };
    let mut session = target.session()?;
    session.keep(taps, target.info())?;
    let (draft, want) = (&Draft::empty(target.info().vocab), Want::Nothing);
    evaluate_one(target, Work { session: &mut session, context: text, draft, want })?;
    Ok(Some(Rc::new(RefCell::new(session))))
}

fn start_of(draft: &Draft, rest: &[Token]) -> DraftStart {
    let same = draft.nodes().iter().zip(rest).take_while(|(node, token)| node.token == **token);
    let log_q = same.map(|(node, &token)| node.q(token).ln()).collect();
    DraftStart { drafted: draft.len(), log_q }
}

/// Draws the tokens of a completion as long as they can be drawn.
#[derive(Debug)]
struct Following<'t> {
    /// The completion from the beginning of the draft on.
    rest: &'t [Token],
}

impl Chance for Following<'_> {
    fn begin_round(&mut self, _round: u64) {}

    fn bernoulli(&mut self, _site: Site, p: f64) -> bool {
        p >= 1.0
    }

    fn categorical(&mut self, site: Site, dist: &Dist) -> Token {
        // In a chain, a node's number is its position in the draft.
        let wanted = self.rest.get(site.node).copied();
        wanted.filter(|&token| dist.p(token) > 0.0).unwrap_or_else(|| dist.argmax())
    }

    fn race(&mut self, _position: usize, _lists: Range<usize>, dist: &Dist) -> Token {
        dist.argmax()
    }
}

//! Consistency checks of the raw rows: against the digests recorded when they were written,
//! and against each other.

use std::mem::replace;

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::core::distribution::Token;
use crate::measure::rows::{
    BLOCK_FILES, BeamRow, BlockDigest, BlockRow, GenerationRow, RoundRow, TextRow,
};
use crate::measure::statistics::{Rounds, looped_tokens};
use crate::method::beam::BeamSettings;
use crate::model::hex;
use crate::run::experiment::{Cell, Plan};

/// Times are whole nanoseconds, so a difference of less than half a nanosecond between two
/// sums is floating-point rounding.
const ROUNDING_US: f64 = 0.0005;

/// Describes every way in which the rows of a block are not those that `blocks.csv` lists;
/// empty if there is none.
pub(super) fn misfits(block: &BlockRow, found: &BlockDigest) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    if !block.is_sealed()? {
        wrong.push("its row in blocks.csv is not the one that was written".to_owned());
    }
    let counted = block.counts();
    let counts = counted.into_iter().zip(found.counts);
    let listed = block.digests.split('-').collect::<Vec<_>>();
    let have = found.digests();
    let digests = listed.iter().zip(&have);
    for ((name, (wanted, have)), (written, found)) in
        BLOCK_FILES.into_iter().zip(counts).zip(digests)
    {
        if wanted != have {
            wrong.push(format!("{name} has {have} of its {wanted} rows"));
        } else if written != found {
            wrong.push(format!("its rows in {name} are not those that were written"));
        }
    }
    // The last file is optional, and so is its digest.
    let at = counted.len();
    if listed.get(at) != have.get(at).map(String::as_str).as_ref() {
        wrong.push(format!("its rows in {} are not those that were written", BLOCK_FILES[at]));
    }
    Ok(wrong)
}

/// Compares the rows of a generation while they are read.
#[derive(Debug, Default)]
pub(super) struct GenerationCheck {
    rounds: Box<Rounds>,
    /// The context length at which the next round should begin.
    next: usize,
    emitted: usize,
    draft_forwards: usize,
    /// What is wrong with the rounds alone.
    misnumbered: bool,
    apart: bool,
    huge: bool,
    unsound: bool,
    /// Whether rounds of another generation came after its own.
    paused: bool,
    /// The number of tokens of its completion, and the hash of its text.
    text: Option<(usize, [u8; 32])>,
    /// How many of its tokens lie behind the first one that ends a text.
    pub(super) behind_end: usize,
    /// How many of its tokens lie in repetition loops.
    pub(super) looped: usize,
    /// Which of its tokens the target thinks with: from, and to before.
    pub(super) thinking: Option<[usize; 2]>,
    /// What was written of the beam search that found it.
    beam: Option<Box<BeamRow>>,
}

impl GenerationCheck {
    pub(super) fn round(&mut self, row: &RoundRow) {
        self.misnumbered |= row.round != self.rounds.len() as u64;
        self.apart |= !self.rounds.is_empty() && row.context_tokens != self.next;
        self.unsound |= !is_sound(row);
        self.huge |= !self.rounds.add(row);
        self.next = row.context_tokens.saturating_add(row.emitted);
        self.emitted = self.emitted.saturating_add(row.emitted);
        self.draft_forwards = self.draft_forwards.saturating_add(row.draft_forwards);
    }

    /// Gives back memory that was set aside for further rounds. Only once: rows of a damaged
    /// file may alternate between generations, and each time would copy all rounds.
    pub(super) fn pause(&mut self) {
        if !replace(&mut self.paused, true) {
            self.rounds.end();
        }
    }

    pub(super) fn text(&mut self, row: &TextRow, eos: &[Token]) {
        self.text = Some((row.tokens.len(), Sha256::digest(&row.text).into()));
        let end = row.tokens.iter().position(|token| eos.contains(token));
        self.behind_end = end.map_or(0, |end| row.tokens.len() - end - 1);
        self.looped = looped_tokens(&row.tokens);
        self.thinking = row.thinking;
        self.beam = row.beam.map(Box::new);
    }

    /// The first inconsistency, given the cell and the row of the generation.
    pub(super) fn misfit(
        &self,
        plan: &Plan,
        cell: &Cell,
        generation: &GenerationRow,
    ) -> Option<&'static str> {
        let new_tokens = generation.new_tokens;
        let how = match cell.beam {
            Some(settings) => self.misfit_of_beams(&settings, generation),
            None => self.misfit_of_rounds(generation),
        };
        let checks = [
            (generation.seed == plan.seed, "its seed is not the plan's"),
            (
                self.text.is_some_and(|(tokens, _)| tokens == new_tokens),
                "its completion does not have new_tokens tokens",
            ),
            (
                self.text.is_some_and(|(_, hash)| hex(&hash) == generation.text_sha256),
                "its text has another hash",
            ),
        ];
        how.or_else(|| first_wrong(checks))
    }

    /// Of a generation token by token.
    fn misfit_of_rounds(&self, generation: &GenerationRow) -> Option<&'static str> {
        let late = (self.rounds.times.total() - generation.decode_us).abs();
        let begins = self.rounds.is_empty() || self.rounds.begin == generation.prompt_tokens;
        first_wrong([
            (self.beam.is_none(), "it has the score of a beam search"),
            (!self.huge, "a round has more tokens than any draft"),
            (!self.misnumbered, "its rounds are not numbered from 0"),
            (begins && !self.apart, "its rounds do not follow each other"),
            (!self.unsound, "a round accepts more tokens than it drafts"),
            (self.emitted == generation.new_tokens, "emitted does not sum to new_tokens"),
            (
                self.rounds.len() == generation.target_forwards,
                "target_forwards is not the number of its rounds",
            ),
            (self.draft_forwards == generation.draft_forwards, "draft_forwards is not the sum"),
            (late < ROUNDING_US, "the times of its rounds do not sum to decode_us"),
        ])
    }

    /// Of a beam search, which has no rounds.
    fn misfit_of_beams(
        &self,
        settings: &BeamSettings,
        generation: &GenerationRow,
    ) -> Option<&'static str> {
        let Some(beam) = &self.beam else { return Some("it has no score of its beam search") };
        let score = settings.score(beam.log_prob, generation.new_tokens);
        first_wrong([
            (self.rounds.is_empty() && !self.huge, "a beam search has rounds"),
            (score == beam.score, "its score does not follow from log_prob"),
            (beam.steps >= generation.new_tokens, "its completion has more tokens than steps"),
            (beam.rows >= generation.target_forwards, "it made more passes than it needed rows"),
        ])
    }

    /// The rounds, all of which were added, and what was written of the beam search.
    pub(super) fn end(mut self) -> (Box<Rounds>, Option<Box<BeamRow>>) {
        self.rounds.end();
        (self.rounds, self.beam)
    }
}

/// What the first check says that does not hold.
fn first_wrong<const N: usize>(checks: [(bool, &'static str); N]) -> Option<&'static str> {
    checks.into_iter().find(|(fits, _)| !fits).map(|(_, what)| what)
}

/// Whether the counts and times of a round are possible.
fn is_sound(round: &RoundRow) -> bool {
    let times = [round.draft_us, round.target_us, round.verify_us, round.other_us];
    round.raw() <= round.depth
        && round.depth <= round.proposed
        && round.reached <= round.proposed
        && round.emitted >= 1
        && round.truncated == (round.emitted < round.raw() + 1)
        && round.accepted_raw.is_none_or(|raw| round.accepted == raw.min(round.emitted))
        && times.into_iter().all(|us| us >= 0.0 && us.is_finite())
}

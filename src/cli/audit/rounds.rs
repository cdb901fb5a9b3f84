//! The reported rounds of sequences.

use anyhow::{Result, bail};

use crate::audit::{ReportedCounts, ReportedRound, RoundShape, RoundVerdict};
use crate::cli::loss_place;
use crate::io::shown::{count, e_value};
use crate::tapes::recording::ExternalSequences;

/// The rounds of sequences.
#[derive(Debug)]
pub(super) struct ReportedRounds {
    /// Those of each sequence, if it reports them and their shape is known.
    pub(super) rounds: Vec<Option<Vec<ReportedRound>>>,
    /// How rounds produce tokens.
    pub(super) shape: Option<RoundShape>,
    /// Whether every sequence that reports rounds reports how many tokens they draft; `None` if no
    /// sequence reports any.
    drafted: Option<bool>,
}

impl ReportedRounds {
    /// The rounds of sequences; each drafts `k` tokens where it reports no number.
    ///
    /// # Errors
    /// If a round accepts more than K tokens.
    pub(super) fn of(sequences: &ExternalSequences, k: Option<usize>) -> Result<Self> {
        let counts =
            sequences.tape.sequences.iter().zip(&sequences.reports).map(|(sequence, report)| {
                let accepted = report.accepted.as_deref()?;
                let (drafted, tokens) = (report.drafted.as_deref(), sequence.tokens.len());
                Some(ReportedCounts { accepted, drafted, tokens })
            });
        let all = counts.clone().flatten();
        let mut drafted = all.clone().next().map(|_| true);
        for sequence in all.clone().filter(|sequence| sequence.drafted.is_none()) {
            drafted = Some(false);
            let most = sequence.accepted.iter().copied().max().unwrap_or(0);
            if let Some(k) = k.filter(|k| most > *k) {
                bail!("a round accepts {most} tokens: --num-speculative-tokens is {k}");
            }
        }
        let shape = RoundShape::of(all, k);
        let rounds = counts.map(|sequence| Some(shape?.rounds(sequence?, k)));
        Ok(Self { rounds: rounds.collect(), shape, drafted })
    }

    /// How rounds produce tokens, or why they are not audited; `None` if no sequence reports any.
    pub(super) fn in_words(&self, k: Option<usize>, with_draft: bool) -> Option<&'static str> {
        let drafted = self.drafted?;
        Some(match self.shape {
            _ if !drafted && k.is_none() => {
                "not audited, since neither \"drafted\" nor a single --num-speculative-tokens says \
                 how many tokens they draft"
            }
            None => "not audited, since their counts do not show which tokens they produced",
            _ if !with_draft => "not audited, since that needs the draft model (--draft)",
            Some(RoundShape { bonus: false, .. }) => {
                "no token of the target follows a fully accepted draft: the bonus token is missing"
            }
            Some(RoundShape { prompt_gives_one: true, .. }) => {
                "the prompt's pass gives the first token, each round one more than it accepts"
            }
            Some(_) => "each gives one token more than it accepts",
        })
    }
}

/// What rounds show, in words.
pub(super) fn rounds_in_words(found: &RoundVerdict, level: f64) -> String {
    let reached = found.positions.iter().map(|at| at.reached).sum();
    let accepted = found.positions.iter().map(|at| at.accepted).sum::<usize>();
    let expected = found.positions.iter().map(|at| at.expected).sum::<f64>();
    let differs = match found.log10_e >= -level.log10() {
        false => "no difference is shown",
        true if found.log10_e_fewer > found.log10_e_more => "these accept fewer",
        true => "these accept more",
    };
    let place = match (found.place, &found.changes) {
        (Some(place), Some(changes)) if found.log10_e >= -level.log10() => {
            loss_place::lines(place, changes).map(|line| format!("\n{line}")).concat()
        }
        _ => String::new(),
    };
    format!(
        "{}: {accepted} of {} are accepted, {expected:.1} on average by {} with this draft: {}, \
         {differs}{place}",
        count(found.rounds, "round"),
        count(reached, "drafted token"),
        found.rule,
        e_value(found.log10_e)
    )
}

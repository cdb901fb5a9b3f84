//! Copies what followed the first occurrence of the longest repeated suffix, found by a suffix
//! automaton that grows with the sequence.
//!
//! Every token costs amortised constant time, for any length of the sequence.

use std::collections::BTreeMap;

use super::{BuildDrafter, Drafter, PassDesk, Pausing, Round};
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::params::Param;
use crate::core::registry::Entry;
use crate::core::tree::{Draft, DraftShape};

const LEAST: Param =
    Param::count("suffix_min", 2, 1..=1024, "shortest repeated suffix that is continued");

pub(super) const ENTRY: Entry<BuildDrafter> = Entry {
    name: "suffix_automaton",
    aliases: &["sam", "suffix"],
    params: &[LEAST],
    summary: "copies what followed the first occurrence of the longest repeated suffix",
    paper: "Hu et al. 2024, SAM-Decoding, arXiv 2411.10666; Blumer et al. 1985",
    build: BuildDrafter {
        needs_model: false,
        shape: |_| Ok(DraftShape::CERTAIN),
        make: |params| {
            let least = params.params.count(&LEAST);
            Ok(Box::new(SuffixAutomaton { least, automaton: Automaton::default() }))
        },
    },
};

#[derive(Debug, Clone)]
struct SuffixAutomaton {
    least: usize,
    automaton: Automaton,
}

impl SuffixAutomaton {
    fn read(&mut self, sequence: &[Token]) {
        for &token in &sequence[self.automaton.read..] {
            self.automaton.push(token);
        }
    }
}

impl<'a> Drafter<'a> for SuffixAutomaton {
    fn prefill(&mut self, desk: &PassDesk<'a, '_>, _clock: &dyn Clock) -> Result<(), Error> {
        self.read(desk.context());
        Ok(())
    }

    fn propose<'f>(&'f mut self, round: &'f mut Round<'a, '_>) -> Pausing<'f> {
        Box::pin(async move {
            self.read(round.context);
            let mut draft = Draft::empty(round.vocab);
            if let Some(suffix) = self.automaton.repeated().filter(|s| s.longest >= self.least) {
                round.copy_from(suffix.end + 1, &mut draft);
            }
            Ok(draft)
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Drafter<'a> + 'a>, Error> {
        Ok(Box::new(self.clone()))
    }
}

/// A suffix automaton of the sequence read so far.
#[derive(Debug, Clone)]
struct Automaton {
    states: Vec<AutomatonState>,
    /// The state of the whole sequence.
    last: usize,
    /// Number of tokens read.
    read: usize,
}

/// A set of substrings with the same occurrences.
#[derive(Debug, Clone, Default)]
struct AutomatonState {
    /// Length of the longest of them.
    longest: usize,
    /// The state of the longest suffix with more occurrences; `None` for the empty
    /// string.
    link: Option<usize>,
    next: BTreeMap<Token, usize>,
    /// The end of its first occurrence.
    end: usize,
}

impl Default for Automaton {
    fn default() -> Self {
        Self { states: vec![AutomatonState::default()], last: 0, read: 0 }
    }
}

impl Automaton {
    /// The longest suffix of the sequence that also occurred earlier. The whole sequence occurs
    /// once, so this is the longest suffix with more occurrences.
    fn repeated(&self) -> Option<&AutomatonState> {
        self.states[self.last].link.map(|link| &self.states[link])
    }

    fn push(&mut self, token: Token) {
        let new = self.states.len();
        let longest = self.states[self.last].longest + 1;
        self.states.push(AutomatonState { longest, end: self.read, ..AutomatonState::default() });
        let mut at = Some(self.last);
        while let Some(state) = at.filter(|&s| !self.states[s].next.contains_key(&token)) {
            self.states[state].next.insert(token, new);
            at = self.states[state].link;
        }
        let link = match at {
            None => 0,
            Some(state) => {
                let next = self.states[state].next[&token];
                if self.states[next].longest == self.states[state].longest + 1 {
                    next
                } else {
                    self.split(state, next, token)
                }
            }
        };
        self.states[new].link = Some(link);
        self.last = new;
        self.read += 1;
    }

    /// Moves the shorter substrings of `next` to a new state.
    fn split(&mut self, state: usize, next: usize, token: Token) -> usize {
        let own = self.states.len();
        let longest = self.states[state].longest + 1;
        self.states.push(AutomatonState { longest, ..self.states[next].clone() });
        self.states[next].link = Some(own);
        let mut at = Some(state);
        while let Some(s) = at.filter(|&s| self.states[s].next.get(&token) == Some(&next)) {
            self.states[s].next.insert(token, own);
            at = self.states[s].link;
        }
        own
    }
}

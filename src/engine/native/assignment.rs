//! Which experts compute which rows.

use std::ops::Range;

use crate::engine::decoder::Choice;

/// Which rows the experts of a layer compute in a pass. Rows have places, expert by expert.
#[derive(Debug)]
pub(super) struct Assignment {
    /// The experts that some row needs, ascending, with their places.
    pub experts: Vec<(usize, Range<usize>)>,
    /// The row of each place.
    pub rows: Vec<usize>,
    /// The place of each choice; a row's choices are next to each other.
    pub places: Vec<usize>,
}

impl Assignment {
    /// From the choices of all rows, `used` of each.
    pub(super) fn new(choices: &[Choice], used: usize) -> Self {
        let mut order = (0..choices.len()).collect::<Vec<_>>();
        // Rows of an expert stay in their order.
        order.sort_by_key(|&choice| choices[choice].expert);
        let mut found =
            Self { experts: Vec::new(), rows: Vec::new(), places: vec![0; order.len()] };
        for (place, choice) in order.into_iter().enumerate() {
            found.rows.push(choice / used);
            found.places[choice] = place;
            let expert = choices[choice].expert as usize;
            match found.experts.last_mut().filter(|(last, _)| *last == expert) {
                Some((_, places)) => places.end += 1,
                None => found.experts.push((expert, place..place + 1)),
            }
        }
        found
    }

    /// Number of experts that some row needs.
    pub(super) fn distinct(&self) -> usize {
        self.experts.len()
    }

    /// The expert that has a place, and its places.
    pub(super) fn of(&self, place: usize) -> (usize, Range<usize>) {
        let after = self.experts.partition_point(|(_, places)| places.start <= place);
        self.experts[after - 1].clone()
    }
}

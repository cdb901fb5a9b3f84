//! Where acceptance is lower, in words.

use crate::measure::statistics::Z;
use crate::tapes::tape::{LossPlace, ShareChange, ShareChanges};

/// Lines on the place of a loss: the evidence, what looks like it in a head, and what else does.
pub(super) fn lines(place: LossPlace, changes: &ShareChanges) -> [String; 3] {
    let ShareChanges { first, later, early, late } = *changes;
    let shown =
        |ShareChange { change, error }: ShareChange| format!("{change:+.3} ± {:.3}", Z * error);
    [
        format!(
            "Fewer drafted tokens are accepted {}: {} at the first token of drafts, {} at later ones; \
             {} in the first eighth of completions, {} in the second half",
            place.place(),
            shown(first),
            shown(later),
            shown(early),
            shown(late)
        ),
        format!("In a head this is the shape of {}", place.in_heads()),
        format!("What else looks like this: {}", place.elsewhere()),
    ]
}

//! Mistakes in how a head is computed, which a setting asks for.

use super::HeadShape;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::Feedback;
use crate::engine::decoder::{Drafting, FusedNorms, HeadConfig, HeadInput};
use crate::model::{Features, HeadFault};

/// Makes a head wrong. The target has `layers` layers.
///
/// # Errors
/// If the mistake would change nothing.
pub(super) fn spoil(fault: HeadFault, layers: usize, heads: &mut [HeadShape]) -> Result<(), Error> {
    let several = heads.len() > 1;
    // Of several heads, each with one position, the first one alone reads the target.
    let first = heads.first_mut().filter(|_| !several || of_features(fault));
    let Some(HeadShape { config, .. }) = first else { return Err(changes_nothing(fault)) };
    if !acts(fault, &config.drafting) || !computes_wrongly(fault, config) {
        return Err(changes_nothing(fault));
    }
    config.features = features(fault, layers, &config.features)?;
    Ok(())
}

/// The features of Medusa's heads with a mistake.
///
/// # Errors
/// If the mistake would change nothing.
pub(super) fn spoil_medusa(
    fault: HeadFault,
    layers: usize,
    own: &mut Features,
) -> Result<(), Error> {
    // Their rows read no other rows.
    if !of_features(fault) || fault == HeadFault::PromptFeaturesMissing {
        return Err(changes_nothing(fault));
    }
    *own = features(fault, layers, own)?;
    Ok(())
}

fn features(fault: HeadFault, layers: usize, own: &Features) -> Result<Features, Error> {
    let wrong = own.clone().with_fault(fault, layers)?;
    let reversed = fault == HeadFault::TapsReversed;
    if reversed && wrong.taps == own.taps { Err(changes_nothing(fault)) } else { Ok(wrong) }
}

/// Whether the mistake is in what a head reads of the target.
fn of_features(fault: HeadFault) -> bool {
    use HeadFault::{FeatureStale, PromptFeaturesMissing, TapEarly, TapLate, TapsReversed};
    matches!(fault, TapEarly | TapLate | TapsReversed | FeatureStale | PromptFeaturesMissing)
}

/// Whether the mistake is in something that a head does which drafts like this.
fn acts(fault: HeadFault, drafting: &Drafting) -> bool {
    use HeadFault::{DraftPositionsLate, DraftRowsKept, FeedbackSwitched, RejectedRowsKept};
    // Heads that draft in one pass drop its rows, and continue from no state of their own.
    let of_rows = matches!(fault, DraftRowsKept | FeedbackSwitched | RejectedRowsKept);
    match drafting {
        Drafting::Stepwise => true,
        Drafting::Masked { .. } => !of_rows && fault != DraftPositionsLate,
        Drafting::Block(_) => !of_rows,
    }
}

fn changes_nothing(fault: HeadFault) -> Error {
    Error::setting(format!("fault = {}: it would change nothing in this head", fault.name()))
}

/// Makes the mistake in what a head computes; `false` if it has no such part.
fn computes_wrongly(fault: HeadFault, config: &mut HeadConfig) -> bool {
    match fault {
        HeadFault::InputsSwapped => match &mut config.input {
            HeadInput::Joined { state_first, .. } => *state_first = !*state_first,
            HeadInput::SideBySide { .. } => {}
            HeadInput::Added { .. } | HeadInput::Context => return false,
        },
        HeadFault::ResidualSwitched => match &mut config.input {
            HeadInput::SideBySide { normed_residual, .. } => *normed_residual = !*normed_residual,
            _ => return false,
        },
        HeadFault::FeatureNormsMissing => match &mut config.input {
            HeadInput::Context => {}
            HeadInput::Joined { .. } => return false,
            HeadInput::SideBySide { fused, .. } | HeadInput::Added { fused } => {
                return std::mem::replace(fused, FusedNorms::None) != FusedNorms::None;
            }
        },
        HeadFault::InputNormsMissing => match config.input {
            HeadInput::SideBySide { .. } => {}
            HeadInput::Joined { normed, .. } => return normed,
            HeadInput::Added { .. } | HeadInput::Context => return false,
        },
        HeadFault::FeedbackSwitched => {
            config.feedback = match config.feedback {
                Feedback::Plain => Feedback::Normed,
                Feedback::Normed => Feedback::Plain,
            };
            return config.last_norm && !matches!(config.input, HeadInput::Added { .. });
        }
        HeadFault::DraftIdsIgnored | HeadFault::DraftIdsAbsolute => {
            return misread(fault, config.ids.as_deref_mut());
        }
        _ => {}
    }
    true
}

/// Reads the table of a reduced vocabulary wrongly.
fn misread(fault: HeadFault, ids: Option<&mut [Token]>) -> bool {
    let Some(ids) = ids else { return false };
    for (at, id) in ids.iter_mut().enumerate() {
        let own = at as Token;
        *id = if fault == HeadFault::DraftIdsIgnored { own } else { id.saturating_sub(own) };
    }
    true
}

//! Wrong heads. None of these mistakes shows in the output, which stays exact: only acceptance falls.
//! `docs/heads.md` shows how to run a head with one, and what finds them.

use super::{BUG, Bug};
use crate::model::HeadFault;

const fn wrong(fault: HeadFault) -> Bug {
    Bug { head: Some(fault), ..BUG }
}

pub(super) const BUGS: &[Bug] = &[
    Bug {
        name: "tap_early",
        summary: "a head reads each hidden state of the target one layer early",
        seen: "vLLM #43671, SGLang #32334",
        ..wrong(HeadFault::TapEarly)
    },
    Bug {
        name: "tap_late",
        summary: "a head reads each hidden state of the target one layer late",
        seen: "SGLang #25454",
        ..wrong(HeadFault::TapLate)
    },
    Bug {
        name: "taps_reversed",
        summary: "a head reads the hidden states of the target in reverse order",
        ..wrong(HeadFault::TapsReversed)
    },
    Bug {
        name: "feature_stale",
        summary: "the first row of a draft reads the hidden states of the token before its own",
        ..wrong(HeadFault::FeatureStale)
    },
    Bug {
        name: "prompt_features_missing",
        summary: "a head's rows of the prompt have zeros for hidden states",
        ..wrong(HeadFault::PromptFeaturesMissing)
    },
    Bug {
        name: "token_early",
        summary: "a head's rows have the embedding of the token whose hidden states they read",
        ..wrong(HeadFault::TokenEarly)
    },
    Bug {
        name: "draft_positions_late",
        summary: "a head's rows of drafted tokens, and no others, are one position late",
        ..wrong(HeadFault::DraftPositionsLate)
    },
    Bug {
        name: "draft_rows_kept",
        summary: "a head keeps the rows of accepted tokens that it computed from its own states",
        ..wrong(HeadFault::DraftRowsKept)
    },
    Bug {
        name: "rejected_rows_kept",
        summary: "a head keeps the row of a rejected token in the place of the one that came instead",
        ..wrong(HeadFault::RejectedRowsKept)
    },
    Bug {
        name: "inputs_swapped",
        summary: "a head reads the hidden state where it should read the embedding, and vice versa",
        ..wrong(HeadFault::InputsSwapped)
    },
    Bug {
        name: "residual_switched",
        summary: "the normalised state goes past a head's attention instead of the state, or vice versa",
        ..wrong(HeadFault::ResidualSwitched)
    },
    Bug {
        name: "feedback_switched",
        summary: "a head continues from its state before the last norm instead of after, or vice versa",
        seen: "vLLM #45895 and #47448",
        ..wrong(HeadFault::FeedbackSwitched)
    },
    Bug {
        name: "input_norms_missing",
        summary: "a head's embedding and state are not normalised",
        ..wrong(HeadFault::InputNormsMissing)
    },
    Bug {
        name: "feature_norms_missing",
        summary: "the hidden states of the target are not normalised before a head fuses them",
        ..wrong(HeadFault::FeatureNormsMissing)
    },
    Bug {
        name: "draft_ids_ignored",
        summary: "the tokens of a head's reduced vocabulary count as the target's first ones",
        seen: "NeMo Automodel #2447",
        ..wrong(HeadFault::DraftIdsIgnored)
    },
    Bug {
        name: "draft_ids_absolute",
        summary: "the offsets of a head's reduced vocabulary are read as ids",
        ..wrong(HeadFault::DraftIdsAbsolute)
    },
];

//! The odds that the tokens of drafts are accepted.

use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::method::decode::MethodSpec;
use crate::method::draft::Tools;
use crate::tapes::tape::{TapeSequence, TokenOdds, draft_starts};

/// The odds of the tokens of a completion.
#[derive(Debug, Clone)]
pub enum DraftedOdds {
    /// By token: the q of a draft model depends on the context alone.
    ByToken(Vec<TokenOdds>),
    /// By the token at which a draft begins, as far as its tokens can be drafted: the q of a head
    /// also depends on that.
    ByStart(Vec<Vec<TokenOdds>>),
}

/// A head of an audited decoder.
#[derive(Debug)]
pub struct AuditedHead<'m> {
    /// The drafts: their sampling settings, and at least as many tokens as those of the decoder.
    pub spec: MethodSpec,
    /// The head and its target.
    pub tools: Tools<'m>,
}

/// A token that a draft cannot have.
const NEVER: TokenOdds = TokenOdds { q: 0.0, ratio: 0.0, race: None };

impl DraftedOdds {
    /// The number of tokens of the completion.
    pub(super) fn tokens(&self) -> usize {
        match self {
            Self::ByToken(odds) => odds.len(),
            Self::ByStart(starts) => starts.len(),
        }
    }

    /// Those of a draft of `drafted` tokens that begins at token `begin`; `None` if the completion
    /// ends before such a draft does.
    pub(super) fn of_draft(&self, begin: usize, drafted: usize) -> Option<Vec<TokenOdds>> {
        if begin + drafted >= self.tokens() {
            return None;
        }
        Some(match self {
            Self::ByToken(odds) => odds[begin..begin + drafted].to_vec(),
            Self::ByStart(starts) => {
                let mut odds = starts[begin].clone();
                odds.resize(drafted, NEVER);
                odds
            }
        })
    }
}

impl AuditedHead<'_> {
    /// The odds of a sequence whose tokens have these log p.
    pub(super) fn odds(
        &self,
        sequence: &TapeSequence,
        log_p: &[f64],
    ) -> Result<DraftedOdds, Error> {
        let Self { spec, tools } = self;
        let vocab = tools.draft.map_or(0, |head| head.info().vocab);
        // Drafts of other programs do not end with the tokens that end completions.
        let ends: &[Token] = &[];
        let most = spec.num_speculative_tokens;
        let method = spec.build_with(*tools)?;
        let score = draft_starts(method, tools.target, (vocab, ends), sequence, most, None)?;
        let each = score.starts.iter().flatten().enumerate().map(|(start, draft)| {
            let logs = draft.log_q.iter().zip(&log_p[start..]);
            logs.map(|(&log_q, &log_p)| TokenOdds::of_logs(log_p, log_q)).collect()
        });
        Ok(DraftedOdds::ByStart(each.collect()))
    }
}

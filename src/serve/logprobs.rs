//! The bytes and names of tokens, and their log-probabilities in a row.

use super::job::{NamedLogprob, TokenLogprobs};
use crate::core::distribution::{Dist, Token};
use crate::core::error::Error;
use crate::core::sampling::{Logits, log_mass};
use crate::model::{Codec, Spelling};

/// JSON has no infinity; OpenAI's protocol writes this for a token that is not possible.
const IMPOSSIBLE: f64 = -9999.0;

/// The bytes and names of the tokens of a vocabulary.
#[derive(Debug)]
pub(super) struct TokenSpellings {
    spellings: Vec<Option<Spelling>>,
}

impl TokenSpellings {
    /// Those of a codec. A tokenizer without spellings of its tokens decodes each of them alone.
    pub(super) fn new(codec: &dyn Codec, vocab: usize) -> Result<Self, Error> {
        if let Ok(spellings) = codec.spellings() {
            return Ok(Self { spellings });
        }
        let decoded = |token| {
            Ok(Some(Spelling::Text(codec.decode(std::slice::from_ref(&token))?.into_bytes())))
        };
        Ok(Self { spellings: (0..vocab as Token).map(decoded).collect::<Result<_, Error>>()? })
    }

    pub(super) fn named(&self, token: Token, logprob: f64) -> NamedLogprob {
        let spelling = self.spellings.get(token as usize).and_then(Option::as_ref);
        let bytes = spelling.map_or(Vec::new(), |spelling| spelling.bytes().to_vec());
        let name = match spelling {
            Some(Spelling::Control(name)) => name.clone(),
            _ => String::from_utf8_lossy(&bytes).into_owned(),
        };
        let logprob = if logprob.is_finite() { logprob } else { IMPOSSIBLE };
        NamedLogprob { token, bytes, name, logprob }
    }

    /// A token in a row, and the `most` most probable tokens of the row.
    pub(super) fn logprobs(
        &self,
        row: &LogprobRow<'_>,
        token: Token,
        most: usize,
    ) -> TokenLogprobs {
        let own = row.logprob(token);
        let all = (0..row.vocab() as Token).map(|token| (token, row.logprob(token)));
        let rank = 1 + all.clone().filter(|(_, other)| *other > own).count();
        let order = |a: &(Token, f64), b: &(Token, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let mut top = if most == 0 { Vec::new() } else { all.collect::<Vec<_>>() };
        if most < top.len() {
            top.select_nth_unstable_by(most, order);
            top.truncate(most);
        }
        top.sort_unstable_by(order);
        let top = top.into_iter().map(|(token, logprob)| self.named(token, logprob)).collect();
        TokenLogprobs { own: self.named(token, own), rank, top }
    }
}

/// A row whose log-probabilities are reported.
#[derive(Debug)]
pub(super) enum LogprobRow<'r> {
    /// Logits, and the logarithm of the mass of all.
    Raw(&'r Logits, f64),
    /// A distribution.
    Processed(&'r Dist),
}

impl<'r> LogprobRow<'r> {
    /// The distribution before all processors.
    pub(super) fn raw(logits: &'r Logits) -> Result<Self, Error> {
        let mass = log_mass(logits).map_err(Error::distribution("the target"))?;
        Ok(Self::Raw(logits, mass))
    }

    fn vocab(&self) -> usize {
        match self {
            Self::Raw(logits, _) => logits.len(),
            Self::Processed(distribution) => distribution.vocab(),
        }
    }

    fn logprob(&self, token: Token) -> f64 {
        match self {
            Self::Raw(logits, mass) => logits.get(token) - mass,
            Self::Processed(distribution) => distribution.p(token).ln(),
        }
    }
}

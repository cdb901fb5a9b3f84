//! The tokens that two vocabularies share.

use std::collections::HashMap;

use crate::core::distribution::Token;
use crate::core::sampling::Logits;
use crate::core::tree::Draft;
use crate::model::Spelling;

/// The tokens of a target that a draft model has, too: those that stand for the same
/// bytes, and control tokens of the same name. Each belongs to one token of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedVocabulary {
    /// By the target's id, the draft model's.
    own: Vec<Option<Token>>,
}

impl SharedVocabulary {
    /// The shared tokens of a target and a draft model, whose spellings are given by id.
    /// Where several tokens of a vocabulary have the same bytes, the first counts, and
    /// one that is made of text before one for a single byte.
    pub fn new(target: &[Option<Spelling>], draft: &[Option<Spelling>]) -> Self {
        let known = by_spelling(draft);
        let mut own = vec![None; target.len()];
        for (spelling, token) in by_spelling(target) {
            own[token as usize] = known.get(&spelling).copied();
        }
        Self { own }
    }

    /// The shared tokens of a target and a draft model of which one's numbers continue the
    /// other's: those that are equal under the same number. Control tokens may differ.
    ///
    /// # Errors
    /// The first number at which other tokens differ.
    pub fn prefix(target: &[Option<Spelling>], draft: &[Option<Spelling>]) -> Result<Self, Token> {
        let text =
            |spelling: &Option<Spelling>| !matches!(spelling, None | Some(Spelling::Control(_)));
        let mut own = vec![None; target.len()];
        for (token, (one, other)) in (0..).zip(target.iter().zip(draft)) {
            if one == other {
                own[token as usize] = one.as_ref().map(|_| token);
            } else if text(one) && text(other) {
                return Err(token);
            }
        }
        Ok(Self { own })
    }

    /// A map that no pair of vocabularies gives, for known-wrong methods.
    pub(crate) fn forge(own: Vec<Option<Token>>) -> Self {
        Self { own }
    }

    /// Number of tokens of the target.
    pub fn vocab(&self) -> usize {
        self.own.len()
    }

    /// Number of shared tokens.
    pub fn len(&self) -> usize {
        self.pairs().count()
    }

    /// Whether no token is shared.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The draft model's id of a token of the target, if it is shared.
    pub fn own(&self, token: Token) -> Option<Token> {
        self.own.get(token as usize).copied().flatten()
    }

    /// The shared tokens, each by the target's id and the draft model's.
    pub fn pairs(&self) -> impl Iterator<Item = (Token, Token)> + '_ {
        (0..).zip(&self.own).filter_map(|(token, own)| Some((token, (*own)?)))
    }

    /// A row of the draft model in the target's ids: tokens that are not shared are
    /// impossible. If the draft model excludes all shared ones, they are equally likely.
    pub(super) fn row(&self, logits: &Logits) -> Logits {
        let possible = |&(_, own): &(Token, Token)| logits.get(own) != f64::NEG_INFINITY;
        let excluded = !self.pairs().any(|pair| possible(&pair));
        match logits {
            _ if excluded => Logits::F64(self.spread(|_| 0.0, f64::NEG_INFINITY)),
            Logits::F32(x) => Logits::F32(self.spread(|own| x[own as usize], f32::NEG_INFINITY)),
            Logits::F64(x) => Logits::F64(self.spread(|own| x[own as usize], f64::NEG_INFINITY)),
        }
    }

    fn spread<N: Copy>(&self, value: impl Fn(Token) -> N, impossible: N) -> Vec<N> {
        let mut row = vec![impossible; self.own.len()];
        for (token, own) in self.pairs() {
            row[token as usize] = value(own);
        }
        row
    }

    /// A draft in the draft model's ids, after a context of `start` tokens in its vocabulary
    /// of `vocab`. Drafters that guess what the model will draw may name a token that it
    /// lacks. As it cannot be drawn, nothing below it is used, and `filler` may stand for it.
    pub(super) fn draft(
        &self,
        draft: &Draft,
        (start, vocab): (usize, usize),
        filler: Token,
    ) -> Draft {
        draft.renumbered((start, vocab), |token| self.own(token).unwrap_or(filler))
    }
}

/// The tokens by what they stand for.
fn by_spelling(spellings: &[Option<Spelling>]) -> HashMap<SharedKey<'_>, Token> {
    let mut tokens = HashMap::with_capacity(spellings.len());
    let all = || (0..).zip(spellings).filter_map(|(token, s)| Some((token, s.as_ref()?)));
    let (bytes, rest): (Vec<_>, Vec<_>) = all().partition(|(_, s)| matches!(s, Spelling::Byte(_)));
    for (token, spelling) in rest.into_iter().chain(bytes) {
        let key = match spelling {
            Spelling::Control(name) => SharedKey::Control(name),
            text => SharedKey::Text(text.bytes()),
        };
        tokens.entry(key).or_insert(token);
    }
    tokens
}

/// What two tokens must agree in to be shared.
#[derive(Debug, PartialEq, Eq, Hash)]
enum SharedKey<'s> {
    Text(&'s [u8]),
    Control(&'s str),
}

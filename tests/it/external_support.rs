//! Verifiers as users would write them, correct and wrong.

use specdec::Error;
use specdec::proof::external::{ExternalChance, ExternalRound};

/// The result of a verifier.
pub(crate) type Tokens = Result<Vec<u32>, Error>;

/// Rejection sampling with its parts: acceptance by p and q of the token, weights of the
/// correction by the rows and the token, and the row that the bonus token comes from.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) accept: fn(f64, f64) -> f64,
    pub(crate) correction: fn(&[f64], &[f64], usize) -> Vec<f64>,
    pub(crate) bonus: fn(&ExternalRound) -> Vec<f64>,
}

/// As in Leviathan et al. 2023.
pub(crate) const RIGHT: Rule = Rule {
    accept: |p, q| p / q,
    correction: |p, q, _| p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect(),
    bonus: |round| round.p[round.draft.len()].clone(),
};

impl Rule {
    /// Decides with the caller's coins and draws.
    fn decide(
        &self,
        round: &ExternalRound,
        mut coin: impl FnMut(f64) -> Result<bool, Error>,
        draw: impl FnOnce(Vec<f64>) -> Result<usize, Error>,
    ) -> Tokens {
        for (i, &token) in round.draft.iter().enumerate() {
            let (p, q, at) = (&round.p[i], &round.q[i], token as usize);
            if !coin((self.accept)(p[at], q[at]))? {
                let mut weights = (self.correction)(p, q, at);
                if weights.iter().all(|&weight| weight == 0.0) {
                    weights.clone_from(p);
                }
                return Ok([&round.draft[..i], &[draw(weights)? as u32]].concat());
            }
        }
        Ok([&round.draft[..], &[draw((self.bonus)(round))? as u32]].concat())
    }

    /// The verifier that chooses.
    pub(crate) fn choosing(self) -> impl FnMut(&ExternalRound, &mut dyn ExternalChance) -> Tokens {
        move |round, chance| {
            // Two closures use it alternately.
            let chance = std::cell::RefCell::new(chance);
            let coin = |p: f64| {
                let p = p.min(1.0);
                Ok(p >= 1.0 || (p > 0.0 && chance.borrow_mut().choose(&[p, 1.0 - p])? == 0))
            };
            self.decide(round, coin, |weights| chance.borrow_mut().choose(&weights))
        }
    }

    /// The verifier that computes from uniform numbers.
    pub(crate) fn by_uniforms(
        self,
    ) -> impl FnMut(&ExternalRound, &mut dyn ExternalChance) -> Tokens {
        move |round, chance| {
            let chance = std::cell::RefCell::new(chance);
            let coin = |p: f64| Ok(chance.borrow_mut().uniform()? < p);
            let draw = |weights: Vec<f64>| {
                let total = weights.iter().sum::<f64>();
                let mut rest = chance.borrow_mut().uniform()? * total;
                let found = weights.iter().position(|weight| {
                    rest -= weight;
                    rest < 0.0
                });
                Ok(found.unwrap_or(weights.len() - 1))
            };
            self.decide(round, coin, draw)
        }
    }
}

/// The same in single precision.
pub(crate) fn in_f32(round: &ExternalRound, chance: &mut dyn ExternalChance) -> Tokens {
    let single = |rows: &[Vec<f64>]| {
        rows.iter().map(|row| row.iter().map(|&x| x as f32).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let (p, q) = (single(&round.p), single(&round.q));
    let double = |row: Vec<f32>| row.into_iter().map(f64::from).collect::<Vec<_>>();
    for (i, &token) in round.draft.iter().enumerate() {
        let ratio = (p[i][token as usize] / q[i][token as usize]).min(1.0);
        if chance.choose(&double(vec![ratio, 1.0 - ratio]))? == 1 {
            let residual = p[i].iter().zip(&q[i]).map(|(p, q)| (p - q).max(0.0));
            let residual = residual.collect::<Vec<_>>();
            let mass = residual.iter().sum::<f32>();
            let next = chance.choose(&double(residual.iter().map(|x| x / mass).collect()))?;
            return Ok([&round.draft[..i], &[next as u32]].concat());
        }
    }
    let next = chance.choose(&double(p[round.draft.len()].clone()))?;
    Ok([&round.draft[..], &[next as u32]].concat())
}

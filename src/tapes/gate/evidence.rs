//! Evidence that values lie above a bound, after any number of them.
//!
//! If a value is as likely to be x as −x, then 1 + tanh(λx) = e^{λx}/cosh(λx) has mean 1 for every
//! λ, and at most 1 if the values are symmetric around less than 0. So the product over values is a
//! non-negative supermartingale: it ever exceeds c with probability at most 1/c (Ville 1939; Ramdas,
//! Ruf, Larsson and Koolen 2020, arXiv 2009.03167; the bet is that of Efron 1969 for t-statistics).

/// λ is 1, 2, 4, … of which there are this many: differences of logarithms are 0.001 to 1.
const BETS: usize = 11;

/// The wealth of bets on values above 0, which is split over all λ.
#[derive(Debug, Clone, Default)]
pub(super) struct SignedWealth {
    logs: [f64; BETS],
    values: usize,
    /// The logarithm of the largest wealth so far, and after how many values it was reached.
    best: (f64, usize),
}

impl SignedWealth {
    /// Bets on a value.
    pub(super) fn bet(&mut self, x: f64) {
        self.values += 1;
        for (at, log) in self.logs.iter_mut().enumerate() {
            *log += (f64::from(1 << at) * x).tanh().ln_1p();
        }
        let most = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = self.logs.iter().map(|log| (log - most).exp()).sum::<f64>();
        let log = most + (sum / BETS as f64).ln();
        if log > self.best.0 {
            self.best = (log, self.values);
        }
    }

    /// log₁₀ of the largest wealth.
    pub(super) fn log10(&self) -> f64 {
        self.best.0 / std::f64::consts::LN_10
    }

    /// After how many values the wealth was largest.
    pub(super) fn at(&self) -> usize {
        self.best.1
    }
}

/// The smallest mean that `n` normal values with this standard deviation show with a probability of
/// 90 % at a level.
///
/// With the best λ the logarithm of the wealth grows by mean²/2 s² per value, with a standard
/// deviation of mean/s. It must reach ln(1/level), and the logarithm of what the split over λ costs:
/// the best one and its neighbours share [`BETS`] parts.
pub(super) fn smallest_mean(deviation: f64, n: usize, level: f64) -> f64 {
    const Z90: f64 = 1.281_551_565_544_600_4;
    let needed = (1.0 / level).ln() + (BETS as f64 / 2.0).ln();
    (Z90 + (Z90 * Z90 + 2.0 * needed).sqrt()) * deviation / (n as f64).sqrt()
}

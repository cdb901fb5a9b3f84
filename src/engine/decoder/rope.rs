//! Rotary position embedding in the rotate-half convention of Hugging Face
//! checkpoints (Su et al. 2021, arXiv 2104.09864).

use std::f64::consts::TAU;

/// How positions become angles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rope {
    /// Base of the geometric series of frequencies.
    pub theta: f64,
    /// Number of a head's entries that are rotated, the first ones; even.
    pub dims: usize,
    /// How the frequencies were changed for longer contexts.
    pub scaling: Scaling,
    /// Multiplies cosines and sines.
    pub amplitude: f64,
    /// The number of positions beyond which other frequencies would hold.
    pub positions: Option<usize>,
}

/// Changes of the frequencies for contexts longer than the trained one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scaling {
    /// None.
    Default,
    /// Every frequency divided by a factor (Chen et al. 2023, arXiv 2306.15595).
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3.1: the frequencies of long waves divided by a factor, those of short
    /// waves kept, with a smooth transition between (Grattafiori et al. 2024,
    /// arXiv 2407.21783).
    Llama3 {
        /// Divides the frequencies of long waves.
        factor: f64,
        /// Waves longer than original / this are long.
        low: f64,
        /// Waves shorter than original / this are short.
        high: f64,
        /// The context length before scaling.
        original: f64,
    },
    /// The first frequencies alone, divided by a factor; the other ones are 0, so their pairs of
    /// entries stay as they are (Barbero et al. 2024, arXiv 2410.06205; Gemma 4).
    Proportional {
        /// Number of frequencies that are not 0.
        kept: usize,
        /// Divides them.
        factor: f64,
    },
    /// YaRN: as Llama 3.1, with a transition that is linear in the number of the
    /// frequency (Peng et al. 2023, arXiv 2309.00071).
    Yarn {
        /// Divides the frequencies after the transition.
        factor: f64,
        /// Where the transition begins and ends, as numbers of frequencies.
        transition: [f64; 2],
    },
    /// Each frequency divided by a factor of its own (LongRoPE, Ding et al. 2024,
    /// arXiv 2402.13753).
    Each {
        /// One factor per frequency.
        factors: Vec<f64>,
    },
}

/// What a rotary embedding rotates by, in numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rotation {
    /// Radians per position, one for each pair of rotated entries.
    pub frequencies: Vec<f32>,
    /// Multiplies cosines and sines.
    pub amplitude: f32,
}

impl Rope {
    /// Rotation of whole heads by the frequencies of a base.
    pub(crate) fn plain(theta: f64, head_dim: usize) -> Self {
        Self { theta, dims: head_dim, scaling: Scaling::Default, amplitude: 1.0, positions: None }
    }

    /// What it rotates by.
    pub(super) fn rotation(&self) -> Rotation {
        let frequencies = (0..self.dims / 2).map(|i| {
            let frequency = libm::pow(self.theta, -2.0 * i as f64 / self.dims as f64);
            self.scaling.apply(i, frequency) as f32
        });
        Rotation { frequencies: frequencies.collect(), amplitude: self.amplitude as f32 }
    }
}

impl Scaling {
    /// The changed frequency of a number.
    fn apply(&self, number: usize, frequency: f64) -> f64 {
        match self {
            Scaling::Default => frequency,
            Scaling::Linear { factor } => frequency / factor,
            Scaling::Each { factors } => frequency / factors[number],
            &Scaling::Proportional { kept, factor } => {
                if number < kept {
                    frequency / factor
                } else {
                    0.0
                }
            }
            &Scaling::Llama3 { factor, low, high, original } => {
                let waves = original * frequency / TAU;
                let kept = ((waves - low) / (high - low)).clamp(0.0, 1.0);
                frequency * (kept + (1.0 - kept) / factor)
            }
            &Scaling::Yarn { factor, transition: [first, last] } => {
                let kept = 1.0 - ((number as f64 - first) / (last - first)).clamp(0.0, 1.0);
                frequency * (kept + (1.0 - kept) / factor)
            }
        }
    }
}

/// Cosines and sines of all frequencies at each of the `positions`.
///
/// They are computed for the rows of a pass and not kept in a table: a table for 128k
/// positions would take more memory than a small model. Angles are rounded to f32, as
/// in the code that checkpoints are trained with; cosine and sine come from a library
/// that computes the same bits on every processor.
pub(crate) fn angles(
    rotation: &Rotation,
    positions: impl Iterator<Item = usize>,
) -> (Vec<f32>, Vec<f32>) {
    let Rotation { frequencies, amplitude } = rotation;
    positions
        .flat_map(|position| frequencies.iter().map(move |f| f64::from(position as f32 * f)))
        .map(|angle| (libm::cos(angle) as f32 * amplitude, libm::sin(angle) as f32 * amplitude))
        .unzip()
}

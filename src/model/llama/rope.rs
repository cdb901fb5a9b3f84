//! Rotary position embedding in the rotate-half convention of Hugging Face
//! checkpoints (Su et al. 2021, arXiv 2104.09864).

/// How positions become angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::model) struct Rope {
    /// Base of the geometric series of frequencies.
    pub theta: f64,
    /// How the frequencies were changed for longer contexts.
    pub scaling: Scaling,
}

/// Changes of the frequencies for contexts longer than the trained one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::model) enum Scaling {
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
}

impl Rope {
    /// Radians per position, one for each pair of a head's `head_dim` entries.
    pub(in crate::model) fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        (0..head_dim / 2)
            .map(|i| {
                let frequency = libm::pow(self.theta, -2.0 * i as f64 / head_dim as f64);
                self.scaling.apply(frequency) as f32
            })
            .collect()
    }
}

impl Scaling {
    fn apply(&self, frequency: f64) -> f64 {
        match *self {
            Scaling::Default => frequency,
            Scaling::Linear { factor } => frequency / factor,
            Scaling::Llama3 { factor, low, high, original } => {
                let waves = original * frequency / std::f64::consts::TAU;
                if waves > high {
                    frequency
                } else if waves < low {
                    frequency / factor
                } else {
                    let smooth = (waves - low) / (high - low);
                    frequency * (smooth + (1.0 - smooth) / factor)
                }
            }
        }
    }
}

/// Cosines and sines of all `frequencies` at each of the `positions`.
///
/// They are computed for the rows of a pass and not kept in a table: a table for 128k
/// positions would take more memory than a small model. Angles are rounded to f32, as
/// in the code that checkpoints are trained with; cosine and sine come from a library
/// that computes the same bits on every processor.
pub(in crate::model) fn angles(
    frequencies: &[f32],
    positions: impl Iterator<Item = usize>,
) -> (Vec<f32>, Vec<f32>) {
    positions
        .flat_map(|position| frequencies.iter().map(move |f| f64::from(position as f32 * f)))
        .map(|angle| (libm::cos(angle) as f32, libm::sin(angle) as f32))
        .unzip()
}

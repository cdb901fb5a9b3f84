//! Compares two runs prompt by prompt: ratios of the same measure, with intervals over prompts and
//! sign-flip tests.

use std::collections::BTreeMap;

use serde::Serialize;

use super::acceptance::Acceptance;
use super::interval::{Interval, Ratio};
use super::paired::{LEVEL, flips, holm};
use super::randomised::{Randomised, randomised};
use super::ratio;
use super::sample::Sample;
use super::speedup::PairedTime;

/// The rule that pairs the generations of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// By prompt and repeat: both runs have the same seed, so these generations used the same
    /// random numbers.
    PromptAndRepeat,
    /// By prompt, over all repeats.
    Prompt,
}

/// The generations of a cell in one run, and those of plain decoding in the same run.
#[derive(Debug, Clone, Copy)]
pub struct CellOfRun<'a> {
    /// The cell's generations.
    pub samples: &'a [Sample],
    /// Its baseline's generations.
    pub baseline: &'a [Sample],
}

/// The work of one run on a prompt, over the generations that are paired with the other run's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PromptWork {
    /// Sums over all their rounds.
    pub acceptance: Acceptance,
    /// Decode time in µs of the generations whose times count.
    pub us: f64,
    /// Their new tokens.
    pub tokens: usize,
    /// The same with the times of plain decoding, for generations that have both.
    pub against_plain: PairedTime,
}

/// A prompt in both runs, the first one first.
pub type PromptInRuns = [PromptWork; 2];

/// The prompts of a cell in both runs.
pub type PairedPrompts = Vec<PromptInRuns>;

/// Pairs the generations of a cell in two runs. Generations that only one run has are left
/// out. Times count if they count in both runs. Equal prompts are one.
pub fn pair_runs<'a>(
    cells: [CellOfRun<'a>; 2],
    pairing: Pairing,
    takes: impl Fn(&str) -> bool,
) -> BTreeMap<&'a str, PromptInRuns> {
    let place = |sample: &'a Sample| match pairing {
        Pairing::PromptAndRepeat => (&*sample.prompt, sample.repeat),
        Pairing::Prompt => (&*sample.prompt, 0),
    };
    let placed = cells.map(|cell| {
        let mut placed = BTreeMap::<_, Vec<&Sample>>::new();
        for sample in cell.samples.iter().filter(|sample| takes(&sample.prompt)) {
            placed.entry(place(sample)).or_default().push(sample);
        }
        placed
    });
    let plain = cells.map(|cell| {
        let timed = cell.baseline.iter().filter(|sample| sample.timed);
        timed.map(|s| ((&*s.prompt, s.repeat), s)).collect::<BTreeMap<_, _>>()
    });
    let mut prompts = BTreeMap::<&str, PromptInRuns>::new();
    for (place, first) in &placed[0] {
        let Some(second) = placed[1].get(place) else { continue };
        // Equal prompts are one, which plans of older builds do not say.
        let mut originals = [first, second].into_iter().map(|own| &*own[0].original);
        let original = originals.find(|original| *original != place.0).unwrap_or(place.0);
        let both = prompts.entry(original).or_default();
        let works = [(first, &plain[0]), (second, &plain[1])].map(|(own, plain)| work(own, plain));
        let timed = works.iter().all(|work| work.tokens > 0);
        let against_plain = works.iter().all(|work| work.against_plain.tokens > 0);
        for (sum, work) in both.iter_mut().zip(works) {
            sum.acceptance += work.acceptance;
            if timed {
                sum.us += work.us;
                sum.tokens += work.tokens;
            }
            if against_plain {
                add(&mut sum.against_plain, &work.against_plain);
            }
        }
    }
    prompts
}

/// The work of some generations, given plain decoding's by prompt and repeat.
fn work(samples: &[&Sample], plain: &BTreeMap<(&str, u32), &Sample>) -> PromptWork {
    let mut sum = PromptWork::default();
    for sample in samples {
        sum.acceptance += sample.rounds.acceptance;
        if !sample.timed {
            continue;
        }
        sum.us += sample.decode_us;
        sum.tokens += sample.new_tokens;
        if let Some(plain) = plain.get(&(&*sample.prompt, sample.repeat)) {
            let pair = PairedTime {
                plain_us: plain.decode_us,
                plain_tokens: plain.new_tokens,
                plain_passes: plain.target_forwards,
                us: sample.decode_us,
                tokens: sample.new_tokens,
                passes: sample.target_forwards,
            };
            add(&mut sum.against_plain, &pair);
        }
    }
    sum
}

fn add(sum: &mut PairedTime, pair: &PairedTime) {
    sum.plain_us += pair.plain_us;
    sum.plain_tokens += pair.plain_tokens;
    sum.plain_passes += pair.plain_passes;
    sum.us += pair.us;
    sum.tokens += pair.tokens;
    sum.passes += pair.passes;
}

/// A measure to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// τ: tokens per round, the correction or bonus token included.
    BlockEfficiency,
    /// Accepted ÷ proposed tokens.
    AcceptanceRate,
    /// Decode time per new token.
    TimePerToken,
    /// Speedup over the plain decoding of the same run.
    Speedup,
}

impl Measure {
    /// All measures.
    pub const ALL: [Self; 4] =
        [Self::BlockEfficiency, Self::AcceptanceRate, Self::TimePerToken, Self::Speedup];

    /// Whether it depends on the machine.
    pub fn is_timed(self) -> bool {
        matches!(self, Self::TimePerToken | Self::Speedup)
    }

    /// The sums of a prompt, numerators and denominators, whose quotients multiply to the measure.
    fn sums(self, work: &PromptWork) -> ([f64; 2], [f64; 2]) {
        let PromptWork { acceptance: sums, us, tokens, against_plain: times } = work;
        match self {
            Self::BlockEfficiency => {
                ([(sums.accepted + sums.rounds) as f64, 1.0], [sums.rounds as f64, 1.0])
            }
            Self::AcceptanceRate => ([sums.accepted as f64, 1.0], [sums.proposed as f64, 1.0]),
            Self::TimePerToken => ([*us, 1.0], [*tokens as f64, 1.0]),
            Self::Speedup => {
                ([times.plain_us, times.tokens as f64], [times.plain_tokens as f64, times.us])
            }
        }
    }

    /// Its value over some prompts; `None` if nothing was counted.
    fn value<'w>(self, works: impl Iterator<Item = &'w PromptWork>) -> Option<f64> {
        Ratio::of(works.map(|work| self.sums(work))).value()
    }

    /// The second run's value ÷ the first one's.
    fn ratio(self, prompts: &[PromptInRuns]) -> Ratio {
        Ratio::of(prompts.iter().map(|[first, second]| {
            let ((own, per), (other, other_per)) = (self.sums(second), self.sums(first));
            (joined(own, other_per), joined(per, other))
        }))
    }

    /// The value of a prompt in the sign-flip test: the logarithm of the ratio or, for the
    /// acceptance rate, which may be 0, the difference.
    fn difference(self, [first, second]: &PromptInRuns) -> Option<f64> {
        let [first, second] = [first, second].map(|work| self.value([work].into_iter()));
        match self {
            Self::AcceptanceRate => Some(second? - first?),
            _ => Some((second? / first?).ln()).filter(|log| log.is_finite()),
        }
    }

    /// Whether a prompt has the data for the measure in both runs.
    fn counts(self, prompt: &PromptInRuns) -> bool {
        prompt.iter().all(|work| self.sums(work).1.iter().all(|sum| *sum > 0.0))
    }
}

fn joined(a: [f64; 2], b: [f64; 2]) -> [f64; 4] {
    [a[0], a[1], b[0], b[1]]
}

/// A measure of a cell in two runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    /// The prompts that count.
    pub prompts: usize,
    /// The measure in each run, over these prompts.
    pub values: [f64; 2],
    /// The second run's value ÷ the first one's; `None` if that is 0.
    pub ratio: Option<f64>,
    /// Its 95 % interval over prompts.
    pub interval: Option<Interval>,
    /// The test of the differences between the runs.
    pub test: Randomised,
    /// Its p-value after Holm's adjustment for all cells that have this measure.
    pub adjusted: f64,
    /// The number of these cells.
    pub tests: usize,
}

/// The finding of a [`Contrast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContrastFinding {
    /// Every prompt has the same value in both runs.
    Equal,
    /// The second run's value is larger.
    Larger,
    /// The second run's value is smaller.
    Smaller,
    /// The mean over prompts and the ratio of the sums point in opposite directions.
    Mixed,
    /// The data do not show a difference.
    NotShown,
    /// Too few prompts differ for any test to show a difference.
    TooFew,
}

impl Contrast {
    /// The finding of the test at the level [`LEVEL`] after Holm.
    pub fn finding(&self) -> ContrastFinding {
        if self.test.signs == 0 {
            return ContrastFinding::Equal;
        }
        let least = 0.5_f64.powi(self.test.signs.min(1024) as i32 - 1);
        if self.tests as f64 * least >= LEVEL {
            return ContrastFinding::TooFew;
        }
        if self.adjusted >= LEVEL {
            return ContrastFinding::NotShown;
        }
        let larger = self.values[1] > self.values[0];
        match (self.test.mean > 0.0, larger) {
            (true, true) => ContrastFinding::Larger,
            (false, false) => ContrastFinding::Smaller,
            _ => ContrastFinding::Mixed,
        }
    }
}

/// Compares a measure in all common cells of two runs; each cell is a list of its prompts. `None`
/// for a cell without the measure.
pub fn contrasts(cells: &[PairedPrompts], measure: Measure) -> Vec<Option<Contrast>> {
    let counted = cells.iter().map(|prompts| {
        prompts.iter().filter(|prompt| measure.counts(prompt)).copied().collect::<Vec<_>>()
    });
    let counted = counted.collect::<Vec<_>>();
    let differences = counted.iter().map(|prompts| {
        prompts.iter().filter_map(|prompt| measure.difference(prompt)).collect::<Vec<_>>()
    });
    let differences = differences.collect::<Vec<_>>();
    let tests = differences.iter().filter(|all| !all.is_empty()).count();
    let results = differences.iter().map(|all| randomised(all, flips(tests))).collect::<Vec<_>>();
    let p = results.iter().flatten().map(|test| test.p).collect::<Vec<_>>();
    let mut adjusted = holm(&p).into_iter();
    let contrast = |(prompts, test): (&PairedPrompts, &Option<Randomised>)| {
        let test = (*test)?;
        let adjusted = adjusted.next()?;
        let value = |run: usize| measure.value(prompts.iter().map(|prompt| &prompt[run]));
        let values = [value(0)?, value(1)?];
        let quotient = measure.ratio(prompts);
        Some(Contrast {
            prompts: prompts.len(),
            values,
            ratio: ratio(values[1], values[0]),
            interval: quotient.interval(),
            test,
            adjusted,
            tests,
        })
    };
    counted.iter().zip(&results).map(contrast).collect()
}

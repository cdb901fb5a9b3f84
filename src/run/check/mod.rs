//! Whether a draft can make a target faster on this machine, from one or two minutes of
//! measurements: the times of passes, and the acceptance of drafts on a few prompts.

mod forecast;
mod rounds;
mod verdict;

pub use forecast::LengthForecast;

use std::time::Duration;

use serde::Serialize;

use self::forecast::CheckCosts;
use self::rounds::PromptRounds;
use crate::core::clock::Clock;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::engine::pool::Pool;
use crate::measure::bench::{CONTEXT, PassTimes, Timing, time_passes};
use crate::measure::machine::{Disturbance, Watch};
use crate::method::decode::{MethodSpec, PLAIN};
use crate::method::draft::Tools;
use crate::model::{Codec, LanguageModel};
use crate::run::report::{SpeedVerdict, TimesValidity};

/// The largest K that is considered.
pub const MAX_K: usize = 8;
/// Prompts that are continued without drafts, for the time outside passes.
const PLAIN_PROMPTS: usize = 2;

/// What to check.
#[derive(Debug)]
pub struct CheckSetup<'a> {
    /// The target.
    pub target: &'a dyn LanguageModel,
    /// The draft model, if the drafter has one.
    pub draft: Option<&'a dyn LanguageModel>,
    /// The target's tokenizer.
    pub codec: &'a dyn Codec,
    /// Drafter, verifier and sampling; its K is ignored.
    pub method: MethodSpec,
    /// Prompts in tokens.
    pub prompts: &'a [Vec<Token>],
    /// New tokens per prompt.
    pub max_tokens: usize,
    /// Time budget for the passes.
    pub budget: Duration,
}

/// The outcome of a check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckOutcome {
    /// T(m) in µs for m from 1.
    pub passes_us: Vec<Option<f64>>,
    /// Share of the memory bandwidth that a pass of one row uses.
    pub bandwidth_share: Option<f64>,
    /// The time to draft a token, in µs.
    pub draft_us: Option<f64>,
    /// Whether that is the time of all tokens of a round.
    pub at_once: bool,
    /// That time ÷ T(1): the cost ratio c.
    pub cost_ratio: Option<f64>,
    /// The share of the time that was lost to other work, limits or stops.
    pub disturbed: f64,
    /// Number of prompts, without copies, on which acceptance was measured.
    pub prompts: usize,
    /// Number of their rounds.
    pub rounds: usize,
    /// The forecasts by K from 1.
    pub lengths: Vec<LengthForecast>,
    /// The forecast with the largest speedup.
    pub best: Option<LengthForecast>,
    /// The verdict.
    pub verdict: SpeedVerdict,
}

/// Measures, and draws the verdict.
///
/// # Errors
/// If a model fails, the method does not suit the pair, or a prompt leaves no room.
pub fn check(setup: &CheckSetup<'_>, clock: &dyn Clock) -> Result<CheckOutcome, Error> {
    let watch = Watch::begin(clock);
    let times = time_passes(setup.target, setup.draft, (CONTEXT, MAX_K + 1), setup.budget, clock)?;
    let plain = MethodSpec { drafter: PLAIN.to_owned(), ..setup.method.clone() };
    let spec = MethodSpec { num_speculative_tokens: MAX_K, ..setup.method.clone() };
    let few = &setup.prompts[..setup.prompts.len().min(PLAIN_PROMPTS)];
    let plain = setup.continue_each(&plain, few, clock)?;
    let drafted = setup.continue_each(&spec, setup.prompts, clock)?;
    let drafted = rounds::joined(setup.prompts, drafted);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let disturbance = watch.end(Pool::shared().threads(), cores);
    Ok(setup.conclude(&times, &plain, &drafted, disturbance))
}

impl<'a> CheckSetup<'a> {
    /// Continues prompts; each gets a seed of its own.
    fn continue_each(
        &self,
        spec: &MethodSpec,
        prompts: &[Vec<Token>],
        clock: &dyn Clock,
    ) -> Result<Vec<PromptRounds>, Error> {
        let method = || {
            let tools = Tools { draft: self.draft, target: Some(self.target), texts: None };
            spec.build_with(tools)
        };
        let each = prompts.iter().enumerate();
        each.map(|(i, prompt)| rounds::continued(self, method()?, (i, prompt), clock)).collect()
    }

    /// The outcome. The whole check counts as one block of a run.
    fn conclude(
        &self,
        times: &PassTimes,
        plain: &[PromptRounds],
        drafted: &[PromptRounds],
        disturbance: Disturbance,
    ) -> CheckOutcome {
        let passes_us = times.passes.iter().map(Timing::median_of_any).collect::<Vec<_>>();
        let at_once = self.draft.is_some_and(|draft| draft.info().at_once);
        let draft_us = rounds::draft_us(drafted, |n| if at_once { n.min(1) } else { n });
        let costs = CheckCosts {
            passes: passes_us.iter().copied().collect::<Option<Vec<_>>>(),
            draft: draft_us,
            at_once,
            outside: rounds::outside_us(drafted),
            plain_outside: rounds::outside_us(plain),
        };
        let lengths = forecast::forecasts(&costs, drafted);
        let best = verdict::best(&lengths);
        let validity = TimesValidity::of_blocks(
            usize::from(disturbance.is_disturbed()),
            1,
            disturbance.cause(),
        );
        let share = |one: f64| times.reading.median().map(|reading| reading / one);
        CheckOutcome {
            bandwidth_share: passes_us[0].and_then(share),
            cost_ratio: draft_us.zip(passes_us[0]).map(|(draft, one)| draft / one),
            draft_us,
            at_once,
            disturbed: disturbance.share(),
            prompts: drafted.len(),
            rounds: drafted.iter().map(|prompt| prompt.rounds.len()).sum(),
            verdict: verdict::of(best, &validity),
            best,
            passes_us,
            lengths,
        }
    }
}

//! Lets drafters read the texts of a tape.

use anyhow::{Context, Result, bail};

use super::tape_file::TapeFile;
use crate::decode::{MethodSpec, PLAIN};
use crate::draft::{DRAFTERS, Tools, draft_sampling};
use crate::error::Error;
use crate::length::{LENGTHS, LengthParams};
use crate::model::ModelInfo;
use crate::registry::find;
use crate::sampling::{Sampler, SamplingParams};
use crate::shown;
use crate::tape::{
    Beside, DraftStart, ScoredText, Tape, TapeDrafter, TapeLine, TapeScore, TapeText, Teacher,
    draft_starts, score_text,
};
use crate::terminal::Progress;

/// The drafter that is a model and nothing else.
pub const MODEL: &str = "model";

/// What is to be scored.
#[derive(Debug)]
pub struct Scoring<'a> {
    /// The drafters, which share one draft model.
    pub drafters: Vec<TapeDrafter>,
    /// The draft model, the texts of n-gram models, and the target if overlaps are wanted.
    pub tools: Tools<'a>,
    /// Whether to compute Σ min(p, q).
    pub overlap: bool,
    /// The K up to which to keep what draft length policies see, if any.
    pub beliefs: Option<usize>,
}

/// A drafter in canonical spelling, with all of its settings.
///
/// # Errors
/// If its name or a setting is not allowed, or its drafts are no chains.
pub fn canonical(drafter: TapeDrafter) -> Result<TapeDrafter, Error> {
    let spec = spec(&drafter, SamplingParams::default());
    spec.validate()?;
    spec.check_read()?;
    let entry = find("drafter", DRAFTERS, &drafter.drafter)?;
    let length = find("draft length policy", LENGTHS, &spec.length)?;
    let params = drafter.params.of(entry.params.iter().chain(length.params))?;
    let policy = LengthParams { num_speculative_tokens: 1, params: &params };
    if (length.build)(&policy)?.learns() {
        return Err(Error::setting(format!(
            "draft length policy \"{}\" learns from rounds, of which a tape has none{}",
            length.name,
            if length.name == "confidence" { ": set confidence_tuned = 0" } else { "" }
        )));
    }
    if (entry.build.shape)(&spec.canonical()?.params)?.branches() {
        return Err(Error::setting(format!(
            "drafter \"{}\" drafts trees: a tape holds what drafters of chains say of a text",
            entry.name
        )));
    }
    if entry.name == PLAIN {
        return Err(Error::setting("drafter \"none\" says nothing of a text"));
    }
    let fixed = length.name == MethodSpec::default().length;
    let length = (!fixed).then(|| length.name.to_owned());
    Ok(TapeDrafter { drafter: entry.name.to_owned(), length, params, ..drafter })
}

impl Scoring<'_> {
    /// Scores the texts that the drafters have not read yet.
    ///
    /// # Errors
    /// If a model has another vocabulary than the texts, fails, or a line cannot be written.
    pub fn run(&self, file: &mut TapeFile) -> Result<()> {
        for model in [self.tools.draft, self.tools.target].into_iter().flatten() {
            check_tokens(file.tape(), model.info())?;
        }
        self.check_known(file)?;
        let numbers = self.numbers(file)?;
        let texts = 0..file.tape().texts.len();
        let open = |text: &usize| numbers.iter().any(|&d| file.tape().score(d, *text).is_none());
        let open = texts.clone().filter(open).collect::<Vec<_>>();
        let mut progress = Progress::new("texts", texts.len(), texts.len() - open.len());
        let mut teachers = Teachers::new(self)?;
        for text in open {
            for line in self.lines(file, &numbers, &mut teachers, text)? {
                file.append(TapeLine::Score(line))?;
            }
            progress.advance(&shown::line(&file.tape().texts[text].prompt));
        }
        Ok(())
    }

    /// Refuses to add to what a tape holds: its lines stay as they are.
    fn check_known(&self, file: &TapeFile) -> Result<()> {
        let tape = file.tape();
        for drafter in self.drafters.iter().filter(|drafter| reads_at_once(drafter)) {
            let Some(number) = tape.drafters.iter().position(|known| known == drafter) else {
                continue;
            };
            let known = (0..tape.texts.len()).filter_map(|text| tape.score(number, text));
            let enough = |score: &TapeScore| {
                let most = score.beliefs.as_ref().map_or(0, |beliefs| beliefs.most);
                (score.overlap.is_some() || !self.overlap) && most >= self.beliefs.unwrap_or(0)
            };
            if !known.into_iter().all(enough) {
                bail!(
                    "the tape holds what {} says of its texts, without all that is asked for: \
                     score a tape that it has not read",
                    drafter.describe()
                );
            }
        }
        Ok(())
    }

    /// The number of each drafter on the tape; those that are new get a line.
    fn numbers(&self, file: &mut TapeFile) -> Result<Vec<usize>> {
        let mut numbers = Vec::new();
        for drafter in &self.drafters {
            let known = file.tape().drafters.iter().position(|known| known == drafter);
            if known.is_none() {
                file.append(TapeLine::Drafter(drafter.clone()))?;
            }
            numbers.push(known.unwrap_or(file.tape().drafters.len() - 1));
        }
        Ok(numbers)
    }

    /// What the drafters that have not read a text say of it.
    fn lines(
        &self,
        file: &TapeFile,
        numbers: &[usize],
        teachers: &mut Teachers<'_>,
        number: usize,
    ) -> Result<Vec<TapeScore>> {
        let tape = file.tape();
        let text = &tape.texts[number];
        let target = tape.header.samplings[text.sampling];
        let open = self.drafters.iter().zip(numbers);
        let open = open.filter(|&(_, &drafter)| tape.score(drafter, number).is_none());
        let (models, others): (Vec<_>, Vec<_>) = open.partition(|(d, _)| reads_at_once(d));
        let place = || format!("prompt {}, repeat {}", shown::line(&text.prompt), text.repeat);
        let samplers = models.iter().map(|(d, _)| Sampler::new(draft_sampling(target, &d.params)));
        let samplers = samplers.collect::<Result<Vec<_>, _>>()?;
        let scored = teachers.scored(samplers, target, text).with_context(place)?;
        let line =
            |drafter: &usize| TapeScore { drafter: *drafter, text: number, ..TapeScore::default() };
        let mut lines = Vec::new();
        for ((_, drafter), ScoredText { log_q, overlap, race, siblings, beliefs }) in
            models.iter().zip(scored)
        {
            let log_q = Some(log_q);
            lines.push(TapeScore { log_q, overlap, race, siblings, beliefs, ..line(drafter) });
        }
        for (drafter, at) in others {
            let starts = self.starts(drafter, target, tape.header.target.vocab, text);
            lines.push(TapeScore { starts: Some(starts.with_context(place)?), ..line(at) });
        }
        Ok(lines)
    }

    /// The drafts of a drafter from every token of a text.
    fn starts(
        &self,
        drafter: &TapeDrafter,
        target: SamplingParams,
        vocab: usize,
        text: &TapeText,
    ) -> Result<Vec<DraftStart>, Error> {
        let method = spec(drafter, target).build_with(self.tools)?;
        draft_starts(method, vocab, text, drafter.most.unwrap_or_default())
    }
}

/// Whether q depends on the context alone, so that one pass gives it for all tokens.
pub fn reads_at_once(drafter: &TapeDrafter) -> bool {
    drafter.drafter == MODEL && drafter.length.is_none()
}

/// The method with which a drafter drafts chains.
fn spec(drafter: &TapeDrafter, sampling: SamplingParams) -> MethodSpec {
    let default = MethodSpec::default();
    MethodSpec {
        drafter: drafter.drafter.clone(),
        num_speculative_tokens: drafter.most.unwrap_or(1),
        sampling,
        length: drafter.length.clone().unwrap_or(default.length.clone()),
        params: drafter.params.clone(),
        ..default
    }
}

/// The models that read texts.
struct Teachers<'a> {
    draft: Option<Teacher<'a>>,
    target: Option<Teacher<'a>>,
    beliefs: Option<usize>,
}

impl<'a> Teachers<'a> {
    fn new(scoring: &Scoring<'a>) -> Result<Self> {
        let tools = scoring.tools;
        let both = scoring.overlap || scoring.beliefs.is_some();
        let target = tools.target.filter(|_| both).map(Teacher::new).transpose()?;
        let draft = tools.draft.map(Teacher::new).transpose()?;
        Ok(Self { draft, target, beliefs: scoring.beliefs })
    }

    fn scored(
        &mut self,
        samplers: Vec<Sampler>,
        target: SamplingParams,
        text: &TapeText,
    ) -> Result<Vec<ScoredText>> {
        if samplers.is_empty() {
            return Ok(Vec::new());
        }
        let draft = self.draft.as_mut().context("a draft model is needed: name one")?;
        let threads = draft.model().for_each_row();
        let samplers = samplers.into_iter().map(|sampler| sampler.on(threads)).collect::<Vec<_>>();
        let sampler = Sampler::new(target)?.on(threads);
        let target = self.target.as_mut().map(|teacher| Beside {
            teacher,
            sampler: &sampler,
            beliefs: self.beliefs,
        });
        Ok(score_text(draft, &samplers, target, text)?)
    }
}

/// Refuses a model that reads the token ids of the tape as other tokens.
///
/// # Errors
/// If its tokenizer is another one, or has fewer tokens than the tape or a text has.
pub fn check_tokens(tape: &Tape, model: &ModelInfo) -> Result<()> {
    let target = &tape.header.target;
    // Texts of other programs do not tell it, and neither do servers.
    let known = !target.tokenizer_sha256.is_empty() && !model.tokenizer_sha256.is_empty();
    if known && target.tokenizer_sha256 != model.tokenizer_sha256 {
        bail!(
            "{} has another tokenizer than {}, whose texts the tape holds: the same number would \
             stand for different tokens",
            model.name,
            target.name
        );
    }
    if target.vocab > model.vocab {
        bail!("{} has {} tokens and the tape has {}", model.name, model.vocab, target.vocab);
    }
    let all = tape.texts.iter().flat_map(|text| text.prompt_tokens.iter().chain(&text.tokens));
    if let Some(token) = { all }.find(|&&token| token as usize >= model.vocab) {
        bail!("token {token} lies outside the vocabulary of {} ({})", model.name, model.vocab);
    }
    Ok(())
}

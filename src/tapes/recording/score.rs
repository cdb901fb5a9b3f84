//! Scores the sequences of a tape with drafters.

use anyhow::{Context, Result, bail};

use super::tape_file::TapeFile;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::registry::find;
use crate::core::sampling::{Sampler, SamplingParams};
use crate::io::shown;
use crate::io::terminal::Progress;
use crate::method::decode::MethodSpec;
use crate::method::draft::{DRAFTERS, Tools, draft_sampling};
use crate::method::length::{LENGTHS, LengthParams};
use crate::model::ModelInfo;
use crate::tapes::tape::{
    Tape, TapeDrafter, TapeLine, TapeScore, TapeSequence, TargetReader, Teacher, draft_starts,
    score_sequence,
};

/// The drafter that is a model and nothing else.
pub const MODEL: &str = "model";

/// What to score.
#[derive(Debug)]
pub struct Scoring<'a> {
    /// The drafters, which share one draft model.
    pub drafters: Vec<TapeDrafter>,
    /// The draft model, the text files of n-gram models, and the target if overlaps are wanted.
    pub tools: Tools<'a>,
    /// Whether to compute Σ min(p, q).
    pub overlap: bool,
    /// The K up to which to keep what draft length policies see; none to keep nothing.
    pub beliefs: Option<usize>,
}

/// A drafter in canonical form, with all of its settings.
///
/// # Errors
/// If its name or a setting is not allowed, or it does not draft chains.
pub fn canonical(drafter: TapeDrafter) -> Result<TapeDrafter, Error> {
    let spec = spec(&drafter, SamplingParams::default());
    let canonical = spec.canonical()?;
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
    if (entry.build.shape)(&canonical.params)?.branches() {
        return Err(Error::setting(format!(
            "drafter \"{}\" drafts trees: a tape holds only scores of drafters of chains",
            entry.name
        )));
    }
    if spec.is_plain() {
        return Err(Error::setting(
            "drafter \"none\" drafts nothing, so there is nothing to score",
        ));
    }
    let fixed = length.name == MethodSpec::default().length;
    let length = (!fixed).then(|| length.name.to_owned());
    Ok(TapeDrafter { drafter: entry.name.to_owned(), length, params, ..drafter })
}

impl Scoring<'_> {
    /// Scores the sequences that the drafters have not scored yet.
    ///
    /// # Errors
    /// If a model has another vocabulary than the tape or fails, or a line cannot be written.
    pub fn run(&self, file: &mut TapeFile) -> Result<()> {
        for model in [self.tools.draft, self.tools.target].into_iter().flatten() {
            check_tokens(file.tape(), model.info())?;
        }
        self.check_known(file)?;
        let numbers = self.numbers(file)?;
        let sequences = 0..file.tape().sequences.len();
        let open =
            |sequence: &usize| numbers.iter().any(|&d| file.tape().score(d, *sequence).is_none());
        let open = sequences.clone().filter(open).collect::<Vec<_>>();
        let mut progress =
            Progress::new("sequences", sequences.len(), sequences.len() - open.len());
        let mut teachers = Teachers::new(self, file.tape().ends())?;
        for sequence in open {
            for line in self.lines(file, &numbers, &mut teachers, sequence)? {
                file.append(TapeLine::Score(line))?;
            }
            progress.advance(&shown::line(&file.tape().sequences[sequence].prompt));
        }
        Ok(())
    }

    /// Refuses to extend existing scores, since lines of a tape never change.
    fn check_known(&self, file: &TapeFile) -> Result<()> {
        let tape = file.tape();
        for drafter in self.drafters.iter().filter(|drafter| drafter.needs_model()) {
            let Some(number) = tape.drafters.iter().position(|known| known == drafter) else {
                continue;
            };
            let known =
                (0..tape.sequences.len()).filter_map(|sequence| tape.score(number, sequence));
            let enough = |score: &TapeScore| {
                let most = score.beliefs.as_ref().map_or(0, |beliefs| beliefs.most);
                (score.overlap.is_some() || !self.overlap) && most >= self.beliefs.unwrap_or(0)
            };
            if !known.into_iter().all(enough) {
                bail!(
                    "the tape has scores of {} without everything that is requested: score a tape \
                     that this drafter has not scored",
                    drafter.describe()
                );
            }
        }
        Ok(())
    }

    /// The index of each drafter on the tape; new drafters get a line.
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

    /// The missing scores of a sequence.
    fn lines(
        &self,
        file: &TapeFile,
        numbers: &[usize],
        teachers: &mut Teachers<'_>,
        number: usize,
    ) -> Result<Vec<TapeScore>> {
        let tape = file.tape();
        let sequence = &tape.sequences[number];
        let target = tape.header.samplings[sequence.sampling].clone();
        let open = self.drafters.iter().zip(numbers);
        let open = open.filter(|&(_, &drafter)| tape.score(drafter, number).is_none());
        let (models, others): (Vec<_>, Vec<_>) = open.partition(|(d, _)| reads_at_once(d));
        let place =
            || format!("prompt {}, repeat {}", shown::line(&sequence.prompt), sequence.repeat);
        let samplers =
            models.iter().map(|(d, _)| Sampler::new(draft_sampling(target.clone(), &d.params)));
        let samplers = samplers.collect::<Result<Vec<_>, _>>()?;
        let scored = teachers.scored(samplers, target.clone(), sequence).with_context(place)?;
        let mut lines = Vec::new();
        for (&(_, &drafter), score) in models.iter().zip(scored) {
            lines.push(TapeScore { drafter, sequence: number, ..score });
        }
        for (described, &drafter) in others {
            let vocab = tape.header.target.vocab;
            let score = self.starts(described, target.clone(), (vocab, &mut *teachers), sequence);
            lines.push(TapeScore { drafter, sequence: number, ..score.with_context(place)? });
        }
        Ok(lines)
    }

    /// The drafts of a drafter from every token of a completion on.
    fn starts(
        &self,
        drafter: &TapeDrafter,
        target: SamplingParams,
        (vocab, teachers): (usize, &mut Teachers<'_>),
        sequence: &TapeSequence,
    ) -> Result<TapeScore, Error> {
        let method = spec(drafter, target.clone()).build_with(self.tools)?;
        let most = drafter.most.unwrap_or_default();
        let Teachers { target: teacher, ends, .. } = teachers;
        let sampler = Sampler::new(target)?;
        let reader = teacher.as_mut().map(|teacher| TargetReader {
            teacher,
            sampler: &sampler,
            beliefs: None,
            ends,
        });
        draft_starts(method, self.tools.target, (vocab, ends), sequence, most, reader)
    }
}

/// Whether q depends on the context alone, so that one pass gives it for all tokens. That of a head
/// also depends on where the draft begins; its drafts have a maximum length.
pub fn reads_at_once(drafter: &TapeDrafter) -> bool {
    drafter.drafter == MODEL && drafter.length.is_none() && drafter.most.is_none()
}

/// The method by which a drafter drafts chains.
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

/// The models that read sequences.
struct Teachers<'a> {
    draft: Option<Teacher<'a>>,
    target: Option<Teacher<'a>>,
    beliefs: Option<usize>,
    /// The tokens with which drafts end.
    ends: Vec<Token>,
}

impl<'a> Teachers<'a> {
    fn new(scoring: &Scoring<'a>, ends: Vec<Token>) -> Result<Self> {
        let tools = scoring.tools;
        let both = scoring.overlap || scoring.beliefs.is_some();
        let target = tools.target.filter(|_| both).map(Teacher::new).transpose()?;
        // Some models read a text only from where a draft begins.
        let reads = scoring.drafters.iter().any(reads_at_once);
        let draft = tools.draft.filter(|_| reads).map(Teacher::new).transpose()?;
        Ok(Self { draft, target, beliefs: scoring.beliefs, ends })
    }

    fn scored(
        &mut self,
        samplers: Vec<Sampler>,
        target: SamplingParams,
        sequence: &TapeSequence,
    ) -> Result<Vec<TapeScore>> {
        if samplers.is_empty() {
            return Ok(Vec::new());
        }
        let draft = self.draft.as_mut().context("a draft model is needed: name one")?;
        let threads = draft.model().for_each_row();
        let samplers = samplers.into_iter().map(|sampler| sampler.on(threads)).collect::<Vec<_>>();
        let sampler = Sampler::new(target)?.on(threads);
        let target = self.target.as_mut().map(|teacher| TargetReader {
            teacher,
            sampler: &sampler,
            beliefs: self.beliefs,
            ends: &self.ends,
        });
        Ok(score_sequence(draft, &samplers, target, sequence)?)
    }
}

/// Refuses a model for which the token ids of the tape stand for other tokens.
///
/// # Errors
/// If its tokenizer differs, or its vocabulary lacks a token of the tape.
pub fn check_tokens(tape: &Tape, model: &ModelInfo) -> Result<()> {
    let target = &tape.header.target;
    // Tapes of other programs do not state it, and neither do servers.
    let known = !target.tokenizer_sha256.is_empty() && !model.tokenizer_sha256.is_empty();
    if known && target.tokenizer_sha256 != model.tokenizer_sha256 {
        bail!(
            "{} has another tokenizer than {}, from which the tape was recorded: the same ids \
             would stand for different tokens",
            model.name,
            target.name
        );
    }
    if target.vocab > model.vocab {
        bail!("{} has {} tokens and the tape has {}", model.name, model.vocab, target.vocab);
    }
    let all = tape
        .sequences
        .iter()
        .flat_map(|sequence| sequence.prompt_tokens.iter().chain(&sequence.tokens));
    if let Some(token) = { all }.find(|&&token| token as usize >= model.vocab) {
        bail!("token {token} lies outside the vocabulary of {} ({})", model.name, model.vocab);
    }
    Ok(())
}

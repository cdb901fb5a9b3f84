//! Tapes as Parquet files.

use std::fs;

use specdec::io::input::READS_DAMAGED;
use specdec::tapes::recording::{read_tape_file, write_parquet};
use specdec::tapes::tape::{
    DraftBeliefs, DraftStart, LoggedRound, SiblingScores, TAPE_FORMAT, Tape, TapeDrafter,
    TapeHeader, TapeLine, TapeLog, TapeModel, TapeScore,
};

use crate::cli_support::{refuses, stdout};
use crate::cli_tape_support::TapeFolder;
use crate::damage_support::{damage, files};
use crate::tape_support::sequence_of;

/// A tape with every kind of line, and with numbers that are easily lost.
fn tape() -> Tape {
    let header = TapeHeader {
        format: TAPE_FORMAT,
        source: "plain".to_owned(),
        build: "b".to_owned(),
        target: TapeModel { name: "ä".to_owned(), vocab: 0, ..TapeModel::default() },
        seed: Some(u64::MAX),
        ignore_eos: true,
        samplings: vec![Default::default()],
    };
    let mut tape = Tape::new(header).unwrap();
    let mut sequence = sequence_of(&[], vec![0, u32::MAX, 7], 3);
    sequence.log_p = Some(vec![-0.1, f64::NEG_INFINITY, -1.0 / 3.0]);
    tape.add(TapeLine::Sequence(sequence.clone())).unwrap();
    tape.add(TapeLine::Sequence(sequence_of(&[5, 6], Vec::new(), 4))).unwrap();
    let drafter = TapeDrafter {
        drafter: "model".to_owned(),
        model: Some(TapeModel::default()),
        length: Some("entropy".to_owned()),
        params: Default::default(),
        most: Some(3),
    };
    tape.add(TapeLine::Drafter(drafter.clone())).unwrap();
    tape.add(TapeLine::Drafter(TapeDrafter { model: None, ..drafter })).unwrap();
    let score = TapeScore {
        drafter: 0,
        sequence: 0,
        log_q: Some(vec![f64::NEG_INFINITY, -1e-300, -5.0]),
        overlap: Some(vec![0.1, 0.2, 1.0]),
        race: Some(vec![0.0, 0.5, 1.0]),
        beliefs: Some(DraftBeliefs {
            most: 2,
            along: vec![[0.25, 1.5], [0.0, 0.0], [1.0, 0.0]],
            behind: vec![vec![[0.5, 1.5], [0.75, 0.1]], vec![], vec![[0.125, 2.5]]],
        }),
        ..TapeScore::default()
    };
    tape.add(TapeLine::Score(score.clone())).unwrap();
    let start = |drafted, log_q| DraftStart { drafted, log_q };
    let starts = vec![start(2, vec![0.0, 0.0]), start(1, vec![]), start(0, vec![])];
    let lookup = TapeScore { drafter: 1, starts: Some(starts), ..TapeScore::default() };
    tape.add(TapeLine::Score(lookup)).unwrap();
    tape.add(TapeLine::Log(TapeLog {
        drafter: 1,
        prompt: "p".to_owned(),
        category: "c".to_owned(),
        verifier: None,
        sampling: 0,
        prompt_tokens: 3,
        tokens: 4,
        rounds: vec![
            LoggedRound { accepted: 1, drafted: 2 },
            LoggedRound { accepted: 1, drafted: 1 },
        ],
        sequence: Some(0),
        unordered: true,
    }))
    .unwrap();
    tape
}

#[test]
fn a_tape_is_the_same_as_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let (file, tape) = (dir.path().join("t.parquet"), tape());
    write_parquet(&tape, &file).unwrap();
    assert_eq!(read_tape_file(&file).unwrap(), tape);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn commands_read_both_forms() {
    let folder = TapeFolder::new();
    let (tape, parquet) = (folder.path("t.jsonl"), folder.path("t.parquet"));
    stdout(&["tape", "record", &folder.path("toy"), "--out", &tape]);
    let models = ["--draft", "toy:mixed", "--target", "toy:mixed"];
    stdout(&[&["tape", "score", &tape, "--overlap"][..], &models].concat());
    stdout(&["tape", "export", &tape, "--out", &parquet]);
    let read = read_tape_file(parquet.as_ref()).unwrap();
    assert_eq!(read, read_tape_file(tape.as_ref()).unwrap());
    let (drafters, sequences) = (0..read.drafters.len(), 0..read.sequences.len());
    let mut scores =
        drafters.flat_map(|drafter| sequences.clone().map(move |sequence| (drafter, sequence)));
    assert!(scores.any(|(drafter, sequence)| {
        read.score(drafter, sequence).is_some_and(|score| score.siblings.is_some())
    }));
    assert_eq!(stdout(&["forecast", &parquet]), stdout(&["forecast", &tape]));
    let back = folder.path("back.jsonl");
    stdout(&["tape", "export", &parquet, "--out", &back]);
    assert_eq!(read_tape_file(back.as_ref()).unwrap(), read);
    refuses(&["tape", "export", &parquet, "--out", &back], "exists already");
    let score = ["tape", "score", &parquet, "--drafter", "suffix_automaton"];
    refuses(&score, "is compressed: unpack it before you append to it");
}

#[test]
fn damaged_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, tape) = (dir.path().join("t.parquet"), tape());
    write_parquet(&tape, &file).unwrap();
    let whole = fs::read(&file).unwrap();
    for cut in (0..whole.len()).step_by(7) {
        fs::write(&file, &whole[..cut]).unwrap();
        assert!(read_tape_file(&file).is_err(), "{cut} bytes");
    }
    // The library's messages when it panics are of no interest.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() != Some(READS_DAMAGED) {
            usual(info);
        }
    }));
    let mut rng = rand_chacha::rand_core::SeedableRng::seed_from_u64(41);
    for _ in 0..files(2000) {
        fs::write(&file, damage(&whole, whole.len(), &mut rng)).unwrap();
        // Some damage leaves a tape, even a different one; none may end the program.
        let _ = read_tape_file(&file);
    }
}

fn siblings(score: &mut TapeScore, independent: [f64; 4], distinct: f64) {
    let own = score.siblings.as_mut().unwrap();
    (own.independent[0], own.distinct[0]) = (independent, distinct);
}

/// Numbers that only another program writes.
/// Catches: NaN, probabilities above 1 or below 0, and siblings that accept more than the target
/// draws are read.
#[test]
fn what_is_no_probability_is_refused() {
    let refused = |change: fn(&mut TapeScore)| {
        let mut tape = tape();
        tape.add(TapeLine::Sequence(sequence_of(&[5], vec![1], 1))).unwrap();
        let (independent, distinct) = (vec![[0.5, 0.25, 0.125, 0.125]], vec![0.5]);
        let siblings = Some(SiblingScores { independent, distinct, rank: vec![0] });
        let log_q = Some(vec![-1.0]);
        let mut score = TapeScore { sequence: 2, log_q, siblings, ..TapeScore::default() };
        change(&mut score);
        tape.add(TapeLine::Score(score)).err().unwrap_or_default()
    };
    assert_eq!(refused(|_| ()), "");
    type Change = fn(&mut TapeScore);
    let cases: [(Change, &str); 8] = [
        (|s| s.log_q = Some(vec![f64::NAN]), "\"log_q\" of token 0 is NaN"),
        (|s| s.log_q = Some(vec![0.001]), "no probability is above 1"),
        (|s| s.overlap = Some(vec![f64::NAN]), "\"overlap\" of token 0 is NaN"),
        (|s| s.overlap = Some(vec![-1e-9]), "\"overlap\" of token 0"),
        (|s| s.race = Some(vec![1.0001]), "\"race\" of token 0 is 1.0001"),
        (|s| siblings(s, [0.5, 0.25, 0.25, 0.125], 0.5), "accept it with 1.125"),
        (|s| siblings(s, [0.5, 0.25, -0.25, 0.125], 0.5), "accept it with -0.25"),
        (|s| siblings(s, [0.5, 0.25, 0.125, 0.125], 0.75), "accept it with 1.25"),
    ];
    for (change, part) in cases {
        let why = refused(change);
        assert!(why.contains(part), "{why:?} has no {part:?}");
    }
}

//! The project's language: the field's words in identifiers, comments, messages and documents,
//! and sentences that can be read at once.

use std::fs;
use std::path::{Path, PathBuf};

/// Words that the field does not use in this sense, or that hide who does what, and what to
/// write in their place.
const AVOIDED: &[(&str, &str)] = &[
    ("law", "distribution"),
    ("laws", "distributions"),
    ("so many", "n, or the number's name"),
    ("goes on", "continues"),
    ("beside", "next to, with, and"),
    ("whatever", "any, regardless of"),
    ("told", "reported, given, stated"),
    ("tells", "reports, shows, says"),
];
/// Phrases that contain an avoided word and mean something else: file, phrase, reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("", "told apart", "it means distinguished"),
    ("README.md", "tells you whether", "the promise of the project"),
];
/// The most words in a sentence of a document or of help.
const MOST_WORDS: usize = 35;
/// The most characters in the name of a test.
const MOST_CHARACTERS: usize = 60;
/// What is read. Prompts, results and this list of words are data.
const ENDINGS: &[&str] = &["rs", "md", "py", "toml", "html", "js", "css", "ipynb", "sh"];
const FOLDERS: &[&str] = &[
    ".ci",
    "benches",
    "configs",
    "docs",
    "examples",
    "experiments",
    "models",
    "notebooks",
    "python",
    "src",
    "tests",
];
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The project's own files: path from the root, and text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut open = FOLDERS.iter().map(|folder| root().join(folder)).collect::<Vec<_>>();
    let mut found = DOCUMENTS.iter().map(|file| root().join(file)).collect::<Vec<_>>();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_made = name.starts_with('.') || ["target", "work"].contains(&&*name);
                open.extend((!is_made).then_some(path));
            } else if is_source(&path) {
                found.push(path);
            }
        }
    }
    let data = ["tests/it/language.rs", "docs/example-report.html"];
    let found = found.into_iter().filter(|path| !data.iter().any(|data| path.ends_with(data)));
    found
        .map(|path| (path.strip_prefix(root()).unwrap().to_owned(), fs::read_to_string(path)))
        .map(|(path, text)| (path, text.unwrap()))
        .collect()
}

/// Whether a file holds words of the project: scripts have no ending.
fn is_source(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy());
    match ending {
        Some(ending) => ENDINGS.contains(&&*ending),
        None => {
            path.parent().is_some_and(|folder| folder.file_name().is_some_and(|name| name == ".ci"))
        }
    }
}

/// The words of a text in lower case, with their lines; identifiers are split.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut word = String::new();
        let mut last = ' ';
        for c in text.chars().chain([' ']) {
            let begins = c.is_uppercase() && !last.is_uppercase();
            if (begins || !c.is_alphabetic()) && !word.is_empty() {
                found.push((line, std::mem::take(&mut word)));
            }
            if c.is_alphabetic() {
                word.extend(c.to_lowercase());
            }
            last = c;
        }
    }
    found
}

/// The first words of the text, as many as the phrase has, if they are the phrase.
fn begins_with(words: &[(usize, String)], phrase: &str) -> bool {
    let mut words = words.iter().map(|(_, word)| word.as_str());
    phrase.split(' ').all(|own| words.next() == Some(own))
}

/// Where a text has avoided words, and what to write.
fn avoided(file: &Path, text: &str) -> Vec<String> {
    let words = words(text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let avoided = AVOIDED.iter().find(|(phrase, _)| begins_with(&words[at..], phrase));
        let Some((phrase, instead)) = avoided else { continue };
        let is_allowed = ALLOWED.iter().any(|(place, allowed, _)| {
            let begin = at.checked_sub(allowed.split(' ').take_while(|own| own != phrase).count());
            (place.is_empty() || file == Path::new(place))
                && begin.is_some_and(|begin| begins_with(&words[begin..], allowed))
        });
        if !is_allowed {
            let line = words[at].0;
            found.push(format!("{}:{line}: \"{phrase}\": write {instead}", file.display()));
        }
    }
    found
}

/// Catches: the private words come back in a name, a comment, a message or a document.
#[test]
fn the_words_are_those_of_the_field() {
    let sources = sources();
    assert!(sources.len() > 900, "only {} files were found", sources.len());
    let paths = sources.iter().flat_map(|(path, _)| avoided(path, &path.to_string_lossy()));
    let texts = sources.iter().flat_map(|(path, text)| avoided(path, text));
    let found = paths.chain(texts).collect::<Vec<_>>();
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
    assert!(ALLOWED.len() <= 10);
}

#[test]
fn avoided_words_are_found_in_names_and_across_lines() {
    let found = |text: &str| avoided(Path::new("src/lib.rs"), text).len();
    assert_eq!(found("struct ChainLaw; fn raw_laws() {}"), 2);
    assert_eq!(found("after so\n/// many rows it goes\n/// on"), 2);
    assert_eq!(found("is Told; TOLD"), 2);
    assert_eq!(found("flaw, lawn, besides, foretold, told apart, go on"), 0);
}

/// The sentences of a Markdown text, without code blocks; items of lists, cells of tables and
/// headings are sentences of their own.
fn sentences(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with("```") || line.starts_with("    ") {
            found.push(String::new());
            continue;
        }
        let is_item = ["- ", "* ", "#", "|"].iter().any(|begin| line.starts_with(begin))
            || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        if line.is_empty() || is_item {
            found.push(String::new());
        }
        for cell in line.split('|') {
            sentences_of_line(cell, &mut found);
            if line.starts_with(['|', '#']) {
                found.push(String::new());
            }
        }
    }
    found
}

/// Adds the words of a line to the last sentence, and begins another after each end.
fn sentences_of_line(line: &str, found: &mut Vec<String>) {
    for word in without_targets(line).split_whitespace() {
        let sentence = found.last_mut().unwrap();
        *sentence += word;
        *sentence += " ";
        let end = word.trim_end_matches(['"', ')', '*', '`', ']', '_']);
        if end.ends_with(['.', '!', '?']) && !["e.g.", "i.e.", "vs."].contains(&end) {
            found.push(String::new());
        }
    }
}

/// A line with code as one word each, and with links as their names.
fn without_targets(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let code = parts.map(|(i, part)| if i % 2 == 1 { "code" } else { part }).collect::<String>();
    let mut rest = code.as_str();
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        text += before;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text + rest
}

/// Number of words: what has a letter or a digit.
fn length(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

fn too_long(file: &str, text: &str) -> Vec<String> {
    let all = sentences(text).into_iter().filter(|sentence| length(sentence) > MOST_WORDS);
    all.map(|sentence| format!("{file}: {} words: {sentence}", length(&sentence))).collect()
}

/// Catches: a sentence of a document that has to be read twice.
#[test]
fn sentences_in_documents_are_short() {
    let is_document = |path: &Path| {
        let top = path.components().count() == 1 && !path.ends_with("CHANGELOG.md");
        path.extension().is_some_and(|ending| ending == "md") && (top || path.starts_with("docs"))
    };
    let documents = sources().into_iter().filter(|(path, _)| is_document(path));
    let found = documents.flat_map(|(path, text)| too_long(&path.to_string_lossy(), &text));
    let found = found.collect::<Vec<_>>();
    assert!(found.is_empty(), "{} sentences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn sentences_end_where_readers_end_them() {
    let lengths = |text: &str| sentences(text).iter().map(|own| length(own)).collect::<Vec<_>>();
    let counted = |text: &str| lengths(text).into_iter().filter(|n| *n > 0).collect::<Vec<_>>();
    assert_eq!(counted("One two.\nThree [four five](six/seven.md), `eight --nine`."), [2, 4]);
    assert_eq!(counted("# A title\nA line\nof text\n- an item\n| a | cell b |"), [2, 4, 2, 1, 2]);
    assert_eq!(counted("Before\n```\ncode is not read\n```\nafter."), [1, 1]);
}

/// Help as Markdown: options and entries of lists are items, and examples are left out.
#[cfg(feature = "harness")]
fn items(help: &str) -> String {
    let mut text = String::new();
    for line in help.lines().map(str::trim).filter(|line| !line.starts_with("specdec ")) {
        let (name, about) = line.split_once("  ").unwrap_or(("", line));
        if !name.is_empty() || line.starts_with('-') || line.ends_with(':') {
            text += "\n\n";
        }
        text += about;
        text += "\n";
    }
    text
}

/// Catches: help that has to be read twice.
#[cfg(feature = "harness")]
#[test]
fn sentences_in_help_are_short() {
    let help = super::cli_support::stdout(&["--help"]);
    let commands = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands = commands.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    let mut found = Vec::new();
    let mut read = 0;
    for command in commands.filter(|name| *name != "help") {
        let help = super::cli_support::stdout(&[command, "--help"]);
        found.extend(too_long(command, &items(&help)));
        read += 1;
    }
    assert!(read >= 20, "only {read} commands were found");
    assert!(found.is_empty(), "{} sentences:\n{}", found.len(), found.join("\n"));
}

/// Catches: a test whose name is a paragraph.
#[test]
fn names_of_tests_are_short() {
    let mut found = Vec::new();
    let is_rust = |path: &Path| path.extension().is_some_and(|ending| ending == "rs");
    for (path, text) in sources().iter().filter(|(path, _)| is_rust(path)) {
        let mut lines = text.lines().map(str::trim);
        while lines.any(|line| line == "#[test]") {
            let name = lines.find_map(|line| line.strip_prefix("fn ")).unwrap_or_default();
            let name = name.split('(').next().unwrap_or_default();
            if name.len() > MOST_CHARACTERS {
                found.push(format!("{}: {} characters: {name}", path.display(), name.len()));
            }
        }
    }
    assert!(found.is_empty(), "{} names:\n{}", found.len(), found.join("\n"));
}

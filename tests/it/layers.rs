//! The shape of the source: one-way layers, candle in one room, small files.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the bottom up; a room may use its own layer and those below.
const LAYERS: &[&[&str]] = &[
    &[
        "distribution",
        "chance",
        "tree",
        "clock",
        "registry",
        "params",
        "lanes",
        "pool",
        "shown",
        "terminal",
        "input",
    ],
    &["sampling"],
    &["model"],
    &["round"],
    &["draft", "length", "verify"],
    &["decode"],
    &["pair"],
    &["exactness", "experiment", "report"],
    &["bench"],
    &["cli"],
    &["main"],
];
/// The longest file that can be read in one sitting.
const MOST_LINES: usize = 400;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files under a folder, with their text.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no Rust files in {}", folder.display());
    found
}

fn rank(room: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&room))
}

/// The room a file of `src` belongs to; none for `lib.rs`, which names all.
fn room(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    let room = first.trim_end_matches(".rs").to_owned();
    (room != "lib").then_some(room)
}

/// The text without comments, so that links in the documentation may point
/// upwards.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The rooms that `crate::` and `specdec::` paths of the code begin with.
fn used(code: &str) -> Vec<String> {
    let mut used = Vec::new();
    for prefix in ["crate::", "specdec::"] {
        for (at, _) in code.match_indices(prefix) {
            let path = &code[at + prefix.len()..];
            let name = |text: &str| {
                text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
            };
            match path.strip_prefix('{') {
                None => used.push(name(path)),
                Some(group) => used.extend(heads(group).map(|part| name(part.trim_start()))),
            }
        }
    }
    used
}

/// The top-level parts of a group `a::b, c::{d, e}, f}…`.
fn heads(group: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..i]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.into_iter().filter(|part| !part.trim().is_empty())
}

#[test]
fn dependencies_point_one_way() {
    let mut wrong = Vec::new();
    for (path, text) in files(&root().join("src")) {
        let Some(room) = room(&path) else { continue };
        let own = rank(&room).unwrap_or_else(|| panic!("room \"{room}\" has no layer"));
        for other in used(&code(&text)) {
            match rank(&other) {
                Some(rank) if rank <= own => {}
                Some(_) => wrong.push(format!("{} uses {other}", path.display())),
                None => wrong.push(format!("{} uses {other}, which has no layer", path.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn paths_are_read_from_every_spelling() {
    let code = code(
        "// crate::cli\nuse crate::{distribution::{Dist, Token}, tree, model::{self}};\n\
         fn f(x: crate::chance::Site) { crate::verify::go() }",
    );
    assert_eq!(used(&code), ["distribution", "tree", "model", "chance", "verify"]);
}

#[test]
fn only_the_model_room_names_candle() {
    for (path, text) in files(&root().join("src")) {
        if room(&path).as_deref() != Some("model") {
            assert!(!code(&text).contains("candle_"), "{} names candle", path.display());
        }
    }
}

#[test]
fn no_file_is_longer_than_one_sitting() {
    let mut long = Vec::new();
    for folder in ["src", "tests"] {
        for (path, text) in files(&root().join(folder)) {
            let lines = text.lines().count();
            if lines > MOST_LINES {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "longer than {MOST_LINES} lines:\n{}", long.join("\n"));
}

//! The structure of the source: modules that know little, candle in one of them, small files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use modules::Modules;

mod modules;

/// The most lines that a file may have.
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

/// The text without comments.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// By top-level module, the others that it uses, as the table of ARCHITECTURE.md states them.
fn stated() -> BTreeMap<String, String> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = page.split("| module | uses |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])));
    let named = cells.filter_map(|mut cells| Some((cells.next()?, cells.next()?)));
    named.map(|(module, uses)| (module.to_owned(), uses.replace("nothing", ""))).collect()
}

/// Catches: a new top-level module; a dependency that ARCHITECTURE.md does not state, or states
/// without need.
#[test]
fn top_level_modules_use_what_is_stated() {
    let modules = modules();
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for (own, others) in modules.uses() {
        let Some(own) = own.first().filter(|name| *name != "main") else { continue };
        let others = others.into_iter().filter_map(|other| other.into_iter().next());
        found.entry(own.clone()).or_default().extend(others.filter(|other| other != own));
    }
    let mut expected = stated();
    for (own, others) in found {
        let others = others.into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(expected.remove(&own), Some(others), "{own}");
    }
    assert!(expected.is_empty(), "{expected:?}");
}

/// Whether `from` depends on itself.
fn in_cycle(uses: &BTreeMap<String, BTreeSet<String>>, from: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(part) = open.pop() {
        for next in uses.get(part).into_iter().flatten() {
            if next == from {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

/// The modules of the source.
fn modules() -> Modules {
    let mut modules = Modules::default();
    for (path, text) in files(&root().join("src")) {
        let inside = path.strip_prefix(root().join("src")).unwrap().with_extension("");
        let parts = inside.iter().map(|part| part.to_string_lossy().into_owned());
        let own = parts.filter(|part| part != "mod" && part != "lib").collect();
        modules.add(own, &text);
    }
    modules
}

#[test]
fn parts_of_a_folder_have_no_circular_dependencies() {
    let circles = modules().circles();
    assert!(circles.is_empty(), "in circles:\n{}", circles.join("\n"));
}

/// Catches: a name that a `mod.rs` re-exports hides the module that defines it; a glob, a group or
/// a rename does; unit tests count.
#[test]
fn circles_through_re_exports_are_found() {
    let circle = |third: &str| {
        let mut modules = Modules::default();
        let files = [
            ("", "mod a;"),
            ("a", "mod b;\nmod c;\nmod d;\npub use b::{Kind as Sort, Kind};\npub use c::*;"),
            ("a b", "use super::d::Reader;\npub enum Kind { One }"),
            ("a c", "pub fn put() {}"),
            ("a d", third),
        ];
        for (path, text) in files {
            modules.add(path.split_whitespace().map(str::to_owned).collect(), text);
        }
        modules.circles()
    };
    let expected = [r#"a::b uses {"d"}"#, r#"a::d uses {"b"}"#];
    for third in [
        "use super::Sort;",
        "use crate::a::{put, Kind};",
        "fn f() -> u8 { super::Kind::One as u8 }",
        "fn f() { assert!(g(crate::a::Sort::One)); }",
    ] {
        let found = circle(&format!("{third}\npub struct Reader;"));
        assert!(found.iter().map(|line| &line[..4]).eq(["a::b", "a::d"]), "{third}: {found:?}");
    }
    assert_eq!(circle("use super::Sort;\npub struct Reader;"), expected);
    let free = "use super::put;\n#[cfg(test)]\nmod tests { use super::super::Sort; }";
    assert!(circle(free).is_empty());
}

#[test]
fn only_the_engine_names_candle() {
    for (path, text) in files(&root().join("src")) {
        if !path.starts_with(root().join("src/engine")) {
            assert!(!code(&text).contains("candle_"), "{} names candle", path.display());
        }
    }
}

#[test]
fn no_file_exceeds_the_line_limit() {
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

//! The structure of the source: one-way layers, candle in one module, small files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use modules::Modules;

mod modules;

/// Top-level modules from the bottom up; a module may use its own layer and those below.
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
        "output",
        "error",
        "machine",
        "plot",
    ],
    &["sampling"],
    &["model"],
    &["round", "prompt"],
    &["draft", "length", "verify"],
    &["decode"],
    &["beam"],
    &["tape"],
    &["bugs"],
    &["audit"],
    &["pair"],
    &["rows"],
    &["statistics"],
    &["exactness", "experiment", "report"],
    &["bench", "cluster", "compare"],
    &["check", "recording", "forecasting"],
    &["simulation", "gate", "gather", "serve"],
    &["cli"],
    &["main"],
];
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

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The top-level module of a file in `src`; none for `lib.rs`, which names all of them.
fn module(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    let first = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    let module = first.trim_end_matches(".rs").to_owned();
    (module != "lib").then_some(module)
}

/// The text without comments, since links in the documentation may point upwards.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The top-level modules with which `crate::` and `specdec::` paths in the code begin.
fn used(code: &str) -> Vec<String> {
    ["crate::", "specdec::"].into_iter().flat_map(|prefix| heads_after(code, prefix)).collect()
}

/// The first names of paths after a prefix; groups in braces are split.
fn heads_after(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    // `super::` after `super::` leads elsewhere.
    let starts = |&(at, _): &(usize, &str)| !code[..at].ends_with("super::");
    for (at, _) in code.match_indices(prefix).filter(starts) {
        let path = &code[at + prefix.len()..];
        let name = |text: &str| {
            text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
        };
        match path.strip_prefix('{') {
            None => found.push(name(path)),
            Some(group) => found.extend(heads(group).map(|part| name(part.trim_start()))),
        }
    }
    found
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
        let Some(module) = module(&path) else { continue };
        let own = rank(&module).unwrap_or_else(|| panic!("module \"{module}\" has no layer"));
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

#[test]
fn the_cycle_check_finds_cycles() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
        for (from, to) in pairs {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        uses
    };
    let cycle = uses(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]);
    assert_eq!(["a", "b", "c", "d"].map(|part| in_cycle(&cycle, part)), [true, true, true, false]);
    let code = "use super::{run::Setup, cells};\nuse super::plan;\nuse super::super::far;";
    assert_eq!(heads_after(code, "super::"), ["run", "cells", "plan", "super"]);
    let deeper = "fn f() { super::super::far(); super::near::g() }";
    assert_eq!(heads_after(deeper, "super::super::"), ["far"]);
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
fn used_modules_are_found_in_every_spelling_of_a_path() {
    let code = code(
        "// crate::cli\nuse crate::{distribution::{Dist, Token}, tree, model::{self}};\n\
         fn f(x: crate::chance::Site) { crate::verify::go() }",
    );
    assert_eq!(used(&code), ["distribution", "tree", "model", "chance", "verify"]);
}

#[test]
fn only_the_model_module_names_candle() {
    for (path, text) in files(&root().join("src")) {
        if module(&path).as_deref() != Some("model") {
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

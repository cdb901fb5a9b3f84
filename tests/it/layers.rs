//! The structure of the source: one-way layers, candle in one module, small files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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

/// The submodules that each submodule of a module uses: by as many `super::` as the file is
/// deep, or by the module's own path.
fn used_in_module(module: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let name = module.strip_prefix(root().join("src")).unwrap();
    let name = name.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("::");
    let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
    for (path, text) in files(module) {
        let inside = path.strip_prefix(module).unwrap().with_extension("");
        let mut parts = inside.iter().map(|p| p.to_string_lossy().into_owned()).collect::<Vec<_>>();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        let Some(own) = parts.first().cloned() else { continue };
        // Unit tests may use anything.
        let code = code(text.split("#[cfg(test)]").next().unwrap_or_default());
        let prefixes = ["super::".repeat(parts.len()), format!("crate::{name}::")];
        let mut found = prefixes.iter().flat_map(|prefix| heads_after(&code, prefix));
        let is_part = |part: &String| {
            module.join(part).is_dir() || module.join(format!("{part}.rs")).is_file()
        };
        let others = found.by_ref().filter(|part| *part != own && is_part(part));
        uses.entry(own.clone()).or_default().extend(others.collect::<Vec<_>>());
    }
    uses
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

#[test]
fn submodules_have_no_circular_dependencies() {
    let mut modules = files(&root().join("src"))
        .into_iter()
        .filter_map(|(path, _)| path.parent().map(Path::to_owned))
        .filter(|path| *path != root().join("src"))
        .collect::<BTreeSet<_>>();
    // A folder may hold nothing but folders.
    let parents = modules.iter().filter_map(|path| path.parent()).map(Path::to_owned);
    modules.extend(parents.filter(|path| *path != root().join("src")).collect::<Vec<_>>());
    let mut cycles = Vec::new();
    for module in modules {
        let uses = used_in_module(&module);
        let parts = uses.keys().filter(|part| in_cycle(&uses, part));
        cycles.extend(parts.map(|part| format!("{}/{part}", module.display())));
    }
    assert!(cycles.is_empty(), "in cycles:\n{}", cycles.join("\n"));
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

/// The text without its modules of unit tests.
fn without_tests(text: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let is_module = |next: &&str| next.trim_start().starts_with("mod ") && next.ends_with('{');
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(is_module) {
            let end = format!("{}}}", &line[..indent]);
            lines.by_ref().find(|line| *line == end);
        } else {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// The name of the type or trait that a line defines. Those of one letter do not count, nor
/// does an indented `type`, which belongs to a trait or an implementation.
fn defined(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item = match item.strip_prefix("pub(") {
        Some(rest) => rest.split_once(')')?.1.trim_start(),
        None => item.strip_prefix("pub ").unwrap_or(item),
    };
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let (keyword, rest) = item.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_type = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    (is_type && name.len() > 1 && name.starts_with(|c: char| c.is_uppercase())).then_some(name)
}

/// The names that several types or traits have, with the files that define them.
fn defined_twice(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for (path, text) in files {
        for name in code(&without_tests(text)).lines().filter_map(defined) {
            places.entry(name.to_owned()).or_default().push(path.display().to_string());
        }
    }
    let several = places.into_iter().filter(|(_, places)| places.len() > 1);
    several.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect()
}

#[test]
fn every_type_name_is_defined_once() {
    let twice = defined_twice(&files(&root().join("src")));
    assert!(twice.is_empty(), "defined more than once:\n{}", twice.join("\n"));
}

#[test]
fn types_of_the_same_name_are_found() {
    let file = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
    let first = "pub(in super::super) struct Row<'a> {\n}\nunsafe trait Lane {}\n\
                 impl Lane for Row {\n    type Output = f32;\n    type Step = u8;\n}\n\
                 type T = u8;\nenum Kind {\n    Row,\n}\n";
    let second = "pub type Row = u32;\n// struct Kind\nfn f() {\n    struct Lane;\n}\n\
                  type T = u8;\nimpl A {\n    type Output = u8;\n}\n\
                  #[cfg(test)]\nmod tests {\n    enum Kind {\n    }\n}\npub enum Step {}\n";
    let twice = defined_twice(&[file("a.rs", first), file("b.rs", second)]);
    assert_eq!(twice, ["Lane: a.rs, b.rs", "Row: a.rs, b.rs"]);
    assert_eq!(defined_twice(&[file("a.rs", "struct Kind;\nenum Kind {}")]), ["Kind: a.rs, a.rs"]);
}

//! Gives the crate what it is built from: the compiler, the versions of the
//! libraries that can change results, and the commit of its sources. Results
//! name the build that made them, wherever it is run from.

use std::path::Path;
use std::process::Command;

/// Libraries whose version a manifest names.
const NAMED: &[&str] = &["candle-core", "candle-nn", "rand_chacha", "tokenizers"];
/// What is compiled: changes elsewhere do not make the code another one.
const SOURCES: &[&str] = &["src", "build.rs", "Cargo.toml", "Cargo.lock", "docs/certified.csv"];
/// What git moves with a checkout or a commit, besides the branch itself.
const MOVING: &[&str] = &["HEAD", "packed-refs"];

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = ask(&rustc, &["--version"]).unwrap_or_else(|| "unknown".to_owned());
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let (commit, dirty) = commit();
    println!("cargo:rustc-env=SPECDEC_RUSTC={version}");
    println!("cargo:rustc-env=SPECDEC_VERSIONS={}", versions(&lock).join(" "));
    println!("cargo:rustc-env=SPECDEC_COMMIT={commit}");
    println!("cargo:rustc-env=SPECDEC_DIRTY={dirty}");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
}

/// The commit of the sources and whether they differ from it; `unknown` where
/// they are in no repository of their own, as in a folder of vendored crates.
fn commit() -> (String, bool) {
    let unknown = ("unknown".to_owned(), false);
    if git(&["ls-files", "--error-unmatch", "Cargo.toml"]).is_none() {
        return unknown;
    }
    let Some(commit) = git(&["rev-parse", "HEAD"]) else { return unknown };
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for file in MOVING.iter().copied().chain(branch.as_deref()) {
        // A file that does not exist would count as changed in every build.
        let path = git(&["rev-parse", "--git-path", file]).unwrap_or_default();
        if Path::new(&path).is_file() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let changes = git(&[&["status", "--porcelain", "--"], SOURCES].concat());
    (commit, changes.is_none_or(|changes| !changes.is_empty()))
}

fn git(args: &[&str]) -> Option<String> {
    ask("git", args)
}

/// What a program prints; `None` if it cannot be asked or fails.
fn ask(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    // Within a git hook these name the hook's repository.
    command.args(args).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `name=version` of the named libraries, as Cargo.lock pins them.
fn versions(lock: &str) -> Vec<String> {
    let field = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|block| Some((field(block, "name")?, field(block, "version")?)))
        .filter(|(name, _)| NAMED.contains(&name.as_str()))
        .map(|(name, version)| format!("{name}={version}"))
        .collect()
}

//! Tells the crate which compiler built it and which versions of the libraries
//! that can change results it was built with, for the manifests of results.

use std::process::Command;

/// Libraries whose version a manifest names.
const NAMED: &[&str] = &["candle-core", "candle-nn", "rand_chacha", "tokenizers"];

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo:rustc-env=SPECDEC_RUSTC={version}");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    println!("cargo:rustc-env=SPECDEC_VERSIONS={}", versions(&lock).join(" "));
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.lock");
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

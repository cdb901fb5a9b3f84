//! Tells the crate which compiler built it, for the manifests of results.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo:rustc-env=SPECDEC_RUSTC={version}");
    println!("cargo:rerun-if-changed=build.rs");
}

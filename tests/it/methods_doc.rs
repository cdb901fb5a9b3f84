//! `docs/methods.md` matches the registries.

use std::process::Command;

#[test]
fn the_methods_page_is_up_to_date() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_specdec")).args(["list", "--markdown"]).output().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/methods.md");
    assert_eq!(
        std::fs::read_to_string(page).unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        "run: cargo run --release -- list --markdown > docs/methods.md"
    );
}

//! `specdec report --check`: what of a results folder is not as it was written.

use std::fs;
use std::path::Path;

use specdec::run::experiment::Manifest;

use crate::run_support::{fail, folder, run, specdec, succeed};

/// What the check prints, and whether it finds nothing.
fn checked(folder: &Path) -> (String, bool) {
    let output = specdec(&["report", "--check"]).arg(folder).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

/// Replaces the first occurrence of `from` in a file.
fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from} in {}", file.display());
    fs::write(file, text.replacen(from, to, 1)).unwrap();
}

/// Catches: a damaged block, row file, table or figure is not named, the first damage hides the
/// others, or a sound folder is blamed.
#[test]
fn everything_that_does_not_match_is_named() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let (said, sound) = checked(&folder);
    assert!(sound && said.starts_with("as written: 12 blocks; "), "{said}");
    let text = fs::read_to_string(folder.join("generations.csv")).unwrap();
    let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
    let at = lines[0].split(',').position(|name| name == "decode_us").unwrap();
    let mut fields = lines[1].split(',').collect::<Vec<_>>();
    fields[at] = "1.5";
    lines[1] = fields.join(",");
    fs::write(folder.join("generations.csv"), lines.join("\n") + "\n").unwrap();
    let figure = fs::read_dir(folder.join("figures")).unwrap().next().unwrap().unwrap();
    edit(&figure.path(), "<svg", "<svg ");
    fs::remove_file(folder.join("summary.csv")).unwrap();
    edit(&folder.join("manifest.json"), "\"lost_share\"", "\"lost_part\"");
    let (said, sound) = checked(&folder);
    let figure = format!("figures/{} is not the one", figure.file_name().display());
    assert!(!sound && said.lines().count() == 4, "{said}");
    for part in [
        "its rows in generations.csv are not those",
        "manifest.json",
        &figure,
        "summary.csv cannot",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("block 0 (prompt "), "{said}");
    // A file that cannot be read hides neither the figures nor the other rows.
    fs::write(folder.join("rounds.csv"), "nonsense\n").unwrap();
    let (said, _) = checked(&folder);
    assert!(said.contains("rounds.csv has no column") && said.contains(&figure), "{said}");
    assert!(said.contains("generations.csv") && said.lines().count() == 5, "{said}");
}

/// Catches: the check takes the word of a shortened list of blocks, or of a damaged plan.
#[test]
fn missing_blocks_and_damaged_plans_are_named() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let folder = folder(out.path());
    let text = fs::read_to_string(folder.join("blocks.csv")).unwrap();
    let lines = text.split_inclusive('\n').collect::<Vec<_>>();
    fs::write(folder.join("blocks.csv"), lines[..lines.len() - 1].concat()).unwrap();
    let (said, sound) = checked(&folder);
    assert!(!sound && said.contains("blocks.csv lists 11 blocks, and manifest.json 12"), "{said}");
    edit(&folder.join("plan.toml"), "repeats = ", "repeats = 1");
    let (said, _) = checked(&folder);
    assert!(said.contains("plan.toml") && said.contains("do not have the hash"), "{said}");
    // A list of digests leads to no other folder.
    fs::write(folder.join("SHA256SUMS"), "00  ../../secret\n").unwrap();
    let (said, _) = checked(&folder);
    assert!(said.contains("names no file of this folder"), "{said}");
    fail(
        specdec(&["report", "--check", "nowhere"]).output().unwrap(),
        &["nowhere is not a folder"],
    );
}

/// Catches: an edited manifest is read, or one of version 0.2, which has no hash, is refused.
#[test]
fn a_manifest_has_the_hash_of_its_contents() {
    let out = tempfile::tempdir().unwrap();
    succeed(run(out.path(), &[]));
    let file = folder(out.path()).join("manifest.json");
    let manifest = Manifest::read(file.parent().unwrap()).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    edit(&file, "\"threads\": ", "\"threads\": 1");
    let report = || specdec(&["report"]).arg(file.parent().unwrap()).output().unwrap();
    fail(report(), &["manifest.json is damaged: its contents do not have the hash"]);
    let mut value = serde_json::from_str::<serde_json::Value>(&text).unwrap();
    value.as_object_mut().unwrap().remove("hash").unwrap();
    fs::write(&file, value.to_string()).unwrap();
    assert_eq!(Manifest::read(file.parent().unwrap()).unwrap(), manifest);
}

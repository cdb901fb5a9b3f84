//! Links between the project's documents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All Markdown files below a folder, without hidden folders and what builds and
/// experiments put there.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "work" {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The targets of the links of a document that lead to files.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = ends.map(|(target, _)| target.split('#').next().unwrap_or_default());
    files.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The files in git's index, or none in a tree without git.
fn tracked(root: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let Ok(listed) = listed else { return Vec::new() };
    let names = String::from_utf8(listed.stdout).unwrap();
    names.split_terminator('\0').map(|name| root.join(name)).collect()
}

/// In a fresh clone, a file that was never committed is missing: with git at hand,
/// a file that is there but not in git's index fails already here.
#[test]
fn every_link_between_documents_leads_to_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    let tracked = tracked(&root);
    let mut found = Vec::new();
    documents(&root, &mut found);
    assert!(found.iter().any(|path| path.ends_with("README.md")), "no documents were found");
    let mut links = 0;
    for document in found {
        let text = fs::read_to_string(&document).unwrap();
        for target in targets(&text) {
            links += 1;
            let file = document.parent().unwrap().join(target).canonicalize();
            let file = file.unwrap_or_else(|_| panic!("{}: no file {target}", document.display()));
            let committed =
                tracked.is_empty() || tracked.iter().any(|known| known.starts_with(&file));
            assert!(committed, "{}: {target} is not in git", document.display());
        }
    }
    assert!(links > 50, "only {links} links were found");
}

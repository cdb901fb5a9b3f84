//! Downloads from a hub on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use specdec::model::{Catalog, HubCache, Role, load};

use crate::hub_server::{Hub, answer};
use crate::hub_support::{
    COMMIT, Files, REPO, blob, draft_files, draft_folder, folder_in, sharded_files, write,
};

/// The files of a folder by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names = names.collect::<Vec<_>>();
    names.sort();
    names
}

fn repository(hub: &Hub) -> PathBuf {
    folder_in(&hub.cache(), REPO)
}

/// The draft and files that no loader reads.
fn draft_and_more() -> Files {
    let mut files = draft_files();
    for name in ["README.md", "pytorch_model.bin", "original/model.safetensors", "tiny-Q8_0.gguf"] {
        files.insert(name.to_owned(), name.as_bytes().to_vec());
    }
    files
}

#[test]
fn a_download_has_the_layout_of_the_cache_and_the_hash_of_the_files() {
    let hub = Hub::serve(draft_and_more());
    let path = hub.downloaded(REPO);
    assert_eq!(path, repository(&hub).join("snapshots").join(COMMIT));
    assert_eq!(fs::read_to_string(repository(&hub).join("refs/main")).unwrap(), COMMIT);
    let wanted = draft_files();
    assert_eq!(names(&path), wanted.keys().cloned().collect::<Vec<_>>());
    for (name, bytes) in &wanted {
        assert_eq!(&fs::read(path.join(name)).unwrap(), bytes, "{name}");
    }
    let weights = fs::read_link(path.join("model.safetensors")).unwrap();
    let hash = blob(&wanted["model.safetensors"]);
    assert_eq!(weights, Path::new("../../blobs").join(hash));
    assert_eq!(names(&repository(&hub).join("blobs")).len(), wanted.len(), "and no partial file");
    let catalog = Catalog::near(hub.home()).with_cache(HubCache::at(hub.cache()));
    let found = load(catalog.model(REPO).unwrap(), Role::Draft).unwrap();
    let folder = load(draft_folder().to_str().unwrap(), Role::Draft).unwrap();
    assert_eq!(found.model.info().sha256, folder.model.info().sha256);
}

#[test]
fn what_is_in_the_cache_is_not_downloaded_again() {
    let hub = Hub::serve(draft_files());
    let path = hub.downloaded(REPO);
    let before = hub.asked().iter().filter(|asked| asked.is_for("")).count();
    // Lost links and blobs are made good.
    fs::remove_file(path.join("tokenizer.json")).unwrap();
    fs::remove_file(fs::canonicalize(path.join("config.json")).unwrap()).unwrap();
    assert_eq!(hub.downloaded(REPO), path);
    let after = hub.asked().iter().filter(|asked| asked.is_for("")).count();
    assert_eq!(after, before + 2, "the list of files, and config.json");
    assert_eq!(hub.asked_for("model.safetensors").len(), 2, "one request and its redirect");
    assert_eq!(fs::read(path.join("config.json")).unwrap(), draft_files()["config.json"]);
}

#[test]
fn loading_downloads_what_is_missing_and_says_so_in_one_line() {
    let hub = Hub::serve(draft_files());
    let args =
        ["generate", "fn main", "-n", "2", "--plain", "--temperature", "0", "--target", REPO];
    let first = hub.specdec(&args).output().unwrap();
    let stderr = String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{stderr}");
    let said = stderr.lines().filter(|line| line.contains("download")).collect::<Vec<_>>();
    let line =
        format!("downloading {REPO} (commit {}) into {}", &COMMIT[..12], hub.cache().display());
    assert_eq!(said, [line]);
    let before = hub.asked().len();
    let second = hub.specdec(&args).output().unwrap();
    assert_eq!((hub.asked().len(), second.stdout), (before, first.stdout));
}

#[test]
fn shards_are_those_of_the_index() {
    let mut files = sharded_files();
    files.insert("model-00003-of-00003.safetensors".to_owned(), b"of another".to_vec());
    let hub = Hub::serve(files);
    let path = hub.downloaded(REPO);
    assert_eq!(names(&path), sharded_files().keys().cloned().collect::<Vec<_>>());
    assert!(load(path.to_str().unwrap(), Role::Draft).is_ok());
    let mut files = sharded_files();
    files.remove("model-00002-of-00002.safetensors");
    let sentence = Hub::serve(files).refusal(REPO);
    assert!(sentence.contains("has no model-00002-of-00002.safetensors"), "{sentence}");
}

#[test]
fn a_gguf_file_comes_alone() {
    let names_of =
        ["a-Q4_K_M.gguf", "big/a-Q8_0-00001-of-00002.gguf", "big/a-Q8_0-00002-of-00002.gguf"];
    let files = names_of.map(|name| (name.to_owned(), name.as_bytes().to_vec()));
    let hub = Hub::serve(files.into());
    let snapshot = repository(&hub).join("snapshots").join(COMMIT);
    assert_eq!(hub.downloaded(&format!("{REPO}:q4_k_m")), snapshot.join(names_of[0]));
    assert_eq!(names(&snapshot), [names_of[0]]);
    assert_eq!(hub.downloaded(&format!("{REPO}:Q8_0")), snapshot.join(names_of[1]));
    assert_eq!(fs::read(snapshot.join(names_of[2])).unwrap(), names_of[2].as_bytes());
    let sentence = hub.refusal(&format!("{REPO}:Q5_0"));
    assert!(sentence.contains("no GGUF file of type Q5_0 (but a-Q4_K_M.gguf, "), "{sentence}");
    let sentence = hub.refusal(REPO);
    assert!(sentence.contains("has no config.json, but GGUF files"), "{sentence}");
}

#[test]
fn a_revision_is_asked_for_by_its_whole_name() {
    let hub = Hub::serve(draft_files());
    hub.downloaded(&format!("{REPO}@refs/pr/3"));
    assert_eq!(hub.asked()[0].path, format!("/api/models/{REPO}/revision/refs%2Fpr%2F3"));
    let reference = repository(&hub).join("refs/refs/pr/3");
    assert_eq!(fs::read_to_string(reference).unwrap(), COMMIT);
    hub.downloaded(&format!("{REPO}@{COMMIT}"));
    assert_eq!(names(&repository(&hub).join("refs")), ["refs"], "a commit needs no reference");
}

/// The token of a test, in the variable or in the file.
const TOKEN: &str = "hf_secret";

#[test]
fn the_token_goes_to_the_hub_alone() {
    for in_file in [false, true] {
        let hub = Hub::serve(draft_files());
        let mut command = hub.specdec(&["models", "download", REPO]);
        if in_file {
            write(&hub.home().join("token"), format!("{TOKEN}\n").as_bytes());
        } else {
            command.env("HF_TOKEN", TOKEN);
        }
        assert!(command.output().unwrap().status.success());
        let asked = hub.asked();
        assert!(asked.iter().any(|asked| asked.large));
        for asked in asked {
            let sent = asked.headers.get("authorization").map(String::as_str);
            let wanted = (!asked.large).then_some("Bearer hf_secret");
            assert_eq!(sent, wanted, "{asked:?}");
        }
    }
    let hub = Hub::serve(draft_files());
    hub.downloaded(REPO);
    assert!(hub.asked().iter().all(|asked| !asked.headers.contains_key("authorization")));
}

#[test]
fn a_renamed_repository_is_followed() {
    let hub =
        Hub::changed(draft_files(), |asked, usual| match asked.path.split_once("/old-name/") {
            _ if asked.large => usual,
            Some((owner, rest)) => {
                answer(307, &[("location", &format!("{owner}/tiny-model/{rest}"))], b"")
            }
            None => usual,
        });
    let path = hub.downloaded("lab/old-name");
    assert!(path.starts_with(folder_in(&hub.cache(), "lab/old-name")));
    assert!(load(path.to_str().unwrap(), Role::Draft).is_ok());
}

#[test]
fn offline_nothing_is_asked_for() {
    let hub = Hub::serve(draft_files());
    for (key, value) in [("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "YES")] {
        for args in [&["models", "download", REPO][..], &["generate", "a", "--target", REPO]] {
            let output = hub.specdec(args).env(key, value).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(stderr.contains("HF_HUB_OFFLINE forbids downloads"), "{stderr}");
        }
    }
    assert_eq!(hub.asked(), []);
    hub.downloaded(REPO);
    let list = hub.specdec(&["models"]).env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains(&format!("\n{REPO} ")));
}

#[test]
fn two_downloads_at_once_share_the_work() {
    let hub = Hub::changed(draft_files(), |asked, usual| {
        if asked.large {
            // Long enough for the other process to come to the same file.
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
        usual
    });
    let start = || hub.specdec(&["models", "download", REPO]).spawn().unwrap();
    for mut process in [start(), start()] {
        assert!(process.wait().unwrap().success());
    }
    let large = hub.asked().into_iter().filter(|asked| asked.large && asked.method == "GET");
    assert_eq!(large.count(), 1);
    assert!(
        load(repository(&hub).join("snapshots").join(COMMIT).to_str().unwrap(), Role::Draft)
            .is_ok()
    );
}

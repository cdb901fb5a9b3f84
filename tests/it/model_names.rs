//! `specdec models`: which models can be named, and which pairs share a tokenizer.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli_support::{specdec, text};
use crate::hub_support::{COMMIT, Files, REPO, draft_files, sharded_files, store, write};

/// The output of `specdec models` in a folder with a cache below it.
fn models(folder: &Path, args: &[&str]) -> String {
    let mut command = specdec(&[&["models"], args].concat());
    command.current_dir(folder).env("HF_HUB_CACHE", folder.join("hub")).env_remove("SPECDEC_HOME");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_missing_model_is_refused_with_the_command_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("hub");
    let mut command = specdec(&["generate", "a", "--plain", "--target", "lab/none@v1"]);
    let output = command.env("HF_HUB_CACHE", &cache).output().unwrap();
    let wanted = format!(
        "error: target: model lab/none@v1: there is no such folder, and the Hugging Face cache {} \
         does not hold it: `hf download lab/none --revision v1` downloads it\n",
        cache.display()
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), wanted));
    assert!(output.stdout.is_empty() && !cache.exists(), "and nothing is written");
}

/// The models in the JSON form, by name.
fn listed(folder: &Path) -> impl Fn(&str) -> Value {
    let listing: Value = serde_json::from_str(&models(folder, &["--json"])).unwrap();
    move |name| {
        let models = listing["models"].as_array().unwrap();
        let mut found = models.iter().filter(|model| model["name"] == name);
        let model = found.next().unwrap_or_else(|| panic!("no {name} in {listing}"));
        assert!(found.next().is_none(), "{name} is listed twice");
        model.clone()
    }
}

/// The draft with the numbers of two tokens exchanged.
fn other_tokens() -> Files {
    let mut files = draft_files();
    let mut tokenizer: Value = serde_json::from_slice(&files["tokenizer.json"]).unwrap();
    let vocab = &mut tokenizer["model"]["vocab"];
    let (a, b) = (vocab["a"].clone(), vocab["b"].clone());
    assert_ne!(a, b);
    (vocab["a"], vocab["b"]) = (b, a);
    files.insert("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes());
    files
}

#[test]
fn the_embedded_pair_is_named_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let model = listed(folder.path());
    let (target, draft) = (model("embedded-target"), model("embedded-draft"));
    assert_eq!(target["path"], "embedded:/models/target", "it needs no checkout");
    assert_eq!((&target["family"], &target["dtype"]), (&"llama".into(), &"bf16".into()));
    assert_eq!((&target["vocab"], &target["error"]), (&4096.into(), &Value::Null));
    assert_eq!(target["tokenizer_sha256"], draft["tokenizer_sha256"]);
    assert_eq!(draft["drafts_for"], serde_json::json!(["embedded-target"]));
    assert_eq!(target["drafts_for"], serde_json::json!([]), "it is the larger one");
    let size =
        fs::metadata(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/target/model.safetensors"));
    assert_eq!(target["bytes"], size.unwrap().len());
}

#[test]
fn the_cache_is_listed_by_branch_commit_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("hub");
    let older = COMMIT.replace('0', "9");
    store(&cache, REPO, COMMIT, &["main", "v1"], &sharded_files());
    store(&cache, REPO, &older, &[], &draft_files());
    store(&cache, "lab/other-tokens", COMMIT, &["main"], &other_tokens());
    let files = [("x-Q4_0.gguf".to_owned(), b"GGUF".to_vec())];
    store(&cache, "lab/quantised", COMMIT, &["main"], &files.into());
    let model = listed(folder.path());
    let named = model(REPO);
    assert_eq!(named["revision"], COMMIT);
    let weights = sharded_files().into_iter().filter(|(name, _)| name.ends_with(".safetensors"));
    assert_eq!(named["bytes"], weights.map(|(_, bytes)| bytes.len()).sum::<usize>());
    // The embedded draft has the same weights; v1 is only another name of this one.
    let drafts_for =
        serde_json::json!(["embedded-draft", "embedded-target", format!("{REPO}@{older}")]);
    assert_eq!(named["drafts_for"], drafts_for);
    assert_eq!(model(&format!("{REPO}@v1"))["path"], named["path"]);
    assert_eq!(model(&format!("{REPO}@{older}"))["revision"], older);
    let other = model("lab/other-tokens");
    assert_eq!((&other["drafts_for"], &other["error"]), (&serde_json::json!([]), &Value::Null));
    assert_ne!(other["tokenizer_sha256"], named["tokenizer_sha256"]);
    let gguf = model("lab/quantised:x-Q4_0.gguf");
    assert!(gguf["path"].as_str().unwrap().ends_with("x-Q4_0.gguf"), "{gguf}");
    let table = models(folder.path(), &[]);
    let short = &named["tokenizer_sha256"].as_str().unwrap()[..8];
    let line = table.lines().find(|line| line.starts_with("lab/tiny-model ")).unwrap();
    assert!(line.contains(short) && line.contains(" 1M ") && line.contains(" 2 MB "), "{line}");
}

#[test]
fn a_damaged_model_is_a_line_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("hub");
    let spoil = |repo: &str, file: &str, content: &[u8]| {
        let mut files = draft_files();
        files.insert(file.to_owned(), content.to_vec());
        store(&cache, repo, COMMIT, &["main"], &files);
    };
    spoil("bad/config", "config.json", b"{\"model_type\": \"mamba\"}");
    spoil("bad/tokenizer", "tokenizer.json", b"{");
    spoil("bad/weights", "model.safetensors", b"short");
    let snapshot = store(&cache, "bad/lost", COMMIT, &["main"], &draft_files());
    fs::remove_file(fs::canonicalize(snapshot.join("tokenizer.json")).unwrap()).unwrap();
    store(&cache, "bad/reference", COMMIT, &["main"], &draft_files());
    write(&cache.join("models--bad--reference/refs/main"), b"nonsense");
    write(&cache.join("models--no-owner/refs/main"), b"");
    write(&cache.join("version.txt"), b"1");
    let toml = "[mine]\npath = \"nowhere\"\naliases = [\"m\"]\n";
    write(&folder.path().join("configs/models.toml"), toml.as_bytes());
    let model = listed(folder.path());
    for (name, part) in [
        ("bad/config", "mamba"),
        ("bad/tokenizer", "not a tokenizer"),
        ("bad/weights", "not a complete safetensors file"),
        ("bad/lost", "tokenizer.json has lost its content"),
        ("bad/reference", "does not hold a commit"),
        ("mine", "no such folder"),
    ] {
        let error = model(name)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(part) && !error.contains('\n'), "{name}: {error}");
    }
    assert_eq!(model("embedded-draft")["error"], Value::Null);
    let table = models(folder.path(), &[]);
    assert_eq!(table.lines().filter(|line| line.contains("  cannot be loaded: ")).count(), 6);
    write(&folder.path().join("configs/models.toml"), b"[mine");
    let table = models(folder.path(), &[]);
    assert!(table.contains("configs/models.toml  cannot be loaded: "), "{table}");
    assert!(table.contains("\nembedded-target "), "{table}");
}

#[test]
fn a_name_in_the_nearest_folder_hides_the_same_name_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let draft = crate::hub_support::draft_folder();
    let toml =
        format!("[embedded-target]\npath = {:?}\naliases = [\"t\"]\n", draft.to_str().unwrap());
    write(&folder.path().join("configs/models.toml"), toml.as_bytes());
    let model = listed(folder.path());
    assert_eq!(model("embedded-target")["path"], draft.to_str().unwrap());
    assert!(models(folder.path(), &[]).contains("embedded-target (t) "));
}

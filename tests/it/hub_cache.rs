//! Models by their names in the Hugging Face cache.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use specdec::checkpoint::{Catalog, HubCache, HubName, load};
use specdec::engine::Source;
use specdec::model::Role;
use specdec::run::experiment::{Manifest, read_plan};

use crate::cli_support::{specdec, text};
use crate::damage_support::says;
use crate::hub_support::{
    COMMIT, Files, REPO, draft_files, draft_folder, folder_in, sharded_files, store, write,
};

/// An empty cache, below a folder from which names are looked up.
struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A lab whose cache holds these files as the newest commit.
    fn with(files: &Files) -> Self {
        let lab = Self::new();
        store(&lab.cache(), REPO, COMMIT, &["main"], files);
        lab
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("hub")
    }

    fn snapshot(&self) -> PathBuf {
        folder_in(&self.cache(), REPO).join("snapshots").join(COMMIT)
    }

    fn find(&self, name: &str) -> Result<Source, String> {
        let catalog = Catalog::near(self.folder.path()).with_cache(HubCache::at(self.cache()));
        catalog.model(name).map_err(|error| error.to_string())
    }

    /// The one-line message for a name that is not found.
    #[track_caller]
    fn refusal(&self, name: &str) -> String {
        let sentence = self.find(name).unwrap_err();
        assert!(!sentence.contains('\n'), "more than one line: {sentence}");
        sentence
    }
}

/// Files with these names and no useful content.
fn named(names: &[&str]) -> Files {
    names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect()
}

#[test]
fn all_kinds_of_revisions_lead_to_the_same_model() {
    let lab = Lab::new();
    let revisions = ["main", "v1.0", "refs/pr/3", "team/branch"];
    store(&lab.cache(), REPO, COMMIT, &revisions, &draft_files());
    let names = [
        "",
        "@main",
        "@v1.0",
        "@refs/pr/3",
        "@team/branch",
        "@0123456789abcdef0123456789abcdef01234567",
    ];
    for name in names {
        let source = lab.find(&format!("{REPO}{name}")).unwrap();
        assert_eq!(Path::new(&source.path), lab.snapshot(), "{name}");
        assert_eq!(source.revision.as_deref(), Some(COMMIT), "{name}");
    }
}

#[test]
fn a_cached_model_has_its_folders_hash_and_its_commit() {
    let folder = load(draft_folder().to_str().unwrap(), Role::Draft).unwrap();
    assert_eq!(folder.model.info().revision, None);
    let whole = load(Lab::with(&draft_files()).find(REPO).unwrap(), Role::Draft);
    let whole = whole.unwrap();
    let info = whole.model.info();
    assert_eq!(info.sha256, folder.model.info().sha256);
    assert_eq!(info.revision.as_deref(), Some(COMMIT));
    let lab = Lab::with(&sharded_files());
    let sharded = load(lab.find(REPO).unwrap(), Role::Draft).unwrap();
    assert_eq!(sharded.model.info().parameters, info.parameters);
    assert_eq!(sharded.model.info().tokenizer_sha256, info.tokenizer_sha256);
}

#[test]
fn a_folder_of_the_same_name_comes_first() {
    let lab = Lab::with(&draft_files());
    let folder = lab.folder.path().join(REPO);
    fs::create_dir_all(&folder).unwrap();
    let source = lab.find(REPO).unwrap();
    assert_eq!((Path::new(&source.path), source.revision), (folder.as_path(), None));
    assert_eq!(lab.find(&format!("{REPO}@main")).unwrap().revision.as_deref(), Some(COMMIT));
}

#[test]
fn a_model_outside_the_cache_is_refused_with_a_command() {
    let lab = Lab::with(&draft_files());
    let cache = lab.cache().display().to_string();
    let command = "`hf download lab/other` downloads it";
    says(&lab.refusal("lab/other"), &["model lab/other: ", "no such folder", &cache, command]);
    let sentence = lab.refusal(&format!("{REPO}@v2"));
    says(&sentence, &["no revision v2", "`hf download lab/tiny-model --revision v2`"]);
    let commit = COMMIT.replace('0', "9");
    says(&lab.refusal(&format!("{REPO}@{commit}")), &["no file of its revision", &commit]);
    // Part of a commit names nothing, as in the hub's own tools.
    let short = lab.refusal(&format!("{REPO}@{}", &COMMIT[..12]));
    says(&short, &["no revision 0123456789ab", "a commit is spelled with all its 40 digits"]);
    assert!(!sentence.contains("digits"), "{sentence}");
    let sentence = lab.refusal(&format!("{REPO}:Q4_K_M"));
    says(&sentence, &["no GGUF file of type Q4_K_M", "--include '*Q4_K_M*.gguf'`"]);
    let sentence = lab.refusal(&format!("{REPO}@main:a/b.gguf"));
    says(&sentence, &["no a/b.gguf", "`hf download lab/tiny-model a/b.gguf --revision main`"]);
}

#[test]
fn an_incomplete_snapshot_names_the_file() {
    let command = "`hf download lab/tiny-model` downloads it";
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let mut files = draft_files();
        files.remove(file);
        says(&Lab::with(&files).refusal(REPO), &[&format!("{file} is missing"), command]);
    }
    let shard = "model-00002-of-00002.safetensors";
    let mut files = sharded_files();
    files.remove(shard);
    says(&Lab::with(&files).refusal(REPO), &[&format!("{shard} is missing"), command]);
    for file in ["tokenizer.json", "generation_config.json", shard] {
        let lab = Lab::with(&sharded_files());
        fs::remove_file(fs::canonicalize(lab.snapshot().join(file)).unwrap()).unwrap();
        says(&lab.refusal(REPO), &[&format!("{file} has lost its content"), command]);
    }
}

#[test]
fn what_is_there_in_another_format_is_left_to_the_loader() {
    let mut files = draft_files();
    let weights = files.remove("model.safetensors").unwrap();
    files.insert("pytorch_model.bin".to_owned(), weights);
    let source = Lab::with(&files).find(REPO);
    assert!(source.is_ok(), "{source:?}");
}

#[test]
fn links_may_not_lead_out_of_the_repository() {
    let outside = |path: &str| {
        let lab = Lab::with(&draft_files());
        write(&lab.folder.path().join("secret.json"), b"{}");
        let other = store(&lab.cache(), "lab/other", COMMIT, &[], &draft_files());
        let link = lab.snapshot().join("config.json");
        fs::remove_file(&link).unwrap();
        let target = path.replace("OTHER", other.to_str().unwrap());
        symlink(target, link).unwrap();
        lab.refusal(REPO)
    };
    for path in ["../../../../secret.json", "/etc/hostname", "OTHER/config.json"] {
        says(&outside(path), &["config.json: is a link that leads out"]);
    }
    let lab = Lab::new();
    let real = store(&lab.folder.path().join("elsewhere"), REPO, COMMIT, &[], &draft_files());
    let snapshots = folder_in(&lab.cache(), REPO).join("snapshots");
    fs::create_dir_all(&snapshots).unwrap();
    symlink(real, snapshots.join(COMMIT)).unwrap();
    says(&lab.refusal(&format!("{REPO}@{COMMIT}")), &["is a link that leads out"]);
}

/// Newer tools keep equal files of several repositories once, in the folder `blobs` of the
/// cache, and the whole cache may be a link to a larger disk.
#[test]
fn links_within_the_cache_are_followed() {
    let lab = Lab::with(&draft_files());
    let own = fs::canonicalize(lab.snapshot().join("model.safetensors")).unwrap();
    let shared = lab.cache().join("blobs/ab/abcd");
    fs::create_dir_all(shared.parent().unwrap()).unwrap();
    fs::rename(&own, &shared).unwrap();
    symlink("../../blobs/ab/abcd", &own).unwrap();
    let moved = lab.folder.path().join("large-disk");
    fs::rename(lab.cache(), &moved).unwrap();
    symlink(&moved, lab.cache()).unwrap();
    assert!(load(lab.find(REPO).unwrap(), Role::Draft).is_ok());
}

#[test]
fn a_damaged_reference_is_refused_by_name() {
    for content in ["", "main", "../../../etc", &format!("{COMMIT}0"), &"0".repeat(5000)] {
        let lab = Lab::with(&draft_files());
        let file = folder_in(&lab.cache(), REPO).join("refs/main");
        fs::write(&file, content).unwrap();
        says(&lab.refusal(REPO), &[file.to_str().unwrap(), "does not hold a commit"]);
    }
}

#[test]
fn a_gguf_file_is_found_by_its_path_or_its_quantisation() {
    let files = [
        "README.md",
        "tiny-Q4_K_M.gguf",
        "tiny-q4_k_s.gguf",
        "tiny.IQ4_K.gguf",
        "mmproj-tiny-Q4_K_M.gguf",
        "Q8_0/tiny-Q8_0-00001-of-00002.gguf",
        "Q8_0/tiny-Q8_0-00002-of-00002.gguf",
    ];
    let lab = Lab::with(&named(&files));
    for (part, file) in [
        ("Q4_K_M", "tiny-Q4_K_M.gguf"),
        ("q4_k_m", "tiny-Q4_K_M.gguf"),
        ("Q4_K_S", "tiny-q4_k_s.gguf"),
        ("IQ4_K", "tiny.IQ4_K.gguf"),
        ("Q8_0", "Q8_0/tiny-Q8_0-00001-of-00002.gguf"),
        ("Q8_0/tiny-Q8_0-00001-of-00002.gguf", "Q8_0/tiny-Q8_0-00001-of-00002.gguf"),
        ("mmproj-tiny-Q4_K_M.gguf", "mmproj-tiny-Q4_K_M.gguf"),
    ] {
        let source = lab.find(&format!("{REPO}@main:{part}")).unwrap();
        assert_eq!(Path::new(&source.path), lab.snapshot().join(file), "{part}");
        assert_eq!(source.revision.as_deref(), Some(COMMIT));
    }
    // Q4_K is no part of Q4_K_M or IQ4_K, and Q4 is no part of Q4_K.
    for part in ["Q4_K", "Q4", "Q8_0.x"] {
        says(&lab.refusal(&format!("{REPO}:{part}")), &["no GGUF file of type", files[1]]);
    }
    says(&lab.refusal(REPO), &["holds GGUF files", ":tiny-Q4_K_M.gguf or :tiny-q4_k_s.gguf"]);
    fs::remove_file(lab.snapshot().join(files[6])).unwrap();
    says(&lab.refusal(&format!("{REPO}:Q8_0")), &["tiny-Q8_0-00002-of-00002.gguf is missing"]);
    let lab = Lab::with(&named(&["a-Q4_0.gguf", "b-Q4_0.gguf"]));
    let sentence = lab.refusal(&format!("{REPO}:Q4_0"));
    says(&sentence, &["several files are Q4_0", ":a-Q4_0.gguf or :b-Q4_0.gguf"]);
    assert!(lab.find(&format!("{REPO}:b-Q4_0.gguf")).is_ok());
}

#[test]
fn names_are_shown_as_they_are_written() {
    for name in
        ["a/b", "a/b@v1", "a/b@refs/pr/3", "a/b:c.gguf", "a/b@v1:d/c.GGUF", "A-1/b_2.c:Q4_K_M"]
    {
        assert_eq!(HubName::parse(name).unwrap().unwrap().to_string(), name);
    }
}

#[test]
fn no_name_leads_out_of_the_cache() {
    let lab = Lab::with(&draft_files());
    // What is no name of a repository is no folder either.
    for name in [
        "../tiny-model",
        "lab/..",
        "lab/../tiny-model",
        "/lab/tiny-model",
        "lab//tiny-model",
        "lab/tiny-model/",
        "lab\\tiny-model",
        "lab/tiny\\model",
        "lab/tiny\0model",
        "lab/tiny\nmodel",
        "lab/tiny model",
        "lab--tiny/model",
        "lab/-tiny",
        ".lab/tiny",
        "lab/tiny.git",
        "läb/tiny",
        "a/b/c",
    ] {
        assert_eq!(HubName::parse(name), Ok(None), "{name:?}");
        assert!(lab.find(name).is_err(), "{name:?}");
    }
    for (part, what) in [
        ("@", "is no branch, tag or commit"),
        ("@../main", "is no branch, tag or commit"),
        ("@a/../../b", "is no branch, tag or commit"),
        ("@/etc", "is no branch, tag or commit"),
        ("@a//b", "is no branch, tag or commit"),
        ("@a\\b", "is no branch, tag or commit"),
        ("@a\u{1b}b", "is no branch, tag or commit"),
        ("@$(x)", "is no branch, tag or commit"),
        (":", "neither a GGUF file nor"),
        (":../x.gguf", "neither a GGUF file nor"),
        (":/etc/x.gguf", "neither a GGUF file nor"),
        (":a\\x.gguf", "neither a GGUF file nor"),
        (":c:x.gguf", "neither a GGUF file nor"),
        (":a/Q4_0", "neither a GGUF file nor"),
        ("@main:../x.gguf", "neither a GGUF file nor"),
    ] {
        says(&lab.refusal(&format!("{REPO}{part}")), &[what, "allowed are letters"]);
    }
    let weights = lab.refusal(&format!("{REPO}:model.safetensors"));
    says(&weights, &["is no GGUF file: without it, the name means the folder"]);
    let long = "x".repeat(300);
    assert_eq!(HubName::parse(&format!("lab/{long}")), Ok(None));
    assert!(HubName::parse(&format!("lab/tiny@{long}")).is_err());
}

#[test]
fn a_plan_records_the_commit_and_its_run_can_be_resumed() {
    let lab = Lab::with(&draft_files());
    let folder = lab.folder.path();
    let experiment = "question = \"Which commit?\"\ntarget = \"lab/tiny-model\"\n\
                      draft = \"lab/tiny-model\"\nprompts = \"p.jsonl\"\nmax_tokens = 2\n\
                      clock = \"virtual\"\n[sweep]\ndrafter = \"model\"\ntemperature = 0\n";
    write(&folder.join("mine/experiment.toml"), experiment.as_bytes());
    write(&folder.join("p.jsonl"), b"{\"prompt\": \"fn main\"}\n");
    let run = |more: &[&str]| {
        let mut command = specdec(&[&["run", "mine"], more].concat());
        command.current_dir(folder).env("HF_HUB_CACHE", lab.cache()).output().unwrap()
    };
    let output = run(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results = folder.join(text(&output.stdout).trim()).parent().unwrap().to_owned();
    let plan = read_plan(&results).unwrap();
    let mut manifest = Manifest::read(&results).unwrap();
    let models = [Some(&plan.target), plan.draft.as_ref()];
    for model in models.into_iter().flatten().chain(&manifest.models) {
        assert_eq!((model.name.as_str(), model.revision.as_deref()), (REPO, Some(COMMIT)));
    }
    // A finished run is not resumed.
    manifest.status = specdec::run::experiment::Status::Interrupted;
    manifest.write(&results).unwrap();
    let output = run(&["--resume"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    // The commit changes no token, so the ids of the cells do not depend on it.
    store(&lab.cache(), REPO, &COMMIT.replace('0', "9"), &["main"], &draft_files());
    let output = run(&[]);
    let other = folder.join(text(&output.stdout).trim()).parent().unwrap().to_owned();
    let other = read_plan(&other).unwrap();
    assert_ne!(other.hash, plan.hash);
    let ids = |plan: &specdec::run::experiment::Plan| {
        plan.cells.iter().map(|cell| cell.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&other), ids(&plan));
}

/// Plans that were made before models had revisions.
#[test]
fn committed_plans_can_be_read() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let runs = fs::read_dir(results).unwrap().flat_map(|e| fs::read_dir(e.unwrap().path()));
    let runs =
        runs.flatten().map(|e| e.unwrap().path()).filter(|run| run.join("plan.toml").is_file());
    let plans = runs.map(|run| read_plan(&run).unwrap()).collect::<Vec<_>>();
    assert!(plans.len() > 5 && plans.iter().all(|plan| plan.target.revision.is_none()));
}

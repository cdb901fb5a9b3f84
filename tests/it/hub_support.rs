//! Repositories for caches: the embedded draft in the layout of the hub.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use sha2::{Digest, Sha256};
use specdec::model::hex;

/// The repository of the tests, and its newest commit.
pub(crate) const REPO: &str = "lab/tiny-model";
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The files of a repository by path.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The folder of the embedded draft.
pub(crate) fn draft_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/draft")
}

/// The files of the embedded draft.
pub(crate) fn draft_files() -> Files {
    let entries = fs::read_dir(draft_folder()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

/// The same model with its weights in two shards.
pub(crate) fn sharded_files() -> Files {
    let mut files = draft_files();
    let whole = files.remove("model.safetensors").unwrap();
    let mut tensors = SafeTensors::deserialize(&whole).unwrap().tensors();
    // They come in another order every time.
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let mut weight_map = serde_json::Map::new();
    for (i, shard) in tensors.chunks(tensors.len().div_ceil(2)).enumerate() {
        let name = format!("model-0000{}-of-00002.safetensors", i + 1);
        weight_map.extend(shard.iter().map(|(tensor, _)| (tensor.clone(), name.clone().into())));
        let bytes = safetensors::serialize(shard.iter().cloned(), None).unwrap();
        files.insert(name, bytes);
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": weight_map});
    files.insert("model.safetensors.index.json".to_owned(), index.to_string().into_bytes());
    files
}

/// The name of the blob with this content.
fn blob(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The folder of a repository in a cache.
pub(crate) fn folder_in(cache: &Path, repo: &str) -> PathBuf {
    cache.join(format!("models--{}", repo.replace('/', "--")))
}

/// Writes a repository into a cache as the hub's own tools do; returns the folder of the
/// snapshot.
#[cfg(unix)]
pub(crate) fn store(
    cache: &Path,
    repo: &str,
    commit: &str,
    revisions: &[&str],
    files: &Files,
) -> PathBuf {
    let folder = folder_in(cache, repo);
    for revision in revisions {
        write(&folder.join("refs").join(revision), commit.as_bytes());
    }
    let snapshot = folder.join("snapshots").join(commit);
    for (path, bytes) in files {
        let name = blob(bytes);
        write(&folder.join("blobs").join(&name), bytes);
        let link = snapshot.join(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let up = "../".repeat(2 + path.matches('/').count());
        std::os::unix::fs::symlink(format!("{up}blobs/{name}"), link).unwrap();
    }
    snapshot
}

/// Writes a file with the folders above it.
pub(crate) fn write(file: &Path, bytes: &[u8]) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, bytes).unwrap();
}

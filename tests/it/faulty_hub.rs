//! Downloads from a hub that fails or lies.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::hub_server::{Asked, Hub, answer};
use crate::hub_support::{COMMIT, REPO, blob, draft_files, folder_in, write};

const WEIGHTS: &str = "model.safetensors";

fn weights() -> Vec<u8> {
    draft_files()[WEIGHTS].clone()
}

/// Where the weights lie in a cache, and where they grow.
fn blobs(hub: &Hub) -> [PathBuf; 2] {
    let folder = folder_in(&hub.cache(), REPO).join("blobs");
    ["", ".incomplete"].map(|end| folder.join(format!("{}{end}", blob(&weights()))))
}

#[track_caller]
fn says(sentence: &str, parts: &[&str]) {
    for part in parts {
        assert!(sentence.contains(part), "{sentence:?} does not say {part:?}");
    }
}

/// Whether a request is for the bytes of the weights.
fn is_weights(asked: &Asked) -> bool {
    asked.large && asked.is_for(WEIGHTS)
}

#[test]
fn a_dropped_connection_is_continued_where_it_broke() {
    let hub = Hub::changed(draft_files(), |asked, usual| match is_weights(asked) {
        // Two drops, then one in the middle of the headers.
        true if asked.nth < 2 => usual[..700_000].to_vec(),
        true if asked.nth == 2 => usual[..20].to_vec(),
        _ => usual,
    });
    let path = hub.downloaded(REPO);
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights());
    let asked = hub.asked().into_iter().filter(is_weights);
    let start = |range: &String| range.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    let ranges =
        asked.map(|asked| asked.headers.get("range").map(start)).collect::<Vec<Option<u64>>>();
    assert_eq!(ranges.len(), 4, "{ranges:?}");
    let grows = ranges[0].is_none() && ranges[1] > Some(600_000) && ranges[2] > ranges[1];
    assert!(grows && ranges[2] == ranges[3], "{ranges:?}");
}

#[test]
fn a_connection_that_always_breaks_ends_with_one_sentence_and_is_continued_later() {
    let hub = Hub::changed(draft_files(), |asked, usual| match is_weights(asked) {
        true if asked.nth == 0 => usual[..500_000].to_vec(),
        true if asked.nth < 5 => Vec::new(),
        _ => usual,
    });
    says(&hub.refusal(REPO), &[REPO, hub.endpoint(), WEIGHTS, "4 tries"]);
    let [whole, partial] = blobs(&hub);
    let have = fs::metadata(partial).unwrap().len();
    assert!(!whole.exists() && have > 400_000);
    let path = hub.downloaded(REPO);
    assert_eq!(fs::read(path.join(WEIGHTS)).unwrap(), weights());
    let last = hub.asked().into_iter().rfind(is_weights).unwrap();
    assert_eq!(last.headers["range"], format!("bytes={have}-"));
}

#[test]
fn a_server_that_ignores_ranges_sends_the_whole_file() {
    let hub = Hub::changed(draft_files(), |asked, usual| match is_weights(asked) {
        true if asked.nth == 0 => usual[..500_000].to_vec(),
        true => answer(200, &[], &weights()),
        false => usual,
    });
    assert_eq!(fs::read(hub.downloaded(REPO).join(WEIGHTS)).unwrap(), weights());
}

#[test]
fn another_part_than_asked_for_is_not_used() {
    let hub = Hub::changed(draft_files(), |asked, usual| match is_weights(asked) {
        true if asked.nth == 0 => usual[..500_000].to_vec(),
        true if asked.nth == 1 => {
            let range = format!("bytes 9-{}/{}", weights().len() - 1, weights().len());
            answer(206, &[("content-range", &range)], &weights()[9..])
        }
        _ => usual,
    });
    assert_eq!(fs::read(hub.downloaded(REPO).join(WEIGHTS)).unwrap(), weights());
}

#[test]
fn leftovers_of_another_file_are_replaced() {
    let same_length = vec![7; weights().len()];
    for leftover in [vec![7; 1000], same_length, vec![7; weights().len() + 1]] {
        let hub = Hub::serve(draft_files());
        let [whole, partial] = blobs(&hub);
        write(&partial, &leftover);
        hub.downloaded(REPO);
        assert!(fs::read(whole).unwrap() == weights() && !partial.exists());
    }
}

#[test]
fn a_length_other_than_promised_is_refused() {
    let shorter = Hub::changed(draft_files(), |asked, usual| {
        if is_weights(asked) { answer(200, &[], &weights()[..1000]) } else { usual }
    });
    let promised = format!("not {} as promised", weights().len());
    says(&shorter.refusal(REPO), &[WEIGHTS, "it sends 1000 bytes", &promised]);
    // Without a length, only the bytes show it; what is promised is all that is written.
    let longer = Hub::changed(draft_files(), |asked, usual| {
        if !is_weights(asked) {
            return usual;
        }
        let chunk = [b"400000\r\n", &vec![7; 0x40_0000][..], b"\r\n0\r\n\r\n"].concat();
        answer(200, &[("transfer-encoding", "chunked")], &chunk)
    });
    says(&longer.refusal(REPO), &[WEIGHTS, "bytes or more", &promised]);
    for hub in [shorter, longer] {
        let [whole, partial] = blobs(&hub);
        assert!(!whole.exists());
        assert!(fs::metadata(partial).is_ok_and(|file| file.len() <= weights().len() as u64));
    }
    // The headers promise more than the connection brings.
    let hub = Hub::changed(draft_files(), |asked, usual| match is_weights(asked) {
        true => {
            let length = weights().len().to_string();
            answer(200, &[("content-length", &length)], &weights()[..1000])
        }
        false => usual,
    });
    says(&hub.refusal(REPO), &[WEIGHTS, "1000", "4 tries"]);
}

#[test]
fn a_wrong_hash_is_refused_and_nothing_of_it_is_kept() {
    let mut wrong = weights();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let hash = blob(&wrong);
    let hub = Hub::changed(draft_files(), move |asked, usual| {
        if is_weights(asked) { answer(200, &[], &wrong) } else { usual }
    });
    says(&hub.refusal(REPO), &[WEIGHTS, "SHA-256", &hash, &blob(&weights())]);
    let [whole, partial] = blobs(&hub);
    assert!(!whole.exists() && !partial.exists());
    let mut offline = hub.specdec(&["generate", "a", "--plain", "--target", REPO]);
    let output = offline.env("HF_HUB_OFFLINE", "1").output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn refusals_say_what_to_do() {
    let status = |status: u16, code: &'static str| {
        Hub::changed(draft_files(), move |_, _| answer(status, &[("x-error-code", code)], b""))
    };
    for code in [401, 403] {
        let hub = status(code, "");
        says(&hub.refusal(REPO), &[REPO, "check the name, or set HF_TOKEN", &code.to_string()]);
        let mut command = hub.specdec(&["models", "download", REPO]);
        let output = command.env("HF_TOKEN", "hf_other").output().unwrap();
        says(&String::from_utf8_lossy(&output.stderr), &["the token may not read it", "terms"]);
        assert_eq!(hub.asked().len(), 2, "no second try");
    }
    says(&status(403, "GatedRepo").refusal(REPO), &["needs a token"]);
    says(&status(404, "RepoNotFound").refusal(REPO), &["there is no such repository"]);
    says(&status(404, "").refusal(REPO), &["there is no such repository"]);
    says(&status(404, "RevisionNotFound").refusal(REPO), &["there is no such revision"]);
    says(&status(418, "").refusal(REPO), &["it refuses (status 418)"]);
    let file = Hub::changed(draft_files(), |asked, usual| match asked.path.ends_with(WEIGHTS) {
        true => answer(404, &[("x-error-code", "EntryNotFound")], b""),
        false => usual,
    });
    says(&file.refusal(REPO), &[WEIGHTS, "there is no such file"]);
}

#[test]
fn a_pause_that_the_hub_asks_for_is_kept() {
    let hub = Hub::changed(draft_files(), |asked, usual| match asked.nth {
        0 if asked.path.contains("/api/") => answer(429, &[("retry-after", "1")], b""),
        0 if is_weights(asked) => answer(503, &[], b""),
        _ => usual,
    });
    let begun = Instant::now();
    hub.downloaded(REPO);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let hub = Hub::changed(draft_files(), |_, _| answer(429, &[("retry-after", "3600")], b""));
    let begun = Instant::now();
    says(&hub.refusal(REPO), &["too many requests (status 429)", "asks to wait 3600 s"]);
    assert_eq!(hub.asked().len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(60));
    let hub = Hub::changed(draft_files(), |_, _| answer(500, &[], b""));
    says(&hub.refusal(REPO), &["it has a fault (status 500) (4 tries)"]);
}

#[test]
fn redirects_end() {
    let hub = Hub::changed(draft_files(), |asked, usual| match asked.path.contains("/api/") {
        true => answer(302, &[("location", &asked.path)], b""),
        false => usual,
    });
    says(&hub.refusal(REPO), &["redirects more than"]);
    for location in ["file:///etc/passwd", "ftp://x/y", "", "//other/x"] {
        let hub =
            Hub::changed(draft_files(), move |_, _| answer(302, &[("location", location)], b""));
        says(&hub.refusal(REPO), &["it redirects to", location]);
    }
}

#[test]
fn what_the_hub_says_cannot_lead_out_of_the_cache() {
    let listing = |sha: &'static str, file: &'static str| {
        Hub::changed(draft_files(), move |asked, usual| match asked.path.contains("/api/") {
            true => {
                let names = [file, "config.json", "tokenizer.json", WEIGHTS];
                let files = names.map(|name| json!({"rfilename": name}));
                answer(200, &[], json!({"sha": sha, "siblings": files}).to_string().as_bytes())
            }
            false => usual,
        })
    };
    for sha in ["../../../evil", "", "0123", "0123456789ABCDEF0123456789abcdef01234567"] {
        says(&listing(sha, "a").refusal(REPO), &["calls revision main", sha]);
    }
    for file in ["../x-Q4_0.gguf", "/tmp/x-Q4_0.gguf", "a/../../x-Q4_0.gguf", "a\\x-Q4_0.gguf"] {
        let sentence = listing(COMMIT, file).refusal(&format!("{REPO}:Q4_0"));
        says(&sentence, &["no GGUF file of type Q4_0"]);
    }
    for etag in ["../../evil", "\"a/b\"", "", &"a".repeat(200)] {
        let etag = etag.to_owned();
        let hub = Hub::changed(draft_files(), move |asked, usual| match &*asked.method {
            "HEAD" => answer(200, &[("etag", &etag), ("content-length", "3")], b""),
            _ => usual,
        });
        says(&hub.refusal(REPO), &["config.json: it states no hash"]);
    }
    let hub = Hub::changed(draft_files(), |asked, usual| match asked.path.contains("/api/") {
        true => answer(200, &[], b"{\"sha\": 1}"),
        false => usual,
    });
    says(&hub.refusal(REPO), &["its list of files cannot be read"]);
}

#[test]
fn an_endpoint_that_cannot_be_reached_is_named() {
    let hub = Hub::serve(draft_files());
    // Nothing listens on this port.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (endpoint, part) in
        [(format!("http://{free}"), "4 tries"), ("hub.example".to_owned(), "begin with https://")]
    {
        let mut command = hub.specdec(&["models", "download", REPO]);
        let output = command.env("HF_ENDPOINT", &endpoint).output().unwrap();
        says(&String::from_utf8_lossy(&output.stderr), &["error: ", &endpoint, part]);
    }
}

#[test]
fn a_file_with_certificates_is_read() {
    let hub = Hub::serve(draft_files());
    for (file, part) in [("Cargo.toml", "holds no certificates"), ("nowhere", "No such file")] {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
        let mut command = hub.specdec(&["models", "download", REPO]);
        let output = command.env("SSL_CERT_FILE", &file).output().unwrap();
        says(&String::from_utf8_lossy(&output.stderr), &[file.to_str().unwrap(), part]);
    }
}

#[test]
fn a_cache_that_cannot_be_written_to_is_named() {
    let hub = Hub::serve(draft_files());
    write(&hub.cache(), b"a file in its place");
    says(&hub.refusal(REPO), &["hub/models--lab--tiny-model", "cannot be written"]);
}

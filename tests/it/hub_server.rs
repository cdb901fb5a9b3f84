//! A hub on this machine, with a second server for large files, as the real one has. Tests
//! change its answers to see what becomes of faults.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use crate::hub_support::{COMMIT, Files, REPO, blob};

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether it went to the server for large files.
    pub(crate) large: bool,
    /// How many equal ones came before it.
    pub(crate) nth: usize,
}

impl Asked {
    /// Whether it asks for the content of a file.
    pub(crate) fn is_for(&self, file: &str) -> bool {
        self.method == "GET" && self.path.ends_with(file)
    }
}

/// An answer, as it is sent.
pub(crate) type Answer = Vec<u8>;

/// Changes an answer before it is sent.
type Change = dyn Fn(&Asked, Answer) -> Answer + Send + Sync;

/// The server, which runs until the tests end.
pub(crate) struct Hub {
    endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    home: tempfile::TempDir,
}

/// What the threads of a server know.
struct Served {
    files: Files,
    change: Box<Change>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The address of the server for large files.
    large: String,
}

impl Hub {
    /// A hub with one repository.
    pub(crate) fn serve(files: Files) -> Self {
        Self::changed(files, |_, answer| answer)
    }

    /// A hub that changes its answers.
    pub(crate) fn changed(
        files: Files,
        change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (hub, large) = (listen(), listen());
        let (endpoint, asked) = (address(&hub), Arc::<Mutex<Vec<Asked>>>::default());
        let large_address = address(&large);
        let served = Served { files, change: Box::new(change), asked, large: large_address };
        let (asked, served) = (Arc::clone(&served.asked), Arc::new(served));
        for (listener, is_large) in [(hub, false), (large, true)] {
            let served = Arc::clone(&served);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let served = Arc::clone(&served);
                    thread::spawn(move || served.answer(stream, is_large));
                }
            });
        }
        Self { endpoint, asked, home: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The folder HF_HOME.
    pub(crate) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// The cache.
    pub(crate) fn cache(&self) -> std::path::PathBuf {
        self.home.path().join("hub")
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The requests for the content of a file.
    pub(crate) fn asked_for(&self, file: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.is_for(file)).collect()
    }

    /// The program with this hub, an empty home and no proxy.
    pub(crate) fn specdec(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_specdec"));
        for variable in std::env::vars().map(|(key, _)| key) {
            let key = variable.to_uppercase();
            if key.starts_with("HF_") || key.starts_with("HUGGING") || key.ends_with("_PROXY") {
                command.env_remove(variable);
            }
        }
        command.env("HF_ENDPOINT", &self.endpoint).env("HF_HOME", self.home.path());
        command.env_remove("TRANSFORMERS_OFFLINE").current_dir(self.home.path());
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Downloads a model.
    pub(crate) fn download(&self, name: &str) -> Output {
        self.specdec(&["models", "download", name]).output().unwrap()
    }

    /// Downloads a model, and returns its path.
    #[track_caller]
    pub(crate) fn downloaded(&self, name: &str) -> std::path::PathBuf {
        let output = self.download(name);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout).unwrap().trim_end().into()
    }

    /// The one-line message with which a download fails.
    #[track_caller]
    pub(crate) fn refusal(&self, name: &str) -> String {
        let output = self.download(name);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let errors = stderr.lines().filter(|line| !line.starts_with("downloading "));
        let errors = errors.collect::<Vec<_>>();
        assert!(errors.len() == 1 && errors[0].starts_with("error: "), "{stderr}");
        errors[0].to_owned()
    }
}

impl Served {
    fn answer(&self, mut stream: TcpStream, large: bool) {
        let Some(asked) = self.read(&stream, large) else { return };
        let answer = (self.change)(&asked, self.usual(&asked));
        let _ = stream.write_all(&answer);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // Closing a connection with unread bytes would take back what was sent.
        let _ = stream.read_to_end(&mut Vec::new());
    }

    fn read(&self, stream: &TcpStream, large: bool) -> Option<Asked> {
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next()?.ok()?;
        let (method, rest) = first.split_once(' ')?;
        let (path, _) = rest.split_once(' ')?;
        let headers = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
        let headers = headers.filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            Some((key.to_lowercase(), value.trim().to_owned()))
        });
        let headers = headers.collect();
        let mut log = self.asked.lock().unwrap();
        let (method, path) = (method.to_owned(), path.to_owned());
        let equal =
            |asked: &&Asked| (&asked.method, &asked.path, asked.large) == (&method, &path, large);
        let nth = log.iter().filter(equal).count();
        let asked = Asked { method, path, headers, large, nth };
        log.push(asked.clone());
        Some(asked)
    }

    /// What the real hub would answer.
    fn usual(&self, asked: &Asked) -> Answer {
        if asked.path.starts_with(&format!("/api/models/{REPO}/revision/")) {
            let files = self.files.keys().map(|path| json!({"rfilename": path}));
            let body = json!({"sha": COMMIT, "siblings": files.collect::<Vec<_>>()});
            return answer(200, &[], body.to_string().as_bytes());
        }
        let path = asked.path.strip_prefix(&format!("/{REPO}/resolve/{COMMIT}/"));
        let Some((path, bytes)) = path.and_then(|path| self.files.get_key_value(path)) else {
            return answer(404, &[("x-error-code", "EntryNotFound")], b"");
        };
        let is_large = [".safetensors", ".gguf"].iter().any(|end| path.ends_with(end));
        if is_large && !asked.large {
            let location = format!("{}{}", self.large, asked.path);
            let (etag, size) = (format!("\"{}\"", blob(bytes)), bytes.len().to_string());
            let headers =
                [("location", &*location), ("x-linked-etag", &etag), ("x-linked-size", &size)];
            return answer(302, &headers, b"");
        }
        // Not all servers know the hash of a small file.
        let etag = format!("\"{}\"", &blob(bytes)[..40]);
        if asked.method == "HEAD" {
            let size = bytes.len().to_string();
            return answer(200, &[("etag", &etag), ("content-length", &size)], b"");
        }
        match asked.headers.get("range").and_then(|range| start(range)) {
            Some(start) if start < bytes.len() => {
                let range = format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len());
                answer(206, &[("content-range", &range)], &bytes[start..])
            }
            Some(_) => answer(416, &[], b""),
            None => answer(200, &[("etag", &etag)], bytes),
        }
    }
}

/// The first byte of a range without an end.
fn start(range: &str) -> Option<usize> {
    range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
}

/// An answer with these headers, and the length of the body unless they state one.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
    headers.iter().for_each(|(key, value)| head += &format!("{key}: {value}\r\n"));
    if !headers.iter().any(|(key, _)| ["content-length", "transfer-encoding"].contains(key)) {
        head += &format!("content-length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

//! A server in a process of its own, and a client of a few lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A server of a toy pair, which ends with this value.
pub(crate) struct TestServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// What it printed before its address.
    pub(crate) banner: String,
}

/// A response.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TestServer {
    /// Starts one with these options.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::of("toy:mixed", args)
    }

    /// Starts one of another target.
    pub(crate) fn of(target: &str, args: &[&str]) -> Self {
        Self::by(Command::new(assert_cmd::cargo::cargo_bin!("specdec")), target, args)
    }

    /// Starts one with a limit of open files and connections.
    #[cfg(unix)]
    pub(crate) fn with_descriptors(most: usize, args: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\"")]);
        shell.arg(assert_cmd::cargo::cargo_bin!("specdec"));
        Self::by(shell, "toy:mixed", args)
    }

    fn by(mut command: Command, target: &str, args: &[&str]) -> Self {
        command.args(["serve", "--port", "0", "--target", target]).args(args);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
        // From here on the process ends with this value.
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child: child.spawn().unwrap(), address, banner: String::new() };
        let mut printed = BufReader::new(server.child.stderr.take().unwrap());
        loop {
            let mut line = String::new();
            assert!(printed.read_line(&mut line).unwrap() > 0, "it ended: {}", server.banner);
            if let Some((_, address)) = line.trim().split_once(" is served at http://") {
                server.address = address.parse().unwrap();
                // What it prints later must not block it.
                std::thread::spawn(move || std::io::copy(&mut printed, &mut std::io::sink()));
                return server;
            }
            server.banner += &line;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Opens a connection and sends a request; the response is not read.
    pub(crate) fn send(&self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request).unwrap();
        stream
    }

    /// Sends a request and reads its response.
    pub(crate) fn call(&self, method: &str, path: &str, headers: &str, body: &str) -> HttpResponse {
        self.answer(&request(method, path, headers, body))
    }

    /// The response to a request as it is sent.
    pub(crate) fn answer(&self, request: &str) -> HttpResponse {
        let mut stream = self.send(request.as_bytes());
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        HttpResponse::of(&String::from_utf8(response).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.call("GET", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.call("POST", path, "", &body.to_string())
    }

    /// The response to a completion that must succeed.
    pub(crate) fn complete(&self, fields: &Value) -> Value {
        let response = self.post("/v1/completions", fields);
        assert_eq!(response.status, 200, "{fields}: {}", response.body);
        response.json()
    }

    /// A number of `/metrics`.
    pub(crate) fn meter(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0.0)
    }

    /// Waits until no completion runs or waits.
    pub(crate) fn wait_until_idle(&self) {
        let begun = Instant::now();
        while self.meter("specdec_num_requests_running") > 0.0
            || self.meter("specdec_num_requests_waiting") > 0.0
        {
            assert!(begun.elapsed() < Duration::from_secs(60), "a slot is stuck");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends it a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end.
    #[cfg(unix)]
    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request as it is sent.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

impl HttpResponse {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { joined(body) } else { body.to_owned() };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }

    /// The message of an error.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The objects of a stream, which ends as it must.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut events = lines.collect::<Vec<_>>();
        assert_eq!(events.pop(), Some("[DONE]"), "{}", self.body);
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// The chunks of a body, joined.
fn joined(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole += &rest[..length];
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

/// The text of the first choice.
pub(crate) fn first_text(response: &Value) -> String {
    response["choices"][0]["text"].as_str().unwrap().to_owned()
}

/// A request for a completion of the toy.
pub(crate) fn toy_request(seed: u64, tokens: usize) -> Value {
    json!({"prompt": "ab", "max_tokens": tokens, "seed": seed, "temperature": 0.8})
}

//! A server with prepared answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::Value;

/// A server that gives these answers, one per connection, and a channel with the requests to it.
pub(crate) fn canned(answers: Vec<String>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, requests) = channel();
    thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let begin = head.len();
                reader.read_line(&mut head).unwrap();
                let line = head[begin..].to_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let first = head.lines().next().unwrap().to_owned();
            let _ = asked.send(format!("{first}\n{}", String::from_utf8(body).unwrap()));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, requests)
}

/// An answer with this status.
pub(crate) fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// A good answer.
pub(crate) fn good(body: &Value) -> String {
    answer(200, &body.to_string())
}

//! What the hub says about a file before it sends it.

use ureq::http::HeaderMap;

/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;
/// The longest name of a blob.
const MOST_NAME: usize = 128;

/// The length and hash of a file.
#[derive(Debug)]
pub(super) struct Promise {
    /// The name of its blob: the SHA-256 of large files, something else for others.
    pub(super) etag: String,
    /// Its length in bytes.
    pub(super) size: Option<u64>,
}

impl Promise {
    /// The promise in the headers of an answer; none if they have no usable hash. The
    /// length of a redirect is not that of the file.
    pub(super) fn of(headers: &HeaderMap, redirect: bool) -> Option<Self> {
        let etag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"))?;
        let etag = etag.trim_start_matches("W/").trim_matches('"');
        // It becomes the name of a file.
        let plain = etag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if etag.is_empty() || etag.len() > MOST_NAME || !plain {
            return None;
        }
        let own = || header(headers, "content-length").filter(|_| !redirect);
        let size = header(headers, "x-linked-size").or_else(own).and_then(|n| n.parse().ok());
        Some(Self { etag: etag.to_owned(), size })
    }

    /// Its SHA-256, if that is the name of its blob.
    pub(super) fn sha256(&self) -> Option<&str> {
        let digits = self.etag.bytes().all(|b| b.is_ascii_hexdigit());
        (digits && self.etag.len() == SHA256_DIGITS).then_some(&*self.etag)
    }
}

/// A header as text.
pub(super) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

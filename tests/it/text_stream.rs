//! Decoding tokens that end inside characters.

use std::sync::atomic::{AtomicUsize, Ordering};

use specdec::core::distribution::Token;
use specdec::core::error::Error;
use specdec::method::decode::TextStream;
use specdec::model::Codec;

/// A codec whose tokens are these bytes.
#[derive(Debug)]
struct Pieces {
    bytes: Vec<Vec<u8>>,
    /// The largest number of tokens that were decoded at once.
    longest: AtomicUsize,
}

impl Pieces {
    fn new(pieces: &[&[u8]]) -> Self {
        Self { bytes: pieces.iter().map(|p| p.to_vec()).collect(), longest: AtomicUsize::new(0) }
    }

    /// The text after each token.
    fn streamed(&self) -> Vec<String> {
        let mut stream = TextStream::new(self);
        let push = |token| {
            stream.push(token).unwrap();
            stream.text().to_owned()
        };
        (0..self.bytes.len() as Token).map(push).collect()
    }
}

impl Codec for Pieces {
    fn encode(&self, _text: &str) -> Result<Vec<Token>, Error> {
        Ok((0..self.bytes.len() as Token).collect())
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, Error> {
        self.longest.fetch_max(tokens.len(), Ordering::Relaxed);
        let bytes =
            tokens.iter().flat_map(|&t| &self.bytes[t as usize]).copied().collect::<Vec<_>>();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn token_label(&self, token: Token) -> String {
        token.to_string()
    }
}

#[test]
fn characters_split_across_tokens_are_streamed_whole() {
    let bytes = "漢字漢字".as_bytes();
    // The boundaries between characters lie inside the tokens.
    let pieces = [&bytes[..2]].into_iter().chain(bytes[2..].chunks(3)).collect::<Vec<_>>();
    assert_eq!(Pieces::new(&pieces).streamed(), ["", "漢", "漢字", "漢字漢", "漢字漢字"]);
}

#[test]
fn invalid_bytes_are_held_back_only_up_to_a_limit() {
    let text = Pieces::new(&[&[&b"a"[..]], &[&[0xff][..]; 14][..]].concat()).streamed();
    assert!(text[..13].iter().all(|text| text == "a"), "{text:?}");
    assert_eq!(text[13], format!("a{}", "\u{FFFD}".repeat(13)));
}

#[test]
fn streaming_does_not_decode_the_whole_text_again() {
    let codec = Pieces::new(&[&b"ab"[..]; 50]);
    assert_eq!(codec.streamed()[49], "ab".repeat(50));
    assert_eq!(codec.longest.load(Ordering::Relaxed), 2, "the new token and the one before it");
}

//! Tokens to text, where tokens end inside characters.

use specdec::decode::TextStream;
use specdec::dist::Token;
use specdec::model::{Codec, ModelError};

/// A codec whose tokens are these bytes.
#[derive(Debug)]
struct Pieces(Vec<Vec<u8>>);

impl Codec for Pieces {
    fn encode(&self, _text: &str) -> Result<Vec<Token>, ModelError> {
        Ok((0..self.0.len() as Token).collect())
    }

    fn decode(&self, tokens: &[Token]) -> Result<String, ModelError> {
        let bytes = tokens.iter().flat_map(|&t| &self.0[t as usize]).copied().collect::<Vec<_>>();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn token_label(&self, token: Token) -> String {
        token.to_string()
    }
}

/// The text after each token.
fn streamed(pieces: &[&[u8]]) -> Vec<String> {
    let codec = Pieces(pieces.iter().map(|piece| piece.to_vec()).collect());
    let mut stream = TextStream::new(&codec);
    let push = |token| {
        stream.push(token).unwrap();
        stream.text().to_owned()
    };
    (0..pieces.len() as Token).map(push).collect()
}

#[test]
fn tokens_that_all_end_inside_a_character_are_streamed_whole() {
    let bytes = "漢字漢字".as_bytes();
    // The joints of the characters lie inside the tokens.
    let pieces = [&bytes[..2]].into_iter().chain(bytes[2..].chunks(3)).collect::<Vec<_>>();
    assert_eq!(streamed(&pieces), ["", "漢", "漢字", "漢字漢", "漢字漢字"]);
}

#[test]
fn bytes_that_are_no_character_are_shown_once_there_are_too_many() {
    let text = streamed(&[&[&b"a"[..]], &[&[0xff][..]; 14][..]].concat());
    assert!(text[..13].iter().all(|text| text == "a"), "{text:?}");
    assert_eq!(text[13], format!("a{}", "\u{FFFD}".repeat(13)));
}

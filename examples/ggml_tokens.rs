//! Prints the tokens of texts under the vocabulary of a GGUF file.
//!
//! Standard input holds one text per line, as a JSON string. The first line of the output describes
//! the vocabulary: model, pre-tokenizer and number of tokens; each further line is a JSON list of
//! ids, without the tokens that the tokenizer adds around every text.
//!
//! ```text
//! cargo run --release --example ggml_tokens -- model.gguf < texts.jsonl
//! ```

use std::io::{self, BufRead as _, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use specdec::checkpoint::GgmlVocabulary;
use specdec::checkpoint::gguf::GgufFile;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "{why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let file = std::env::args_os().nth(1).context("give a GGUF file")?;
    let file = Path::new(&file);
    let vocabulary = GgmlVocabulary::read(GgufFile::open(file)?.metadata())?;
    let GgmlVocabulary { model, pre, tokens, .. } = &vocabulary;
    writeln!(io::stdout(), "{}", serde_json::json!([model, pre, tokens.len()]))?;
    let plain = GgmlVocabulary { add_bos: Some(false), add_eos: Some(false), ..vocabulary };
    let codec = plain.codec(file, false)?;
    for line in io::stdin().lock().lines() {
        let text = serde_json::from_str::<String>(&line?)?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&codec.encode(&text)?)?)?;
    }
    Ok(())
}

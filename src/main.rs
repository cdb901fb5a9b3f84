//! The `specdec` command, and the files that it holds in itself.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use specdec::input::{ShippedFile, ship};

/// Every round allocates distributions over the vocabulary and frees them. The system's
/// allocator on Linux gives such memory back at once, and touching it anew would cost more
/// than computing what it holds.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A file of the project, by its path.
macro_rules! file {
    ($path:literal) => {
        ShippedFile { path: $path, bytes: include_bytes!(concat!("../", $path)) }
    };
}

/// The embedded pair, the names of its models, the prompt sets, and two experiments.
const SHIPPED: &[ShippedFile] = &[
    file!("configs/models.toml"),
    file!("configs/prompts/code.jsonl"),
    file!("configs/prompts/docs.jsonl"),
    file!("configs/prompts/edits.jsonl"),
    file!("configs/prompts/identity.jsonl"),
    file!("configs/prompts/smoke.jsonl"),
    file!("experiments/00-smoke/experiment.toml"),
    file!("experiments/01-draft-length/experiment.toml"),
    file!("models/draft/config.json"),
    file!("models/draft/generation_config.json"),
    file!("models/draft/model.safetensors"),
    file!("models/draft/tokenizer.json"),
    file!("models/draft/tokenizer_config.json"),
    file!("models/target/config.json"),
    file!("models/target/generation_config.json"),
    file!("models/target/model.safetensors"),
    file!("models/target/tokenizer.json"),
    file!("models/target/tokenizer_config.json"),
];

fn main() -> ExitCode {
    ship(SHIPPED);
    specdec::cli::main()
}

//! The `specdec` command and its embedded files.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use specdec::io::input::{ShippedFile, ship};

/// Every round allocates and frees distributions over the vocabulary. The system's allocator on
/// Linux returns such memory at once, and faulting it in again would cost more than computing its
/// contents.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A project file, by its path.
macro_rules! file {
    ($path:literal) => {
        ShippedFile { path: $path, bytes: include_bytes!(concat!("../", $path)) }
    };
}

/// The embedded pair and its tap draft, the names of its models, the prompt sets, and two experiments.
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
    file!("models/tap/config.json"),
    file!("models/tap/model.safetensors"),
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

//! The `specdec` command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Every round allocates distributions over the vocabulary and frees them. The system's
/// allocator on Linux gives such memory back at once, and touching it anew would cost more
/// than computing what it holds.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    specdec::cli::main()
}

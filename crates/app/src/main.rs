//! The `notary-orders` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// An order allocates some 180 times (docs/adr/0015).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    app::cli::run()
}

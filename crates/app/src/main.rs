//! The `notary-orders` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A quarter of what an order cost was spent in the C library's allocator (docs/adr/0015).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    app::cli::run()
}

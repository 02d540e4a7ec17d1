//! The `outlast` binary. Everything it does is in the library, for other binaries to do too.

/// Runs allocate little and often, on many threads, which the system's allocator is slow at: see docs/performance.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    outlast_server::main()
}

//! The `outlast` binary. Everything it does is in the library, for other binaries to do too.

fn main() -> std::process::ExitCode {
    outlast_server::main()
}

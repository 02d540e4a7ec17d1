//! Has cargo look again at the dashboard when a file of its build appears or goes: rust-embed notices changes alone.
//! Nothing is built here: `cargo run` needs only cargo.

fn main() {
    println!("cargo:rerun-if-changed=dist");
}

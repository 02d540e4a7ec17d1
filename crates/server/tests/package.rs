//! What is published: the crate has the dashboard in it, and builds it from nothing.

use std::process::Command;

#[test]
fn the_published_crate_has_the_built_dashboard() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let listed = Command::new(cargo)
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", "outlast-server"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo lists what it would publish");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).expect("paths are text");
    let files: Vec<&str> = listed.lines().collect();
    for needed in [
        "dist/index.html",
        "dist/assets/app.js",
        "dist/assets/style.css",
        "build.rs",
        "src/http/dashboard.rs",
    ] {
        assert!(files.contains(&needed), "{needed} is not among {files:?}");
    }
    // Whatever is on the disk is in the crate: a file that is ignored would be missing for whoever installs it.
    let assets =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/dist/assets")).expect("there is a build");
    for asset in assets {
        let name = format!("dist/assets/{}", asset.expect("a file").file_name().to_string_lossy());
        assert!(files.contains(&name.as_str()), "{name} is not among {files:?}");
    }
}

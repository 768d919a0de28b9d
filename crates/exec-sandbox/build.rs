//! Compiles `inner`, the small static program that becomes the first process of a sandbox, with the
//! same compiler and for the same target as the server that will carry it.

use std::env;
use std::path::Path;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=inner");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let output = Path::new(&variable("OUT_DIR")).join("inner");
    let mut compile = Command::new(variable("RUSTC"));
    compile.args(["--edition=2024", "--crate-name=inner", "--crate-type=bin"]);
    compile.args(["--target", &variable("TARGET")]).arg("-o").arg(&output);
    compile.args(["-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1", "-Cstrip=symbols"]);
    // At a fixed address there is nothing to relocate, and so nobody needed to do it.
    compile.args(["-Crelocation-model=static", "-Coverflow-checks=off"]);
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-Wl,--build-id=none"] {
        compile.arg(format!("-Clink-arg={argument}"));
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compile.arg(format!("-Clinker={linker}"));
    }
    compile.arg("inner/main.rs");
    match compile.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("cannot compile inner: the compiler ended with {status}")),
        Err(error) => fail(&format!("cannot compile inner: {error}")),
    }
}

fn fail(reason: &str) -> ! {
    println!("cargo::error={reason}");
    exit(1)
}

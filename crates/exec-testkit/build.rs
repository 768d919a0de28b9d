//! Compiles the probe: the small static program with which tests try system calls from inside a
//! sandbox. Static, so that it runs where not even the dynamic loader can be seen.

use std::env;
use std::path::Path;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=probe");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let output = Path::new(&variable("OUT_DIR")).join("probe");
    if variable("CARGO_CFG_TARGET_OS") != "linux" {
        // There is no sandbox to be tried there; the tests skip.
        return std::fs::write(&output, []).unwrap_or_else(|error| fail(&error.to_string()));
    }
    let mut compile = Command::new(variable("RUSTC"));
    compile.args(["--edition=2024", "--crate-name=probe", "--crate-type=bin"]);
    compile.args(["--target", &variable("TARGET")]).arg("-o").arg(&output);
    compile.args(["-Copt-level=1", "-Cpanic=abort", "-Cstrip=symbols"]);
    compile.args(["-Ctarget-feature=+crt-static", "-Crelocation-model=static"]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compile.arg(format!("-Clinker={linker}"));
    }
    compile.arg("probe/main.rs");
    match compile.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("cannot compile the probe: the compiler ended with {status}")),
        Err(error) => fail(&format!("cannot compile the probe: {error}")),
    }
}

fn fail(reason: &str) -> ! {
    println!("cargo::error={reason}");
    exit(1)
}

//! The build's own tool, run as `cargo xtask <command>`: the whole gate, the checks that no compiler
//! makes, and the documents that are written by a program.

mod bench;
mod ci;
mod leftovers;

mod tidy;

mod generate;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

Commands:
  ci                  everything below, formatting, lints, and all tests
  tidy                checks layers, licences, module docs, file sizes and forbidden words
  bench               measures a release build and writes the tables of docs/performance.md;
                      against codex too, where CODEX_BIN names it
  generate [--check]  writes docs/protocol.md; with --check only says whether it is fresh
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match *arguments.as_slice() {
        ["ci"] => ci::run(&root()),
        ["tidy"] => tidy::run(&root()),
        ["bench"] => bench::run(&root()),
        ["generate"] => generate::write(&root()),
        ["generate", "--check"] => generate::check(&root()),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace. Cargo says at run time where the manifest is; what it said when this was
/// built may be another checkout, if the two share a target directory.
fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let manifest =
        manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().expect("xtask lies one level below the workspace").into()
}

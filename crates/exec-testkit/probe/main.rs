//! Tries what a confined command must not be able to do, one attempt per start.
//!
//! `probe NAME [ARGUMENT…]` prints `DID` and ends with 0 when the system let it; prints the error's
//! number and ends with 1 when not; 2 means that the attempt could not be made. What succeeds is
//! undone at once or harms nobody. With `PROBE_PRIVATE` it first takes mounts and a host name of its
//! own, so that it can be tried without a sandbox.

mod files;
mod kernel;
mod numbers;
mod processes;
mod sockets;
mod sys;

use std::process::exit;

use sys::{Attempt, Failure};

type Try = fn(&[String]) -> Attempt;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else { stop("what should be tried?") };
    let tables = [files::TRIES, kernel::TRIES, processes::TRIES, sockets::TRIES];
    let found = tables.iter().copied().flatten().find(|(known, _)| known == name);
    let Some((_, attempt)) = found else { stop("no such attempt") };
    if std::env::var_os("PROBE_PRIVATE").is_some() {
        kernel::take_private_namespaces();
    }
    match attempt(rest) {
        Ok(()) => println!("DID"),
        Err(Failure::Refused(error)) => {
            println!("errno {error}");
            exit(1);
        }
        Err(Failure::Impossible(reason)) => stop(&reason),
    }
}

fn stop(reason: &str) -> ! {
    eprintln!("probe: {reason}");
    exit(2)
}

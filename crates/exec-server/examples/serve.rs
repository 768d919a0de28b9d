//! Embedding: an executor inside another program, with a configuration of its own.
//!
//! `cargo run -p exec-server --example serve -- ws://127.0.0.1:0`

use exec_server::ExecServerConfig;
use exec_server::listen::{ListenOptions, run_main};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ListenOptions::default();
    if let Some(url) = std::env::args().nth(1) {
        options.url = url.parse()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_main(options, ExecServerConfig::default()))?;
    Ok(())
}

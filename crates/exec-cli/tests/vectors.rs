//! The vectors that describe our server, replayed against it over every transport.

use std::process::Command;

use anyhow::Result;
use exec_server::{ExecServerConfig, Server};
use exec_testkit::peer::RawPeer;
use exec_testkit::vector::{Launcher, Setup, Suite, Transport, replay_all};

fn binary() -> Result<Command> {
    Ok(Command::new(env!("CARGO_BIN_EXE_exec-server")))
}

#[tokio::test]
async fn the_vectors_hold_over_websocket() -> Result<()> {
    let server = Launcher::new(binary);
    let connect = async |setup: &Setup| server.websocket(setup).await;
    replay_all(Suite::Ours, Transport::WebSocket, connect).await?.assert_passed();
    Ok(())
}

#[tokio::test]
async fn the_vectors_hold_over_stdio() -> Result<()> {
    let server = Launcher::new(binary);
    let connect = async |setup: &Setup| server.stdio(setup);
    replay_all(Suite::Ours, Transport::Stdio, connect).await?.assert_passed();
    Ok(())
}

#[tokio::test]
async fn the_vectors_hold_in_memory() -> Result<()> {
    let server = Server::new(ExecServerConfig::default());
    let connect = async |_: &Setup| {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(theirs);
        let connection = exec_transport::stdio(read, write);
        let server = server.clone();
        tokio::spawn(async move { server.serve_connection(connection).await });
        let (read, write) = tokio::io::split(ours);
        Ok(RawPeer::from_io(read, write))
    };
    let report = replay_all(Suite::Ours, Transport::Memory, connect).await?;
    server.shut_down().await;
    report.assert_passed();
    Ok(())
}

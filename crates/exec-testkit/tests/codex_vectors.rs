//! The vectors that describe the reference, replayed against the real codex: what we hold our own
//! server to is what codex does, not what we remember of it.

use std::sync::Mutex;

use exec_testkit::codex::{CodexHome, codex_binary};
use exec_testkit::vector::{Launcher, Suite, Transport, replay_all};

async fn replay(transport: Transport) -> anyhow::Result<()> {
    let binary = match codex_binary() {
        Ok(binary) => binary,
        Err(skip) => {
            exec_testkit::skip(skip.0);
            return Ok(());
        }
    };
    // A home for each server: two that start at once in the same one get in each other's way.
    let homes = Mutex::new(Vec::new());
    let codex = Launcher::new(|| {
        let home = CodexHome::new()?;
        let command = home.exec_server(&binary);
        homes.lock().expect("no holder panics").push(home);
        Ok(command)
    });
    let report = match transport {
        Transport::Stdio => {
            replay_all(Suite::Codex, transport, async |setup| codex.stdio(setup)).await
        }
        Transport::WebSocket => {
            replay_all(Suite::Codex, transport, async |setup| codex.websocket(setup).await).await
        }
        Transport::Memory => unreachable!("codex is never in this process"),
    };
    report?.assert_passed();
    Ok(())
}

#[tokio::test]
async fn codex_behaves_as_the_vectors_say_over_websocket() -> anyhow::Result<()> {
    replay(Transport::WebSocket).await
}

#[tokio::test]
async fn codex_behaves_as_the_vectors_say_over_stdio() -> anyhow::Result<()> {
    replay(Transport::Stdio).await
}

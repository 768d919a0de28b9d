//! The start and the end of a confined command.

use crate::{Bench, Ended};

#[tokio::test]
async fn a_command_runs_and_its_end_becomes_its_code() {
    let bench = Bench::read_only();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
    {
        assert_eq!(bench.shell(script).await.code, code, "{script}");
    }
    let ended = bench.shell("echo out; echo err >&2").await;
    assert_eq!(ended, Ended { code: 0, stdout: "out\n".into(), stderr: "err\n".into() });
}

//! What a child finds when it starts: variables, name, descriptors, session; and what its end is
//! called.

use std::collections::BTreeMap;

use exec_server::Server;
use serde_json::{Value, json};

use crate::support::{Client, PATH, config};

/// Starts `env` and gives what it prints.
async fn variables(client: &mut Client, extra: Value) -> BTreeMap<String, String> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let id = format!("env{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    client.start(&id, &["/usr/bin/env", "-0"], extra).await;
    let all = client.closed(&id).await;
    assert_eq!(all.code(), Some(0));
    let text = all.text();
    let pairs = text.split_terminator('\0').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// This process's own variables, less those that are never given to a child.
fn own(keep: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    std::env::vars().filter(|(name, _)| keep(name)).collect()
}

#[tokio::test]
async fn without_a_policy_the_environment_is_exactly_what_was_sent() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let env = json!({"A": "1", "empty": "", "openai_identity_token_file": "x"});
    let found = variables(&mut client, json!({"env": env})).await;
    assert_eq!(found, map(&[("A", "1"), ("empty", "")]));
    server.shut_down().await;
}

#[tokio::test]
async fn a_policy_is_applied_to_the_servers_own_environment() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let policy = |inherit: &str, exclude: &[&str], set: Value, only: &[&str]| {
        json!({"inherit": inherit, "ignoreDefaultExcludes": true, "exclude": exclude, "set": set,
            "includeOnly": only})
    };
    let none = policy("none", &[], json!({"SET": "1", "OVER": "policy"}), &[]);
    let found = variables(&mut client, json!({"envPolicy": none, "env": {"OVER": "env"}})).await;
    assert_eq!(found, map(&[("SET", "1"), ("OVER", "env")]));

    let core = policy("core", &[], json!({}), &[]);
    let found = variables(&mut client, json!({"envPolicy": core, "env": {}})).await;
    let names = "PATH SHELL TMPDIR TEMP TMP HOME LANG LC_ALL LC_CTYPE LOGNAME USER";
    let is_core = |name: &str| names.split(' ').any(|core| core.eq_ignore_ascii_case(name));
    assert_eq!(found, own(is_core));

    // Cargo sets plenty of its own for a test.
    let all = policy("all", &["cargo_pkg_*"], json!({"CARGO_PKG_NAME": "set"}), &[]);
    let found = variables(&mut client, json!({"envPolicy": all, "env": {}})).await;
    let mut expected = own(|name| !name.starts_with("CARGO_PKG_"));
    expected.insert("CARGO_PKG_NAME".into(), "set".into());
    assert_eq!(found, expected);
    assert!(found.contains_key("CARGO_MANIFEST_DIR"));

    let only = policy("all", &[], json!({"SET": "1", "CARGO_SET": "1"}), &["cargo_?*", "PATH"]);
    let found = variables(&mut client, json!({"envPolicy": only, "env": {"OVER": "env"}})).await;
    let mut expected = own(|name| name == "PATH" || (name.len() > 6 && name.starts_with("CARGO_")));
    expected.extend(map(&[("CARGO_SET", "1"), ("OVER", "env")]));
    assert_eq!(found, expected);
    server.shut_down().await;
}

#[tokio::test]
async fn the_program_is_looked_for_along_the_childs_own_path() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/echo", folder.path().join("only-here")).unwrap();
    let path = folder.path().to_str().unwrap();
    client.start("p", &["only-here", "found"], json!({"env": {"PATH": path}})).await;
    assert_eq!(client.closed("p").await.text(), "found\n");
    client.start("q", &["./only-here", "too"], json!({"cwd": path, "env": {}})).await;
    assert_eq!(client.closed("q").await.text(), "too\n");
    client.start("r", &["sh", "-c", "pwd"], json!({"cwd": path, "env": {}})).await;
    assert_eq!(client.closed("r").await.text(), format!("{path}\n"));
    server.shut_down().await;
}

#[tokio::test]
async fn metadata_becomes_variables_that_win() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let thread = "01a1e0a8-c545-7582-92f9-3695de8f6521";
    let extra = json!({
        "env": {"CODEX_THREAD_ID": "mine", "CODEX_TOOL_CALL_ID": "mine"},
        "metadata": {"threadId": thread, "toolCallId": "call 1"},
    });
    let found = variables(&mut client, extra).await;
    assert_eq!(found, map(&[("CODEX_THREAD_ID", thread), ("CODEX_TOOL_CALL_ID", "call 1")]));
    server.shut_down().await;
}

#[tokio::test]
async fn a_terminal_adds_a_shell_where_there_is_none() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let found = variables(&mut client, json!({"env": {"SHELL": "mine"}, "tty": true})).await;
    assert_eq!(found, map(&[("SHELL", "mine")]));
    let found = variables(&mut client, json!({"env": {"A": "1"}, "tty": true})).await;
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), ["A", "SHELL"]);
    server.shut_down().await;
}

#[tokio::test]
async fn an_end_by_a_signal_is_128_and_the_signal() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130), ("SEGV", 139)] {
        for tty in [false, true] {
            let id = format!("{signal}-{tty}");
            client.shell(&id, &format!("kill -{signal} $$"), json!({"tty": tty})).await;
            assert_eq!(client.closed(&id).await.code(), Some(code), "{id}");
        }
    }
    client.shell("plain", "exit 255", json!({"tty": true})).await;
    assert_eq!(client.closed("plain").await.code(), Some(255));
    server.shut_down().await;
}

#[tokio::test]
async fn arg0_is_only_the_name_the_program_sees() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    for tty in [false, true] {
        let id = format!("tty-{tty}");
        client.shell(&id, "echo $0", json!({"tty": tty, "arg0": "custom-zero"})).await;
        assert_eq!(client.closed(&id).await.text().trim_end(), "custom-zero");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn a_child_has_three_descriptors_and_leads_its_session() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    // Others whose pipes and terminals it must not inherit.
    client.start("a", &["cat"], json!({"pipeStdin": true})).await;
    client.start("b", &["cat"], json!({"tty": true})).await;
    for tty in [false, true] {
        let id = format!("tty-{tty}");
        let script = "ls /proc/$$/fd; cut -d' ' -f1,5,6 /proc/$$/stat; readlink /proc/$$/fd/0";
        client.shell(&id, script, json!({"tty": tty})).await;
        let text = client.closed(&id).await.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let [zero, one, two, pid, group, session, stdin] = words[..] else { panic!("{text}") };
        assert_eq!((zero, one, two), ("0", "1", "2"));
        assert_eq!((group, session), (pid, pid), "its own group and session");
        assert_eq!(stdin.starts_with("/dev/pts/"), tty, "{stdin}");
        assert_eq!(stdin == "/dev/null", !tty, "{stdin}");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn a_terminal_controls_its_child() {
    let server = Server::new(config(|_| {}));
    let mut client = Client::connect(&server).await;
    let script = "echo direct > /dev/tty; trap 'exit 8' INT; echo ready; \
        while :; do sleep 0.02; done";
    client.shell("p", script, json!({"tty": true, "env": {"PATH": PATH}})).await;
    client.output_has("p", "direct\r\nready").await;
    // Now it is the terminal that signals.
    client.write("p", b"\x03").await;
    let all = client.closed("p").await;
    assert_eq!(all.code(), Some(8), "{}", all.text());
    server.shut_down().await;
}

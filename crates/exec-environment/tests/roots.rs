//! `capabilityRoots/discoverV1` on trees made for it, beside codex.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use std::sync::atomic::AtomicBool;

use exec_environment::limits::Limits;
use exec_environment::roots;
use serde_json::{Value, json};
use support::{Fixture, answer, call};

fn ours(params: &Value) -> Value {
    let params = serde_json::from_value(params.clone()).unwrap();
    answer(roots::discover(&params, &Limits::default(), &AtomicBool::new(false)))
}

fn params(fixture: &Fixture, paths: &[&str]) -> Value {
    let roots: Vec<Value> =
        paths.iter().map(|path| json!({"id": path, "path": fixture.uri(path)})).collect();
    json!({ "roots": roots })
}

const MANIFEST: &str = ".codex-plugin/plugin.json";

/// A plugin with all there can be, and odd things beside it.
fn plugin(fixture: &Fixture) {
    for (path, text) in [
        ("p/.codex-plugin/plugin.json", "{\"name\":\"plug\"}"),
        ("p/.mcp.json", "{}"),
        ("p/SKILL.md", "root"),
        ("p/skills/a b/\u{e9}/SKILL.md", "x"),
        ("p/skills/a/SKILL.md", "x"),
        ("p/skills/a-b/SKILL.md", "x"),
        ("p/skills/s/SKILL.md", "---\nname: s\n---\n"),
        ("p/skills/s/agents/openai.yaml", "interface: {}\n"),
        ("p/.hidden/SKILL.md", "hidden"),
        ("p/.hidden/.claude-plugin/plugin.json", "{}"),
        ("p/node_modules/x/SKILL.md", "x"),
        ("p/skills/lower/skill.md", "no"),
        ("p/sub/n/.cursor-plugin/plugin.json", "{}"),
        ("p/sub/n/.claude-plugin/plugin.json", "{\"name\":\"n\"}"),
        ("p/sub/n/skills/k/SKILL.md", "n"),
        ("real/SKILL.md", "real"),
    ] {
        fixture.write(path, text);
    }
    let deep = "deep/1/2/3/4/5/6/7/8";
    for (at, _) in deep.match_indices('/') {
        fixture.write(&format!("{}/SKILL.md", &deep[..at]), "x");
        fixture.write(&format!("{}/{MANIFEST}", &deep[..at]), "{}");
    }
    fixture.link("links/b", "real");
    fixture.link("links/a", "real");
    fixture.link("links/out", "p");
    fixture.link("links/SKILL.md", "real/SKILL.md");
    fixture.link("links/loop", "links");
    fixture.link("links/gone", "nowhere");
    fixture.link("root-link", "p");
    fixture.link("linked-manifest/.codex-plugin", "p/.codex-plugin");
    fixture.write("odd/SKILL.md/x", "");
    fixture.write("odd/y/SKILL.md", "y");
    fixture.write("odd/y/agents/openai.yaml", b"\xff");
    fixture.write("odd/z/SKILL.md", b"\xff");
    fixture.write("large/SKILL.md", vec![b'x'; 1 << 20]);
    fixture.write("large/b/SKILL.md", vec![b'x'; (1 << 20) + 1]);
    fixture.write("bad/.codex-plugin/plugin.json", b"\xff");
    fixture.write("bad/sub/SKILL.md", "x");
    std::fs::create_dir(fixture.at("empty")).unwrap();
}

#[test]
fn a_root_is_found_with_all_its_files() {
    let fixture = Fixture::new();
    plugin(&fixture);
    let found = ours(&params(&fixture, &["p", "missing", "p/SKILL.md"]))["result"]["roots"].take();
    assert_eq!(found[0]["plugin"]["mcpConfig"]["contents"], "{}");
    assert_eq!(found[0]["plugin"]["appsConfig"], Value::Null);
    let paths: Vec<&str> = found[0]["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["instructions"]["path"].as_str().unwrap())
        .collect();
    assert!(paths.is_sorted() && paths.len() == 8, "{paths:?}");
    let missing = found[1]["error"].as_str().unwrap();
    assert!(missing.ends_with("/missing: No such file or directory (os error 2)"), "{missing}");
    assert!(found[2]["error"].as_str().unwrap().ends_with("/SKILL.md is not a directory"));
}

#[test]
fn names_that_are_not_text_are_found_too() {
    use std::os::unix::ffi::OsStrExt as _;
    let fixture = Fixture::new();
    let odd = fixture.at("r").join(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join("SKILL.md"), "x").unwrap();
    let found = ours(&params(&fixture, &["r"]))["result"]["roots"][0]["skills"].take();
    let path = found[0]["instructions"]["path"].as_str().unwrap();
    assert!(path.ends_with("/r/%FF/SKILL.md"), "{path}");
}

#[tokio::test]
async fn roots_are_discovered_as_by_codex() {
    let fixture = Fixture::new();
    plugin(&fixture);
    let Some(mut codex) = fixture.codex().await else { return };
    for root in [
        "p",
        "p/skills",
        "p/skills/s",
        "p/sub",
        "missing",
        "p/SKILL.md",
        "deep",
        "links",
        "root-link",
        "linked-manifest",
        "odd",
        "large",
        "bad",
        "bad/sub",
        "empty",
    ] {
        let params = params(&fixture, &[root]);
        let theirs = call(&mut codex, "capabilityRoots/discoverV1", &params).await;
        assert_eq!(ours(&params), theirs, "{root}");
    }
    let several = params(&fixture, &["p", "missing", "p", "empty"]);
    let foreign = json!({"roots": [{"id": "", "path": "file:///C:/x"}]});
    let many = json!({"roots": vec![json!({"id": "x", "path": "file:///nowhere"}); 129]});
    for params in [several, foreign, many, json!({"roots": []})] {
        let theirs = call(&mut codex, "capabilityRoots/discoverV1", &params).await;
        assert_eq!(ours(&params), theirs);
    }
}

#[tokio::test]
async fn manifests_name_files_as_for_codex() {
    let fixture = Fixture::new();
    let Some(mut codex) = fixture.codex().await else { return };
    for (path, text) in [
        ("m.json", "M"),
        (".mcp.json", "DOT"),
        ("apps.json", "APPS"),
        (".app.json", "DOTAPP"),
        ("m..json", "MM"),
        ("dir/x", ""),
        ("a/x", ""),
        ("a b/\u{e9}.json", "E"),
    ] {
        fixture.write(&format!("p/{path}"), text);
    }
    fixture.write("p/bytes", b"\xff");
    for manifest in [
        "not json",
        "[]",
        "5",
        "{}",
        "{\"mcpServers\":{}}",
        "{\"mcpServers\":null}",
        "{\"mcpServers\":[\"./m.json\"]}",
        "{\"apps\":{}}",
        "{\"apps\":5}",
        "\u{feff}{}",
    ] {
        compare(&fixture, &mut codex, manifest).await;
    }
    for path in [
        "./m.json",
        "m.json",
        "./../m.json",
        "./nope.json",
        "",
        "./",
        "./a/../m.json",
        "/abs",
        "./dir",
        "./a//m.json",
        "././m.json",
        ".//m.json",
        "./..",
        ".\\\\m.json",
        "./m..json",
        "./a b/\u{e9}.json",
        "./bytes",
    ] {
        for member in ["mcpServers", "apps"] {
            compare(&fixture, &mut codex, &format!("{{\"{member}\":\"{path}\"}}")).await;
        }
    }
}

async fn compare(fixture: &Fixture, codex: &mut exec_testkit::peer::RawPeer, manifest: &str) {
    fixture.write(&format!("p/{MANIFEST}"), manifest);
    let params = params(fixture, &["p"]);
    let theirs = call(codex, "capabilityRoots/discoverV1", &params).await;
    assert_eq!(ours(&params), theirs, "{manifest}");
}

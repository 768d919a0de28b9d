//! `environmentConfig/read` on files made for it, and beside codex.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use exec_environment::config;
use serde_json::{Value, json};
use support::{Fixture, answer, call};

const USER: &str = "model = \"m\" # comment\n[zeta]\nb=1\na=2\n[mcp_servers.one]\nurl = \"x\"\n";
const TRUST: &str = "[projects.\"@/p\"]\ntrust_level = \"trusted\"\n";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("p/.git/HEAD", "");
    fixture.write("p/.codex/config.toml", "model='p'\nnotify='n'\n[mcp_servers.pr]\nurl='p'\n");
    fixture.write("p/a/.codex/config.toml", "[mcp_servers.pa]\nurl='pa'\n");
    fixture.write_text("codex/config.toml", &format!("{USER}{TRUST}"));
    fixture
}

fn params(fixture: &Fixture, cwd: &str, config: Value, requirements: Value) -> Value {
    json!({"cwd": fixture.uri(cwd), "configPaths": config, "requirementsPaths": requirements})
}

/// Source and text of each layer, and where the cloud's would go.
fn layers(stack: &Value, fixture: &Fixture) -> (Vec<(String, String)>, u64) {
    let base = fixture.expand("@");
    let layer = |layer: &Value| {
        let text = |member: &str| layer[member].as_str().unwrap().replace(&base, "@");
        (text("source"), text("toml"))
    };
    let found = stack["layers"].as_array().unwrap().iter().map(layer).collect();
    (found, stack["cloudInsertionIndex"].as_u64().unwrap())
}

#[test]
fn layers_come_lowest_first() {
    let fixture = fixture();
    fixture.write("system/config.toml", "model='sys'\n");
    fixture.write("system/managed_config.toml", "model='man'\nsandbox_mode='read-only'\n");
    fixture.write("system/requirements.toml", "allowed_sandbox_modes=['workspace-write']\n");
    let asked = params(&fixture, "p/a", json!([["model"]]), json!([["allowed_sandbox_modes"]]));
    let result = config::read(&fixture.places(), &serde_json::from_value(asked).unwrap()).unwrap();
    let result = serde_json::to_value(result).unwrap();
    let pair = |source: &str, toml: &str| (source.to_owned(), toml.to_owned());
    assert_eq!(
        layers(&result["config"], &fixture),
        (
            vec![
                pair("system (@/system/config.toml)", "model = \"sys\"\n"),
                pair("user (@/codex/config.toml)", "model = \"m\"\n"),
                pair("project (@/p/.codex/config.toml)", "model = \"p\"\n"),
                pair(
                    "legacy managed_config.toml (@/system/managed_config.toml)",
                    "model = \"man\"\n"
                ),
            ],
            1
        )
    );
    let modes = "allowed_sandbox_modes = [\"";
    assert_eq!(
        layers(&result["requirements"], &fixture),
        (
            vec![
                pair("@/system/requirements.toml", &format!("{modes}workspace-write\"]\n")),
                pair("@/system/managed_config.toml", &format!("{modes}read-only\"]\n")),
            ],
            1
        )
    );
    assert_eq!(result["codexHomeDir"], json!(fixture.uri("codex")));
    assert_eq!(result["userHomeDir"], json!(fixture.uri("user")));
    assert!(result["hostname"].is_string());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let fixture = fixture();
    let check = |path: &str, contents: &[u8], expected: &str| {
        fixture.write(path, contents);
        let asked = params(&fixture, "p", json!([["model"]]), json!([]));
        let error = config::read(&fixture.places(), &serde_json::from_value(asked).unwrap());
        let expected = format!("failed to load executor-local config: {expected}");
        assert_eq!(error.unwrap_err().to_string(), fixture.expand(&expected));
        std::fs::remove_file(fixture.at(path)).unwrap();
    };
    let quoted = "string values must be quoted, expected literal string";
    check("system/config.toml", b"x = \n", &format!("@/system/config.toml:1:5: {quoted}"));
    check(
        "system/managed_config.toml",
        b"a=1\na=2",
        "@/system/managed_config.toml:2:1: duplicate key",
    );
    let shown =
        format!("TOML parse error at line 1, column 5\n  |\n1 | x = \n  |     ^\n{quoted}\n");
    let requirements =
        format!("failed to parse requirements layer @/system/requirements.toml: {shown}");
    check("system/requirements.toml", b"x = \n", &requirements);
    let project = format!("Error parsing project config file @/p/.codex/config.toml: {shown}");
    check("p/.codex/config.toml", b"x = \n", &project);
    check(
        "system/managed_config.toml",
        b"sandbox_mode='bogus'",
        "Failed to parse config requirements as TOML: unknown variant `bogus`, expected one of \
         `read-only`, `workspace-write`, `danger-full-access`\nin `sandbox_mode`\n",
    );
    check(
        "codex/config.toml",
        &vec![b'#'; (1 << 20) + 1],
        "Failed to read config file @/codex/config.toml: larger than 1048576 bytes",
    );
}

/// Answers of ours and of codex to the same questions about the same files.
async fn compare(fixture: &Fixture, codex: &mut exec_testkit::peer::RawPeer, asked: Value) {
    let places = fixture.codex_places();
    let ours = answer(config::read(&places, &serde_json::from_value(asked.clone()).unwrap()));
    let theirs = call(codex, "environmentConfig/read", &asked).await;
    assert_eq!(ours, theirs, "{asked}");
}

#[tokio::test]
async fn paths_are_chosen_as_by_codex() {
    let fixture = fixture();
    let Some(mut codex) = fixture.codex().await else { return };
    for paths in [
        json!([["mcp_servers"]]),
        json!([["mcp_servers", "one"], ["model"]]),
        json!([["mcp_servers", "nope"]]),
        json!([["model", "x"]]),
        json!([["zeta"], ["model"], ["projects"]]),
        json!([["notify"]]),
        json!([["nope"]]),
        json!([[""]]),
        json!([]),
        json!([[]]),
    ] {
        for cwd in ["p", "p/a", "p/a/missing", "elsewhere"] {
            compare(&fixture, &mut codex, params(&fixture, cwd, paths.clone(), json!([]))).await;
        }
    }
    compare(&fixture, &mut codex, params(&fixture, "p", json!([]), json!([["mcp_servers"]]))).await;
    for cwd in ["file:///C:/x", "file://srv/x", "file:///"] {
        let asked = json!({"cwd": cwd, "configPaths": [["model"]], "requirementsPaths": []});
        compare(&fixture, &mut codex, asked).await;
    }
}

#[tokio::test]
async fn files_are_read_as_by_codex() {
    let fixture = fixture();
    let Some(mut codex) = fixture.codex().await else { return };
    let values = "[mcp_servers.\"a.b\"]\nargs=[\"x\",\"y\\nz\",\"q'\\\"\"]\nf=1.0\ni=0x10\n\
        d=1979-05-27T07:32:00Z\nld=1979-05-27\nlt=07:32:00\ninl={a=1,b={c=2}}\narr=[{a=1},{b=2}]\n\
        inf=inf\nneg=-0.0\ne=1e30\nempty=[]\net={}\nuni=\"\u{e9}\\u0001\\t\"\nback=\"a\\\\b\"\n\
        [[mcp_servers.tabs]]\nx=1\n[[mcp_servers.tabs]]\ny=2\n[mcp_servers.tabs.sub]\nz=3\n";
    let texts = [
        values,
        "",
        "\u{feff}model='bom'\n",
        "x = \n",
        "[a\n",
        "x=1\nx=2\n",
        "\u{ff}",
        "a=\"\n",
        "mcp_servers=5\n",
        "[projects.x]\ntrust_level=\"maybe\"\n",
        "projects=5\n",
        "project_root_markers=5\n",
        "project_root_markers=['a']\n[projects.\"@/p\"]\ntrust_level='trusted'\n",
        "project_root_markers=[]\n[projects.\"@/p\"]\ntrust_level='trusted'\n",
        "[projects.\"@/p/a\"]\ntrust_level='trusted'\n",
        "[projects.\"@/p\"]\ntrust_level='untrusted'\n",
        "[projects.\"@/p\"]\n",
    ];
    for text in texts {
        fixture.write_text("codex/config.toml", text);
        for cwd in ["p", "p/a"] {
            let paths = json!([["mcp_servers"], ["model"]]);
            compare(&fixture, &mut codex, params(&fixture, cwd, paths, json!([]))).await;
        }
    }
    let asked = params(&fixture, "p/a", json!([["mcp_servers"]]), json!([]));
    fixture.write("codex/config.toml", b"x='\xff'");
    compare(&fixture, &mut codex, asked.clone()).await;
    std::fs::remove_file(fixture.at("codex/config.toml")).unwrap();
    compare(&fixture, &mut codex, asked.clone()).await;
    std::fs::create_dir(fixture.at("codex/config.toml")).unwrap();
    compare(&fixture, &mut codex, asked.clone()).await;
    std::fs::remove_dir(fixture.at("codex/config.toml")).unwrap();
    fixture.write_text("codex/config.toml", TRUST);
    for text in [&b"x = \n"[..], b"x='\xff'", b"notify='x'\n[mcp_servers]\n"] {
        fixture.write("p/.codex/config.toml", text);
        compare(&fixture, &mut codex, asked.clone()).await;
    }
    fixture.link("linked", "p");
    compare(&fixture, &mut codex, params(&fixture, "linked", json!([["mcp_servers"]]), json!([])))
        .await;
}

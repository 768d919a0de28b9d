//! `capabilities/discoverV2` on homes made for it, beside codex.
#![allow(clippy::unwrap_used, reason = "a test fails where something is not as expected")]

mod support;

use std::sync::atomic::AtomicBool;

use exec_environment::installed;
use exec_environment::limits::Limits;
use exec_environment::{HomeError, Places};
use serde_json::{Value, json};
use support::{Fixture, answer, call};

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: d\n---\nbody\n")
}

/// A home with one of everything.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let cache = "codex/plugins/cache";
    for (path, manifest) in [
        (
            "mkt/plug/1.0.0/.codex-plugin",
            "{\"name\":\"plug\",\"interface\":{\"displayName\":\" D \"}}",
        ),
        ("mkt/plug/0.9.0/.codex-plugin", "{\"name\":\"old\"}"),
        ("mkt/inline/1/.claude-plugin", "{\"mcpServers\":{\"b\":1,\"a\":{\"y\":1.50}}}"),
        ("mkt/nameless/local/.cursor-plugin", "{\"name\":\" \"}"),
        ("other/plug/1/.codex-plugin", "{\"name\":\"p\",\"interface\":null,\"apps\":null}"),
        (".hidden/plug/1/.codex-plugin", "{}"),
        ("mkt/p q/1/.codex-plugin", "{}"),
    ] {
        fixture.write(&format!("{cache}/{path}/plugin.json"), manifest);
    }
    for (path, text) in [
        ("mkt/plug/1.0.0/.mcp.json", "{}".to_owned()),
        ("mkt/plug/1.0.0/SKILL.md", skill("root")),
        ("mkt/plug/1.0.0/skills/k/SKILL.md", skill("k")),
        ("mkt/plug/1.0.0/skills/n/.codex-plugin/plugin.json", "{\"name\":\"inner\"}".to_owned()),
        ("mkt/plug/1.0.0/skills/n/s/SKILL.md", skill("s")),
        ("mkt/plug/1.0.0/skills/x/.codex-plugin/plugin.json", "nonsense".to_owned()),
        ("mkt/plug/1.0.0/skills/x/s/SKILL.md", skill("s")),
        ("mkt/nameless/local/skills/k/SKILL.md", skill("k")),
    ] {
        fixture.write(&format!("{cache}/{path}"), text);
    }
    for path in
        ["codex/skills/a", "codex/skills/.system/b", "user/.agents/skills/c", "codex/skills"]
    {
        fixture.write(&format!("{path}/SKILL.md"), "---\ndescription: d\n---\n");
    }
    fixture.write(
        "codex/skills/a/agents/openai.yaml",
        "policy: {products: [CODEX]}\n\
        dependencies:\n  tools:\n  - {type: mcp, value: v, oauth: {callbackPort: 7}}\n",
    );
    fixture.write("codex/skills/in/.codex-plugin/plugin.json", "{\"name\":\"ns\"}");
    fixture.write("codex/skills/in/z/SKILL.md", skill("z"));
    fixture
}

fn ours(places: &Places) -> Value {
    answer(installed::discover(places, &Limits::default(), &AtomicBool::new(false)))
}

async fn compare(fixture: &Fixture, what: &str) {
    // Codex remembers for a while what it found, so each time it is a new one.
    let Some(mut codex) = fixture.codex().await else { return };
    let theirs = call(&mut codex, "capabilities/discoverV2", &json!({"cwd": "file:///x"})).await;
    let ours = ours(&fixture.codex_places());
    // One by one first: the whole is too much to read.
    for member in ["plugins", "skills"] {
        let items =
            |answer: &Value| answer["result"][member].as_array().cloned().unwrap_or_default();
        let (ours, theirs) = (items(&ours), items(&theirs));
        let only_ours = ours.iter().find(|item| !theirs.contains(item));
        let only_theirs = theirs.iter().find(|item| !ours.contains(item));
        assert_eq!((only_ours, only_theirs), (None, None), "{what}");
    }
    assert_eq!(ours, theirs, "{what}");
}

#[test]
fn everything_installed_is_listed() {
    let fixture = fixture();
    fixture.write("system/skills/adm/SKILL.md", skill("adm"));
    let found = ours(&fixture.places())["result"].take();
    let ids = |list: &Value, member: &str| -> Vec<String> {
        let items = list.as_array().unwrap().iter();
        items.map(|item| item[member].as_str().unwrap().to_owned()).collect()
    };
    let plugins = ["inline@mkt", "nameless@mkt", "plug@mkt", "plug@other"];
    assert_eq!(ids(&found["plugins"], "id"), plugins);
    let names = ["plug:root", "plug:k", "inner:s", "plug:s"];
    assert_eq!(ids(&found["plugins"][2]["skills"], "name"), names);
    assert_eq!(ids(&found["skills"], "name"), ["b", "skills", "a", "ns:z", "c", "adm"]);
    assert_eq!(found["skills"][5]["discoveryRoot"]["id"], "system-skills");
    assert_eq!(found["warnings"], json!([]));
}

#[test]
fn a_home_that_is_named_has_to_exist() {
    let places = Places { codex_home: Some("/nonexist".into()), ..Fixture::new().places() };
    let answer = ours(&places);
    let message = HomeError::Missing("/nonexist".into()).to_string();
    assert_eq!(answer, json!({"error": {"code": -32603, "message": message}}));
}

#[test]
fn what_does_not_fit_the_answer_is_left_out_with_a_warning() {
    let fixture = fixture();
    let limits = Limits { answer_values_max: 60, ..Limits::default() };
    let found = installed::discover(&fixture.places(), &limits, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.warnings.len(), 1);
    let all = installed::discover(&fixture.places(), &Limits::default(), &AtomicBool::new(false));
    assert!(found.skills.len() < all.unwrap().skills.len());
}

#[tokio::test]
async fn plugins_and_skills_are_listed_as_by_codex() {
    let fixture = fixture();
    compare(&fixture, "everything").await;
    fixture.link("codex/plugins/cache/mkt/linked", "codex/plugins/cache/other/plug");
    fixture.link("codex/plugins/cache/mkt/version/1.0.0", "codex/plugins/cache/other/plug/1");
    fixture.link("codex/skills/linked", "codex/plugins/cache/mkt/plug/1.0.0/skills/k");
    compare(&fixture, "links").await;
    fixture.write("codex/plugins/cache/mkt/plug/2.0.0/x", "");
    compare(&fixture, "newest version without manifest").await;
}

#[tokio::test]
async fn manifests_are_understood_as_by_codex() {
    let fixture = Fixture::new();
    fixture.write("codex/plugins/cache/m/p/1.0.0/skills/k/SKILL.md", skill("k"));
    for manifest in [
        "x",
        "{}",
        "{\"name\":5}",
        "{\"name\":null}",
        "{\"name\":\"p\",\"interface\":5}",
        "{\"name\":\" p \",\"interface\":{\"displayName\":\"\"}}",
        "{\"name\":\"p\",\"apps\":{}}",
        "{\"name\":\"p\",\"name\":\"q\"}",
        "{\"name\":\"p\",\"mcpServers\":\"m\"}",
        "{\"name\":\"p\",\"mcpServers\":5,\"version\":5}",
    ] {
        fixture.write("codex/plugins/cache/m/p/1.0.0/.codex-plugin/plugin.json", manifest);
        compare(&fixture, manifest).await;
    }
}

#[tokio::test]
async fn skills_describe_themselves_as_to_codex() {
    let fixture = Fixture::new();
    let fronts = [
        "name: x",
        "description: d",
        "name: ''\ndescription: d",
        "name: 5\ndescription: 1.50",
        "name: n\ndescription: [a]",
        "name: n\ndescription: ~",
        "name: '  a   b '\ndescription: ' x '",
        "name: n\ndescription: >\n  a\n  b\n\n  c",
        "name: n\ndescription: a: b",
        "name: a: b\ndescription: it's: \"q\" x",
        "name: n\ndescription: a: b # c",
        "name: n\ndescription: `x` y",
        "name: n\ndescription: [x] y",
        "name: n\ndescription: @x",
        "name: n\ndescription: foo:",
        "name: n\ndescription: \"x: y\" z",
        "name: n\ndescription: *x",
        "name: n\ndescription: !x y",
        "name: n\ndescription: %x",
        "name: n\ndescription: - x",
        "name: a\nname: b\ndescription: d",
        "name: n\ndescription: d\nmetadata: x",
        "name: n\ndescription: d\nmetadata:\n  short-description: x: y",
        "description: d\n ---",
        "name: n\ndescription: d\nargument-hint: [a] [b]",
        "name: n\ndescription: foo: bar\n  baz: q",
    ];
    // All in one home, each in a directory of its own.
    for (front, index) in fronts.iter().zip(10..) {
        fixture.write(&format!("codex/skills/s{index}/SKILL.md"), format!("---\n{front}\n---\n"));
    }
    for (length, index) in [64, 65, 1024, 1025, 3000].into_iter().zip(10..) {
        let text = "\u{e9}".repeat(length);
        fixture.write(&format!("codex/skills/n{index}/SKILL.md"), skill(&text));
        let described = format!("---\ndescription: {text}\n---\n");
        fixture.write(&format!("codex/skills/d{index}/SKILL.md"), described);
    }
    let agents = [
        "interface: {display_name: x}\n",
        "dependencies: {tools: []}\n",
        "policy: {}\n",
        "policy: {products: [bogus]}\n",
        "policy: {products: [Codex]}\n",
        "a: [\n",
        "- 1\n",
        "",
        "policy: {allow_implicit_invocation: 'no'}\n",
        "policy: {allow_implicit_invocation: true}\n",
        "dependencies:\n  tools:\n  - {type: t}\n  - {type: '', value: v}\n",
        "dependencies:\n  tools:\n  - {type: ' a  b ', value: 5, command: ' c  d '}\n",
        "dependencies:\n  tools:\n  - {type: t, value: v, oauth: {callback_port: 70000}}\n",
        "dependencies:\n  tools:\n  - 5\n",
        "a: &x {products: [atlas]}\npolicy: *x\n",
    ];
    for (text, index) in agents.iter().zip(10..) {
        fixture.write(&format!("codex/skills/a{index}/SKILL.md"), skill("n"));
        fixture.write(&format!("codex/skills/a{index}/agents/openai.yaml"), text);
    }
    compare(&fixture, "skills").await;
}

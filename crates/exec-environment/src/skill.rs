//! What a skill says of itself: the front matter of `SKILL.md`, and `agents/openai.yaml`.

use exec_protocol::capability::{SkillDependencies, SkillPolicy, ToolDependency};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// In characters; a longer name is a mistake.
const NAME_MAX: usize = 64;
/// In characters; what a tool says at greater length is not taken.
const TEXT_MAX: usize = 1024;

/// Brackets open at once.
const BRACKETS_MAX: usize = 64;

/// The front matter, cleaned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Instructions {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) short_description: Option<String>,
}

#[derive(Deserialize)]
struct FrontMatter {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    metadata: Option<FrontMatterMetadata>,
}

#[derive(Deserialize)]
struct FrontMatterMetadata {
    #[serde(default, rename = "short-description")]
    short_description: Option<String>,
}

/// Reads `SKILL.md`; a skill without a name is called by its directory. None where it does not say
/// what a skill has to say.
pub(crate) fn instructions(text: &str, directory: &str) -> Option<Instructions> {
    let front = front_matter(text)?;
    let is_yaml = yaml::<serde_yaml_ng::Value>(&front).is_some();
    let front = if is_yaml { front } else { quoted(&front) };
    let front: FrontMatter = yaml(&front)?;
    let name = front.name.as_deref().and_then(clean).unwrap_or_else(|| directory.to_owned());
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return None;
    }
    let description = front.description.as_deref().and_then(clean)?;
    let metadata = front.metadata.and_then(|metadata| metadata.short_description);
    Some(Instructions { name, description, short_description: metadata.as_deref().and_then(clean) })
}

/// None where it is not YAML, or nested in a way that nobody writes: the parser's time grows with
/// the length times the depth of brackets, which is minutes for a mebibyte of them.
fn yaml<T: DeserializeOwned>(text: &str) -> Option<T> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACKETS_MAX {
            return None;
        }
    }
    serde_yaml_ng::from_str(text).ok()
}

/// What stands between the first line, `---`, and the next such line.
fn front_matter(text: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.next().filter(|line| line.trim() == "---")?;
    let mut front = String::new();
    for line in lines {
        if line.trim() == "---" {
            return Some(front);
        }
        front.push_str(line);
        front.push('\n');
    }
    None
}

/// People write `description: Use when: …`, which is not YAML. Quotes every such value.
fn quoted(front: &str) -> String {
    let mut out = String::new();
    for line in front.lines() {
        match line.split_once(": ") {
            Some((key, value)) if !key.trim_start().starts_with(['-', '#']) && is_loose(value) => {
                let value = value.split(" #").next().unwrap_or_default().trim();
                out.push_str(&format!("{key}: '{}'\n", value.replace('\'', "''")));
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// Whether a plain value has what a plain value may not have.
fn is_loose(value: &str) -> bool {
    let value = value.trim_start();
    let quoted = value.starts_with(['"', '\'', '|', '>']);
    !quoted && (value.contains(": ") || value.starts_with(['@', '`', '[', '{']))
}

/// Every run of white space as one space; none where nothing is left.
fn clean(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[derive(Deserialize)]
struct Agents {
    #[serde(default)]
    dependencies: Option<Dependencies>,
    #[serde(default)]
    policy: Option<Policy>,
}

#[derive(Deserialize)]
struct Dependencies {
    #[serde(default)]
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    transport: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    oauth: Option<OAuth>,
}

#[derive(Deserialize)]
struct OAuth {
    #[serde(default, alias = "callbackPort")]
    callback_port: Option<u16>,
}

#[derive(Deserialize)]
struct Policy {
    #[serde(default)]
    allow_implicit_invocation: Option<bool>,
    #[serde(default)]
    products: Vec<Product>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Product {
    #[serde(alias = "CODEX")]
    Codex,
    #[serde(alias = "CHATGPT")]
    ChatGpt,
    #[serde(alias = "ATLAS")]
    Atlas,
}

/// Reads `agents/openai.yaml`. A file that is not understood says nothing.
pub(crate) fn agents(text: &str) -> (Option<SkillDependencies>, Option<SkillPolicy>) {
    let Some(agents) = yaml::<Agents>(text) else { return (None, None) };
    let tools = agents.dependencies.map(|dependencies| dependencies.tools).unwrap_or_default();
    let tools: Vec<ToolDependency> = tools.into_iter().filter_map(tool).collect();
    let policy = agents.policy.map(|policy| SkillPolicy {
        allow_implicit_invocation: policy.allow_implicit_invocation,
        products: policy.products.iter().map(|product| product.name().to_owned()).collect(),
    });
    ((!tools.is_empty()).then_some(SkillDependencies { tools }), policy)
}

impl Product {
    fn name(&self) -> &'static str {
        match self {
            Product::Codex => "codex",
            Product::ChatGpt => "chatgpt",
            Product::Atlas => "atlas",
        }
    }
}

/// None where it is not said which tool it is.
fn tool(tool: Tool) -> Option<ToolDependency> {
    let short = |text: Option<String>, max: usize| {
        text.as_deref().and_then(clean).filter(|text| text.chars().count() <= max)
    };
    Some(ToolDependency {
        kind: short(tool.kind, NAME_MAX)?,
        value: short(tool.value, TEXT_MAX)?,
        description: short(tool.description, TEXT_MAX),
        transport: short(tool.transport, NAME_MAX),
        command: short(tool.command, TEXT_MAX),
        url: short(tool.url, TEXT_MAX),
        oauth_callback_port: tool.oauth.and_then(|oauth| oauth.callback_port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, description and short description, or nothing.
    fn check(front: &str, expected: Option<(&str, &str, Option<&str>)>) {
        let found = instructions(&format!("---\n{front}\n---\nbody\n"), "dirname");
        let found = found.map(|found| (found.name, found.description, found.short_description));
        let expected = expected.map(|(name, description, short)| {
            (name.to_owned(), description.to_owned(), short.map(str::to_owned))
        });
        assert_eq!(found, expected, "{front}");
    }

    #[test]
    fn front_matter_is_read_as_people_write_it() {
        let plain = |name, description| Some((name, description, None));
        check("name: x", None);
        check("description: d", plain("dirname", "d"));
        check("name: ''\ndescription: d", plain("dirname", "d"));
        check("name: 5\ndescription: 1.50", plain("5", "1.50"));
        check("name: n\ndescription: [a]", None);
        check("name: n\ndescription: ~", None);
        check("name: '  a   b '\ndescription: '  x \n\n   y  '", plain("a b", "x y"));
        check("name: n\ndescription: |\n  line1\n  line2", plain("n", "line1 line2"));
        check("name: n\ndescription: a: b", plain("n", "a: b"));
        check("name: a: b\ndescription: it's: \"q\" x", plain("a: b", "it's: \"q\" x"));
        check("name: n\ndescription: a: b # c", plain("n", "a: b"));
        check("name: n\ndescription: `x` y", plain("n", "`x` y"));
        check("name: n\ndescription: [x] y", plain("n", "[x] y"));
        check("name: n\ndescription: @x", plain("n", "@x"));
        check("name: n\ndescription: x: y\ntools:\n  - a\n  - b: c", plain("n", "x: y"));
        check("name: n\ndescription: http://x y", plain("n", "http://x y"));
        check("name: n\ndescription: foo:", None);
        check("name: n\ndescription: \"x: y\" z", None);
        check("name: a\nname: b\ndescription: d", None);
        check("name: n\ndescription: d\nmetadata: x", None);
        let short = |text| Some(("n", "d", text));
        check(
            "name: n\ndescription: d\nmetadata:\n  short-description: ' a  b '",
            short(Some("a b")),
        );
        check("name: n\ndescription: d\nmetadata:\n  short-description: x: y", short(Some("x: y")));
        check("name: n\ndescription: d\nmetadata:\n  short-description: ''", short(None));
        check("name: n\ndescription: d\nmetadata:", short(None));
        check("", None);
    }

    #[test]
    fn only_the_first_lines_are_front_matter() {
        let front = "name: n\ndescription: d\n";
        for good in [format!("---  \n{front} --- \n"), format!("---\n{front}---\n---\n")] {
            assert!(instructions(&good.replace('\n', "\r\n"), "d").is_some(), "{good:?}");
        }
        for bad in [
            front.to_owned(),
            format!("---\n{front}"),
            format!("\n---\n{front}---\n"),
            format!("\u{feff}---\n{front}---\n"),
            format!("---\n{front}...\n"),
            String::new(),
        ] {
            assert!(instructions(&bad, "d").is_none(), "{bad:?}");
        }
    }

    #[test]
    fn lengths_are_in_characters() {
        let skill = |name: &str, description: &str| {
            instructions(&format!("---\nname: {name}\ndescription: {description}\n---\n"), "d")
        };
        assert!(skill(&"\u{e9}".repeat(64), "d").is_some());
        assert!(skill(&"x".repeat(65), "d").is_none());
        assert_eq!(skill("n", &"\u{e9}".repeat(2000)).unwrap().description.len(), 4000);
    }

    #[test]
    fn tools_need_a_kind_and_a_value() {
        let tools = |text: &str| {
            let yaml = format!("dependencies:\n  tools:\n{text}");
            agents(&yaml).0.map(|dependencies| dependencies.tools)
        };
        let found = tools(
            "  - {type: mcp, value: ' a  b ', url: u, oauth: {callback_port: 7}}\n  - {type: cli}\n",
        );
        let tool = ToolDependency {
            kind: "mcp".to_owned(),
            value: "a b".to_owned(),
            description: None,
            transport: None,
            command: None,
            url: Some("u".to_owned()),
            oauth_callback_port: Some(7),
        };
        assert_eq!(found, Some(vec![tool]));
        for none in [
            "  - {type: '', value: v}\n",
            "  - 5\n",
            "  - {type: t, value: v, oauth: {callbackPort: 70000}}\n",
        ] {
            assert_eq!(tools(none), None, "{none}");
        }
        let long = "x".repeat(65);
        assert_eq!(tools(&format!("  - {{type: {long}, value: v}}\n")), None);
        let kept = tools(&format!("  - {{type: t, value: v, transport: {long}}}\n")).unwrap();
        assert_eq!(kept[0].transport, None);
    }

    #[test]
    fn a_policy_that_is_not_understood_is_none() {
        let policy = |text: &str| agents(&format!("policy: {text}\n")).1;
        let found =
            policy("{allow_implicit_invocation: false, products: [codex, CHATGPT]}").unwrap();
        assert_eq!(found.allow_implicit_invocation, Some(false));
        assert_eq!(found.products, ["codex", "chatgpt"]);
        assert_eq!(policy("{}").map(|policy| policy.products.len()), Some(0));
        for none in [
            "",
            "{products: [bogus]}",
            "{products: [Codex]}",
            "{allow_implicit_invocation: 'no'}",
            "{products: null}",
        ] {
            assert_eq!(policy(none), None, "{none}");
        }
        assert_eq!(agents("a: [\n"), (None, None));
    }

    #[test]
    fn aliases_cannot_grow_without_bound() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..30 {
            let last = level - 1;
            let aliases = vec![format!("*a{last}"); 9].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        bomb.push_str("policy: *a29\n");
        assert_eq!(agents(&bomb), (None, None));
        // 1 MiB that would take the parser minutes.
        assert_eq!(agents(&"[a: ".repeat(1 << 18)), (None, None));
    }
}

//! `docs/protocol.md`: an introduction written by hand, then everything that is declared.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};
use exec_protocol::jsonrpc::code;
use exec_protocol::limits;
use exec_protocol::methods::{MethodInfo, NOTICES, NoticeInfo, Origin, Pool, REQUESTS, Sender};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::examples::Examples;
use super::schema::{Direction, Types, heading, slug};

const INTRODUCTION: &str = include_str!("introduction.md");

/// The whole document.
pub(super) fn render(root: &Path) -> Result<String> {
    let examples = Examples::load(&root.join("vectors"))?;
    let declared = Declared::read()?;
    let mut text = INTRODUCTION.trim_end().to_owned();
    text.push_str("\n\n## Requests\n\n");
    text.push_str(&contents());
    for (info, (params, result)) in REQUESTS.iter().zip(&declared.requests) {
        let params = declared.from_client.root(params)?;
        let result = declared.from_server.root(result)?;
        text.push_str(&request(info, &params, &result, &examples)?);
    }
    for (sender, heading) in [
        (Sender::Client, "Notifications from the client"),
        (Sender::Server, "Notifications from the server"),
    ] {
        write!(text, "\n## {heading}\n")?;
        let notices = NOTICES.iter().zip(&declared.notices);
        for (info, params) in notices.filter(|(info, _)| info.sender == sender) {
            let params = declared.types(sender).root(params)?;
            text.push_str(&notice(info, &params, &examples)?);
        }
    }
    text.push_str(&errors());
    text.push_str(&bounds());
    text.push_str(&declared.appendix()?);
    check_links(&text)?;
    Ok(text)
}

/// What the protocol crate says of its types.
struct Declared {
    /// Of each request its parameters and its result.
    requests: Vec<(Value, Value)>,
    /// Of each notification its parameters.
    notices: Vec<Value>,
    from_client: Types,
    from_server: Types,
}

impl Declared {
    fn read() -> Result<Self> {
        let mut client = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let mut server = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut requests = Vec::new();
        for info in REQUESTS {
            let params = (info.schemas)(&mut client).0.to_value();
            let result = (info.schemas)(&mut server).1.to_value();
            requests.push((params, result));
        }
        let notices: Vec<Value> = NOTICES
            .iter()
            .map(|info| match info.sender {
                Sender::Client => (info.schema)(&mut client).to_value(),
                Sender::Server => (info.schema)(&mut server).to_value(),
            })
            .collect();
        let noticed = |sender| {
            let notices = NOTICES.iter().zip(&notices);
            notices.filter(move |(info, _)| info.sender == sender).map(|(_, schema)| schema)
        };
        let params = requests.iter().map(|(params, _)| params).chain(noticed(Sender::Client));
        let results = requests.iter().map(|(_, result)| result).chain(noticed(Sender::Server));
        let from_client = Types::new(Direction::FromClient, client.take_definitions(true), params)?;
        let from_server =
            Types::new(Direction::FromServer, server.take_definitions(true), results)?;
        Ok(Self { from_client, from_server, requests, notices })
    }

    fn types(&self, sender: Sender) -> &Types {
        match sender {
            Sender::Client => &self.from_client,
            Sender::Server => &self.from_server,
        }
    }

    /// Each nested type once.
    fn appendix(&self) -> Result<String> {
        let mut text = "\n## Types\n".to_owned();
        let (client, server) = (self.from_client.nested(), self.from_server.nested());
        for name in client.union(server) {
            let mut sections = Vec::new();
            if client.contains(name) {
                sections.push(self.from_client.section(name)?);
            }
            if server.contains(name) {
                sections.push(self.from_server.section(name)?);
            }
            sections.dedup();
            ensure!(sections.len() == 1, "{name} goes both ways, and differs by direction");
            write!(text, "\n### {}\n\n{}\n", heading(name), sections[0])?;
        }
        Ok(text)
    }
}

fn contents() -> String {
    let mut text = "| Request | What it does |\n| --- | --- |\n".to_owned();
    for info in REQUESTS {
        let doc = paragraph(info.doc);
        let first = doc.split_inclusive(". ").next().unwrap_or_default().trim_end();
        let name = info.name;
        writeln!(text, "| [`{name}`](#{}) | {first} |", slug(name))
            .expect("a string takes any text");
    }
    text
}

fn request(info: &MethodInfo, params: &str, result: &str, examples: &Examples) -> Result<String> {
    let pool = match info.pool {
        Pool::Control => "control",
        Pool::Ordinary => "ordinary",
    };
    let mut text = format!(
        "\n### `{}`\n\n{}\n\nFamily: {}. Pool: {pool}. {}\n\n",
        info.name,
        paragraph(info.doc),
        info.family.as_str(),
        origin(info.origin),
    );
    write!(text, "Parameters:\n\n{params}\n\nResult:\n\n{result}\n")?;
    if let Some((sent, answer)) = examples.request(info.name) {
        write!(text, "\n```text\n> {sent}\n< {answer}\n```\n")?;
    }
    Ok(text)
}

fn notice(info: &NoticeInfo, params: &str, examples: &Examples) -> Result<String> {
    let mut text = format!(
        "\n### `{}`\n\n{}\n\n{}\n\nParameters:\n\n{params}\n",
        info.name,
        paragraph(info.doc),
        origin(info.origin)
    );
    if let Some(said) = examples.notice(info.name) {
        write!(text, "\n```text\n< {said}\n```\n")?;
    }
    Ok(text)
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Codex => "Origin: codex 0.166.",
        Origin::Ours => "Origin: an addition of exec-server.",
    }
}

fn errors() -> String {
    let mut text = "\n## Error codes\n\nDecide on the code; the message is for people.\n\n\
                    | Code | Name | Meaning |\n| --- | --- | --- |\n"
        .to_owned();
    for (name, value, doc) in code::ALL {
        writeln!(text, "| {value} | `{name}` | {} |", paragraph(doc))
            .expect("a string takes any text");
    }
    text
}

fn bounds() -> String {
    let mut text = "\n## Limits\n\nThe bounds that both ends share.\n\n\
                    | Limit | Value | Meaning |\n| --- | --- | --- |\n"
        .to_owned();
    for (name, value, doc) in limits::ALL {
        let mib = value >> 20;
        let human = if mib << 20 == *value { format!(" ({mib} MiB)") } else { String::new() };
        writeln!(text, "| `{name}` | {value}{human} | {} |", paragraph(doc))
            .expect("a string takes any text");
    }
    text
}

/// A doc comment as one line of text.
fn paragraph(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every link inside the document leads to a heading, and no two headings share an anchor.
fn check_links(text: &str) -> Result<()> {
    let mut anchors = BTreeSet::new();
    for heading in text.lines().filter(|line| line.starts_with('#')) {
        let title = heading.trim_start_matches('#').trim();
        ensure!(anchors.insert(slug(title)), "two headings are called {title}");
    }
    for link in text.split("](#").skip(1) {
        let anchor = link.split(')').next().unwrap_or_default();
        ensure!(anchors.contains(anchor), "a link leads to #{anchor}, which is nowhere");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_declared_is_described() {
        let text = render(&crate::root()).unwrap();
        let names = REQUESTS.iter().map(|info| info.name);
        for name in names.chain(NOTICES.iter().map(|info| info.name)) {
            assert!(text.contains(&format!("\n### `{name}`\n")), "{name}");
        }
        for (name, ..) in code::ALL {
            assert!(text.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn links_lead_somewhere_and_headings_are_unique() {
        check_links("# A b\n[x](#a-b)\n").unwrap();
        assert!(check_links("# A\n[x](#b)\n").is_err());
        assert!(check_links("# A\n## a\n").is_err());
    }
}

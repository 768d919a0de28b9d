//! Types as they are declared, in words: tables of members, lists of values.
//!
//! Which way a value travels decides what is said of a member: what a client may leave out, or what
//! it cannot rely on.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};

const REFERENCE: &str = "#/$defs/";

/// Who sends a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    FromClient,
    FromServer,
}

/// All named types of one direction.
#[derive(Debug)]
pub(super) struct Types {
    direction: Direction,
    definitions: Map<String, Value>,
    /// Those that other types refer to.
    nested: BTreeSet<String>,
}

impl Types {
    /// `roots` are the schemas of whole parameters and results.
    pub(super) fn new<'a>(
        direction: Direction,
        definitions: Map<String, Value>,
        roots: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Self> {
        let mut types = Self { direction, definitions, nested: BTreeSet::new() };
        for root in roots {
            if let Some(name) = reference(root) {
                let body = types.body(name)?.clone();
                types.reach(&body)?;
            }
        }
        Ok(types)
    }

    fn reach(&mut self, schema: &Value) -> Result<()> {
        if let Some(name) = reference(schema)
            && self.nested.insert(name.to_owned())
        {
            let body = self.body(name)?.clone();
            self.reach(&body)?;
        }
        let parts: Vec<Value> = match schema {
            Value::Object(members) => members.values().cloned().collect(),
            Value::Array(items) => items.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        parts.iter().try_for_each(|part| self.reach(part))
    }

    fn body(&self, name: &str) -> Result<&Value> {
        self.definitions.get(name).with_context(|| format!("no type {name}"))
    }

    /// The names of the types that have a section of their own.
    pub(super) fn nested(&self) -> &BTreeSet<String> {
        &self.nested
    }

    /// Whole parameters or a whole result, below a method: a table, or a link to its section.
    pub(super) fn root(&self, schema: &Value) -> Result<String> {
        match reference(schema) {
            Some(name) if self.nested.contains(name) => Ok(format!("{}.", type_name(schema))),
            Some(name) => self.shape(self.body(name)?),
            None if schema["type"] == "null" => Ok("None.".to_owned()),
            None => Ok(format!("{}.", type_name(schema))),
        }
    }

    /// The section of one type, without its heading.
    pub(super) fn section(&self, name: &str) -> Result<String> {
        let body = self.body(name)?;
        let shape = self.shape(body)?;
        Ok(match one_line(body).as_str() {
            "" => shape,
            doc => format!("{doc}\n\n{shape}"),
        })
    }

    fn shape(&self, body: &Value) -> Result<String> {
        if let Some(variants) = body["oneOf"].as_array() {
            return self.variants(variants);
        }
        if let Some(values) = body["enum"].as_array() {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            return Ok(format!("One of {}.", values.join(", ")));
        }
        match (body["type"].as_str(), members(body).is_empty()) {
            (Some("object"), true) => Ok("An object without members.".to_owned()),
            (Some("object"), false) => Ok(self.table(body)),
            _ => Ok(format!("On the wire: {}.", type_name(body))),
        }
    }

    fn table(&self, body: &Value) -> String {
        let mut text =
            "| Member | Type | Presence | Meaning |\n| --- | --- | --- | --- |".to_owned();
        for member in members(body) {
            let Member { name, schema, required } = member;
            let (presence, kind) = self.presence(schema, required);
            let doc = one_line(schema);
            write!(text, "\n| `{name}` | {kind} | {presence} | {doc} |")
                .expect("a string takes any text");
        }
        text
    }

    /// When a member is there, and its type.
    fn presence(&self, schema: &Value, required: bool) -> (String, String) {
        let kind = type_name(schema);
        let (presence, kind) = match (self.direction, required, schema.get("default")) {
            (Direction::FromClient, true, _) => ("required".to_owned(), kind),
            (Direction::FromClient, false, None | Some(Value::Null)) => {
                ("optional".to_owned(), kind)
            }
            (Direction::FromClient, false, Some(default)) => (format!("default `{default}`"), kind),
            (Direction::FromServer, true, _) => ("always".to_owned(), kind),
            // What the server leaves out it does not send as null.
            (Direction::FromServer, false, _) => {
                let kind = kind.strip_suffix(" or null").unwrap_or(&kind).to_owned();
                ("may be absent".to_owned(), kind)
            }
        };
        (presence, kind)
    }

    fn variants(&self, variants: &[Value]) -> Result<String> {
        if variants.iter().all(|variant| variant["const"].is_string()) {
            let mut text = "| Value | Meaning |\n| --- | --- |".to_owned();
            for variant in variants {
                write!(text, "\n| `{}` | {} |", variant["const"], one_line(variant))?;
            }
            return Ok(text);
        }
        let mut text = "An object, one of:\n".to_owned();
        for variant in variants {
            let members = members(variant);
            let is_tag = |member: &&Member<'_>| member.schema["const"].is_string();
            let Some(tag) = members.iter().find(is_tag) else {
                bail!("a variant without a tag: {variant}");
            };
            write!(text, "\n* `\"{}\": {}`: {}", tag.name, tag.schema["const"], one_line(variant))?;
            for member in members.iter().filter(|member| !is_tag(member)) {
                let (presence, kind) = self.presence(member.schema, member.required);
                let doc = one_line(member.schema);
                write!(text, "\n  * `{}`, {kind}, {presence}: {doc}", member.name)?;
            }
        }
        Ok(text)
    }
}

struct Member<'a> {
    name: &'a str,
    schema: &'a Value,
    required: bool,
}

/// The members of an object: the certain ones as declared, then the others by name.
fn members(body: &Value) -> Vec<Member<'_>> {
    let Some(properties) = body["properties"].as_object() else { return Vec::new() };
    let required: Vec<&str> =
        body["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let certain = required.iter().filter_map(|name| {
        let (name, schema) = properties.get_key_value(*name)?;
        Some(Member { name, schema, required: true })
    });
    let others = properties.iter().filter(|(name, _)| !required.contains(&name.as_str()));
    let others = others.map(|(name, schema)| Member { name, schema, required: false });
    certain.chain(others).collect()
}

/// A type in a few words, with links.
fn type_name(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return format!("[{name}](#{})", slug(&heading(name)));
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let names: Vec<String> = choices.iter().map(type_name).collect();
        return names.join(" or ");
    }
    match &schema["type"] {
        Value::String(kind) => plain_type(kind, schema),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            let names: Vec<String> = kinds.map(|kind| plain_type(kind, schema)).collect();
            names.join(" or ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            "any JSON value".to_owned()
        }
    }
}

fn plain_type(kind: &str, schema: &Value) -> String {
    match (kind, schema["format"].as_str()) {
        ("array", _) => format!("array of {}", type_name(&schema["items"])),
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("object of {}", type_name(&schema["additionalProperties"]))
        }
        ("integer", Some(format)) => match format.strip_prefix("uint") {
            Some("") => "u64".to_owned(),
            Some(bits) => format!("u{bits}"),
            None => format!("i{}", format.trim_start_matches("int")),
        },
        ("string", Some(format)) => format!("string, {format}"),
        (kind, _) => kind.to_owned(),
    }
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(REFERENCE)
}

/// A doc comment as it fits into a table.
fn one_line(schema: &Value) -> String {
    let doc = schema["description"].as_str().unwrap_or_default();
    doc.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// What a type's section is called; a bare name could be that of a method, too.
pub(super) fn heading(type_name: &str) -> String {
    format!("Type {type_name}")
}

/// The anchor that a heading gets.
pub(super) fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_named_in_words() {
        let check = |schema: Value, expected: &str| assert_eq!(type_name(&schema), expected);
        check(json!({"type": "string"}), "string");
        check(json!({"type": ["string", "null"]}), "string or null");
        check(json!({"type": "integer", "format": "uint64"}), "u64");
        check(json!({"type": ["integer", "null"], "format": "int32"}), "i32 or null");
        check(json!({"type": "integer", "format": "uint"}), "u64");
        check(json!({"$ref": "#/$defs/PathUri"}), "[PathUri](#type-pathuri)");
        check(json!({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}), "[A](#type-a) or null");
        check(json!({"type": "array", "items": {"type": "boolean"}}), "array of boolean");
        check(
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "object of string",
        );
        check(json!({"description": "x"}), "any JSON value");
    }

    #[test]
    fn direction_decides_what_is_said_of_a_member() {
        let body = json!({"type": "object", "required": ["z"], "properties": {
            "z": {"type": "boolean", "description": "Last,\nbut required."},
            "a": {"type": ["string", "null"], "default": null},
            "b": {"type": "boolean", "default": false},
        }});
        let table = |direction| {
            let definitions = Map::from_iter([("T".to_owned(), body.clone())]);
            let root = json!({"$ref": "#/$defs/T"});
            let types = Types::new(direction, definitions, [&root]).unwrap();
            types.root(&root).unwrap().lines().skip(2).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(
            table(Direction::FromClient),
            "| `z` | boolean | required | Last, but required. |\n\
             | `a` | string or null | optional |  |\n\
             | `b` | boolean | default `false` |  |"
        );
        assert!(table(Direction::FromServer).contains("| `a` | string | may be absent |  |"));
    }

    #[test]
    fn variants_are_listed_by_their_tag() {
        let unit = json!({"oneOf": [{"const": "on", "description": "It is."}]});
        let tagged = json!({"oneOf": [{
            "type": "object", "description": "Later.", "required": ["type", "ms"], "properties": {
                "type": {"const": "late"}, "ms": {"type": "integer", "format": "uint64"}
            }
        }]});
        let types = Types::new(Direction::FromClient, Map::new(), []).unwrap();
        assert!(types.shape(&unit).unwrap().ends_with("| `\"on\"` | It is. |"));
        let shape = types.shape(&tagged).unwrap();
        assert!(
            shape.contains("* `\"type\": \"late\"`: Later.\n  * `ms`, u64, required: "),
            "{shape}"
        );
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(slug("`process/start`"), "processstart");
        assert_eq!(slug("What ends a connection"), "what-ends-a-connection");
    }
}

//! Patterns: JSON that a received message must equal, with placeholders where it may vary.
//!
//! | Placeholder | Matches |
//! | --- | --- |
//! | `"$any"`, `"$string"`, `"$int"`, `"$bool"`, `"$uuid"` | any value of that kind |
//! | `"$prefix(text)"`, `"$suffix(text)"`, `"$contains(text)"` | a string with that part |
//! | `"$b64(text)"` | the base64 of the text |
//! | `"$chunks(text)"` | an array of output chunks whose bytes, joined, are the text |
//! | `"$bind(name)"` | anything, and remembers it |
//! | `"$ref(name)"` | what was remembered; also as a part of a longer string |
//! | `"$more": true` in an object | further members besides those listed |
//! | `"$more"` at the end of an array | further elements besides those listed |
//!
//! Without `$more` an object has exactly the members listed, so that a stray one is noticed.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

/// Values remembered by `$bind`.
pub(crate) type Bindings = HashMap<String, Value>;

/// Compares a received value with a pattern; the error says where and how they differ.
pub(crate) fn match_value(pattern: &Value, actual: &Value, bindings: &mut Bindings) -> Result<()> {
    match pattern {
        Value::Object(pattern) => match_object(pattern, actual, bindings),
        Value::Array(pattern) => match_array(pattern, actual, bindings),
        Value::String(pattern) => match_string(pattern, actual, bindings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            ensure!(pattern == actual, "expected {pattern}, found {actual}");
            Ok(())
        }
    }
}

fn match_object(pattern: &Map<String, Value>, actual: &Value, bound: &mut Bindings) -> Result<()> {
    let Value::Object(actual) = actual else { bail!("expected an object, found {actual}") };
    for (name, member) in pattern.iter().filter(|(name, _)| *name != "$more") {
        let value = actual.get(name).with_context(|| format!("member {name:?} is absent"))?;
        match_value(member, value, bound).with_context(|| format!("in {name:?}"))?;
    }
    let stray = actual.iter().find(|(name, _)| !pattern.contains_key(*name));
    match stray {
        Some((name, value)) if !pattern.contains_key("$more") => {
            bail!("stray member {name:?}: {value}")
        }
        Some(_) | None => Ok(()),
    }
}

fn match_array(pattern: &[Value], actual: &Value, bindings: &mut Bindings) -> Result<()> {
    let Value::Array(actual) = actual else { bail!("expected an array, found {actual}") };
    let (pattern, open) = match pattern.split_last() {
        Some((last, listed)) if last == "$more" => (listed, true),
        Some(_) | None => (pattern, false),
    };
    let fits = actual.len() == pattern.len() || (open && actual.len() > pattern.len());
    ensure!(fits, "expected {} elements, found {}", pattern.len(), actual.len());
    for (index, (pattern, actual)) in pattern.iter().zip(actual).enumerate() {
        match_value(pattern, actual, bindings).with_context(|| format!("in element {index}"))?;
    }
    Ok(())
}

fn match_string(pattern: &str, actual: &Value, bindings: &mut Bindings) -> Result<()> {
    if let Some(("ref", name)) = placeholder(pattern) {
        let bound = bindings.get(name).with_context(|| format!("{name:?} is not bound"))?;
        ensure!(bound == actual, "expected {bound}, found {actual}");
        return Ok(());
    }
    let pattern = expand(pattern, bindings)?;
    let text = actual.as_str();
    let fits = match placeholder(&pattern) {
        Some(("bind", name)) => bindings.insert(name.to_owned(), actual.clone()).is_none(),
        Some(("any", "")) => true,
        Some(("string", "")) => actual.is_string(),
        Some(("int", "")) => actual.is_i64() || actual.is_u64(),
        Some(("bool", "")) => actual.is_boolean(),
        Some(("uuid", "")) => text.is_some_and(is_uuid),
        Some(("prefix", part)) => text.is_some_and(|text| text.starts_with(part)),
        Some(("suffix", part)) => text.is_some_and(|text| text.ends_with(part)),
        Some(("contains", part)) => text.is_some_and(|text| text.contains(part)),
        Some(("b64", part)) => text.is_some_and(|text| text == base64_encode(part)),
        Some(("chunks", part)) => joined_chunks(actual)? == part.as_bytes(),
        Some((name, _)) => bail!("unknown placeholder ${name}"),
        None => text == Some(&pattern),
    };
    ensure!(fits, "expected {pattern:?}, found {}", readable(actual));
    Ok(())
}

/// `$name` or `$name(argument)`, if the whole string is one.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('$')?;
    let Some((name, rest)) = text.split_once('(') else { return Some((text, "")) };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { rest.strip_suffix(')').map(|argument| (name, argument)) } else { None }
}

/// Replaces each `$ref(name)` in a string by the string bound to it.
pub(crate) fn expand(text: &str, bindings: &Bindings) -> Result<String> {
    replace_calls(text, "$ref(", |name| match bindings.get(name) {
        Some(Value::String(value)) => Ok(value.clone()),
        Some(value) => Ok(value.to_string()),
        None => bail!("{name:?} is not bound"),
    })
}

/// Text as it goes out: `$ref(name)`, `$b64(text)` and `$repeat(count,text)` replaced.
pub(crate) fn expand_sent(text: &str, bindings: &Bindings) -> Result<String> {
    let text = expand(text, bindings)?;
    let text = replace_calls(&text, "$b64(", |part| {
        // The text stands inside a JSON string, so its escapes are JSON's.
        let part: String = serde_json::from_str(&format!("\"{part}\""))?;
        Ok(base64_encode(&part))
    })?;
    replace_calls(&text, "$repeat(", |arguments| {
        let (count, part) = arguments.split_once(',').context("expected a count and a text")?;
        Ok(part.repeat(count.parse()?))
    })
}

fn replace_calls(
    text: &str,
    opening: &str,
    value: impl Fn(&str) -> Result<String>,
) -> Result<String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(opening) {
        let (argument, after) = after.split_once(')').with_context(|| format!("{opening}…"))?;
        expanded.push_str(before);
        expanded.push_str(&value(argument)?);
        rest = after;
    }
    Ok(expanded + rest)
}

fn joined_chunks(chunks: &Value) -> Result<Vec<u8>> {
    let mut joined = Vec::new();
    for chunk in chunks.as_array().context("expected an array of chunks")? {
        joined.extend(base64_decode(chunk["chunk"].as_str().context("a chunk without bytes")?)?);
    }
    Ok(joined)
}

/// A failed comparison is read by a person: chunks as text, and only so much of anything.
fn readable(actual: &Value) -> String {
    let shown = actual.to_string();
    match joined_chunks(actual) {
        Ok(bytes) => format!("{shown}, that is {:?}", String::from_utf8_lossy(&bytes)),
        Err(_) => shown,
    }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12]
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn base64_encode(text: &str) -> String {
    base64_simd::STANDARD.encode_to_string(text)
}

pub(crate) fn base64_decode(text: &str) -> Result<Vec<u8>> {
    base64_simd::STANDARD.decode_to_vec(text).with_context(|| format!("not base64: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(pattern: Value, actual: Value, expected: bool) {
        let mut bindings = Bindings::from([("s".to_owned(), json!("abc"))]);
        let outcome = match_value(&pattern, &actual, &mut bindings);
        assert_eq!(outcome.is_ok(), expected, "{pattern} against {actual}: {outcome:?}");
    }

    #[test]
    fn literals_are_compared_whole() {
        check(json!({"a": [1, null, true]}), json!({"a": [1, null, true]}), true);
        check(json!({"a": 1}), json!({"a": 2}), false);
        check(json!({"a": 1}), json!({"a": "1"}), false);
        check(json!({"a": null}), json!({}), false);
        check(json!({"a": 1}), json!({"a": 1, "b": 2}), false);
        check(json!([1]), json!([1, 2]), false);
        check(json!([1, 2]), json!([1]), false);
        check(json!("x"), json!("y"), false);
    }

    #[test]
    fn more_allows_for_more() {
        check(json!({"a": 1, "$more": true}), json!({"a": 1, "b": 2}), true);
        check(json!({"a": 1, "$more": true}), json!({"b": 2}), false);
        check(json!([1, "$more"]), json!([1]), true);
        check(json!([1, "$more"]), json!([1, 2]), true);
        check(json!([1, "$more"]), json!([]), false);
    }

    #[test]
    fn placeholders_match_their_kind() {
        check(json!("$any"), json!(null), true);
        check(json!("$string"), json!(""), true);
        check(json!("$string"), json!(1), false);
        check(json!("$int"), json!(-1), true);
        check(json!("$int"), json!(1.5), false);
        check(json!("$bool"), json!(false), true);
        check(json!("$bool"), json!(0), false);
        check(json!("$uuid"), json!("d5d560c9-0fc3-4db6-b2be-5797ae7a4e09"), true);
        check(json!("$uuid"), json!("d5d560c9-0fc3-4db6-b2be-5797ae7a4e0"), false);
        check(json!("$uuid"), json!("x5d560c9-0fc3-4db6-b2be-5797ae7a4e09"), false);
        check(json!("$prefix(a (b))"), json!("a (b) c"), true);
        check(json!("$prefix(b)"), json!("abc"), false);
        check(json!("$suffix(c)"), json!("abc"), true);
        check(json!("$contains(b)"), json!("abc"), true);
        check(json!("$contains(d)"), json!("abc"), false);
        check(json!("$contains(1)"), json!(1), false);
        check(json!("$unheard"), json!("$unheard"), false);
    }

    #[test]
    fn bytes_are_compared_decoded() {
        check(json!("$b64(hi\n)"), json!("aGkK"), true);
        check(json!("$b64(hi)"), json!("aGkK"), false);
        let chunks = json!([{"seq": 1, "chunk": "aA=="}, {"seq": 2, "chunk": "aQo="}]);
        check(json!("$chunks(hi\n)"), chunks.clone(), true);
        check(json!("$chunks(hi)"), chunks, false);
    }

    #[test]
    fn bound_values_are_recalled() {
        check(json!("$ref(s)"), json!("abc"), true);
        check(json!("$ref(s)"), json!("abd"), false);
        check(json!("session $ref(s) is $ref(s)"), json!("session abc is abc"), true);
        check(json!("$prefix($ref(s))"), json!("abcd"), true);
        check(json!("$ref(unbound)"), json!("abc"), false);
        check(json!(["$bind(n)", "$ref(n)"]), json!([{"x": 1}, {"x": 1}]), true);
        check(json!(["$bind(n)", "$ref(n)"]), json!([{"x": 1}, {"x": 2}]), false);
    }

    #[test]
    fn sent_text_is_expanded() {
        let bindings = Bindings::from([("s".to_owned(), json!("abc"))]);
        let check = |text, expected| assert_eq!(expand_sent(text, &bindings).unwrap(), expected);
        check(r#"{"id":"$ref(s)"}"#, r#"{"id":"abc"}"#);
        check(r#""$b64(hi\n)" "$b64()""#, r#""aGkK" """#);
        check("$repeat(3,[)$repeat(2,]},)", "[[[]},]},");
        assert!(expand_sent("$ref(t)", &bindings).is_err());
    }

    #[test]
    fn a_difference_is_located() {
        let mut bindings = Bindings::new();
        let error = match_value(
            &json!({"error": {"code": -32600}}),
            &json!({"error": {"code": -32602}}),
            &mut bindings,
        );
        let shown = format!("{:#}", error.unwrap_err());
        assert_eq!(shown, r#"in "error": in "code": expected -32600, found -32602"#);
    }
}

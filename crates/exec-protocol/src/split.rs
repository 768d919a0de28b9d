//! The members of an object that is known to be valid JSON, without reading what is in them: a
//! message with a large string in it is passed over at the speed of a byte search.

use std::borrow::Cow;

/// The members of the object that `text` is, in order. `text` must be valid JSON; if it is no object
/// there are none.
pub(crate) fn members(text: &str) -> Members<'_> {
    Members { rest: text.trim_ascii_start().strip_prefix('{').unwrap_or_default() }
}

/// See [`members`].
pub(crate) struct Members<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Members<'a> {
    /// The key, and the text of the value.
    type Item = (Cow<'a, str>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.trim_ascii_start();
        let rest = rest.strip_prefix(',').unwrap_or(rest).trim_ascii_start();
        if !rest.starts_with('"') {
            return None;
        }
        let (key, rest) = rest.split_at_checked(string_end(rest.as_bytes())?)?;
        let rest = rest.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
        let (value, rest) = rest.split_at_checked(value_end(rest.as_bytes())?)?;
        self.rest = rest;
        Some((unescaped(key)?, value))
    }
}

fn unescaped(key: &str) -> Option<Cow<'_, str>> {
    let inner = key.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(key).ok().map(Cow::Owned)
}

/// Where the string that begins the text ends.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Where the value that begins the text ends.
fn value_end(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => at += string_end(&text[at..])?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |byte: &u8| b",:]} \t\r\n".contains(byte);
                at += text[at..].iter().position(ends)?;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_come_in_order_with_their_text() {
        let text = r#" { "a" : [1, {"b":"}\"]"}] ,"c\u0064":null,"":-1.5e3 , "z":"x\\" } "#;
        let seen: Vec<_> = members(text).map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(seen, [r#"a=[1, {"b":"}\"]"}]"#, "cd=null", "=-1.5e3", r#"z="x\\""#]);
        assert_eq!(members("{}").count(), 0);
        assert_eq!(members("[1]").count(), 0);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::hash_map(".*", inner, 0..4)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_is_split_as_the_parser_reads_it(
            object in prop::collection::btree_map(".*", json(), 0..6),
            pretty: bool,
        ) {
            let text = if pretty {
                serde_json::to_string_pretty(&object)
            } else {
                serde_json::to_string(&object)
            };
            let text = text.unwrap();
            let split: Vec<(String, serde_json::Value)> = members(&text)
                .map(|(key, value)| (key.into_owned(), serde_json::from_str(value).unwrap()))
                .collect();
            prop_assert_eq!(split, object.into_iter().collect::<Vec<_>>());
        }
    }
}

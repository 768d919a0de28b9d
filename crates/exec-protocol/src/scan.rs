//! The first look at a message: valid JSON, not too many values, not too deep, no key twice. It
//! borrows from the input and allocates only the keys of objects that are open, so a hostile
//! message meets these limits before it meets memory.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::limits::JSON_VALUES_MAX;

/// Objects up to this size compare keys one by one, which needs no hashing.
const LINEAR_KEYS_MAX: usize = 16;

/// Checks the whole text. The error is the parser's, with line and column.
pub(crate) fn check(text: &[u8]) -> Result<&str, serde_json::Error> {
    let count = Cell::new(JSON_VALUES_MAX);
    let value = Value { left: &count };
    // Looking at all of it once is faster than at each string for itself.
    let Ok(text) = std::str::from_utf8(text) else {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        value.deserialize(&mut deserializer)?;
        deserializer.end()?;
        return Err(serde_json::Error::custom("invalid unicode code point"));
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    value.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(text)
}

#[derive(Clone, Copy)]
struct Value<'a> {
    left: &'a Cell<usize>,
}

impl Value<'_> {
    fn count<E: Error>(self) -> Result<(), E> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(format_args!(
                "JSON-RPC message exceeds the limit of {JSON_VALUES_MAX} JSON values"
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.count()
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.count()
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.count()
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.count()
    }
    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.count()
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.count()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.count()?;
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.count()?;
        let mut keys = Keys::default();
        while let Some(key) = members.next_key_seed(Key)? {
            if let Err(twice) = keys.insert(key) {
                return Err(A::Error::custom(format_args!("duplicate JSON object key `{twice}`")));
            }
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

/// The keys of one open object.
#[derive(Default)]
struct Keys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Keys<'de> {
    fn insert(&mut self, key: Cow<'de, str>) -> Result<(), Cow<'de, str>> {
        if self.few.contains(&key) || self.many.contains(&key) {
            return Err(key);
        }
        if self.few.len() < LINEAR_KEYS_MAX {
            self.few.push(key);
        } else {
            self.many.insert(key);
        }
        Ok(())
    }
}

/// A key, borrowed from the input unless it holds an escape.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }
    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        check(text.as_bytes()).map_or_else(|error| error.to_string(), |_| "ok".to_owned())
    }

    #[test]
    fn duplicate_keys_are_found_at_any_depth_and_in_any_spelling() {
        assert_eq!(message(r#"{"a":1,"b":{"a":1}}"#), "ok");
        assert_eq!(
            message(r#"{"id":1,"id":2}"#),
            "duplicate JSON object key `id` at line 1 column 12"
        );
        assert!(message(r#"{"x":[{"a":1,"\u0061":2}]}"#).starts_with("duplicate JSON object key"));
        let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":0", n % 39)).collect();
        assert!(message(&format!("{{{}}}", many.join(","))).contains("`k0`"));
    }

    #[test]
    fn the_last_allowed_value_passes_and_the_next_does_not() {
        let array = |items: usize| format!("[{}]", vec!["0"; items].join(","));
        assert_eq!(message(&array(JSON_VALUES_MAX - 1)), "ok");
        assert!(
            message(&array(JSON_VALUES_MAX))
                .starts_with("JSON-RPC message exceeds the limit of 262144 JSON values at line 1")
        );
    }

    #[test]
    fn depth_ends_at_127_containers() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(message(&nested(crate::limits::JSON_DEPTH_MAX)), "ok");
        assert!(
            message(&nested(crate::limits::JSON_DEPTH_MAX + 1))
                .starts_with("recursion limit exceeded at line 1 column")
        );
    }
}

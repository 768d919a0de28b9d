//! Byte strings on the wire: standard base64 with padding.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes that travel as base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base64Bytes(pub Vec<u8>);

impl Serialize for Base64Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64_simd::STANDARD.encode_to_string(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Base64Bytes;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64Bytes, E> {
                decode(text).map(Base64Bytes).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Base64Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "base64".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "base64",
            "description": "Bytes, in standard base64 with padding.",
        })
    }
}

/// Length of the text that `bytes` bytes become.
pub const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Appends the text of `bytes`.
pub fn encode_into(out: &mut Vec<u8>, bytes: &[u8]) {
    base64_simd::STANDARD.encode_append(bytes, out);
}

/// Decodes a text, or says what is wrong with it.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    base64_simd::STANDARD.decode_to_vec(text).map_err(|_| Base64Error::find(text.as_bytes()))
}

/// What is wrong with a base64 text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Base64Error {
    /// A byte outside the alphabet.
    #[error("Invalid symbol {byte}, offset {offset}.")]
    Symbol {
        /// The byte.
        byte: u8,
        /// Where it stands.
        offset: usize,
    },
    /// The last symbol carries bits that belong to no byte.
    #[error("Invalid last symbol {byte}, offset {offset}.")]
    LastSymbol {
        /// The byte.
        byte: u8,
        /// Where it stands.
        offset: usize,
    },
    /// Padding is missing or wrong.
    #[error("Invalid padding")]
    Padding,
}

impl Base64Error {
    /// The first fault of a text that the decoder refused; it does not say which itself.
    fn find(text: &[u8]) -> Self {
        let symbols = text.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
        let padding = text.len() - symbols;
        let is_symbol = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        if let Some(offset) = text[..symbols].iter().position(|byte| !is_symbol(byte)) {
            return Self::Symbol { byte: text[offset], offset };
        }
        let expected = [Some(0), None, Some(2), Some(1)][symbols % 4];
        match (expected, symbols.checked_sub(1)) {
            (Some(expected), Some(offset)) if expected == padding && expected > 0 => {
                Self::LastSymbol { byte: text[offset], offset }
            }
            _ => Self::Padding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named() {
        let message = |text| decode(text).unwrap_err().to_string();
        assert_eq!(decode("aGkK").unwrap(), b"hi\n");
        assert_eq!(decode("").unwrap(), b"");
        assert_eq!(message("aGk"), "Invalid padding");
        assert_eq!(message("aGkKaGk"), "Invalid padding");
        assert_eq!(message("a"), "Invalid padding");
        assert_eq!(message("-_8="), "Invalid symbol 45, offset 0.");
        assert_eq!(message("aG=K"), "Invalid symbol 61, offset 2.");
        assert_eq!(message("aR=="), "Invalid last symbol 82, offset 1.");
    }

    proptest::proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(bytes: Vec<u8>) {
            let mut text = Vec::new();
            encode_into(&mut text, &bytes);
            proptest::prop_assert_eq!(text.len(), encoded_len(bytes.len()));
            proptest::prop_assert_eq!(decode(std::str::from_utf8(&text).unwrap()).unwrap(), bytes);
        }

        #[test]
        fn any_text_decodes_or_is_refused(text: String) {
            if let Ok(bytes) = decode(&text) {
                let mut back = Vec::new();
                encode_into(&mut back, &bytes);
                proptest::prop_assert_eq!(back, text.into_bytes());
            }
        }
    }
}

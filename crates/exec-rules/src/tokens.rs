//! The words of a rules file, with its comments: enough of Starlark's lexis to measure nesting and to
//! lay a file out. What the file means is Starlark's business.

/// What a piece of source is. Together, in order, the pieces are the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Blanks, and line ends that a backslash hides.
    Space,
    /// The end of a line.
    Newline,
    /// From `#` to the end of the line.
    Comment,
    /// A name, a keyword or a number.
    Word,
    /// A string literal with its prefix and quotes.
    Text,
    /// An opening bracket.
    Open,
    /// A closing bracket.
    Close,
    /// A comma.
    Comma,
    /// Anything else.
    Operator,
}

/// A piece of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// From 1.
    pub(crate) line: usize,
}

/// Operators of more than one character, the longest first.
const OPERATORS: &[&str] = &[
    "//=", "<<=", ">>=", "...", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
    "^=", "//", "**", "<<", ">>", "->",
];

/// Cuts a source into pieces. Every source can be cut, also one that Starlark refuses.
pub(crate) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        let (text, after) = rest.split_at(length);
        found.push(Piece { kind, text, line });
        line += text.matches('\n').count();
        rest = after;
    }
    found
}

/// The kind and the length of the piece that a text begins with.
fn next(rest: &str, first: char) -> (Kind, usize) {
    let run = |accept: fn(char) -> bool| rest.find(|c| !accept(c)).unwrap_or(rest.len());
    match first {
        '\n' => (Kind::Newline, 1),
        ' ' | '\t' | '\r' => (Kind::Space, run(|c| matches!(c, ' ' | '\t' | '\r'))),
        '\\' if rest.starts_with("\\\n") => (Kind::Space, 2),
        '\\' if rest.starts_with("\\\r\n") => (Kind::Space, 3),
        '#' => (Kind::Comment, rest.find(['\n', '\r']).unwrap_or(rest.len())),
        '(' | '[' | '{' => (Kind::Open, 1),
        ')' | ']' | '}' => (Kind::Close, 1),
        ',' => (Kind::Comma, 1),
        '"' | '\'' => (Kind::Text, string(rest)),
        _ if first.is_alphanumeric() || first == '_' => {
            let length = run(|c| c.is_alphanumeric() || c == '_');
            let (word, after) = rest.split_at(length);
            let prefix = length <= 2 && word.chars().all(|c| "rRbBfF".contains(c));
            if prefix && after.starts_with(['"', '\'']) {
                (Kind::Text, length + string(after))
            } else {
                (Kind::Word, length)
            }
        }
        _ => {
            let long = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
            (Kind::Operator, long.map_or(first.len_utf8(), |operator| operator.len()))
        }
    }
}

/// The length of a string literal, from its quote; one that is not closed ends with its line, or with
/// the text if it has three quotes.
fn string(text: &str) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let (mark, many) =
        if text.starts_with(&triple) { (triple.as_str(), true) } else { (quote, false) };
    let mut at = mark.len();
    while let Some(character) = text[at..].chars().next() {
        if text[at..].starts_with(mark) {
            return at + mark.len();
        }
        if character == '\n' && !many {
            return at;
        }
        at += character.len_utf8();
        if character == '\\' {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_are_the_source() {
        for source in [
            "prefix_rule([\"git\", 'a\\'b'])  # why\n",
            "x = \"\"\"a\n\"b\"\"\"\n",
            "r\"\\\"\" f'{x}' rb'' \"open\nnext",
            "'''never closed",
            "a \\\n + b\r\n",
            "é = \u{feff}1 // 2 ... **k",
            "\"a\\",
        ] {
            let joined: String = pieces(source).iter().map(|piece| piece.text).collect();
            assert_eq!(joined, source);
        }
    }

    #[test]
    fn strings_hide_what_is_in_them() {
        let kinds: Vec<Kind> = pieces("f(r'#[', \"\"\"a\n,\"\"\") # b")
            .iter()
            .filter(|piece| piece.kind != Kind::Space)
            .map(|piece| piece.kind)
            .collect();
        use Kind::{Close, Comma, Comment, Open, Text, Word};
        assert_eq!(kinds, [Word, Open, Text, Comma, Text, Close, Comment]);
    }
}

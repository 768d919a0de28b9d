//! One layout for rules files: calls of our functions on one line if they fit, else one argument a line.
//!
//! Only top-level calls of `prefix_rule`, `network_rule` and `host_executable` are laid out anew; other
//! statements keep their text. Comments and strings are never changed, and the result is compared
//! with the source word by word, so formatting cannot change what a file means.

use crate::error::{Error, Problem};
use crate::rule::Location;
use crate::tokens::{Kind, Piece, pieces};

mod layout;

const FUNCTIONS: &[&str] = &["prefix_rule", "network_rule", "host_executable"];
/// Blank lines in a row that stay.
const BLANK_LINES_MAX: usize = 1;

/// Lays a file out. A file whose brackets do not match is refused.
pub fn format(file: &str, source: &str) -> Result<String, Error> {
    let all = pieces(source);
    let mut out = String::with_capacity(source.len());
    let mut blank = 0;
    for statement in statements(&all).map_err(|line| unbalanced(file, line))? {
        let text = lay_out(statement);
        if text.is_empty() {
            blank += 1;
            continue;
        }
        if blank > 0 && !out.is_empty() {
            out.push_str(&"\n".repeat(blank.min(BLANK_LINES_MAX)));
        }
        blank = 0;
        out.push_str(&text);
        out.push('\n');
    }
    if words(&all) != words(&pieces(&out)) {
        return Err(Problem::new("the file cannot be formatted without changing it").in_file(file));
    }
    Ok(out)
}

fn unbalanced(file: &str, line: usize) -> Error {
    let location = Location { file: file.into(), line, column: 1 };
    Problem::new("brackets do not match").at(Some(location)).in_file(file)
}

/// What must not change: everything but blanks, line ends and commas before a closing bracket.
fn words<'a>(all: &[Piece<'a>]) -> Vec<&'a str> {
    let told: Vec<&Piece<'a>> =
        all.iter().filter(|it| !matches!(it.kind, Kind::Space | Kind::Newline)).collect();
    let closes = |at: usize| {
        let next = told[at + 1..].iter().find(|piece| piece.kind != Kind::Comment);
        next.is_some_and(|piece| piece.kind == Kind::Close)
    };
    let said = |at: &usize| told[*at].kind != Kind::Comma || !closes(*at);
    let mut commented: Vec<&'a str> = Vec::with_capacity(told.len());
    // A comma may move to the other side of a comment; that is no change.
    let mut comments = Vec::new();
    for at in (0..told.len()).filter(said) {
        let text = told[at].text.trim_end();
        if told[at].kind == Kind::Comment { comments.push(text) } else { commented.push(text) }
    }
    commented.extend(comments);
    commented
}

/// Cuts at line ends outside brackets, or says in which line a bracket is wrong.
fn statements<'a, 'b>(all: &'b [Piece<'a>]) -> Result<Vec<&'b [Piece<'a>]>, usize> {
    let mut found = Vec::new();
    let mut open: Vec<&Piece<'a>> = Vec::new();
    let mut begin = 0;
    for (at, piece) in all.iter().enumerate() {
        match piece.kind {
            Kind::Open => open.push(piece),
            Kind::Close => {
                let pair = open.pop().map(|open| (open.text, piece.text));
                if !matches!(pair, Some(("(", ")") | ("[", "]") | ("{", "}"))) {
                    return Err(piece.line);
                }
            }
            Kind::Newline if open.is_empty() => {
                found.push(&all[begin..at]);
                begin = at + 1;
            }
            Kind::Space
            | Kind::Newline
            | Kind::Comment
            | Kind::Word
            | Kind::Text
            | Kind::Comma
            | Kind::Operator => {}
        }
    }
    if let Some(piece) = open.first() {
        return Err(piece.line);
    }
    if begin < all.len() {
        found.push(&all[begin..]);
    }
    Ok(found)
}

/// The text of a statement.
fn lay_out(statement: &[Piece<'_>]) -> String {
    if let Some(text) = call(statement) {
        return text;
    }
    let text: String = statement.iter().map(|piece| piece.text).collect();
    text.trim_end().to_owned()
}

/// A call of one of our functions that is the whole statement, with a comment behind it perhaps.
fn call(statement: &[Piece<'_>]) -> Option<String> {
    let (name, rest) = statement.split_first()?;
    if name.kind != Kind::Word || !FUNCTIONS.contains(&name.text) {
        return None;
    }
    let rest = skip_space(rest);
    if rest.first().is_none_or(|piece| piece.text != "(") {
        return None;
    }
    let (group, after) = layout::Group::parse(rest)?;
    let comment = match skip_space(after) {
        [] => "",
        [comment] if comment.kind == Kind::Comment => comment.text.trim_end(),
        [comment, space] if comment.kind == Kind::Comment && space.kind == Kind::Space => {
            comment.text.trim_end()
        }
        _ => return None,
    };
    let mut text = name.text.to_owned();
    group.write(&mut text, 0);
    if !comment.is_empty() {
        text.push_str("  ");
        text.push_str(comment);
    }
    Some(text)
}

fn skip_space<'a, 'b>(pieces: &'b [Piece<'a>]) -> &'b [Piece<'a>] {
    let begin = pieces.iter().position(|piece| piece.kind != Kind::Space);
    &pieces[begin.unwrap_or(pieces.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let formatted = format("a.rules", source).unwrap();
        assert_eq!(formatted, expected);
        assert_eq!(format("a.rules", &formatted).unwrap(), expected, "twice is once");
    }

    #[test]
    fn calls_are_laid_out_and_the_rest_is_kept() {
        check("", "");
        check("\n\n\nx=1   \n\n\n\ny = 2", "x=1\n\ny = 2\n");
        check(
            "prefix_rule( [ \"git\" ,'b' ],decision = \"allow\" , )  # why  \n",
            "prefix_rule([\"git\", 'b'], decision=\"allow\")  # why\n",
        );
        check(
            "prefix_rule(pattern=[ [\"a\",\"b\",], ])",
            "prefix_rule(pattern=[[\"a\", \"b\"]])\n",
        );
        check(
            "for x in [1]:\n    prefix_rule( [x] )\nprefix_rule([x]) ; y=1\n",
            "for x in [1]:\n    prefix_rule( [x] )\nprefix_rule([x]) ; y=1\n",
        );
        check(
            "prefix_rule([x for x in  y if not  x], match=[f(1,2)])",
            "prefix_rule([x for x in y if not x], match=[f(1, 2)])\n",
        );
        check("prefix_rule([(\"a\", ), (1)][0,])", "prefix_rule([(\"a\",), (1)][0,])\n");
        check("prefix_rule([\"a\"],\r\n  \"allow\")\r\n", "prefix_rule([\"a\"], \"allow\")\n");
    }

    #[test]
    fn long_calls_have_an_argument_a_line() {
        let long = "x".repeat(60);
        check(
            &format!(
                "prefix_rule([\"git\", \"{long}\"], decision=\"prompt\", justification=\"{long}\")"
            ),
            &format!(
                "prefix_rule(\n    [\"git\", \"{long}\"],\n    decision=\"prompt\",\n    \
                 justification=\"{long}\",\n)\n"
            ),
        );
        check(
            &format!("prefix_rule([\"{long}\", \"{long}\"])"),
            &format!("prefix_rule(\n    [\n        \"{long}\",\n        \"{long}\",\n    ],\n)\n"),
        );
    }

    #[test]
    fn comments_stay_with_their_arguments() {
        check(
            "# top\nprefix_rule(\n  # first\n  [\"a\"], # of a\n\n  \"allow\" # last\n  # end\n)\n",
            "# top\nprefix_rule(\n    # first\n    [\"a\"],  # of a\n    \"allow\",  # last\n    # end\n)\n",
        );
        check("prefix_rule([ # c\n])", "prefix_rule(\n    [\n        # c\n    ],\n)\n");
    }

    #[test]
    fn what_does_not_match_is_refused() {
        for source in ["(", "prefix_rule([)]", "]", "{)"] {
            assert!(format("a.rules", source).is_err(), "{source}");
        }
    }
}

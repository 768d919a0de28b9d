//! How deep a source nests, before anything recurses over it. Starlark's compiler does, and a stack
//! that overflows ends the whole process.
//!
//! The answer is never too small: a level of the syntax tree needs a bracket, a block, an operator or a
//! keyword of its own, and those are counted. Between commas the count starts again.

use crate::error::Problem;
use crate::limits::NESTING_MAX;
use crate::rule::Location;
use crate::tokens::{Kind, Piece, pieces};

/// Words that nest expressions or chain statements.
const NESTING_WORDS: &[&str] =
    &["not", "and", "or", "if", "else", "lambda", "for", "in", "elif", "def"];

/// Refuses a source that nests too deep.
pub(crate) fn check(file: &str, source: &str) -> Result<(), Problem> {
    let mut levels = Levels::default();
    for piece in pieces(source) {
        if levels.add(&piece) > NESTING_MAX {
            let location = Location { file: file.into(), line: piece.line, column: 1 };
            return Err(Problem::new(format!("the source nests deeper than {NESTING_MAX} levels"))
                .at(Some(location))
                .hint("assign parts of a long expression to names"));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Levels {
    /// Of the bracket we are in: what nests since its last comma. The ones around it are below.
    count: usize,
    around: Vec<usize>,
    /// Sum of `around`.
    sum: usize,
    /// Blocks around this line, as far as its indentation tells.
    indents: Vec<usize>,
    /// `elif`s so far: each is nested in the one before.
    elifs: usize,
    at_line_start: bool,
}

impl Levels {
    /// Takes the next piece and tells how deep it may be.
    fn add(&mut self, piece: &Piece<'_>) -> usize {
        match piece.kind {
            Kind::Newline if self.around.is_empty() => {
                self.count = 0;
                self.at_line_start = true;
                return self.depth();
            }
            Kind::Newline | Kind::Comment => return self.depth(),
            Kind::Space => {
                if self.at_line_start {
                    self.indent(piece.text.len());
                }
                return self.depth();
            }
            Kind::Open => {
                self.count += 1;
                self.sum += self.count;
                self.around.push(self.count);
                self.count = 0;
            }
            Kind::Close => {
                if let Some(count) = self.around.pop() {
                    self.sum -= count;
                    self.count = count;
                }
            }
            Kind::Comma => self.count = 0,
            Kind::Operator if piece.text == ";" => self.count = 0,
            Kind::Operator => self.count += 1,
            Kind::Word if NESTING_WORDS.contains(&piece.text) => {
                self.count += 1;
                self.elifs += usize::from(piece.text == "elif");
            }
            // What is between the braces of an f-string is an expression.
            Kind::Text
                if piece.text.starts_with(['f', 'F'])
                    || piece.text[1..].starts_with(['f', 'F']) =>
            {
                self.count += piece.text.chars().filter(|c| !c.is_alphanumeric()).count();
            }
            Kind::Text | Kind::Word => {}
        }
        if self.at_line_start {
            self.indent(0);
        }
        self.depth()
    }

    fn indent(&mut self, width: usize) {
        self.at_line_start = false;
        while self.indents.last().is_some_and(|last| *last >= width) {
            self.indents.pop();
        }
        if width > 0 {
            self.indents.push(width);
        }
    }

    fn depth(&self) -> usize {
        self.sum + self.count + self.indents.len() + self.elifs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_nests_is_noticed() {
        let many = 100_000;
        let blocks: String =
            (0..many / 10).map(|n| format!("{}if 1:\n", " ".repeat(n % 3000))).collect();
        for source in [
            "[".repeat(many),
            "(".repeat(many),
            "x = ".to_owned() + &"-".repeat(many) + "1",
            "x = ".to_owned() + &"not ".repeat(many) + "1",
            "x = 1".to_owned() + &" + 1".repeat(many),
            "x = a".to_owned() + &".b".repeat(many),
            "x = f".to_owned() + &"()".repeat(many),
            "x = a".to_owned() + &"[0]".repeat(many),
            "x = ".to_owned() + &"lambda: ".repeat(many) + "1",
            "x = ".to_owned() + &"1 if 1 else ".repeat(many) + "1",
            "if 1:\n pass\n".to_owned() + &"elif 1:\n pass\n".repeat(many),
            "x = f\"".to_owned() + &"{".repeat(many),
            blocks,
        ] {
            assert!(check("a", &source).is_err(), "{}", &source[..60]);
        }
    }

    #[test]
    fn length_alone_is_no_depth() {
        let rules = "prefix_rule([\"git\", [\"a\", \"b\"]], match = [\"git a\"])\n".repeat(10_000);
        let list = format!("x = [{}]\n", "[1, -1], ".repeat(10_000));
        let blocks = "def f(x):\n    if x:\n        return [x + 1]\n".repeat(1000);
        for source in [rules, list, blocks] {
            assert_eq!(check("a", &source), Ok(()));
        }
    }
}

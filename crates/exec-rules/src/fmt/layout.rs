//! A bracket and what is in it, laid out on one line or on several.

use crate::tokens::{Kind, Piece};

/// Lines longer than this are broken where they can be.
const WIDTH: usize = 100;
const INDENT: usize = 4;
/// Brackets in brackets deeper than this stay as they are.
const DEPTH_MAX: usize = 200;

/// Words before a bracket that do not make it a call or an index.
const KEYWORDS: &[&str] = &["in", "not", "and", "or", "if", "else", "lambda", "for", "return"];

/// A bracket with its elements.
pub(super) struct Group<'a> {
    open: &'a str,
    close: &'a str,
    elements: Vec<Element<'a>>,
    last_comma: LastComma,
    /// Comments after the last element.
    end: Vec<&'a str>,
}

/// What a comma behind the last element means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastComma {
    /// Nothing: it stands where every element has its line.
    Free,
    /// Something, and it is there: `(x,)` is a tuple.
    Kept,
    /// Something, and it is not there: `(x)` is none, and a comprehension has none.
    Absent,
}

/// What stands between two commas, with its comments.
#[derive(Default)]
struct Element<'a> {
    /// On lines before it.
    before: Vec<&'a str>,
    parts: Vec<Part<'a>>,
    /// On its last line.
    behind: Option<&'a str>,
}

/// Something of an element, and whether there is a blank before it.
enum Part<'a> {
    Word(bool, &'a str),
    Group(bool, Group<'a>),
}

impl<'a> Group<'a> {
    /// Reads a bracket; also gives what follows it. None if it cannot be laid out.
    pub(super) fn parse<'b>(pieces: &'b [Piece<'a>]) -> Option<(Self, &'b [Piece<'a>])> {
        let mut rest = pieces;
        let group = Self::read(&mut rest, true, 0)?;
        Some((group, rest))
    }

    /// `after_operand` is whether the bracket calls or indexes what stands before it.
    fn read(rest: &mut &[Piece<'a>], after_operand: bool, depth: usize) -> Option<Self> {
        let mut reader = Reader::default();
        let open = take(rest)?.text;
        if depth > DEPTH_MAX {
            return None;
        }
        loop {
            let next = rest.first()?;
            match next.kind {
                Kind::Open => {
                    let blank = reader.blank("")?;
                    let after_operand = reader.element.ends_with_operand();
                    let group = Self::read(rest, after_operand, depth + 1)?;
                    reader.element.parts.push(Part::Group(blank, group));
                    continue;
                }
                Kind::Close => {
                    let close = take(rest)?.text;
                    let comma = reader.element.parts.is_empty() && !reader.elements.is_empty();
                    let (elements, end) = reader.finish();
                    let free = match open {
                        "(" => after_operand,
                        "[" => !after_operand,
                        _ => true,
                    };
                    let last_comma = match (free && !is_special(&elements), comma) {
                        (true, _) => LastComma::Free,
                        (false, true) => LastComma::Kept,
                        (false, false) => LastComma::Absent,
                    };
                    return Some(Self { open, close, elements, last_comma, end });
                }
                // One that hides its line end inside a bracket says nothing.
                Kind::Space => reader.space = true,
                Kind::Newline => reader.newline(),
                Kind::Comment => reader.comment(next.text.trim_end()),
                Kind::Comma => reader.comma()?,
                Kind::Word | Kind::Text | Kind::Operator => {
                    let blank = reader.blank(next.text)?;
                    reader.element.parts.push(Part::Word(blank, next.text));
                }
            }
            take(rest)?;
        }
    }

    /// Writes the bracket at the end of a line that is already there.
    pub(super) fn write(&self, out: &mut String, indent: usize) {
        let begin = out.rfind('\n').map_or(0, |at| at + 1);
        if let Some(line) = self.on_one_line()
            && (out[begin..].chars().count() + line.chars().count() <= WIDTH
                || self.elements.is_empty())
        {
            out.push_str(&line);
            return;
        }
        let inner = indent + INDENT;
        let new_line = |out: &mut String, width: usize| {
            out.push('\n');
            out.push_str(&" ".repeat(width));
        };
        out.push_str(self.open);
        for (at, element) in self.elements.iter().enumerate() {
            for comment in &element.before {
                new_line(out, inner);
                out.push_str(comment);
            }
            new_line(out, inner);
            element.write(out, inner);
            if at + 1 < self.elements.len() || self.last_comma != LastComma::Absent {
                out.push(',');
            }
            if let Some(comment) = element.behind {
                out.push_str("  ");
                out.push_str(comment);
            }
        }
        for comment in &self.end {
            new_line(out, inner);
            out.push_str(comment);
        }
        new_line(out, indent);
        out.push_str(self.close);
    }

    fn on_one_line(&self) -> Option<String> {
        if !self.end.is_empty() {
            return None;
        }
        let mut out = self.open.to_owned();
        for (at, element) in self.elements.iter().enumerate() {
            if !element.before.is_empty() || element.behind.is_some() {
                return None;
            }
            if at > 0 {
                out.push_str(", ");
            }
            for part in &element.parts {
                match part {
                    Part::Word(blank, text) => {
                        // A string over several lines is not one line.
                        if text.contains('\n') {
                            return None;
                        }
                        push(&mut out, *blank, text);
                    }
                    Part::Group(blank, group) => push(&mut out, *blank, &group.on_one_line()?),
                }
            }
        }
        if self.last_comma == LastComma::Kept {
            out.push(',');
        }
        out.push_str(self.close);
        Some(out)
    }
}

/// A comprehension takes no comma, and after `*x` not every reader takes one.
fn is_special(elements: &[Element<'_>]) -> bool {
    let special = |part: &Part<'_>| matches!(part, Part::Word(_, "for" | "*" | "**"));
    elements.last().is_some_and(|element| element.parts.iter().any(special))
}

impl Element<'_> {
    /// Whether a bracket after it calls or indexes it.
    fn ends_with_operand(&self) -> bool {
        match self.parts.last() {
            Some(Part::Word(_, text)) => {
                let name = text.ends_with(|c: char| c.is_alphanumeric() || "_\"'".contains(c));
                name && !KEYWORDS.contains(text)
            }
            Some(Part::Group(..)) => true,
            None => false,
        }
    }

    fn write(&self, out: &mut String, indent: usize) {
        for part in &self.parts {
            match part {
                Part::Word(blank, text) => push(out, *blank, text),
                Part::Group(blank, group) => {
                    push(out, *blank, "");
                    group.write(out, indent);
                }
            }
        }
    }
}

fn push(out: &mut String, blank: bool, text: &str) {
    if blank {
        out.push(' ');
    }
    out.push_str(text);
}

fn take<'a>(rest: &mut &[Piece<'a>]) -> Option<Piece<'a>> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

/// Collects the elements of one bracket.
#[derive(Default)]
struct Reader<'a> {
    elements: Vec<Element<'a>>,
    element: Element<'a>,
    /// Comments on lines after the element's; only the end of the bracket may follow.
    after: Vec<&'a str>,
    /// A blank or a line end came since the last part.
    space: bool,
    /// A line end came since the last part or comma.
    line_ended: bool,
}

impl<'a> Reader<'a> {
    /// Whether the next part has a blank before it. An argument's `=` has none on either side. None if
    /// there is a comment in the middle of the element.
    fn blank(&mut self, next: &str) -> Option<bool> {
        if self.element.behind.is_some() || !self.after.is_empty() {
            return None;
        }
        let space = std::mem::take(&mut self.space);
        self.line_ended = false;
        Some(match self.element.parts.as_slice() {
            [] | [Part::Word(..), Part::Word(_, "=")] => false,
            [Part::Word(..)] if next == "=" => false,
            _ => space,
        })
    }

    fn newline(&mut self) {
        self.space = true;
        self.line_ended = true;
    }

    /// Behind an element on its line, or on a line of its own.
    fn comment(&mut self, text: &'a str) {
        self.space = true;
        let began = !self.element.parts.is_empty();
        if began && !self.line_ended && self.element.behind.is_none() {
            self.element.behind = Some(text);
        } else if began {
            self.after.push(text);
        } else if let Some(last) = self.elements.last_mut()
            && !self.line_ended
            && last.behind.is_none()
            && self.element.before.is_empty()
        {
            last.behind = Some(text);
        } else {
            self.element.before.push(text);
        }
    }

    fn comma(&mut self) -> Option<()> {
        if self.element.parts.is_empty() || !self.after.is_empty() {
            return None;
        }
        self.elements.push(std::mem::take(&mut self.element));
        self.space = false;
        self.line_ended = false;
        Some(())
    }

    /// The elements, and the comments after them.
    fn finish(mut self) -> (Vec<Element<'a>>, Vec<&'a str>) {
        if self.element.parts.is_empty() {
            return (self.elements, self.element.before);
        }
        self.elements.push(self.element);
        (self.elements, self.after)
    }
}

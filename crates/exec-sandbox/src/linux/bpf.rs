//! A small assembler for classic BPF, the language of system-call filters: jumps go to labels, and
//! every distance is checked.

/// One instruction, as the kernel reads it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to pass over if the test holds.
    pub yes: u8,
    /// How many if it does not.
    pub no: u8,
    /// The operand.
    pub operand: u32,
}

/// The kernel takes no longer program.
pub const INSTRUCTIONS_MAX: usize = 4096;

/// Bytes of an instruction.
pub const INSTRUCTION_BYTES: usize = size_of::<Instruction>();

// `BPF_LD | BPF_W | BPF_ABS` and its like; the parts are never used alone.
pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_IF_EQUAL: u16 = 0x15;
pub(super) const JUMP_IF_AT_LEAST: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;

/// A place in the program that a jump can go to. It lies ahead: BPF knows no way back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// Where a jump goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum To {
    /// On with the next instruction.
    Next,
    /// To the label.
    Label(Label),
}

/// Why there is no program. A mistake of whoever wrote the rules, so tests meet it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A jump to a label that was never placed.
    #[error("a jump at {0} goes nowhere")]
    Nowhere(usize),
    /// A jump against the program's direction.
    #[error("a jump at {0} goes back")]
    Back(usize),
    /// A conditional jump farther than a byte can say.
    #[error("a jump at {0} goes too far")]
    TooFar(usize),
    /// More than [`INSTRUCTIONS_MAX`].
    #[error("{0} instructions are too many")]
    TooLong(usize),
}

enum Line {
    Plain { code: u16, operand: u32 },
    Jump { to: Label },
    JumpIf { code: u16, operand: u32, yes: To, no: To },
}

/// Collects instructions; [`Assembler::finish`] makes the program of them.
#[derive(Default)]
pub(super) struct Assembler {
    lines: Vec<Line>,
    /// By label: the index of the line that it stands before.
    places: Vec<Option<usize>>,
}

impl Assembler {
    /// A label that is not placed yet.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The label stands before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.lines.len());
    }

    /// Loads the 32-bit word at `offset` of the data.
    pub(super) fn load(&mut self, offset: u32) {
        self.lines.push(Line::Plain { code: LOAD, operand: offset });
    }

    /// Keeps only the bits of `mask`.
    pub(super) fn and(&mut self, mask: u32) {
        self.lines.push(Line::Plain { code: AND, operand: mask });
    }

    /// Ends the program with `value`.
    pub(super) fn give(&mut self, value: u32) {
        self.lines.push(Line::Plain { code: RETURN, operand: value });
    }

    /// Goes on at the label, however far that is.
    pub(super) fn jump(&mut self, to: Label) {
        self.lines.push(Line::Jump { to });
    }

    /// Goes on by whether the loaded word equals `value`.
    pub(super) fn if_equal(&mut self, value: u32, yes: To, no: To) {
        self.lines.push(Line::JumpIf { code: JUMP_IF_EQUAL, operand: value, yes, no });
    }

    /// Goes on by whether the loaded word is `value` or more.
    pub(super) fn if_at_least(&mut self, value: u32, yes: To, no: To) {
        self.lines.push(Line::JumpIf { code: JUMP_IF_AT_LEAST, operand: value, yes, no });
    }

    /// The program, with distances instead of labels.
    pub(super) fn finish(self) -> Result<Vec<Instruction>, AssembleError> {
        if self.lines.len() > INSTRUCTIONS_MAX {
            return Err(AssembleError::TooLong(self.lines.len()));
        }
        let mut program = Vec::with_capacity(self.lines.len());
        for (at, line) in self.lines.iter().enumerate() {
            program.push(match *line {
                Line::Plain { code, operand } => Instruction { code, yes: 0, no: 0, operand },
                Line::Jump { to } => {
                    let operand = self.distance(at, to)?;
                    Instruction { code: JUMP, yes: 0, no: 0, operand }
                }
                Line::JumpIf { code, operand, yes, no } => {
                    let (yes, no) = (self.near(at, yes)?, self.near(at, no)?);
                    Instruction { code, yes, no, operand }
                }
            });
        }
        Ok(program)
    }

    fn near(&self, at: usize, to: To) -> Result<u8, AssembleError> {
        match to {
            To::Next => Ok(0),
            To::Label(label) => {
                let distance = self.distance(at, label)?;
                u8::try_from(distance).map_err(|_| AssembleError::TooFar(at))
            }
        }
    }

    /// How many instructions lie between the one at `at` and the label. A label behind the last
    /// instruction is nowhere: the program would run out of itself.
    fn distance(&self, at: usize, label: Label) -> Result<u32, AssembleError> {
        let place = self.places.get(label.0).copied().flatten();
        let place = place.filter(|place| *place < self.lines.len());
        let place = place.ok_or(AssembleError::Nowhere(at))?;
        let distance = place.checked_sub(at + 1).ok_or(AssembleError::Back(at))?;
        u32::try_from(distance).map_err(|_| AssembleError::TooFar(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_distances() {
        let mut asm = Assembler::default();
        let (end, middle) = (asm.label(), asm.label());
        asm.load(4);
        asm.if_equal(7, To::Label(end), To::Next);
        asm.jump(middle);
        asm.and(0xf);
        asm.place(middle);
        asm.give(1);
        asm.place(end);
        asm.give(2);
        let plain = |code, operand| Instruction { code, yes: 0, no: 0, operand };
        let expected = vec![
            plain(LOAD, 4),
            Instruction { code: JUMP_IF_EQUAL, yes: 3, no: 0, operand: 7 },
            plain(JUMP, 1),
            plain(AND, 0xf),
            plain(RETURN, 1),
            plain(RETURN, 2),
        ];
        assert_eq!(asm.finish(), Ok(expected));
        assert_eq!(INSTRUCTION_BYTES, 8);
    }

    #[test]
    fn wrong_jumps_are_refused() {
        let mut nowhere = Assembler::default();
        let label = nowhere.label();
        nowhere.jump(label);
        assert_eq!(nowhere.finish(), Err(AssembleError::Nowhere(0)));

        let mut out = Assembler::default();
        let label = out.label();
        out.jump(label);
        out.place(label);
        assert_eq!(out.finish(), Err(AssembleError::Nowhere(0)));

        let mut back = Assembler::default();
        let label = back.label();
        back.place(label);
        back.give(0);
        back.if_at_least(1, To::Next, To::Label(label));
        back.give(0);
        assert_eq!(back.finish(), Err(AssembleError::Back(1)));

        for (between, expected) in [(255, true), (256, false)] {
            let mut far = Assembler::default();
            let label = far.label();
            far.if_equal(0, To::Label(label), To::Next);
            for _ in 0..between {
                far.load(0);
            }
            far.place(label);
            far.give(0);
            assert_eq!(far.finish().is_ok(), expected, "{between}");
        }

        let mut long = Assembler::default();
        for _ in 0..=INSTRUCTIONS_MAX {
            long.give(0);
        }
        assert_eq!(long.finish(), Err(AssembleError::TooLong(INSTRUCTIONS_MAX + 1)));
    }
}

//! A filter, run by us instead of the kernel: the tests' way to ask it about any call.

use super::super::bpf::{AND, Instruction, JUMP, JUMP_IF_AT_LEAST, JUMP_IF_EQUAL, LOAD, RETURN};

/// What a filter sees of a call; `struct seccomp_data`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    pub(super) number: u32,
    pub(super) arch: u32,
    pub(super) arguments: [u64; 6],
}

impl Data {
    fn bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.arch.to_le_bytes());
        for (argument, place) in self.arguments.iter().zip(bytes[16..].chunks_exact_mut(8)) {
            place.copy_from_slice(&argument.to_le_bytes());
        }
        bytes
    }
}

/// What the program says. Panics where the kernel would not have taken the program.
pub(super) fn run(program: &[Instruction], data: &Data) -> u32 {
    let bytes = data.bytes();
    let mut accumulator = 0_u32;
    let mut at = 0;
    loop {
        let Instruction { code, yes, no, operand } = program[at];
        at += 1;
        let branch = |holds: bool| usize::from(if holds { yes } else { no });
        match code {
            LOAD => {
                assert!(operand.is_multiple_of(4), "the kernel loads aligned words only");
                let from = operand as usize;
                let word = bytes[from..from + 4].try_into().unwrap();
                accumulator = u32::from_le_bytes(word);
            }
            AND => accumulator &= operand,
            JUMP => at += operand as usize,
            JUMP_IF_EQUAL => at += branch(accumulator == operand),
            JUMP_IF_AT_LEAST => at += branch(accumulator >= operand),
            RETURN => return operand,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

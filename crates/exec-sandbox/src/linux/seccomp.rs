//! System-call filters: rules as data ([`rules`]), made into the kernel's small programs.
//!
//! A filter is made once for each set of options and kept. It is installed by the process that
//! becomes the command, as the last step before it does.

mod calls;
#[cfg(test)]
mod interpret;
#[cfg(test)]
mod interpreted_tests;
mod rules;

use std::sync::OnceLock;

pub use calls::{Arch, Call};

use super::bpf::{AssembleError, Assembler, INSTRUCTION_BYTES, Instruction, To};
use crate::plan::Filter;
use rules::{Action, Check, Half, Rule};

/// Which filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What the command may reach.
    pub reach: Reach,
    /// Whether it may make namespaces of its own.
    pub nesting: Nesting,
    /// What the server wants to hear of.
    pub record: Record,
}

/// What a command may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its own processes.
    Nothing,
    /// What the host can.
    Network,
}

/// Whether a command may make namespaces of its own. Few need it: browsers, some build tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nesting {
    /// It may not.
    #[default]
    Refused,
    /// It may.
    Allowed,
}

/// Which calls ask the server's recorder instead of being answered by the kernel. Such a filter has
/// to be installed with a listener, or these calls fail with ENOSYS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Record {
    /// None.
    #[default]
    Nothing,
    /// Refused network calls. The recorder refuses them.
    Network,
    /// These, and calls that change the file system. The recorder lets the latter go on.
    NetworkAndChanges,
}

impl Options {
    /// The options that a plan's filter stands for; none if it stands for no filter.
    pub fn for_plan(filter: Filter, nesting: Nesting, record: Record) -> Option<Options> {
        let reach = match filter {
            Filter::None => return None,
            Filter::Restricted => Reach::Nothing,
            Filter::NetworkOpen => Reach::Network,
        };
        Some(Options { reach, nesting, record })
    }

    /// A number for each combination.
    fn index(self) -> usize {
        (self.reach as usize * 2 + self.nesting as usize) * 3 + self.record as usize
    }
}

const COMBINATIONS: usize = 2 * 2 * 3;

/// A filter, ready for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
    bytes: Vec<u8>,
}

impl Program {
    /// The instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The same as the kernel wants to find them in memory, 8 bytes for each.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The filter for this host, made at the first use.
pub fn program(options: Options) -> Result<&'static Program, AssembleError> {
    static PROGRAMS: [OnceLock<Result<Program, AssembleError>>; COMBINATIONS] =
        [const { OnceLock::new() }; COMBINATIONS];
    let slot = &PROGRAMS[options.index()];
    slot.get_or_init(|| assemble(Arch::HOST, options)).as_ref().map_err(|error| *error)
}

/// The filter for any architecture.
pub fn assemble(arch: Arch, options: Options) -> Result<Program, AssembleError> {
    let mut asm = Assembler::default();
    let (foreign, known) = (asm.label(), asm.label());
    asm.load(ARCH_OFFSET);
    asm.if_equal(arch.audit(), To::Next, To::Label(foreign));
    asm.load(NUMBER_OFFSET);
    if arch == Arch::X86_64 {
        // The x32 twins of all calls, under other numbers.
        asm.if_at_least(X32_BIT, To::Next, To::Label(known));
        asm.give(value(Action::Unknown));
    } else {
        asm.jump(known);
    }
    asm.place(foreign);
    asm.give(value(Action::Kill));
    asm.place(known);

    let mut numbered: Vec<(u32, Rule)> = rules::rules(options)
        .into_iter()
        .filter_map(|rule| Some((rule.call.number(arch)?, rule)))
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    search(&mut asm, &numbered);

    let instructions = asm.finish()?;
    let bytes = instructions.iter().flat_map(encode).collect();
    Ok(Program { instructions, bytes })
}

// Of `struct seccomp_data`; both architectures keep the lower half of an argument first.
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

const X32_BIT: u32 = 0x4000_0000;

/// So few rules are tried one after the other.
const LEAF_RULES: usize = 4;

/// Finds the rule for the loaded number by halving.
fn search(asm: &mut Assembler, rules: &[(u32, Rule)]) {
    if rules.len() > LEAF_RULES {
        let (lower, upper) = rules.split_at(rules.len() / 2);
        let (go_lower, go_upper) = (asm.label(), asm.label());
        asm.if_at_least(upper[0].0, To::Next, To::Label(go_lower));
        asm.jump(go_upper);
        asm.place(go_lower);
        search(asm, lower);
        asm.place(go_upper);
        search(asm, upper);
        return;
    }
    for (number, rule) in rules {
        let other = asm.label();
        asm.if_equal(*number, To::Next, To::Label(other));
        decide(asm, rule);
        asm.place(other);
    }
    asm.give(value(Action::Allow));
}

/// Ends the program with what the rule says about the arguments.
fn decide(asm: &mut Assembler, rule: &Rule) {
    for case in &rule.cases {
        let not_this = asm.label();
        for Check { argument, half, mask, value, equal } in &case.all {
            let half = match half {
                Half::Low => 0,
                Half::High => 4,
            };
            asm.load(ARGUMENTS_OFFSET + argument * 8 + half);
            if *mask != u32::MAX {
                asm.and(*mask);
            }
            let (yes, no) = match equal {
                true => (To::Next, To::Label(not_this)),
                false => (To::Label(not_this), To::Next),
            };
            asm.if_equal(*value, yes, no);
        }
        asm.give(value(case.then));
        asm.place(not_this);
    }
    asm.give(value(rule.otherwise));
}

/// The word by which a filter says so.
fn value(action: Action) -> u32 {
    const ERRNO: u32 = 0x0005_0000;
    match action {
        Action::Allow => 0x7fff_0000,
        Action::Refuse => ERRNO | libc::EPERM.cast_unsigned(),
        Action::Unknown => ERRNO | libc::ENOSYS.cast_unsigned(),
        Action::Report => 0x7fc0_0000,
        Action::Kill => 0x8000_0000,
    }
}

fn encode(instruction: &Instruction) -> [u8; INSTRUCTION_BYTES] {
    let [a, b] = instruction.code.to_ne_bytes();
    let [e, f, g, h] = instruction.operand.to_ne_bytes();
    [a, b, instruction.yes, instruction.no, e, f, g, h]
}

#[cfg(test)]
fn all_options() -> impl Iterator<Item = Options> {
    let records = [Record::Nothing, Record::Network, Record::NetworkAndChanges];
    [Reach::Nothing, Reach::Network].into_iter().flat_map(move |reach| {
        [Nesting::Refused, Nesting::Allowed].into_iter().flat_map(move |nesting| {
            records.into_iter().map(move |record| Options { reach, nesting, record })
        })
    })
}

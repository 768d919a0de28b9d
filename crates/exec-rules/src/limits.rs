//! Every bound of this crate. Rules of a project are not fully trusted.

use std::time::Duration;

/// One rules file. Ten thousand rules of a hundred bytes each fit.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Files of one set.
pub const FILES_MAX: usize = 256;
/// Prefix rules of one set, alternatives for the program counted one by one.
pub const RULES_MAX: usize = 50_000;
/// `network_rule` and `host_executable` calls of one set, each.
pub const ENTRIES_MAX: usize = 10_000;
/// Positions of a pattern, alternatives of a position, examples of a rule, paths of a program.
pub const LIST_MAX: usize = 1_000;
/// Bytes of one token, justification, path or example.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of everything that the calls of one file hand over.
pub const COLLECTED_BYTES_MAX: usize = 64 << 20;
/// How deep the source nests: brackets, blocks, chains of operators.
pub const NESTING_MAX: usize = 200;
/// Calls and turns of loops while a file is evaluated.
pub const TICKS_MAX: u64 = 1_000_000;
/// Starlark values of one file.
pub const HEAP_BYTES_MAX: usize = 64 << 20;
/// Processor time that one file may take, on top of the ticks. A waiting machine does not count: the same
/// file must not be refused on a busy day.
pub const EVALUATION_MAX: Duration = Duration::from_secs(10);
/// Length of a `range`: a builtin that consumes it does not tick.
pub const RANGE_MAX: i64 = 1_000_000;
/// Stack of the evaluation. Starlark recurses over the source, 200 deep at most, and over values,
/// 3000 deep at most by its own guard; a level takes below 4 KiB even without optimisation.
pub const STACK_BYTES: usize = 32 << 20;
/// Entries of the index; where alternatives would multiply beyond it, rules are compared one by one.
pub const INDEX_ENTRIES_MAX: usize = 500_000;

const _: () = assert!(3000 * 4096 + NESTING_MAX * 65_536 < STACK_BYTES);

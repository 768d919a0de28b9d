//! A rules file to rules: Starlark, with three functions of ours and with limits.
//!
//! Time, ticks, values, nesting and the number of rules are bounded, so that a file that never ends or
//! grows without end is an error. One builtin that makes a huge value in a single step can still
//! outrun the bounds: whoever loads files of strangers does it in a process with a memory limit.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use starlark::ErrorKind;
use starlark::codemap::FileSpanRef;
use starlark::environment::{Globals, GlobalsBuilder, Module};
use starlark::eval::{BeforeStmtFunc, BeforeStmtFuncDyn, Evaluator};
use starlark::syntax::{AstModule, Dialect, DialectTypes};

use crate::error::{Problem, too_large};
use crate::example::Examples;
use crate::limits::{EVALUATION_MAX, FILE_BYTES_MAX, HEAP_BYTES_MAX, STACK_BYTES, TICKS_MAX};
use crate::nesting;
use crate::network::NetworkRule;
use crate::rule::{Location, PrefixRule};

mod functions;

pub(crate) use functions::Collected;

/// What the calls of one file declared, in their order.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) rules: Vec<PrefixRule>,
    pub(crate) examples: Vec<Examples>,
    pub(crate) network: Vec<NetworkRule>,
    pub(crate) hosts: Vec<(String, Vec<std::path::PathBuf>)>,
}

/// Evaluates a file. Its examples are not checked yet: they may name programs of later calls.
pub(crate) fn evaluate(file: &str, text: &str) -> Result<Declared, Problem> {
    if text.len() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    nesting::check(file, text)?;
    // On a stack of known size: the caller's may be nearly used up, and an overflow cannot be caught.
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("rules".to_owned()).stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, || on_this_stack(file, text));
        match thread.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Problem::new("the evaluation of the file panicked")),
            Err(error) => Err(Problem::new(format!("cannot start a thread: {error}"))),
        }
    })
}

fn on_this_stack(file: &str, text: &str) -> Result<Declared, Problem> {
    let dialect = Dialect {
        enable_keyword_only_arguments: true,
        enable_types: DialectTypes::Enable,
        enable_top_level_stmt: true,
        enable_f_strings: true,
        ..Dialect::Standard
    };
    let name: Arc<str> = file.into();
    let ast = AstModule::parse(file, text.to_owned(), &dialect)
        .map_err(|error| problem(&name, &error))?;
    let collected = Collected::new(Arc::clone(&name));
    let deadline = processor_time() + EVALUATION_MAX;
    let outcome = Module::with_temp_heap(|module| {
        let mut evaluator = Evaluator::new(&module);
        // All values together are bounded below, and nobody needs the room again.
        evaluator.disable_gc();
        evaluator.set_max_tick_count(TICKS_MAX)?;
        evaluator.set_max_heap_size(HEAP_BYTES_MAX)?;
        evaluator.set_check_cancelled(Box::new(move || processor_time() > deadline));
        evaluator.before_stmt_for_dap(BeforeStmtFunc::from_dyn(Box::new(HeapCheck)));
        evaluator.extra = Some(&collected);
        evaluator.eval_module(ast, &globals())?;
        starlark::Result::Ok(())
    });
    outcome.map_err(|error| problem(&name, &error))?;
    Ok(RefCell::into_inner(collected.declared))
}

/// What this thread has used.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn globals() -> Globals {
    GlobalsBuilder::standard().with(functions::rules).build()
}

/// The evaluator itself looks at its heap every thousand ticks; a value can double before each.
struct HeapCheck;

impl<'e> BeforeStmtFuncDyn<'e> for HeapCheck {
    fn call<'v>(
        &mut self,
        _: FileSpanRef<'_>,
        _: bool,
        evaluator: &mut Evaluator<'v, '_, 'e>,
    ) -> starlark::Result<()> {
        if evaluator.heap().allocated_bytes() > HEAP_BYTES_MAX {
            let message = format!("the file's values take more than {HEAP_BYTES_MAX} bytes");
            return Err(starlark::Error::new_other(anyhow::Error::msg(message)));
        }
        Ok(())
    }
}

/// Starlark's complaint, its place, and our hint.
fn problem(file: &Arc<str>, error: &starlark::Error) -> Problem {
    let location = error.span().map(|span| {
        let begin = span.resolve_span().begin;
        Location { file: Arc::clone(file), line: begin.line + 1, column: begin.column + 1 }
    });
    let mut problem = Problem::new(format!("starlark error: {error}")).at(location);
    problem.hint = hint(error).map(str::to_owned);
    problem
}

fn hint(error: &starlark::Error) -> Option<&'static str> {
    let message = error.without_diagnostic().to_string();
    let known = [
        ("Evaluation cancelled", "the file takes too long: rules are data, not a program"),
        ("tick", "the file takes too many steps: rules are data, not a program"),
        ("invalid decision", "a decision is \"allow\", \"prompt\" or \"forbidden\""),
        ("pattern cannot be empty", "name at least the program: pattern = [\"git\"]"),
        ("Type of parameter `pattern`", "a pattern is a list: [\"git\", [\"status\", \"log\"]]"),
        ("Type of parameter", "leave an argument out instead of passing None"),
        ("pattern element must", "every position is a string or a list of strings"),
        ("example string has invalid shell syntax", "close the quote, or write a list of words"),
        ("paths must be absolute", "write the whole path, from / on"),
        (
            "No imports are available",
            "a rules file stands alone; all files of the directory are read",
        ),
        ("wildcards are not allowed", "name every host by itself"),
        ("reserved keyword `while`", "use `for` over a list or a range"),
    ];
    if let Some((_, hint)) = known.iter().find(|(fragment, _)| message.contains(fragment)) {
        return Some(hint);
    }
    matches!(error.kind(), ErrorKind::StackOverflow(_))
        .then_some("rules are data: a loop over a list does what recursion does here")
}

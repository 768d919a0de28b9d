//! Landlock and a filter around a command, and nothing else: for hosts without user namespaces, where
//! the operator has ordered it. Which policies it can stand for is decided by
//! [`landlock::alone`](super::landlock::alone).

use super::builtin::Options;
use super::inner::{Role, Script, Step};
use super::landlock::Ruleset;
use crate::launch::{Command, Failure, Launch};
use crate::plan::Plan;

/// Makes everything ready. The plan's view is not made; `ruleset` stands for it.
pub fn launch(
    ruleset: &Ruleset,
    plan: &Plan,
    command: &Command<'_>,
    options: &Options<'_>,
) -> Result<Launch, Failure> {
    let mut script = Script::new();
    script.push(Step::Limit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 });
    for &(resource, soft, hard) in options.limits {
        script.push(Step::Limit { resource, soft, hard });
    }
    script.push(Step::NoNewPrivileges);
    script.push_ruleset(ruleset, command.terminal)?;
    // Nobody else has any, and who has none can neither drop the bounding set nor need to.
    // SAFETY: takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        script.push(Step::DropCapabilities);
    }
    script.push_filter(plan.filter, options.nesting)?;
    script.launch_command(command, &plan.cwd, Role::Command)?.executed(0, 0, false)
}

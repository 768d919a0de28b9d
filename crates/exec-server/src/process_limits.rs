//! The limits of one process: the caller's under the operator's, and what is told of them at the end.

use std::time::Duration;

use exec_process::log::Exit;
use exec_process::{Limits, Process};
use exec_protocol::process::{ProcessLimits, Usage};

use crate::error::Error;

/// What holds for a process: of the caller's limit and the operator's the stricter.
pub(crate) fn effective(asked: Option<ProcessLimits>, own: Limits) -> Result<Limits, Error> {
    let asked = asked.unwrap_or_default();
    let ProcessLimits { memory_bytes, pids, cpu_seconds, file_bytes, open_files, deadline_ms } =
        asked;
    let members = [
        ("memoryBytes", memory_bytes),
        ("pids", pids),
        ("cpuSeconds", cpu_seconds),
        ("fileBytes", file_bytes),
        ("openFiles", open_files),
        ("deadlineMs", deadline_ms),
    ];
    if let Some((name, _)) = members.iter().find(|(_, limit)| *limit == Some(0)) {
        return Err(Error::ZeroLimit(name));
    }
    let asked = Limits {
        memory_bytes,
        processes: pids,
        cpu: cpu_seconds.map(Duration::from_secs),
        file_bytes,
        open_files,
        deadline: deadline_ms.map(Duration::from_millis),
    };
    Ok(asked.and(own))
}

/// What was used, if the start asked for it.
pub(crate) fn usage(process: &Process, exit: &Exit) -> Option<Usage> {
    process.spec().tells_usage.then(|| Usage {
        cpu_ms: u64::try_from(exit.usage.cpu.as_millis()).unwrap_or(u64::MAX),
        memory_bytes_max: exit.usage.memory_bytes_max,
    })
}

/// The limit that ended the process, by its name in the request.
pub(crate) fn limit_reached(exit: &Exit) -> Option<String> {
    exit.deadline_passed.then(|| "deadlineMs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_limit_is_default_and_bound() {
        let own =
            Limits { processes: Some(100), cpu: Some(Duration::from_secs(9)), ..Limits::default() };
        assert_eq!(effective(None, own).unwrap(), own);
        let asked = |pids, cpu_seconds| {
            let asked = ProcessLimits { pids, cpu_seconds, ..ProcessLimits::default() };
            let limits = effective(Some(asked), own).unwrap();
            (limits.processes, limits.cpu.map(|cpu| cpu.as_secs()))
        };
        assert_eq!(asked(Some(5), None), (Some(5), Some(9)));
        assert_eq!(asked(Some(500), Some(3)), (Some(100), Some(3)));
        let zero = ProcessLimits { open_files: Some(0), ..ProcessLimits::default() };
        let refused = effective(Some(zero), own).unwrap_err().to_string();
        assert_eq!(refused, "limit `openFiles` must be at least 1");
    }
}

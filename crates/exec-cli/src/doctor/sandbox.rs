//! Why this host can or cannot sandbox commands, one sentence for each part, and what to do.

use exec_sandbox::linux::bwrap::Places;
use exec_sandbox::linux::probe::{Engine, Facts, Step, Verdict, choose};

use super::{Finding, State};
use crate::serve::load_config;

/// Tries what a server would try.
pub(super) fn findings() -> Vec<Finding> {
    // A configuration that cannot be read is a finding of its own.
    let config = load_config().unwrap_or_default().sandbox;
    let places = Places { operator: config.bwrap, server: std::env::current_exe().ok() };
    describe(&Facts::find(&places), config.engine)
}

fn describe(facts: &Facts, ordered: Option<Engine>) -> Vec<Finding> {
    let mut findings = vec![chosen(facts, ordered)];
    findings.push(user_namespaces(facts));
    findings.extend([Engine::Builtin, Engine::Bwrap].map(|engine| usable(facts, engine)));
    findings.push(landlock(facts));
    findings.push(notification(facts));
    if facts.host.wsl1 {
        let detail = "this is WSL 1, which has no namespaces; convert the distribution to WSL 2";
        findings.push(finding("wsl", State::Bad, detail));
    }
    if facts.host.apparmor_restricts {
        let detail = "restricts user namespaces: give the server a profile that allows `userns`, \
                      or set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0";
        let state = if facts.host.root { State::Good } else { State::Weak };
        findings.push(finding("apparmor", state, detail));
    }
    if facts.host.container {
        let (state, detail) = match facts.own.obstacle() {
            None => (State::Good, "its profile lets the server make namespaces and mounts"),
            Some(_) => (
                State::Weak,
                "its profile forbids namespaces or mounts: start it with one that allows them",
            ),
        };
        findings.push(finding("container", state, detail));
    }
    findings.extend(facts.warnings().iter().map(|text| finding("root", State::Weak, text)));
    findings
}

fn chosen(facts: &Facts, ordered: Option<Engine>) -> Finding {
    match choose(ordered, facts) {
        Ok(Engine::LandlockOnly) => {
            let detail = "engine landlock, as ordered: what it cannot express is refused";
            finding("sandbox", State::Weak, detail)
        }
        Ok(engine) => {
            let detail = format!("commands are confined by the engine {}", engine.as_str());
            finding("sandbox", State::Good, &detail)
        }
        Err(reason) => finding(
            "sandbox",
            State::Weak,
            &format!("requests for a sandbox are refused, never run without: {reason}"),
        ),
    }
}

fn user_namespaces(facts: &Facts) -> Finding {
    let (state, detail) = match facts.own.error(Step::Namespaces) {
        None => (State::Good, "can be made"),
        Some(_) if facts.host.user_namespaces_limit_is_zero => (
            State::Weak,
            "are switched off: set the sysctl user.max_user_namespaces to a number above 0",
        ),
        Some(_) if facts.host.unprivileged_clone_is_off => (
            State::Weak,
            "are reserved for root: set the sysctl kernel.unprivileged_userns_clone to 1",
        ),
        Some(_) => (State::Weak, "cannot be made; see the engines for the reason"),
    };
    finding("namespaces", state, detail)
}

fn usable(facts: &Facts, engine: Engine) -> Finding {
    let (state, detail) = match (facts.verdict(engine), engine, &facts.bwrap) {
        (Verdict::Unusable { why, remedy }, ..) => (State::Weak, format!("{why} {remedy}")),
        (Verdict::Usable, Engine::Bwrap, Ok(bwrap)) => {
            (State::Good, format!("usable: {}", bwrap.path.display()))
        }
        (Verdict::Usable, ..) => (State::Good, "usable".to_owned()),
    };
    finding(engine.as_str(), state, &detail)
}

fn landlock(facts: &Facts) -> Finding {
    match facts.verdict(Engine::LandlockOnly) {
        Verdict::Usable => {
            let detail = format!("version {}: a second layer below the engines", facts.landlock);
            finding("landlock", State::Good, &detail)
        }
        Verdict::Unusable { why, remedy } => {
            let detail = format!("{why} {remedy} The engines do without it.");
            finding("landlock", State::Weak, &detail)
        }
    }
}

fn notification(facts: &Facts) -> Finding {
    match facts.notification {
        true => finding("seccomp", State::Good, "filters work, and can ask the server"),
        false => {
            let detail = "filters cannot ask the server (Linux 5.0 can): refusals are only guessed";
            finding("seccomp", State::Weak, detail)
        }
    }
}

fn finding(subject: &'static str, state: State, detail: &str) -> Finding {
    Finding { subject, state, detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec_sandbox::linux::probe::{HostFacts, Own};

    fn told(change: impl FnOnce(&mut Facts)) -> String {
        let mut facts = Facts {
            bwrap: Err("/usr/bin/bwrap is missing".to_owned()),
            bwrap_namespaces: Err("there is none".to_owned()),
            own: Own::default(),
            landlock: 7,
            notification: true,
            host: HostFacts::default(),
        };
        change(&mut facts);
        let findings = describe(&facts, None);
        let lines = findings
            .iter()
            .map(|it| format!("{} {}: {}\n", it.state.as_str(), it.subject, it.detail));
        lines.collect()
    }

    #[test]
    fn a_good_host_without_bubblewrap_is_still_good() {
        let text = told(|_| {});
        assert!(
            text.starts_with("ok sandbox: commands are confined by the engine builtin\n"),
            "{text}"
        );
        assert!(text.contains("weak bwrap: There is no usable bubblewrap"), "{text}");
        assert!(!text.contains("root:") && !text.contains("wsl"), "{text}");
    }

    #[test]
    fn every_obstacle_is_named_with_what_to_do() {
        let check = |change: fn(&mut Facts), expected: &[&str]| {
            let text = told(change);
            for part in expected {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        };
        check(|facts| facts.host.wsl1 = true, &["bad wsl", "WSL 2", "weak sandbox: requests"]);
        check(|facts| facts.host.apparmor_restricts = true, &["weak apparmor", "`userns`"]);
        check(|facts| facts.host.root = true, &["weak root: The server runs as root"]);
        check(|facts| facts.landlock = 0, &["weak landlock: This kernel has no Landlock"]);
        check(|facts| facts.notification = false, &["weak seccomp", "guessed"]);
        check(
            |facts| {
                facts.own.errors = [Some(libc::ENOSPC); 7];
                facts.host.user_namespaces_limit_is_zero = true;
            },
            &["weak namespaces: are switched off", "user.max_user_namespaces", "weak builtin"],
        );
        check(
            |facts| {
                facts.own.errors = [Some(libc::EPERM); 7];
                facts.host.container = true;
            },
            &["weak container", "seccomp=unconfined", "weak sandbox"],
        );
    }
}

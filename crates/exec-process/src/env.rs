//! The child's environment: what it inherits, what is left out, what is set. Pure.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use exec_protocol::process::{ExecEnvPolicy, Inherit};

/// Variables by name. Names are case-sensitive, as the operating system's are.
pub type Environment = BTreeMap<OsString, OsString>;

/// What `inherit: core` keeps.
const CORE: &[&str] = &[
    "PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME",
    "USER",
];

/// Names that look like secrets.
const DEFAULT_EXCLUDES: &[&str] = &["*KEY*", "*SECRET*", "*TOKEN*"];

/// Never given to a child, whatever their source.
const NEVER: &[&str] = &[
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "NODE_REPL_AUTH_TOKEN",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE",
];

/// The server's own variables, as it was started with.
pub fn own() -> Box<dyn Iterator<Item = (OsString, OsString)>> {
    match GIVEN.get() {
        Some(given) => Box::new(given.iter().cloned()),
        None => Box::new(std::env::vars_os()),
    }
}

/// Keeps the variables as they are now for children, whatever happens to the server's own.
pub fn keep_own() {
    GIVEN.get_or_init(|| std::env::vars_os().collect());
}

/// What the server was started with, if that was kept.
static GIVEN: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// The environment of one child: the policy's view of `own` (nothing without a policy), overlaid
/// with `overlay`, then with `late` (which can also remove), less what is never given.
pub fn compute(
    own: impl Iterator<Item = (OsString, OsString)>,
    policy: Option<&ExecEnvPolicy>,
    overlay: &BTreeMap<String, String>,
    late: impl Iterator<Item = (&'static str, Option<String>)>,
) -> Environment {
    let mut environment = policy.map_or_else(Environment::new, |policy| derive(own, policy));
    environment.extend(overlay.iter().map(|(name, value)| (name.into(), value.into())));
    for (name, value) in late {
        match value {
            Some(value) => environment.insert(name.into(), value.into()),
            None => environment.remove(OsStr::new(name)),
        };
    }
    environment.retain(|name, _| !NEVER.iter().any(|never| name.eq_ignore_ascii_case(never)));
    environment
}

fn derive(own: impl Iterator<Item = (OsString, OsString)>, policy: &ExecEnvPolicy) -> Environment {
    let mut environment: Environment = match policy.inherit {
        Inherit::All => own.collect(),
        Inherit::None => Environment::new(),
        Inherit::Core => own
            .filter(|(name, _)| CORE.iter().any(|core| name.eq_ignore_ascii_case(core)))
            .collect(),
    };
    let any = |patterns: &[String], name: &OsStr| {
        patterns.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    };
    if !policy.ignore_default_excludes {
        environment.retain(|name, _| {
            !DEFAULT_EXCLUDES.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
        });
    }
    environment.retain(|name, _| !any(&policy.exclude, name));
    environment.extend(policy.set.iter().map(|(name, value)| (name.into(), value.into())));
    if !policy.include_only.is_empty() {
        environment.retain(|name, _| any(&policy.include_only, name));
    }
    environment
}

/// Whole-name match, ignoring case: `*` is any run, `?` one byte. Linear in practice: on a mismatch
/// only the last star is moved.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte.eq_ignore_ascii_case(&name[n]) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(inherit: Inherit) -> ExecEnvPolicy {
        ExecEnvPolicy {
            inherit,
            ignore_default_excludes: false,
            exclude: vec![],
            set: BTreeMap::new(),
            include_only: vec![],
        }
    }

    fn names(policy: Option<&ExecEnvPolicy>, overlay: &[(&str, &str)]) -> String {
        let own = ["PATH", "Home", "MONKEY", "API_TOKEN", "ABC", "Abc", "node_repl_auth_token"];
        let own = own.iter().map(|name| (OsString::from(name), OsString::from("own")));
        let overlay = overlay.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let environment = compute(own, policy, &overlay, std::iter::empty());
        let shown = environment
            .iter()
            .map(|(k, v)| format!("{}={}", k.to_string_lossy(), v.to_string_lossy()));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_step_in_its_order() {
        assert_eq!(names(None, &[("X", "1"), ("OPENAI_identity_token_file", "x")]), "X=1");
        assert_eq!(names(Some(&policy(Inherit::None)), &[]), "");
        assert_eq!(names(Some(&policy(Inherit::Core)), &[]), "Home=own PATH=own");
        assert_eq!(
            names(Some(&policy(Inherit::All)), &[("API_TOKEN", "over")]),
            "ABC=own API_TOKEN=over Abc=own Home=own PATH=own"
        );
        let mut kept = policy(Inherit::All);
        kept.ignore_default_excludes = true;
        kept.exclude = vec!["a?c".into(), "[A-Z]*".into()];
        kept.set =
            [("SET".to_owned(), "1".to_owned()), ("MONKEY".to_owned(), "2".to_owned())].into();
        assert_eq!(names(Some(&kept), &[]), "API_TOKEN=own Home=own MONKEY=2 PATH=own SET=1");
        kept.include_only = vec!["*O*e*".into(), "p*H".into()];
        assert_eq!(
            names(Some(&kept), &[("OVER", "1")]),
            "API_TOKEN=own Home=own MONKEY=2 OVER=1 PATH=own"
        );
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("*a", "bbba", true),
            ("**", "x", true),
            ("a", "A", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}

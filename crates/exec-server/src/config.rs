//! The server's configuration: its values, and the TOML file they may come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use exec_process::Limits;
use exec_protocol::limits::RETAINED_BYTES;
use exec_sandbox::linux::probe::Engine;

use crate::limits::{CONCURRENT_REQUESTS, DETACHED_LIFE, RETAINED_BYTES_MAX};

/// The name of the file, in whichever folder is the config home.
pub const CONFIG_FILE: &str = "exec-server.toml";

/// Largest configuration file that is read.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// How a server behaves. The default is compatible with codex 0.166, apart from dispatch, which is
/// concurrent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecServerConfig {
    /// SIGTERM comes this long before SIGKILL when a session or the server ends; none when zero.
    pub shutdown_grace: Duration,
    /// Processes of one session, closed ones that can still be read included.
    pub processes_max: usize,
    /// Newest output kept for each process.
    pub retained_output_bytes: usize,
    /// Whether `process/start` may have the mode `direct`.
    pub allow_direct_exec: bool,
    /// Whether `process/start` may have the mode `prepared`.
    pub allow_prepared_exec: bool,
    /// How long a session outlives its connection. Zero ends it at once.
    pub detached_life: Duration,
    /// Requests a connection works on at once. One means strictly in order.
    pub concurrent_requests: usize,
    /// Whether an unknown notification is only answered, instead of ending the connection.
    pub tolerate_unknown_notifications: bool,
    /// The program that makes file calls inside a sandbox, by its real path: one that calls
    /// [`serve_files`](crate::serve_files) when its only argument is
    /// [`WORKER_ARGUMENT`](crate::WORKER_ARGUMENT). Without one such calls are refused.
    pub file_worker: Option<PathBuf>,
    /// How commands are confined.
    pub sandbox: SandboxConfig,
    /// What each process may use at most; the default where a request sets no limit.
    pub limits: Limits,
}

/// How commands are confined, as far as the operator decides it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// The engine; the best that works here when absent.
    pub engine: Option<Engine>,
    /// The bubblewrap to use; else it is looked for where the system keeps programs.
    pub bwrap: Option<PathBuf>,
    /// Whether confined commands may make user namespaces of their own, as browsers and some build
    /// tools want to.
    pub nested_user_namespaces: bool,
}

impl Default for ExecServerConfig {
    fn default() -> Self {
        Self {
            shutdown_grace: Duration::ZERO,
            processes_max: usize::MAX,
            retained_output_bytes: RETAINED_BYTES,
            allow_direct_exec: true,
            allow_prepared_exec: true,
            detached_life: DETACHED_LIFE,
            concurrent_requests: CONCURRENT_REQUESTS,
            tolerate_unknown_notifications: false,
            file_worker: None,
            sandbox: SandboxConfig::default(),
            limits: Limits::default(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// A key that means nothing.
    #[error("{}: unknown key `{key}`{}", path.display(), nearest_hint(nearest))]
    UnknownKey {
        /// Which file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// A value that cannot be.
    #[error("{}: `{key}` must be {expected}", path.display())]
    Value {
        /// Which file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
}

fn nearest_hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// The folder the configuration is looked for in: `$EXEC_SERVER_HOME`, else `$CODEX_HOME`, else
/// `exec-server` in the XDG configuration folder.
pub fn config_home(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    set("EXEC_SERVER_HOME")
        .or_else(|| set("CODEX_HOME"))
        .or_else(|| set("XDG_CONFIG_HOME").map(|path| path.join("exec-server")))
        .or_else(|| set("HOME").map(|path| path.join(".config/exec-server")))
}

impl ExecServerConfig {
    /// The configuration of the given folder; the default where it has none.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join(CONFIG_FILE);
        let size = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => return Err(ConfigError::Read { path, source }),
        };
        if size > CONFIG_BYTES_MAX {
            let message = format!("larger than {CONFIG_BYTES_MAX} bytes");
            return Err(ConfigError::Syntax { path, message });
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(source) => Err(ConfigError::Read { path, source }),
        }
    }

    /// Reads a configuration; `path` is only for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            ConfigError::Syntax { path: path.into(), message: error.to_string().trim().to_owned() }
        })?;
        let mut config = Self::default();
        for (key, value) in &table {
            let Some((name, apply)) = KEYS.iter().find(|(name, _)| name == key) else {
                let nearest = KEYS
                    .iter()
                    .map(|(name, _)| (strsim::jaro_winkler(key, name), *name))
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .filter(|(likeness, _)| *likeness > 0.6)
                    .map(|(_, name)| name);
                return Err(ConfigError::UnknownKey {
                    path: path.into(),
                    key: key.clone(),
                    nearest,
                });
            };
            apply(&mut config, value).map_err(|expected| ConfigError::Value {
                path: path.into(),
                key: name,
                expected,
            })?;
        }
        Ok(config)
    }
}

type Apply = fn(&mut ExecServerConfig, &toml::Value) -> Result<(), &'static str>;

/// Every key, once.
const KEYS: &[(&str, Apply)] = &[
    ("shutdown_grace_period_ms", |config, value| {
        config.shutdown_grace = Duration::from_millis(number(value)?);
        Ok(())
    }),
    ("max_processes_per_connection", |config, value| {
        config.processes_max = usize::try_from(number(value)?).unwrap_or(usize::MAX).max(1);
        Ok(())
    }),
    ("retained_output_bytes_per_process", |config, value| {
        let bytes = usize::try_from(number(value)?).unwrap_or(usize::MAX);
        if !(RETAINED_BYTES..=RETAINED_BYTES_MAX).contains(&bytes) {
            return Err("between 1048576 (clients recover from that much) and 44040192 bytes");
        }
        config.retained_output_bytes = bytes;
        Ok(())
    }),
    ("allow_direct_exec", |config, value| {
        config.allow_direct_exec = boolean(value)?;
        Ok(())
    }),
    ("allow_prepared_exec", |config, value| {
        config.allow_prepared_exec = boolean(value)?;
        Ok(())
    }),
    ("detached_session_seconds", |config, value| {
        config.detached_life = Duration::from_secs(number(value)?);
        Ok(())
    }),
    ("concurrent_requests", |config, value| {
        config.concurrent_requests = match usize::try_from(number(value)?) {
            Ok(0) => return Err("at least 1"),
            Ok(count) => count,
            Err(_) => usize::MAX,
        };
        Ok(())
    }),
    ("sandbox_engine", |config, value| {
        config.sandbox.engine = match value.as_str() {
            Some("auto") => None,
            Some("bwrap") => Some(Engine::Bwrap),
            Some("builtin") => Some(Engine::Builtin),
            Some("landlock") => Some(Engine::LandlockOnly),
            Some(_) | None => return Err("\"auto\", \"bwrap\", \"builtin\" or \"landlock\""),
        };
        Ok(())
    }),
    ("sandbox_bwrap", |config, value| {
        let path = value.as_str().map(PathBuf::from).filter(|path| path.is_absolute());
        config.sandbox.bwrap = Some(path.ok_or("an absolute path")?);
        Ok(())
    }),
    ("sandbox_nested_user_namespaces", |config, value| {
        config.sandbox.nested_user_namespaces = boolean(value)?;
        Ok(())
    }),
    ("limit_memory_bytes", |config, value| {
        config.limits.memory_bytes = Some(positive(value)?);
        Ok(())
    }),
    ("limit_pids", |config, value| {
        config.limits.processes = Some(positive(value)?);
        Ok(())
    }),
    ("limit_cpu_seconds", |config, value| {
        config.limits.cpu = Some(Duration::from_secs(positive(value)?));
        Ok(())
    }),
    ("limit_file_bytes", |config, value| {
        config.limits.file_bytes = Some(positive(value)?);
        Ok(())
    }),
    ("limit_open_files", |config, value| {
        config.limits.open_files = Some(positive(value)?);
        Ok(())
    }),
    ("limit_deadline_ms", |config, value| {
        config.limits.deadline = Some(Duration::from_millis(positive(value)?));
        Ok(())
    }),
    ("tolerate_unknown_notifications", |config, value| {
        config.tolerate_unknown_notifications = boolean(value)?;
        Ok(())
    }),
];

fn number(value: &toml::Value) -> Result<u64, &'static str> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.ok_or("a whole number, not negative")
}

fn positive(value: &toml::Value) -> Result<u64, &'static str> {
    let number = number(value).ok().filter(|number| *number > 0);
    number.ok_or("a whole number, at least 1")
}

fn boolean(value: &toml::Value) -> Result<bool, &'static str> {
    value.as_bool().ok_or("true or false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        ExecServerConfig::parse(text, Path::new("f.toml")).unwrap_err().to_string()
    }

    #[test]
    fn every_key_is_read() {
        let text = "shutdown_grace_period_ms = 500\nmax_processes_per_connection = 3\n\
            retained_output_bytes_per_process = 2097152\nallow_direct_exec = false\n\
            allow_prepared_exec = false\ndetached_session_seconds = 0\nconcurrent_requests = 1\n\
            tolerate_unknown_notifications = true\nsandbox_engine = \"bwrap\"\n\
            sandbox_bwrap = \"/opt/bwrap\"\nsandbox_nested_user_namespaces = true\n\
            limit_memory_bytes = 1\nlimit_pids = 2\nlimit_cpu_seconds = 3\nlimit_file_bytes = 4\n\
            limit_open_files = 5\nlimit_deadline_ms = 6\n";
        let config = ExecServerConfig::parse(text, Path::new("f")).unwrap();
        assert_eq!(text.lines().count(), KEYS.len());
        assert_eq!(config.shutdown_grace, Duration::from_millis(500));
        assert_eq!((config.processes_max, config.concurrent_requests), (3, 1));
        assert!(!config.allow_direct_exec && !config.allow_prepared_exec);
        assert!(config.detached_life.is_zero() && config.tolerate_unknown_notifications);
        assert_eq!(config.retained_output_bytes, 2 << 20);
        let sandbox = SandboxConfig {
            engine: Some(Engine::Bwrap),
            bwrap: Some("/opt/bwrap".into()),
            nested_user_namespaces: true,
        };
        assert_eq!(config.sandbox, sandbox);
        let limits = Limits {
            memory_bytes: Some(1),
            processes: Some(2),
            cpu: Some(Duration::from_secs(3)),
            file_bytes: Some(4),
            open_files: Some(5),
            deadline: Some(Duration::from_millis(6)),
        };
        assert_eq!(config.limits, limits);
    }

    #[test]
    fn mistakes_are_named_with_the_nearest_key() {
        assert_eq!(
            refused("allow_direct = true"),
            "f.toml: unknown key `allow_direct`; did you mean `allow_direct_exec`?"
        );
        assert_eq!(
            refused("concurrent_requests = 0"),
            "f.toml: `concurrent_requests` must be at least 1"
        );
        assert_eq!(
            refused("shutdown_grace_period_ms = -1"),
            "f.toml: `shutdown_grace_period_ms` must be a whole number, not negative"
        );
        assert_eq!(
            refused("limit_pids = 0"),
            "f.toml: `limit_pids` must be a whole number, at least 1"
        );
        assert!(refused("retained_output_bytes_per_process = 5").contains("between 1048576"));
        assert!(refused("x = ").starts_with("f.toml: TOML parse error at line 1"));
    }

    #[test]
    fn the_first_home_that_is_set_wins() {
        let home = |set: &[(&str, &str)]| {
            config_home(|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
            })
        };
        assert_eq!(home(&[("HOME", "/h")]), Some("/h/.config/exec-server".into()));
        assert_eq!(
            home(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]),
            Some("/x/exec-server".into())
        );
        assert_eq!(home(&[("CODEX_HOME", "/c"), ("EXEC_SERVER_HOME", "/e")]), Some("/e".into()));
        assert_eq!(
            home(&[("CODEX_HOME", ""), ("HOME", "/h")]),
            Some("/h/.config/exec-server".into())
        );
    }
}

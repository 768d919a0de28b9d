//! `environment/*`: what kind of machine this is, and what the server can do on it.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use exec_process::sys::Mechanism;
use exec_protocol::environment::{
    Capabilities, ContainmentInfo, EnvironmentInfo, EnvironmentStatus, Shell, Status,
};
use exec_protocol::methods::NoParams;
use exec_protocol::path_uri::PathUri;

use crate::dispatch::Caller;
use crate::error::Error;

pub(crate) async fn info(caller: Caller, _: NoParams) -> Result<EnvironmentInfo, Error> {
    Ok(caller.server.environment().await)
}

pub(crate) async fn status(_: Caller, _: NoParams) -> Result<EnvironmentStatus, Error> {
    Ok(EnvironmentStatus { status: Status::Ready })
}

/// Looks at the machine, once.
pub(crate) fn describe(containment: Mechanism) -> EnvironmentInfo {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let uri = |path: &Path| PathUri::from_native(path).ok();
    let cwd = std::env::current_dir().ok();
    let account = Account::own();
    let home = variable("HOME").map(PathBuf::from).or(account.as_ref().map(|a| a.home.clone()));
    let tmpdir = variable("TMPDIR").map(|dir| match &cwd {
        Some(cwd) => cwd.join(dir),
        None => PathBuf::from(dir),
    });
    let shell = account.and_then(|account| known_shell(&account.shell));
    EnvironmentInfo {
        shell: shell.unwrap_or_else(|| Shell { name: "sh".into(), path: "/bin/sh".into() }),
        executor_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        provider_id: Some(provider_id()),
        cwd: cwd.as_deref().and_then(uri),
        user_home_dir: home.as_deref().and_then(uri),
        platform_os: Some(std::env::consts::OS.to_owned()),
        prepend_path_dirs: Vec::new(),
        temporary_directories: tmpdir.as_deref().and_then(uri).into_iter().collect(),
        temp_dir: uri(tmpdir.as_deref().unwrap_or(Path::new("/tmp"))),
        capabilities: Capabilities {
            process_control_v1: true,
            fs_watch_missing: true,
            capability_discovery_v2: true,
            environment_config_read: true,
            http_header_env_vars: true,
            file_write_streaming: true,
            fs_rename: true,
            fs_atomic_write: true,
            fs_watch: true,
            fs_search: true,
            fs_open_update: true,
            ..Capabilities::default()
        },
        containment: Some(ContainmentInfo {
            mechanism: containment.as_str().to_owned(),
            survives_server_kill: true,
        }),
        sandbox: None,
    }
}

/// Opaque and the same for every machine that runs this build.
fn provider_id() -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(concat!("exec-server ", env!("CARGO_PKG_VERSION")));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn known_shell(path: &Path) -> Option<Shell> {
    let name = path.file_name()?.to_str()?;
    let known = ["bash", "zsh", "sh", "fish", "dash", "ksh"].contains(&name);
    known.then(|| Shell { name: name.to_owned(), path: path.to_string_lossy().into_owned() })
}

/// What the account database says of the user the server runs as.
struct Account {
    home: PathBuf,
    shell: PathBuf,
}

impl Account {
    fn own() -> Option<Self> {
        let mut buffer = vec![0; 4096];
        // SAFETY: a zeroed passwd is a valid value (null pointers and zeros).
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are to live locals, and the length is the buffer's.
        let code = unsafe {
            libc::getpwuid_r(
                libc::getuid(),
                &mut entry,
                buffer.as_mut_ptr(),
                buffer.len(),
                &mut found,
            )
        };
        if code != 0 || found.is_null() {
            return None;
        }
        let path = |text: *const libc::c_char| {
            // SAFETY: getpwuid_r succeeded, so its strings are NUL-terminated within `buffer`.
            let text = unsafe { CStr::from_ptr(text) };
            PathBuf::from(text.to_string_lossy().into_owned())
        };
        Some(Self { home: path(entry.pw_dir), shell: path(entry.pw_shell) })
    }
}

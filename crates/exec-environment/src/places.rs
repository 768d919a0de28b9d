//! The directories that configuration and capabilities are read from.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::HomeError;

/// Where the administrator of the machine configures it.
const SYSTEM: &str = "/etc/codex";

/// The executor's own directories.
#[derive(Debug, Clone)]
pub struct Places {
    /// What `CODEX_HOME` says; none when it is unset or empty.
    pub codex_home: Option<PathBuf>,
    /// Home directory of the user the executor runs as.
    pub user_home: Option<PathBuf>,
    /// The administrator's directory.
    pub system: PathBuf,
}

impl Places {
    /// Those of a server with this environment and this home directory.
    pub fn new(variable: impl Fn(&str) -> Option<OsString>, user_home: Option<PathBuf>) -> Self {
        let codex_home = variable("CODEX_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        Self { codex_home, user_home, system: SYSTEM.into() }
    }

    /// The user's directory: `CODEX_HOME`, without links, or `.codex` at home, which need not exist.
    pub fn codex_home(&self) -> Result<PathBuf, HomeError> {
        let Some(home) = &self.codex_home else {
            let user = self.user_home.as_deref().ok_or(HomeError::Unknown)?;
            return Ok(user.join(".codex"));
        };
        let real = home.canonicalize().map_err(|_| HomeError::Missing(home.clone()))?;
        if !real.is_dir() {
            return Err(HomeError::NotADirectory(home.clone()));
        }
        Ok(real)
    }
}

/// The machine's name for itself.
pub(crate) fn hostname() -> Option<String> {
    let mut buffer = [0_u8; 256];
    // SAFETY: the pointer and the length are those of `buffer`, which outlives the call, and the
    // last byte is left out, so that the name ends with a zero even where it is cut off.
    let result = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    let end = buffer.iter().position(|&byte| byte == 0)?;
    let name = OsStr::from_bytes(&buffer[..end]).to_string_lossy().into_owned();
    (result == 0 && !name.is_empty()).then_some(name)
}

/// The path without links, where there is one.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_codex_home_is_named_or_at_home() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        symlink(&real, &link).unwrap();
        std::fs::write(&file, "").unwrap();
        let home = |set: &str, user: Option<&str>| {
            let variable = |name: &str| (name == "CODEX_HOME").then(|| OsString::from(set));
            Places::new(variable, user.map(PathBuf::from)).codex_home()
        };
        assert_eq!(home("", Some("/u")).unwrap(), Path::new("/u/.codex"));
        assert_eq!(home(link.to_str().unwrap(), None).unwrap(), real);
        assert_eq!(home("", None).unwrap_err().to_string(), "could not find home directory");
        assert_eq!(
            home("/nonexist/x", None).unwrap_err().to_string(),
            "CODEX_HOME points to \"/nonexist/x\", but that path does not exist"
        );
        assert_eq!(home(file.to_str().unwrap(), None), Err(HomeError::NotADirectory(file.clone())));
    }

    #[test]
    fn a_machine_has_a_name() {
        assert!(hostname().is_some_and(|name| !name.contains('\0')));
    }
}

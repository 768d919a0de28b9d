//! The probe: a small static program that tries one system call, or a few that belong together,
//! says `DID` when the system let it, and the error when not. Its source is `probe/`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What it prints when the system let it.
pub const DID: &str = "DID";

const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// Puts the program into a folder.
pub fn install(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("probe");
    fs::write(&path, BYTES)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_says_what_it_could_do_and_what_not() {
        let folder = tempfile::tempdir().unwrap();
        let probe = install(folder.path()).unwrap();
        let say = |arguments: &[&str]| {
            let output = Command::new(&probe).args(arguments).output().unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap())
        };
        let here = folder.path().to_str().unwrap();
        assert_eq!(say(&["open-read", here]), (Some(0), "DID\n".to_owned()));
        let (code, said) = say(&["open-read", "/no/such"]);
        assert_eq!((code, said.as_str()), (Some(1), "errno 2\n"));
        assert_eq!(say(&["no such"]).0, Some(2));
    }
}

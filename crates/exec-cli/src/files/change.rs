//! `exec-server rm` and `exec-server mkdir`.

use std::path::Path;

use exec_client::ExecServerError;
use exec_client::files::{Recursion, Tolerance};
use exec_protocol::jsonrpc::code;

use super::explain::explain;
use super::{Complaints, Remote};
use crate::args::{MkdirArgs, RmArgs};
use crate::exit::Outcome;

pub(super) async fn rm(remote: &Remote, args: &RmArgs) -> anyhow::Result<Outcome> {
    let mut complaints = Complaints::default();
    for path in &args.paths {
        if let Err(error) = remove(remote, args, path).await {
            complaints.add(&error);
        }
    }
    Ok(complaints.outcome())
}

async fn remove(remote: &Remote, args: &RmArgs, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let cannot = |error: ExecServerError| explain(&format!("remove {shown}"), &error);
    let place = remote.connected.resolve(path)?;
    anyhow::ensure!(place.to_native()? != Path::new("/"), "cannot remove {shown}: it is the root");
    let is_directory = match remote.files.metadata(&place).await {
        Ok(metadata) => metadata.is_directory && !metadata.is_symlink,
        // It may be a link to nothing, which can be removed.
        Err(error) if error.code() == Some(code::NOT_FOUND) => false,
        Err(error) => return Err(cannot(error)),
    };
    if is_directory && !args.recursive {
        anyhow::bail!("cannot remove {shown}: it is a directory (-r removes it with all it holds)");
    }
    let recursion = if is_directory { Recursion::Tree } else { Recursion::Single };
    let missing = if args.force { Tolerance::Accept } else { Tolerance::Refuse };
    remote.files.remove(&place, recursion, missing).await.map_err(cannot)
}

pub(super) async fn mkdir(remote: &Remote, args: &MkdirArgs) -> anyhow::Result<Outcome> {
    let mut complaints = Complaints::default();
    let recursion = if args.parents { Recursion::Tree } else { Recursion::Single };
    for path in &args.paths {
        let place = remote.connected.resolve(path)?;
        if let Err(error) = remote.files.create_directory(&place, recursion).await {
            complaints.add(&explain(&format!("make {}", path.display()), &error));
        }
    }
    Ok(complaints.outcome())
}

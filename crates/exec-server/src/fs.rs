//! The `fs/*` handlers.

use exec_protocol::fs::{GetMetadataParams, Metadata};
use exec_protocol::sandbox::SandboxContext;

use crate::dispatch::Caller;
use crate::error::Error;

pub(crate) async fn get_metadata(_: Caller, params: GetMetadataParams) -> Result<Metadata, Error> {
    refuse_confinement(params.sandbox.as_ref())?;
    let path = params.path.to_native()?;
    if params.follow_symlinks == Some(false) {
        // To refuse a link in any component takes opening them one by one.
        return Err(Error::NoFollowUnsupported);
    }
    blocking(move || exec_fs::metadata(&path)).await
}

/// Nothing is done with less protection than was asked for.
fn refuse_confinement(sandbox: Option<&SandboxContext>) -> Result<(), Error> {
    match sandbox {
        Some(sandbox) if sandbox.restricts() => Err(Error::CannotConfine),
        Some(_) | None => Ok(()),
    }
}

/// Runs a call that may block where it delays nobody.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, exec_fs::Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => Ok(result?),
        Err(error) => {
            tracing::error!(%error, "a file call failed");
            Err(Error::Internal)
        }
    }
}

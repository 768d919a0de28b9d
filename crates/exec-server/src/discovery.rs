//! `environmentConfig/read`, `capabilityRoots/discoverV1` and `capabilities/discoverV2`: what the
//! executor has of its own.

use std::path::PathBuf;

use exec_environment::limits::Limits;
use exec_environment::{Places, config, installed, roots};
use exec_protocol::capability::{
    Capabilities, DiscoverCapabilitiesParams, DiscoverRootsParams, DiscoverRootsResult,
};
use exec_protocol::environment_config::{EnvironmentConfig, EnvironmentConfigReadParams};

use crate::blocking::blocking;
use crate::confined;
use crate::dispatch::{Caller, FileCaller};
use crate::error::Error;

pub(crate) async fn read_config(
    caller: Caller,
    params: EnvironmentConfigReadParams,
) -> Result<EnvironmentConfig, Error> {
    let places = places(&caller);
    blocking(&caller, move |_| Ok(config::read(&places, &params)?)).await
}

pub(crate) async fn discover_roots(
    caller: Caller,
    params: DiscoverRootsParams,
) -> Result<DiscoverRootsResult, Error> {
    let mut found = Vec::with_capacity(params.roots.len());
    roots::check(&params)?;
    // One after the other: each has a context of its own.
    for root in params.roots {
        let one = confined::discover(&caller, root).await?;
        found.extend(one.roots);
    }
    Ok(roots::fit(found, &Limits::default()))
}

/// Looks through roots, without asking who may.
pub(crate) async fn look_through(
    caller: FileCaller,
    params: DiscoverRootsParams,
) -> Result<DiscoverRootsResult, Error> {
    blocking(&caller, move |stop| Ok(roots::discover(&params, &Limits::default(), &stop)?)).await
}

pub(crate) async fn discover_installed(
    caller: Caller,
    params: DiscoverCapabilitiesParams,
) -> Result<Capabilities, Error> {
    if params.sandbox.is_some_and(|context| context.restricts_files()) {
        return Err(Error::CannotConfine);
    }
    let places = places(&caller);
    blocking(&caller, move |stop| Ok(installed::discover(&places, &Limits::default(), &stop)?))
        .await
}

fn places(caller: &Caller) -> Places {
    let home = caller.server.environment.user_home_dir.as_ref();
    let home: Option<PathBuf> = home.and_then(|uri| uri.to_native().ok());
    Places::new(|name| std::env::var_os(name), home)
}

//! `exec-server [serve]`: flags and configuration file, then the server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use exec_server::ExecServerConfig;
use exec_server::config::config_home;
use exec_server::listen::{ListenOptions, ListenUrl, TlsFiles, run_main};
use exec_transport::{WsAuthFlags, WsAuthMode};

use crate::args::{AuthMode, ServeArgs};
use crate::exit::Outcome;

pub(crate) async fn serve(args: ServeArgs) -> anyhow::Result<Outcome> {
    let config = configure(&args)?;
    let url: ListenUrl = args.listen.parse()?;
    let options = ListenOptions {
        url,
        tls: args
            .tls_cert
            .clone()
            .zip(args.tls_key.clone())
            .map(|(certificate, key)| TlsFiles { certificate, key }),
        allow_unauthenticated_network: args.allow_unauthenticated_network,
        auth: auth_flags(args).resolve()?,
    };
    exec_process::sys::raise_descriptor_limit();
    if let Err(error) = exec_process::sys::shorten_time_slice() {
        tracing::debug!(%error, "the scheduler grants no short time slice");
    }
    run_main(options, config).await?;
    Ok(Outcome::Done)
}

/// The configuration file, then the flags over it.
fn configure(args: &ServeArgs) -> anyhow::Result<ExecServerConfig> {
    let mut config = load_config()?;
    if let Some(count) = args.concurrent_requests {
        config.concurrent_requests = usize::try_from(count).unwrap_or(usize::MAX);
    }
    if let Some(seconds) = args.detached_session_seconds {
        config.detached_life = Duration::from_secs(seconds);
    }
    if let Some(ms) = args.shutdown_grace_period_ms {
        config.shutdown_grace = Duration::from_millis(ms);
    }
    if let Some(count) = args.max_processes_per_connection {
        config.processes_max = usize::try_from(count).unwrap_or(usize::MAX);
    }
    args.sandbox.apply(&mut config);
    args.limits.apply(&mut config);
    Ok(config)
}

/// The configuration of this user, or the default.
pub(crate) fn load_config() -> anyhow::Result<ExecServerConfig> {
    let mut config = match config_home(|name| std::env::var_os(name).map(PathBuf::from)) {
        Some(home) => ExecServerConfig::load(&home).context("cannot use the configuration")?,
        None => ExecServerConfig::default(),
    };
    config.file_worker = std::env::current_exe().ok();
    Ok(config)
}

fn auth_flags(args: ServeArgs) -> WsAuthFlags {
    WsAuthFlags {
        mode: args.ws_auth.map(|mode| match mode {
            AuthMode::CapabilityToken => WsAuthMode::CapabilityToken,
            AuthMode::SignedBearerToken => WsAuthMode::SignedBearerToken,
        }),
        token_file: args.ws_token_file,
        token_sha256: args.ws_token_sha256,
        shared_secret_file: args.ws_shared_secret_file,
        issuer: args.ws_issuer,
        audience: args.ws_audience,
        max_clock_skew_seconds: args.ws_max_clock_skew_seconds,
    }
}

//! `onefold serve`: Spark's programs, over Spark Connect, until someone asks to stop.

use crate::args::ServeArgs;
use crate::exit::Failure;
use crate::{signals, terminal};
use onefold::types::Error;
use onefold_spark_connect::{
    Limits, ServerConfig, SessionFactory, THREAD_STACK, TlsFiles, is_server_setting,
    serve as serve_connect,
};
use std::sync::Arc;
use tokio::sync::watch;

/// The variable in which Spark's own server and clients look for a token.
const TOKEN_VARIABLE: &str = "SPARK_CONNECT_AUTHENTICATE_TOKEN";

/// The setting that says whether queries may call hosts in private networks over HTTP.
const PRIVATE_NETWORKS: &str = "onefold.http.privateNetworks";

/// Serves until SIGINT or SIGTERM; queries are stopped cleanly then.
///
/// # Errors
/// With the exit codes of [`crate::exit`].
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let mut config = ServerConfig::new(args.bind);
    config.token = token(args)?;
    config.python |= args.allow_python;
    config.limits = Limits::from_conf(&args.conf)?;
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        config.tls = Some(TlsFiles { certificate: certificate.clone(), key: key.clone() });
    }
    if config.tls.is_none() && !args.bind.ip().is_loopback() {
        terminal::note(
            "warning: connections are not encrypted: whoever is between a client and this server \
             can read the token and all rows; give --tls-cert and --tls-key, or put a proxy with \
             TLS before it",
        );
    }
    let of_sessions = args.conf.iter().filter(|(name, _)| !is_server_setting(name));
    let mut conf: Vec<(String, String)> = of_sessions.cloned().collect();
    let said = |name: &str| conf.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !args.bind.ip().is_loopback() && !said(PRIVATE_NETWORKS) {
        // Clients elsewhere would reach through this machine what they cannot reach themselves.
        conf.push((PRIVATE_NETWORKS.to_owned(), "refused".to_owned()));
    }
    let factory: SessionFactory = Arc::new(move || {
        let builder = onefold::session();
        conf.iter().fold(builder, |builder, (name, value)| builder.conf(name, value)).build()
    });
    // A setting that no session could take is said now, not to the first client.
    drop(factory()?);
    let (stop, mut stopped) = watch::channel(false);
    signals::watch(move || {
        stop.send_replace(true);
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(THREAD_STACK)
        .enable_all()
        .build()
        .map_err(|error| Error::unavailable("no threads can be started").because(error))?;
    let ready = |address: std::net::SocketAddr| {
        terminal::line(&format!("listening on sc://{address}"));
    };
    runtime.block_on(serve_connect(config, factory, ready, async move {
        let _ = stopped.wait_for(|now| *now).await;
    }))?;
    Ok(())
}

fn token(args: &ServeArgs) -> Result<Option<String>, Failure> {
    let Some(path) = &args.token_file else {
        return Ok(std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()));
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::invalid(format!("cannot read the token from {}", path.display())).because(error)
    })?;
    let token = text.lines().next().unwrap_or_default().trim().to_owned();
    if token.is_empty() {
        return Err(Failure::usage(format!("{} has no token in its first line", path.display())));
    }
    Ok(Some(token))
}

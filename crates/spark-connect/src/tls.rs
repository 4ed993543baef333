//! Encrypted connections: TLS with the certificate that the server was given.

use futures::Stream;
use onefold_types::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, crypto};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// How long a client may take to agree on keys.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Connections that may wait until the server takes them.
const WAITING_MAX: usize = 64;
/// Pause when no connection can be taken, as when all files of the process are open.
const PAUSE: Duration = Duration::from_millis(100);

/// The files of the server's certificate, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key. What is in it is never shown.
    pub key: PathBuf,
}

/// What encrypts connections.
///
/// # Errors
/// Invalid: a file cannot be read, holds no certificate or key, or the two do not belong together.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let wrong = |path: &Path, what: &str| {
        Error::invalid(format!("{} holds no {what} in PEM", path.display()))
    };
    let certificates: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&read(&files.certificate)?).collect();
    let certificates = certificates.map_err(|_| wrong(&files.certificate, "certificate"))?;
    if certificates.is_empty() {
        return Err(wrong(&files.certificate, "certificate"));
    }
    // What is wrong in a key stays untold: it may be a part of the key.
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|_| wrong(&files.key, "private key"))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS is known").because(error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    let mut config = config.map_err(|error| {
        Error::invalid(format!(
            "the certificate in {} and the key in {} cannot be used together",
            files.certificate.display(),
            files.key.display()
        ))
        .because(error)
    })?;
    config.alpn_protocols.push(b"h2".to_vec());
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Error::invalid(format!("cannot read {}", path.display())).because(error))
}

/// A client's connection.
pub(crate) struct Encrypted(TlsStream<TcpStream>);

impl Connected for Encrypted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The connections of a listener that agreed on keys. A client that does not is nobody's business:
/// others do not wait for it.
pub(crate) fn incoming(
    listener: TcpListener,
    acceptor: TlsAcceptor,
) -> impl Stream<Item = io::Result<Encrypted>> {
    let (send, receive) = mpsc::channel(WAITING_MAX);
    tokio::spawn(accept(listener, acceptor, send));
    futures::stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|connection| (Ok(connection), receive))
    })
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, send: mpsc::Sender<Encrypted>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = send.closed() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            // Answers are small, and should not wait for more to send.
            let _ = stream.set_nodelay(true);
            match tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    // The server may be ending.
                    let _ = send.send(Encrypted(stream)).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "a client does not speak TLS"),
                Err(_) => tracing::debug!("a client did not agree on keys in time"),
            }
        });
    }
}

//! TLS towards databases, by the words of PostgreSQL's `sslmode`.

use onefold_types::{Error, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// How far a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Not at all.
    Disable,
    /// Against who listens, if the server can.
    Prefer,
    /// Against who listens.
    Require,
    /// Also against who pretends to be the server.
    Verify,
}

impl Mode {
    /// Reads `sslmode`.
    ///
    /// # Errors
    /// Invalid: another word.
    pub(crate) fn parse(word: Option<&str>) -> Result<Mode> {
        Ok(match word.unwrap_or("prefer") {
            "disable" => Mode::Disable,
            "allow" | "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" | "verify-full" => Mode::Verify,
            other => {
                return Err(Error::invalid(format!(
                    "sslmode={other} is not known; it is disable, prefer, require or verify-full"
                )));
            }
        })
    }
}

/// What was meant to protect a connection, and is not known.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Error {
    Error::invalid(format!(
        "the url has the setting `{name}`, which is not known here; of TLS there are {}",
        known.join(", ")
    ))
}

/// The settings of a connection. `root` is a file of certificates that are trusted instead of the
/// system's.
///
/// # Errors
/// Invalid: no certificate can be read.
pub(crate) fn config(mode: Mode, root: Option<&str>) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("TLS has no version").because(error))?;
    if mode != Mode::Verify {
        let unchecked = Arc::new(Unchecked(provider));
        let builder = builder.dangerous().with_custom_certificate_verifier(unchecked);
        return Ok(builder.with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    match root {
        Some(path) => {
            let unread = |error: rustls::pki_types::pem::Error| {
                Error::invalid(format!("sslrootcert={path} is no file of certificates"))
                    .because(error.to_string())
            };
            for found in CertificateDer::pem_file_iter(path).map_err(unread)? {
                roots.add(found.map_err(unread)?).map_err(|error| {
                    Error::invalid(format!("a certificate in {path} cannot be used")).because(error)
                })?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    if roots.is_empty() {
        return Err(Error::invalid(
            "there is no certificate that a server could be checked with; name a file of them with \
             sslrootcert in the url",
        ));
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Takes any certificate, as `sslmode=require` does: what is sent is hidden, and who gets it is not
/// known.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! TLS between servers that know each other's keys, without certificate authorities.
//!
//! The Ed25519 key that signs a server's segments is also used for TLS. The server issues itself a certificate with
//! this key. The other side accepts exactly the key in its configuration, and ignores the name and dates in the
//! certificate. A client certificate is optional; [`peer_key`] returns its key, and the caller decides what that key
//! may access. Only TLS 1.3 is supported, and sessions are not resumed.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    RootCertStore, ServerConfig, SignatureScheme,
};

/// Prefix of the seed in the PKCS #8 form of an Ed25519 key (RFC 8410 §7).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Prefix of the key in a certificate with an Ed25519 key (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The ALPN protocol.
const HTTP: &[u8] = b"http/1.1";

/// Returns the configuration of a client for the server whose key is `pinned`. With a `seed`, the client presents a
/// certificate.
///
/// # Errors
/// If no certificate can be created from the seed.
pub fn client_config(seed: Option<&[u8; 32]>, pinned: [u8; 32]) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(PinnedKey { key: pinned, provider: provider() });
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match seed.map(own).transpose()? {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key)?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(config)
}

/// Returns the configuration of a client for web servers with public certificates.
///
/// # Errors
/// If the TLS versions are not supported.
pub fn web_config() -> Result<ClientConfig, Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(config)
}

/// Returns the configuration of the server with the secret key `seed`. It accepts clients with any Ed25519 key, and
/// clients without a certificate.
///
/// # Errors
/// If no certificate can be created from the seed.
pub fn server_config(seed: &[u8; 32]) -> Result<ServerConfig, Error> {
    let (certificate, key) = own(seed)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let builder = builder.with_client_cert_verifier(Arc::new(AnyKey { provider: provider() }));
    let mut config = builder.with_single_cert(vec![certificate], key)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(config)
}

/// Returns the authenticated key of the other end of a connection; `None` if it presented none.
#[must_use]
pub fn peer_key(connection: &CommonState) -> Option<[u8; 32]> {
    public_key(connection.peer_certificates()?.first()?).ok()
}

/// Returns true if a handshake failed because the server has a key other than the pinned one.
#[must_use]
pub fn is_wrong_key(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns a certificate of our own key, and the key.
fn own(seed: &[u8; 32]) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Error> {
    let key = PrivatePkcs8KeyDer::from([PKCS8_PREFIX.as_slice(), seed].concat());
    let failed = |error: rcgen::Error| Error::General(format!("failed to create a certificate: {error}"));
    let pair = KeyPair::try_from(&key).map_err(failed)?;
    let certificate = CertificateParams::default().self_signed(&pair).map_err(failed)?;
    Ok((certificate.der().clone(), key.into()))
}

/// Returns the Ed25519 key of a certificate.
fn public_key(certificate: &CertificateDer<'_>) -> Result<[u8; 32], Error> {
    let info = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
    let key = info.as_ref().strip_prefix(&SPKI_PREFIX).and_then(|key| key.try_into().ok());
    key.ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// A verifier that accepts only the server with one key.
#[derive(Debug)]
struct PinnedKey {
    key: [u8; 32],
    provider: Arc<CryptoProvider>,
}

/// A verifier that accepts every client with an Ed25519 key.
#[derive(Debug)]
struct AnyKey {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // A key of another algorithm is also a wrong key.
        if public_key(certificate).is_ok_and(|key| key == self.key) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

impl ClientCertVerifier for AnyKey {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        public_key(certificate).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustls::version::TLS12;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    const SERVER: [u8; 32] = [1; 32];
    const CLIENT: [u8; 32] = [2; 32];
    const OTHER: [u8; 32] = [3; 32];

    fn key(seed: &[u8; 32]) -> [u8; 32] {
        ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes()
    }

    /// Runs a handshake over loopback. Returns the key that each end sees.
    async fn meet(client: ClientConfig, server: ServerConfig) -> (io::Result<[u8; 32]>, io::Result<Option<[u8; 32]>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let name = ServerName::from(address.ip());
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            let tls = TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
            Ok(peer_key(tls.get_ref().1).unwrap())
        };
        let accept = async {
            let stream = listener.accept().await?.0;
            let tls = TlsAcceptor::from(Arc::new(server)).accept(stream).await?;
            Ok(peer_key(tls.get_ref().1))
        };
        tokio::join!(connect, accept)
    }

    fn rustls_error(error: &io::Error) -> &Error {
        error.get_ref().and_then(|inner| inner.downcast_ref()).expect("a TLS error")
    }

    #[tokio::test]
    async fn each_end_sees_the_others_key() {
        let client = client_config(Some(&CLIENT), key(&SERVER)).unwrap();
        let (seen, shown) = meet(client, server_config(&SERVER).unwrap()).await;
        assert_eq!((seen.unwrap(), shown.unwrap()), (key(&SERVER), Some(key(&CLIENT))));
    }

    #[tokio::test]
    async fn a_server_with_another_key_is_refused_as_such() {
        let client = client_config(Some(&CLIENT), key(&SERVER)).unwrap();
        let (seen, shown) = meet(client, server_config(&OTHER).unwrap()).await;
        assert!(is_wrong_key(rustls_error(&seen.unwrap_err())));
        assert!(shown.is_err());
    }

    #[tokio::test]
    async fn a_client_without_a_key_and_one_with_an_unknown_key_are_seen_as_that() {
        let anonymous = client_config(None, key(&SERVER)).unwrap();
        let (seen, shown) = meet(anonymous, server_config(&SERVER).unwrap()).await;
        assert!(seen.is_ok() && shown.unwrap().is_none());
        let unknown = client_config(Some(&OTHER), key(&SERVER)).unwrap();
        let (_, shown) = meet(unknown, server_config(&SERVER).unwrap()).await;
        assert_eq!(shown.unwrap(), Some(key(&OTHER)));
    }

    #[tokio::test]
    async fn a_certificate_of_somebody_elses_key_does_not_help() {
        // The certificate is public, so anyone can present it, but only its owner can sign the handshake.
        let (certificate, _) = own(&SERVER).unwrap();
        let (_, key_of_other) = own(&OTHER).unwrap();
        let thief = rustls::sign::CertifiedKey::new(
            vec![certificate],
            ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key_of_other.secret_der().to_vec())).unwrap(),
        );
        let mut server = server_config(&SERVER).unwrap();
        server.cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(thief));
        let (seen, _) = meet(client_config(None, key(&SERVER)).unwrap(), server).await;
        let error = seen.unwrap_err();
        assert_eq!(*rustls_error(&error), Error::InvalidCertificate(CertificateError::BadSignature));
    }

    #[tokio::test]
    async fn older_versions_of_tls_are_refused_both_ways() {
        let old = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS12]).unwrap();
        let (certificate, own_key) = own(&SERVER).unwrap();
        let old = old.with_no_client_auth().with_single_cert(vec![certificate], own_key).unwrap();
        assert!(meet(client_config(None, key(&SERVER)).unwrap(), old).await.0.is_err());

        let verifier = Arc::new(PinnedKey { key: key(&SERVER), provider: provider() });
        let old = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS12]).unwrap();
        let old = old.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        let (_, accepted) = meet(old, server_config(&SERVER).unwrap()).await;
        assert!(matches!(rustls_error(&accepted.unwrap_err()), Error::PeerIncompatible(_)));
    }

    #[test]
    fn a_certificate_has_the_key_of_its_seed_and_garbage_has_none() {
        let (certificate, _) = own(&SERVER).unwrap();
        assert_eq!(public_key(&certificate).unwrap(), key(&SERVER));
        for length in 0..certificate.len() {
            assert!(public_key(&CertificateDer::from(certificate[..length].to_vec())).is_err());
        }
        assert!(web_config().is_ok(), "ordinary web servers accept the client");
    }
}

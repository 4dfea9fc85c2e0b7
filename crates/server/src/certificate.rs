//! The certificate of HTTP over TLS. It is read with the configuration and monitored for expiry.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bruit_engine::time::Time;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::parse_x509_certificate;

/// Maximum length of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate with less than this time left causes a warning. Most certificates are renewed a month before they
/// expire.
const WARNING_SECONDS: u64 = 14 * Time::DAY;

/// A certificate with its key.
pub struct Certificate {
    config: Arc<ServerConfig>,
    file: PathBuf,
    ends: Time,
}

/// The reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("failed to read {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{} contains no PEM certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} contains no PEM private key", .0.display())]
    NoKey(PathBuf),
    #[error("invalid certificate or key: {0}")]
    Tls(#[from] rustls::Error),
}

impl Certificate {
    /// Reads a certificate chain that begins with the server's own certificate, and the private key.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
        let none = || CertificateError::NoCertificate(certificate.to_owned());
        let chain = chain.map_err(|_| none())?;
        let own = chain.first().ok_or_else(none)?;
        let ends = parse_x509_certificate(own).map_err(|_| none())?.1.validity().not_after.timestamp();
        let ends = Time(u64::try_from(ends).unwrap_or(0));
        let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| CertificateError::NoKey(key.to_owned()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = versions.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), file: certificate.to_owned(), ends })
    }

    /// Returns the TLS configuration for handshakes.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Returns a warning if the certificate expires soon or has expired.
    pub(crate) fn warning(&self, now: Time) -> Option<String> {
        let (file, ends) = (self.file.display(), self.ends);
        let what_to_do = "renew it and send the server SIGHUP";
        if now >= ends {
            return Some(format!("the certificate in {file} expired at {ends} UTC: clients reject it; {what_to_do}"));
        }
        (ends.0 - now.0 < WARNING_SECONDS)
            .then(|| format!("the certificate in {file} expires at {ends} UTC: {what_to_do}"))
    }
}

impl fmt::Debug for Certificate {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("file", &self.file).field("ends", &self.ends).finish_non_exhaustive()
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Read { file: file.to_owned(), source };
    if fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the file is larger than 1 MiB")));
    }
    fs::read(file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Time = Time(1_900_000_000);

    /// Creates a folder with a certificate that expires at [`END`], and its key.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut params = rcgen::CertificateParams::new(["bruit.example.org".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(END.0);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(folder.path().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
        folder
    }

    #[test]
    fn a_certificate_warns_two_weeks_before_its_end_and_after_it() {
        let folder = folder();
        let read = Certificate::read(&folder.path().join("cert.pem"), &folder.path().join("key.pem")).unwrap();
        assert!(read.warning(Time(END.0 - WARNING_SECONDS)).is_none());
        assert!(read.warning(Time(END.0 - WARNING_SECONDS + 1)).unwrap().contains("expires at"));
        assert!(read.warning(END).unwrap().contains("expired at"));
    }

    #[test]
    fn files_that_hold_something_else_are_named() {
        let folder = folder();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("text"), "nothing").unwrap();
        let error =
            |certificate: &str, key: &str| Certificate::read(&file(certificate), &file(key)).unwrap_err().to_string();
        assert!(error("none", "key.pem").contains("none"));
        assert!(error("text", "key.pem").contains("text contains no PEM certificate"));
        assert!(error("key.pem", "key.pem").contains("key.pem contains no PEM certificate"));
        assert!(error("cert.pem", "cert.pem").contains("cert.pem contains no PEM private key"));
        let other = rcgen::KeyPair::generate().unwrap();
        fs::write(file("other.pem"), other.serialize_pem()).unwrap();
        assert!(error("cert.pem", "other.pem").contains("invalid certificate or key"));
    }
}

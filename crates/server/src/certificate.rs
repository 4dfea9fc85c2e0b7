//! The certificate of HTTP over TLS: read when the configuration is, and watched, since every certificate ends.

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

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How long before its end a certificate is worth a warning: most are renewed a month before.
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
    #[error("{} holds no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} holds no private key in PEM", .0.display())]
    NoKey(PathBuf),
    #[error("the certificate and its key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

impl Certificate {
    /// Reads a chain of certificates, the server's own first, and its key.
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

    /// What a handshake needs.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// A warning once the certificate ends soon or has ended.
    pub(crate) fn warning(&self, now: Time) -> Option<String> {
        let (file, ends) = (self.file.display(), self.ends);
        let what_to_do = "renew it and send the server SIGHUP";
        if now >= ends {
            return Some(format!("the certificate in {file} ended at {ends} UTC: clients refuse it; {what_to_do}"));
        }
        (ends.0 - now.0 < WARNING_SECONDS)
            .then(|| format!("the certificate in {file} ends at {ends} UTC: {what_to_do}"))
    }
}

impl fmt::Debug for Certificate {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("file", &self.file).field("ends", &self.ends).finish_non_exhaustive()
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Read { file: file.to_owned(), source };
    if fs::metadata(file).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is longer than 1 MiB")));
    }
    fs::read(file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Time = Time(1_900_000_000);

    /// A folder with a certificate that ends at [`END`], and its key.
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
        assert!(read.warning(Time(END.0 - WARNING_SECONDS + 1)).unwrap().contains("ends at"));
        assert!(read.warning(END).unwrap().contains("ended at"));
    }

    #[test]
    fn files_that_hold_something_else_are_named() {
        let folder = folder();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("text"), "nothing").unwrap();
        let error =
            |certificate: &str, key: &str| Certificate::read(&file(certificate), &file(key)).unwrap_err().to_string();
        assert!(error("none", "key.pem").contains("none"));
        assert!(error("text", "key.pem").contains("text holds no certificate"));
        assert!(error("key.pem", "key.pem").contains("key.pem holds no certificate"));
        assert!(error("cert.pem", "cert.pem").contains("cert.pem holds no private key"));
        let other = rcgen::KeyPair::generate().unwrap();
        fs::write(file("other.pem"), other.serialize_pem()).unwrap();
        assert!(error("cert.pem", "other.pem").contains("cannot be used"));
    }
}

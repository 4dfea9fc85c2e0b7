//! Hosts that are so common that a link to them means nothing.

use std::collections::HashSet;
use std::sync::LazyLock;

use sha1::{Digest, Sha1};

use super::signature::E8Signature;

/// Large sites, as engine 8 signs them, i.e. without subdomains.
const HOSTS: &str = "w3.org google.com youtube.com youtu.be goo.gl gstatic.com googleusercontent.com facebook.com fb.com \
    instagram.com whatsapp.com twitter.com x.com t.co linkedin.com lnkd.in pinterest.com tiktok.com reddit.com wikipedia.org \
    apple.com icloud.com microsoft.com office.com live.com outlook.com sharepoint.com windows.com bing.com msn.com yahoo.com \
    yahoogroups.com aol.com amazon.com amazonaws.com ebay.com paypal.com dropbox.com github.com sourceforge.net adobe.com \
    mozilla.org wordpress.com blogspot.com medium.com vimeo.com flickr.com zoom.us slack.com mailchimp.com list-manage.com \
    sendgrid.net constantcontact.com hubspot.com salesforce.com bit.ly tinyurl.com bbc.co.uk nytimes.com avast.com avg.com";

/// The leading bytes of an e8 signature, which depend only on the host.
type HostHash = [u8; 6];

impl E8Signature {
    /// Returns true if this is the signature of a very common host.
    #[must_use]
    pub fn is_of_common_host(&self) -> bool {
        static COMMON: LazyLock<HashSet<HostHash>> =
            LazyLock::new(|| HOSTS.split_ascii_whitespace().map(|host| leading(&Sha1::digest(host))).collect());
        COMMON.contains(&leading(&self.0))
    }
}

fn leading(bytes: &[u8]) -> HostHash {
    bytes.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{Ep4, sign};

    #[test]
    fn links_to_large_sites_are_told_from_others() {
        let is_common = |host: &str| {
            let message = format!("Subject: x\n\nlook at http://{host}/page for this\n");
            sign(message.as_bytes(), &Ep4::default())[0].signatures.e8[0].is_of_common_host()
        };
        assert!(is_common("www.youtube.com") && is_common("docs.google.com") && is_common("www.bbc.co.uk"));
        assert!(!is_common("www.example.com") && !is_common("youtube.com.example.net"));
    }
}

//! A real server that offers the origin's shelf over TLS.

use std::sync::Arc;

use bruit_federation::keys::NodeKey;
use bruit_federation::shelf::Shelf;
use bruit_federation::transport::https::HttpsSource;
use tokio::runtime::Runtime;

use super::Carrier;
use super::common::Running;

const READER: [u8; 32] = [2; 32];

pub(crate) struct Https {
    source: HttpsSource,
    _server: Running,
}

impl Carrier for Https {
    type Source = HttpsSource;

    fn start(_runtime: &Runtime, shelf: &Arc<Shelf>) -> Self {
        let key = NodeKey::generate(READER).public();
        let peer = format!("[[peers]]\nname = \"reader\"\nkey = \"{key}\"\nrelation = \"cluster\"\n");
        let running = Running::start(&format!("[federation]\nlisten = \"127.0.0.1:0\"\n{peer}"));
        running.server.share(Arc::clone(shelf));
        let url = format!("https://{}", running.address("federation"));
        let server = *running.server.key().public().as_bytes();
        Self { source: HttpsSource::pinned(&url, server, Some(&READER)).unwrap(), _server: running }
    }

    fn source(&self) -> &HttpsSource {
        &self.source
    }

    /// Does nothing: the server serves the shelf directly.
    async fn publish(&self, _shelf: &Shelf) {}
}

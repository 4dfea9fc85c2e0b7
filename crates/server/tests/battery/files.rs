//! A directory, and a host of static files that serves it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use bruit_federation::shelf::{Reader, Shelf};
use bruit_federation::transport::files::DirectorySink;
use bruit_federation::transport::https::HttpsSource;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{Carrier, nats};

pub(crate) struct Files {
    source: HttpsSource,
    sink: DirectorySink,
    _folder: TempDir,
}

impl Carrier for Files {
    type Source = HttpsSource;

    fn start(_runtime: &Runtime, _shelf: &Arc<Shelf>) -> Self {
        let folder = TempDir::new().unwrap();
        let address = serve(folder.path().to_owned());
        let source = HttpsSource::web(&format!("http://{address}/files")).unwrap();
        Self { source, sink: DirectorySink::open(folder.path()).unwrap(), _folder: folder }
    }

    fn source(&self) -> &HttpsSource {
        &self.source
    }

    async fn publish(&self, shelf: &Shelf) {
        nats::publish_all(&self.sink, shelf, Reader::Cluster).await;
    }

    async fn announce(&self, heads: &[u8]) {
        nats::announce(&self.sink, heads).await;
    }

    async fn repeat(&self, shelf: &Shelf) {
        nats::repeat(&self.sink, shelf).await;
    }
}

/// Starts a host of static files. It sends no entity tags, and answers range requests.
fn serve(folder: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let folder = folder.clone();
            thread::spawn(move || while answer(&stream, &folder).is_some() {});
        }
    });
    address
}

/// Answers one request. Returns `None` at the end of the connection.
fn answer(mut stream: &TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let fields: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let path = first.split([' ', '?']).nth(1)?.strip_prefix("/files/")?.to_owned();
    let range = fields.iter().find_map(|field| field.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let Ok(bytes) = fs::read(folder.join(path)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").ok();
    };
    let Some((from, last)) = range.and_then(|range| range.split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())))
    else {
        return send(stream, "200 OK", "", &bytes);
    };
    let (from, last): (usize, usize) = (from.parse().ok()?, last.parse().ok()?);
    let end = (last + 1).min(bytes.len());
    match bytes.get(from..end).filter(|part| !part.is_empty()) {
        Some(part) => {
            let field = format!("content-range: bytes {from}-{}/{}\r\n", end - 1, bytes.len());
            send(stream, "206 Partial Content", &field, part)
        }
        None => send(stream, "416 Range Not Satisfiable", "", b""),
    }
}

fn send(mut stream: &TcpStream, status: &str, fields: &str, body: &[u8]) -> Option<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{fields}\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).ok()
}
